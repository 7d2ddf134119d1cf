//! `bash` in the real sandbox: a command is over when its main process is, whatever it leaves behind, prints or removes.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hames_protocol::port::Toolbox;
use hames_protocol::*;
use hames_sandbox::{
    Bubblewrap, Mode, ProcessLimits, Protection, ProtectionConfig, SandboxConfig, Toolchains, WorkspaceFiles,
};
use hames_tool::{Registry, builtin};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::world::Checks;

/// A workspace with the real sandbox around it.
struct Confined {
    registry: Registry,
    root: PathBuf,
    calls: AtomicU32,
    _dir: TempDir,
}

impl Confined {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (root, state) = (base.join("work"), base.join("state"));
        fs::create_dir(&root).unwrap();
        let protection = Arc::new(Protection::new(&root, ProtectionConfig::default()).unwrap());
        let sandbox = Bubblewrap::new(SandboxConfig {
            root: root.clone(),
            mode: Mode::WorkspaceWrite,
            state: state.clone(),
            protection: Arc::clone(&protection),
            identity: None,
            toolchains: Toolchains::default(),
            network: hames_protocol::Network::None,
            added: Default::default(),
            limits: ProcessLimits::default(),
        });
        let workspace = WorkspaceFiles::open(&root, Some(state.join("tmp")), protection).unwrap();
        let (tools, _) = builtin(Arc::new(workspace), Arc::new(sandbox.unwrap()), Arc::new(Checks::default()));
        Self { registry: Registry::new(tools).unwrap(), root, calls: AtomicU32::new(0), _dir: dir }
    }

    async fn run(&self, name: &str, arguments: Value) -> ToolResult {
        let Value::Object(map) = arguments else { panic!("arguments are an object") };
        let id = CallId::new(format!("call-{}", self.calls.fetch_add(1, Ordering::Relaxed) + 1));
        let (name, arguments) = (name.to_owned(), Arguments::Whole(map));
        let call = Call { wire_id: id.to_string(), id, provider_id: None, name, arguments, twin_of: None };
        self.registry.run(&call, &|_| {}).await
    }

    async fn bash(&self, command: &str) -> ToolResult {
        self.run("bash", json!({"command": command, "timeout_ms": 30_000})).await
    }

    async fn check_root_is_gone(&self) {
        let result = self.bash("echo alive").await;
        assert_eq!(result.status, Status::Failed, "{}", result.text());
        let root = self.root.to_str().unwrap();
        assert!(
            result.text().contains(root) && result.text().contains("is gone or cannot be read"),
            "{}",
            result.text()
        );
        assert_eq!(result.permanent, Some(result.text()));
    }
}

/// Processes whose environment holds this word.
fn alive(marker: &str) -> usize {
    let with_marker = |entry: &fs::DirEntry| {
        let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
        environ.windows(marker.len()).any(|part| part == marker.as_bytes())
    };
    fs::read_dir("/proc").unwrap().flatten().filter(with_marker).count()
}

fn marker(name: &str) -> String {
    format!("hames-shell-{name}-{}", std::process::id())
}

#[tokio::test]
async fn a_command_returns_when_its_shell_ends_although_a_child_holds_the_output() {
    let world = Confined::new();
    let marker = marker("held");
    // With what each prints first, and its exit code. Without an end of its own a child would hold the call for minutes.
    let table = [
        ("sleep 300 & echo done", "done\n", 0),
        ("(while :; do echo tick; sleep 0.2; done) & sleep 0.3; echo done", "tick\n", 0),
        ("exec > >(cat; sleep 300) 2>&1; echo hi; exit 7", "hi\n", 7),
        ("setsid sleep 300 & echo done", "done\n", 0),
    ];
    for (line, start, code) in table {
        let result = world.bash(&format!("export MARKER={marker}; {line}")).await;
        let text = result.text();
        assert_eq!(
            (&result.data["exit"], &result.data["code"]),
            (&json!({"code": code}), &json!(code)),
            "{line}: {text}"
        );
        assert!(text.starts_with(start), "{line}: {text}");
        assert!(text.contains("ended with the command"), "{line}: {text}");
        // The limit of 30 s was not what ended it.
        assert!(result.data["ms"].as_u64().unwrap() < 25_000, "{line}: {}", result.data);
        assert_eq!(alive(&marker), 0, "{line}");
        assert_eq!(world.bash("echo next").await.text(), "next", "after {line}");
    }
}

