//! Background jobs, through the tools, in the real sandbox.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hames_protocol::port::{Sandbox, Toolbox, Workspace};
use hames_protocol::*;
use hames_sandbox::*;
use hames_tool::{Memory, Registry};
use hames_verify::{Checks, ChecksConfig};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Far above what anything here takes, for machines that are busy.
const LONG: Duration = Duration::from_secs(60);

/// A server on 127.0.0.1:8080 that says when it listens; the sandbox has ports of its own.
const SERVER: &str = "exec python3 -u -c '
import http.server
server = http.server.HTTPServer((\"127.0.0.1\", 8080), http.server.SimpleHTTPRequestHandler)
print(\"listening\")
server.serve_forever()'";

/// Fetches a file from it.
const FETCH: &str =
    "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8080/page\").read().decode())'";

struct World {
    registry: Registry,
    memory: Memory,
    root: PathBuf,
    calls: AtomicU32,
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        Self::over(TempDir::new().unwrap())
    }

    fn over(folder: TempDir) -> Self {
        let base = folder.path().canonicalize().unwrap();
        let (root, state) = (base.join("work"), base.join("state"));
        fs::create_dir_all(root.join("tests")).unwrap();
        fs::write(root.join("tests/test_a.py"), "as it was").unwrap();
        let protect = ProtectionConfig { tests: TestFiles::Guarded, ..ProtectionConfig::default() };
        let protection = Arc::new(Protection::new(&root, protect).unwrap());
        let sandbox: Arc<dyn Sandbox> = Arc::new(
            Bubblewrap::new(SandboxConfig {
                root: root.clone(),
                mode: Mode::WorkspaceWrite,
                network: Network::None,
                state: state.clone(),
                protection: Arc::clone(&protection),
                identity: None,
                toolchains: Toolchains::default(),
                added: Default::default(),
                limits: ProcessLimits::default(),
            })
            .unwrap(),
        );
        let files = WorkspaceFiles::open(&root, Some(state.join("tmp")), protection).unwrap();
        let workspace: Arc<dyn Workspace> = Arc::new(files);
        workspace.begin().unwrap();
        let config = ChecksConfig { commands: Vec::new(), copy: state.join("copy"), timeout_ms: 1 };
        let blobs = Arc::new(hames_session::MemoryBlobs::default());
        let verifier = Checks::new(config, Arc::clone(&workspace), Arc::clone(&sandbox), blobs);
        let (tools, memory) = hames_tool::builtin(workspace, sandbox, Arc::new(verifier));
        let registry = Registry::new(tools).unwrap();
        Self { registry, memory, root, calls: AtomicU32::new(0), folder }
    }

    async fn run(&self, name: &str, arguments: Value) -> ToolResult {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let id = CallId::new(format!("call-{number}"));
        let arguments = Arguments::Whole(arguments.as_object().unwrap().clone());
        let call =
            Call { wire_id: id.to_string(), id, provider_id: None, name: name.to_owned(), arguments, twin_of: None };
        let examined = self.registry.examine(&call).await;
        match examined.problems.first() {
            Some(problem) => ToolResult::new(Status::Refused, problem.text.clone()),
            None => self.registry.run(&call, &|_| {}).await,
        }
    }

    async fn bash(&self, command: &str) -> ToolResult {
        self.run("bash", json!({ "command": command })).await
    }

    async fn start(&self, command: &str) -> ToolResult {
        self.run("bash", json!({ "command": command, "background": true })).await
    }

    /// Asks until a job has said this.
    async fn until(&self, job: &str, wanted: &str) -> String {
        let (began, mut seen) = (Instant::now(), String::new());
        while !seen.contains(wanted) {
            assert!(began.elapsed() < LONG, "{seen}");
            seen.push_str(&self.run("job_output", json!({ "job": job, "wait_ms": 60_000 })).await.text());
        }
        seen
    }
}

/// The name of the job that a call started.
fn job(result: &ToolResult) -> Option<&str> {
    result.data["job"].as_str()
}

fn names(changes: &[FileChange]) -> Vec<&str> {
    changes.iter().map(|change| change.path.as_str()).collect()
}

#[tokio::test]
async fn a_server_in_the_background_is_reached_by_later_commands_until_it_is_killed() {
    let world = World::new();
    fs::write(world.root.join("page"), "a page").unwrap();
    let started = world.start(SERVER).await;
    assert_eq!((started.status, started.leaves, job(&started)), (Status::Ok, Leaves::Job, Some("job-1")));
    assert!(started.text().contains("[`job-1` runs on."), "{}", started.text());
    if !started.text().contains("listening") {
        world.until("job-1", "listening").await;
    }
    assert_eq!(world.bash(FETCH).await.text(), "a page");
    let seen = world.until("job-1", "GET /page").await;
    assert!(seen.contains("[`job-1` is still running, after "), "{seen}");
    assert_eq!(world.bash(FETCH).await.status, Status::Ok, "it still runs after other commands have ended");
    let killed = world.run("job_kill", json!({"job": "job-1"})).await.text();
    assert!(killed.contains("GET /page") && killed.ends_with("[`job-1` was ended.]"), "{killed}");
    assert_eq!(world.bash(FETCH).await.status, Status::Failed);
    let again = world.run("job_kill", json!({"job": "job-1"})).await;
    assert_eq!(
        (again.status, again.text().as_str()),
        (Status::Ok, "`job-1` has ended already. It was ended by `job_kill`.")
    );
    let kept = world.run("search", json!({"pattern": "GET /page", "path": "/tmp/outputs/call-1.txt"})).await.text();
    assert_eq!(kept.lines().count(), 2, "its output is kept whole: {kept}");
}

#[tokio::test]
async fn a_job_that_dies_at_once_is_seen_to() {
    let world = World::new();
    let result = world.start("echo no; exit 3").await;
    assert_eq!((result.status, result.leaves), (Status::Failed, Leaves::Nothing));
    assert_eq!(result.text(), "no\n[It has ended already, so there is no job.]\n[Exit code 3.]");
    let daemon = world.start("sleep 300 & echo up").await.text();
    assert!(daemon.contains("1 background process was ended with the command. Start a server without `&`"), "{daemon}");
    assert!(world.bash("sleep 300 & true").await.text().contains("Set `background` to keep one running."));
    assert_eq!(job(&world.start("sleep 300").await), Some("job-1"), "none of these was one");
}

#[tokio::test]
async fn output_is_told_once_and_the_end_with_its_exit() {
    let world = World::new();
    world.start("echo one; until [ -e go ]; do sleep 0.02; done; echo two; exit 7").await;
    let ask = async |wait: u64| world.run("job_output", json!({"job": "job-1", "wait_ms": wait})).await;
    let idle = ask(1).await.text();
    assert!(idle.starts_with("(no new output)\n[`job-1` is still running"), "{idle}");
    world.bash("touch go").await;
    assert!(world.until("job-1", "[`job-1` has ended. Exit code 7.]").await.contains("two\n"));
    let after = ask(0).await;
    assert_eq!((after.status, after.text().as_str()), (Status::Failed, "`job-1` has ended. Exit code 7."));
}

#[tokio::test]
async fn at_most_four_jobs_run_and_unknown_ones_are_refused() {
    let world = World::new();
    let none = world.run("job_output", json!({"job": "job-1"})).await;
    assert_eq!(none.status, Status::Refused);
    assert!(none.text().contains("No job is running."), "{}", none.text());
    for _ in 0..4 {
        assert_eq!(world.start("sleep 300").await.status, Status::Ok);
    }
    let fifth = world.start("sleep 300").await;
    assert_eq!(fifth.status, Status::Failed);
    assert!(fifth.text().contains("4 jobs are running (`job-1`, `job-2`, `job-3`, `job-4`)"), "{}", fifth.text());
    world.run("job_kill", json!({"job": "job-2"})).await;
    assert_eq!(job(&world.start("sleep 300").await), Some("job-5"));
    let unknown = world.run("job_kill", json!({"job": "server"})).await.text();
    assert!(unknown.contains("Running: `job-1`, `job-3`, `job-4`, `job-5`."), "{unknown}");
}

#[tokio::test]
async fn a_job_has_the_life_that_it_was_given() {
    let world = World::new();
    let short = json!({"command": "echo up; sleep 300", "background": true, "timeout_ms": 1_500});
    assert_eq!(job(&world.run("bash", short).await), Some("job-1"));
    world.until("job-1", "[`job-1` has ended. Ended because it may run for 1,500 ms at most.]").await;
}

#[tokio::test]
async fn what_a_job_does_to_files_and_protected_paths_is_told_when_it_is_ended() {
    let world = World::new();
    let line =
        "until [ -e go ]; do sleep 0.02; done; echo x > made; echo forged > tests/test_a.py; echo tried; sleep 300";
    world.start(line).await;
    fs::write(world.root.join("go"), "").unwrap();
    let (began, mut fired) = (Instant::now(), Vec::new());
    while fired.is_empty() {
        assert!(began.elapsed() < LONG);
        fired = world.run("job_output", json!({"job": "job-1", "wait_ms": 100})).await.fired;
    }
    assert!(fired[0].text.contains("`tests/test_a.py` is protected"), "{}", fired[0].text);
    world.start("while :; do echo forged > tests/test_a.py; echo $RANDOM > made; done 2>/dev/null").await;
    // The call that started it has told what it did until then; it must do something more.
    let told = fs::read(world.root.join("made")).unwrap();
    while fs::read(world.root.join("made")).unwrap() == told {
        assert!(began.elapsed() < LONG);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let ended = world.registry.end_jobs().await;
    assert_eq!(ended.jobs, ["job-1", "job-2"]);
    assert!(names(&ended.changes).contains(&"made"), "{:?}", ended.changes);
    assert!(ended.fired.iter().all(|fired| fired.tool == "bash" && fired.guard == Guard::Protected));
    let made = fs::read(world.root.join("made")).unwrap();
    assert_eq!(fs::read_to_string(world.root.join("tests/test_a.py")).unwrap(), "as it was");
    assert_eq!(world.bash("sleep 0.3").await.changes, [], "nothing goes on");
    assert_eq!(fs::read(world.root.join("made")).unwrap(), made);
    let after = world.run("job_output", json!({"job": "job-1"})).await.text();
    assert!(after.contains("It was ended before the checks, or with the run."), "{after}");
}

#[tokio::test]
async fn a_stopped_call_leaves_no_job() {
    let world = World::new();
    let marker = format!("hames-stopped-{}", std::process::id());
    let line = format!("MARKER={marker} sleep 300");
    assert!(tokio::time::timeout(Duration::from_millis(500), world.start(&line)).await.is_err());
    assert_eq!(alive(&marker), 0);
    assert_eq!(world.registry.end_jobs().await.jobs, Vec::<String>::new());
}

#[tokio::test]
async fn after_a_restart_jobs_are_gone_and_their_numbers_are_not_used_again() {
    let world = World::new();
    let data = world.start("sleep 300").await.data;
    let World { registry, memory, folder, .. } = world;
    drop((registry, memory));
    let world = World::over(folder);
    world.memory.recall(&data);
    let gone = world.run("job_output", json!({"job": "job-1"})).await;
    assert_eq!(gone.status, Status::Failed);
    assert_eq!(gone.text(), "`job-1` has ended. It ended with the Hames process that had started it.");
    assert_eq!(world.run("job_kill", json!({"job": "job-1"})).await.status, Status::Ok);
    assert_eq!(job(&world.start("sleep 300").await), Some("job-2"));
}

/// Processes whose environment holds this word.
fn alive(marker: &str) -> usize {
    let with_marker = |pid: &str| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.windows(marker.len()).any(|part| part == marker.as_bytes())
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.filter(|entry| with_marker(&entry.file_name().to_string_lossy())).count()
}