#[tokio::test]
async fn a_server_that_a_command_leaves_has_served_and_is_gone() {
    let world = Confined::new();
    let marker = marker("served");
    let line = format!(
        "export MARKER={marker}; nohup python3 -m http.server 8124 --bind 127.0.0.1 >log 2>&1 &
         for i in $(seq 200); do
             exec 3<>/dev/tcp/127.0.0.1/8124 && {{ printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; head -n 1 <&3; exit 0; }}
             sleep 0.05
         done 2>/dev/null; exit 1"
    );
    let result = world.bash(&line).await;
    assert!(result.text().starts_with("HTTP/1.0 200 OK"), "{}", result.text());
    assert!(result.text().contains("[1 background process was ended with the command."), "{}", result.text());
    assert_eq!(alive(&marker), 0);
    // The port is free again, though a command has a network of its own anyway.
    let again = world.bash("(exec 3<>/dev/tcp/127.0.0.1/8124) 2>/dev/null || echo free").await;
    assert_eq!(again.text(), "free");
}

#[tokio::test]
async fn a_job_that_is_waited_for_ends_by_itself_and_is_not_told_of() {
    let result = Confined::new().bash("(sleep 2; echo late) & wait; echo done").await;
    assert_eq!(result.text(), "late\ndone");
    assert!(result.data["ms"].as_u64().unwrap() >= 2_000, "{}", result.data);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_out_keeps_the_output_and_leaves_no_process() {
    let table = [
        ("fifo", "mkfifo pipe; (while :; do echo x; sleep 0.1; done > pipe) & cat pipe", "x\n"),
        ("deaf", "echo begun; trap '' TERM; while :; do sleep 1; done", "begun\n"),
        ("progress", "for i in 1 2 3 4 5; do echo progress $i; done; sleep 60", "progress 1\nprogress 2\n"),
        (
            "daemon",
            "echo begun; (setsid bash -c '(setsid sleep 300 &); trap \"\" TERM HUP; sleep 300' &); sleep 300",
            "begun\n",
        ),
    ];
    let all = table.map(|(name, line, start)| {
        tokio::spawn(async move {
            let (world, marker) = (Confined::new(), marker(name));
            let command = format!("export MARKER={marker}; {line}");
            let call = json!({"command": command, "timeout_ms": 2_000});
            // Far more than the limit and what ending takes, for machines that are busy.
            let result = tokio::time::timeout(Duration::from_secs(60), world.run("bash", call)).await.unwrap();
            let text = result.text();
            assert_eq!((result.status, &result.data["exit"]), (Status::Failed, &json!("timed_out")), "{name}: {text}");
            assert!(text.starts_with(start) && text.contains("[Timed out after 2,000 ms"), "{name}: {text}");
            assert_eq!(alive(&marker), 0, "{name}");
            assert_eq!(world.bash("echo next").await.text(), "next", "after {name}");
        })
    });
    for one in all {
        one.await.unwrap();
    }
}

#[tokio::test]
async fn a_removed_working_directory_is_told_once_and_the_next_command_runs_in_a_living_parent() {
    let world = Confined::new();
    fs::write(world.root.join("a.txt"), "a\n").unwrap();
    world.bash("mkdir -p t/w && cd t/w").await;
    let removed = world.bash("rm -rf ../../t").await;
    assert_eq!(removed.data["code"], 0, "{}", removed.text());
    let alive = world.bash("echo alive").await;
    let note = "[The working directory `t/w` is gone or cannot be entered; this command ran in the workspace root.]";
    assert_eq!((alive.text(), &alive.data["code"]), (format!("alive\n{note}"), &json!(0)));
    assert_eq!(world.bash("pwd").await.text(), world.root.to_str().unwrap(), "told once");
    let text = world.bash("cd .. && pwd").await.text();
    assert!(text.starts_with(&format!("{}\n", world.root.parent().unwrap().display())), "{text}");
    // Here that lies in the private /tmp, so that the next command may start there, and is told.
    assert!(
        text.contains(&format!("[The working directory is now `{}`.]", world.root.parent().unwrap().display())),
        "{text}"
    );
    assert!(world.run("read_file", json!({"path": "a.txt"})).await.text().contains('a'));
}

/// Loses the working directory `t/w` in some way; the next command must say so and run in `expected`.
async fn check_lost(lose: impl AsyncFn(&Confined), expected: &str) {
    let world = Confined::new();
    assert!(world.bash("mkdir -p t/w && cd t/w").await.text().contains("`t/w`"));
    lose(&world).await;
    let text = world.bash("pwd").await.text();
    let folder = if expected == "." { world.root.clone() } else { world.root.join(expected) };
    let shown = if expected == "." { "the workspace root".to_owned() } else { format!("`{expected}`") };
    let note = format!("[The working directory `t/w` is gone or cannot be entered; this command ran in {shown}.]");
    assert_eq!(text, format!("{}\n{note}", folder.display()));
    assert_eq!(world.bash("pwd").await.text(), folder.to_str().unwrap(), "told once");
}

#[tokio::test]
async fn a_working_directory_that_another_process_removed_or_renamed_is_told() {
    check_lost(async |world| fs::remove_dir_all(world.root.join("t/w")).unwrap(), "t").await;
    check_lost(async |world| fs::rename(world.root.join("t"), world.root.join("u")).unwrap(), ".").await;
    check_lost(async |world| fs::rename(world.root.join("t/w"), world.root.join("t/v")).unwrap(), "t").await;
    // Something else stands there now.
    let replace = async |world: &Confined| {
        fs::remove_dir(world.root.join("t/w")).unwrap();
        fs::write(world.root.join("t/w"), "").unwrap();
    };
    check_lost(replace, "t").await;
}

#[tokio::test]
async fn a_working_directory_that_its_own_command_removes_or_renames_is_told() {
    check_lost(async |world| drop(world.bash("rmdir ../w").await), "t").await;
    // The shell goes along with the folder that it is in.
    let world = Confined::new();
    world.bash("mkdir -p t/w && cd t/w").await;
    assert_eq!(world.bash("mv ../../t ../../u").await.text(), "[The working directory is now `u/w`.]");
    assert_eq!(world.bash("pwd").await.text(), world.root.join("u/w").to_str().unwrap());
}

#[tokio::test]
async fn a_working_directory_that_nobody_may_enter_is_told() {
    let world = Confined::new();
    world.bash("mkdir -p t/w && cd t/w").await;
    world.bash("chmod 000 .").await;
    let (first, second) = (world.bash("echo alive").await, world.bash("echo alive").await);
    world.bash("chmod 700 t/w").await;
    if first.text() == "alive" {
        // Whom no permission holds up, root without a user namespace, may go on there.
        assert_eq!(second.text(), "alive");
        return;
    }
    assert!(
        first.text().starts_with("alive\n[The working directory `t/w` is gone or cannot be entered;"),
        "{}",
        first.text()
    );
    assert_eq!((first.data["code"].as_i64(), second.text().as_str()), (Some(0), "alive"));
}

#[tokio::test]
async fn a_git_worktree_that_is_removed_under_the_working_directory_is_told() {
    let world = Confined::new();
    let made = world.bash("git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m a && git worktree add -q wt && cd wt").await;
    assert!(made.text().contains("[The working directory is now `wt`.]"), "{}", made.text());
    // By somebody else: a command may not remove what decides which repository is used.
    fs::remove_dir_all(world.root.join("wt")).unwrap();
    let text = world.bash("git rev-parse --is-inside-work-tree").await.text();
    let note = "[The working directory `wt` is gone or cannot be entered; this command ran in the workspace root.]";
    assert_eq!(text, format!("true\n{note}"));
}

#[tokio::test]
async fn a_workspace_root_that_is_removed_is_a_plain_error_that_ends_the_run() {
    let world = Confined::new();
    world.bash("mkdir w && cd w").await;
    fs::remove_dir_all(&world.root).unwrap();
    world.check_root_is_gone().await;
    // Moved away with everything in it, the working directory too.
    let world = Confined::new();
    world.bash("mkdir w && cd w").await;
    fs::rename(&world.root, world.root.with_file_name("moved")).unwrap();
    world.check_root_is_gone().await;
    // Another folder in its place is not the workspace either.
    fs::create_dir(&world.root).unwrap();
    world.check_root_is_gone().await;
}
