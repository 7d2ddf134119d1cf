//! `bash`: a command line in the sandbox.
//!
//! What the command did is told by its exit and by what Hames observed of the workspace and of the protected paths,
//! never by what it printed. The working directory goes on to the next command; the environment does not.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use hames_protocol::port::{
    CommandSpec, Exit, FileKind, Finished, Peers, Program, Sandbox, SandboxProblem, Tmp, Tool, Until, View, Workspace,
};
use hames_protocol::{
    BoxFuture, Call, CallId, EffectClass, Examination, FileChange, Guard, JobsEnded, Leaves, Network, Probe, Problem,
    Reach, Status, ToolResult, ToolSpec,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::job::{Jobs, Kept};
use super::report::Report;
use crate::blocking::{blocking, lock};
use crate::schema::{arguments, spec, whole_number};
use crate::terminal::Live;
use crate::text::{shown, thousands};

const DEFAULT_TIMEOUT_MS: u64 = 120_000;

/// How long a job may live, in milliseconds.
const JOB_LIFE_MS: u64 = 60 * 60 * 1000;

/// How long a new job is watched before the call returns, in milliseconds: one that dies at once should be seen to.
const FIRST_LOOK_MS: u64 = 1_000;

/// How much of the output's head and of its tail is captured, in bytes each. More than is shown, because folding
/// progress lines and stripping colours makes it shorter.
const CAPTURE_BYTES: usize = 128 * 1024;

/// The longest command, in bytes: the kernel's limit on one argument (`MAX_ARG_STRLEN`) less room for a wrapper.
const COMMAND_LIMIT_BYTES: usize = 120 * 1024;

/// How many changed paths are named in a text.
const NAMED_PATHS: usize = 10;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    command: String,
    /// Time limit; 120000 by default.
    #[serde(default, deserialize_with = "whole_number")]
    #[schemars(range(min = 1, max = 600_000))]
    timeout_ms: Option<u64>,
    /// Keep it running as a job; later commands reach it on 127.0.0.1.
    #[serde(default)]
    background: bool,
}

/// The working directory of `bash`: relative to the workspace root, or absolute beneath /tmp.
#[derive(Default)]
pub(super) struct WorkingFolder(Mutex<Option<String>>);

impl WorkingFolder {
    fn get(&self) -> String {
        lock(&self.0).clone().unwrap_or_else(|| ".".to_owned())
    }

    fn set(&self, path: &str) {
        *lock(&self.0) = Some(path.to_owned());
    }

    /// Takes up what a logged result's `data` says.
    pub(super) fn recall(&self, data: &Value) {
        if let Some(path) = data.get("cwd").and_then(Value::as_str) {
            self.set(path);
        }
    }
}

pub(crate) struct Bash {
    spec: ToolSpec,
    workspace: Arc<dyn Workspace>,
    sandbox: Arc<dyn Sandbox>,
    folder: Arc<WorkingFolder>,
    jobs: Arc<Jobs>,
}

impl Bash {
    pub(super) fn new(
        workspace: Arc<dyn Workspace>,
        sandbox: Arc<dyn Sandbox>,
        folder: Arc<WorkingFolder>,
        jobs: Arc<Jobs>,
    ) -> Self {
        let network = if sandbox.network() == Network::None { "no network, " } else { "" };
        let confined = match sandbox.mode() {
            "off" => "; it gets no input".to_owned(),
            "read-only" => format!(" in a sandbox ({network}no input, only /tmp is writable)"),
            _ => format!(" in a sandbox ({network}no input, only the workspace and /tmp are writable)"),
        };
        let description = format!(
            "Runs a command line{confined}. The working directory is kept, variables and processes are not. Long \
             output is cut; the whole is in /tmp/outputs."
        );
        Self { spec: spec::<Arguments>("bash", &description), workspace, sandbox, folder, jobs }
    }

    async fn execute(&self, call: &Call, output: &(dyn Fn(&str) + Send + Sync)) -> ToolResult {
        let arguments = match arguments::<Arguments>(call) {
            Ok(arguments) => arguments,
            Err(problem) => return ToolResult::failed(problem.text),
        };
        if let Some(text) = fault(&arguments.command) {
            return ToolResult::failed(text);
        }
        let remembered = self.folder.get();
        let Some(mut folder) = self.living(remembered.clone()).await else { return self.root_is_gone() };
        let background = arguments.background;
        let spec = command(call, arguments);
        let mut report = Report::default();
        if background {
            note_move(&mut report, &remembered, &folder);
            return self.start_job(call, CommandSpec { cwd: PathBuf::from(folder), ..spec }, report).await;
        }
        let timeout_ms = spec.timeout_ms;
        let mut ran = self.run_in(&folder, spec.clone(), output).await;
        if ran.is_err() && folder != "." {
            // It never started, so nothing happened yet; a folder that cannot be entered may be the cause.
            folder = ".".to_owned();
            ran = self.run_in(&folder, spec, output).await;
        }
        let finished = match ran {
            Ok(finished) => finished,
            Err(problem) => return ToolResult::failed(problem.to_string()),
        };
        note_move(&mut report, &remembered, &folder);
        self.folder.set(&folder);
        self.follow(&folder, finished.cwd.as_deref(), &mut report).await;
        self.result(call, report, &finished, timeout_ms).await
    }

    async fn result(&self, call: &Call, mut report: Report, finished: &Finished, timeout_ms: u64) -> ToolResult {
        report.note_exit(finished.exit, &timed_out(timeout_ms));
        report.note_strays(finished.strays, "Set `background` to keep one running.");
        let mut fired = report.note_attempts(&finished.attempts);
        fired.extend(report.note_repositories(&finished.appeared));
        let changes = self.changes(&mut report).await;
        let kept = output_file(&call.id);
        let (text, left_out) = report.text(&finished.capture, &kept, "(no output)");
        let status = if finished.exit == Exit::Code(0) { Status::Ok } else { Status::Failed };
        let mut result = ToolResult { changes, fired, ..ToolResult::new(status, text) };
        result.data = json!({
            "exit": finished.exit,
            "code": finished.exit.shell_code(),
            "ms": finished.ms,
            "left_out": left_out,
            "strays": finished.strays,
            "attempts": finished.attempts,
            "appeared": finished.appeared,
            "cwd": self.folder.get(),
        });
        if left_out > 0 {
            result.data["output"] = json!(kept);
        }
        result
    }

    /// Starts a job and looks at it for a moment. It is kept only when this returns, so that a call which is stopped
    /// leaves none.
    async fn start_job(&self, call: &Call, spec: CommandSpec, mut report: Report) -> ToolResult {
        if let Some(text) = self.jobs.fault() {
            return ToolResult::failed(text);
        }
        let life_ms = spec.timeout_ms;
        let job = match self.sandbox.start(spec).await {
            Ok(job) => job,
            Err(problem) => return ToolResult::failed(problem.to_string()),
        };
        let news = match job.news(Until::End, FIRST_LOOK_MS).await {
            Ok(news) => news,
            Err(problem) => return ToolResult::failed(problem.to_string()),
        };
        let mut fired = report.note_attempts(&news.attempts);
        fired.extend(report.note_repositories(&news.appeared));
        let changes = self.changes(&mut report).await;
        let kept = output_file(&call.id);
        let mut result = ToolResult { changes, fired, ..ToolResult::ok("") };
        // From here on nothing waits.
        if let Some(exit) = news.exit {
            report.note("It has ended already, so there is no job.");
            report.note_exit(exit, &timed_out(life_ms));
            report.note_strays(news.strays, "Start a server without `&` or a daemon mode.");
            result.status = if exit == Exit::Code(0) { Status::Ok } else { Status::Failed };
            result.data = json!({ "exit": exit, "code": exit.shell_code() });
        } else {
            let name = self.jobs.keep(Kept::new(job, call, &kept, life_ms));
            report.note(format!("`{name}` runs on. `job_output` shows what it prints, `job_kill` ends it."));
            result.data = json!({ "job": name, "output": kept });
            result.leaves = Leaves::Job;
        }
        let text = report.text(&news.output, &kept, "(no output)").0;
        ToolResult { blocks: ToolResult::ok(text).blocks, ..result }
    }

    /// What changed in the workspace; that it cannot be told is a note.
    async fn changes(&self, report: &mut Report) -> Vec<FileChange> {
        observe(&self.workspace).await.unwrap_or_else(|text| {
            report.note(text);
            Vec::new()
        })
    }

    async fn run_in(
        &self,
        folder: &str,
        spec: CommandSpec,
        output: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Finished, SandboxProblem> {
        let live = Mutex::new(Live::default());
        let watch = |chunk: &[u8]| {
            let text = lock(&live).push(chunk);
            if !text.is_empty() {
                output(&text);
            }
        };
        self.sandbox.run(CommandSpec { cwd: PathBuf::from(folder), ..spec }, &watch).await
    }

    /// The folder, or its nearest parent that is still a folder; none when even the root is gone.
    async fn living(&self, folder: String) -> Option<String> {
        let workspace = Arc::clone(&self.workspace);
        blocking(move |_| {
            let is_folder = |path: &str| {
                // The private folder comes into being with its first command.
                path == "/tmp" || workspace.locate(path).is_ok_and(|landing| landing.kind == FileKind::Folder)
            };
            // Without the root there is no workspace to be beneath, whatever stands in its place.
            if !is_folder(".") {
                return None;
            }
            let mut candidate = Some(Path::new(&folder));
            while let Some(path) = candidate.filter(|path| !path.as_os_str().is_empty() && *path != Path::new("/")) {
                let text = path.to_string_lossy();
                if text != "." && is_folder(&text) {
                    return Some(text.into_owned());
                }
                candidate = path.parent();
            }
            Some(".".to_owned())
        })
        .await
    }

    /// Remembers where the command ended, if the next one may start there.
    async fn follow(&self, started: &str, ended: Option<&Path>, report: &mut Report) {
        let Some(ended) = ended.filter(|path| path.is_absolute()) else { return };
        let folder = match ended.strip_prefix(self.workspace.root()) {
            Ok(below) if below.as_os_str().is_empty() => ".".to_owned(),
            Ok(below) => below.to_string_lossy().into_owned(),
            Err(_) => ended.to_string_lossy().into_owned(),
        };
        let is_in = |top: &Path| Path::new(&folder).starts_with(top);
        let is_added = self.workspace.added().iter().any(|added| is_in(added));
        let inside = Path::new(&folder).is_relative() || is_added || is_in(Path::new("/tmp"));
        if !inside {
            self.folder.set(".");
            report.note(format!(
                "The working directory `{}` is outside the workspace; the next command starts in the workspace root.",
                shown(&folder)
            ));
        } else if folder != started && self.living(folder.clone()).await.as_ref() == Some(&folder) {
            self.folder.set(&folder);
            report.note(format!("The working directory is now {}.", named_folder(&folder)));
        }
    }

    fn root_is_gone(&self) -> ToolResult {
        let text = format!(
            "The workspace folder `{}` is gone or cannot be read, so no command can run. Put it back, then resume.",
            self.workspace.root().display()
        );
        ToolResult { permanent: Some(text.clone()), ..ToolResult::failed(text) }
    }
}

impl Tool for Bash {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn examine<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Examination> {
        let mut examination = Examination::plain(EffectClass::Once, Reach::Workspace);
        match arguments::<Arguments>(call) {
            Ok(arguments) => {
                let fault = fault(&arguments.command);
                examination.problems.extend(fault.map(|text| Problem { guard: Guard::Valid, text }));
            }
            Err(problem) => examination.problems.push(problem),
        }
        Box::pin(std::future::ready(examination))
    }

    fn run<'a>(&'a self, call: &'a Call, output: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, ToolResult> {
        Box::pin(self.execute(call, output))
    }

    fn probe<'a>(&'a self, call: &'a Call, _: &'a Examination) -> BoxFuture<'a, Probe> {
        Box::pin(async move {
            let job = arguments::<Arguments>(call).is_ok_and(|arguments| arguments.background);
            let job = if job { "If it began as a job, that has ended with Hames. " } else { "" };
            let (known, changes) = match observe(&self.workspace).await {
                Ok(changes) if changes.is_empty() => {
                    ("No file of the workspace has changed since it began.".to_owned(), changes)
                }
                Ok(changes) => {
                    let named = named_changes(&changes);
                    (format!("Since it began, these files of the workspace changed: {named}."), changes)
                }
                Err(text) => (text, Vec::new()),
            };
            Probe::Settled(ToolResult { changes, ..ToolResult::in_doubt(format!("{job}{known}")) })
        })
    }

    fn end_jobs(&self) -> Option<BoxFuture<'_, JobsEnded>> {
        Some(Box::pin(async {
            let ended = self.jobs.end_all().await;
            // What cannot be observed now is observed with the next command.
            JobsEnded { changes: observe(&self.workspace).await.unwrap_or_default(), ..ended }
        }))
    }
}

/// What changed in the workspace since it was last looked at.
///
/// # Errors
/// A sentence when the workspace cannot be read.
pub(super) async fn observe(workspace: &Arc<dyn Workspace>) -> Result<Vec<FileChange>, String> {
    let workspace = Arc::clone(workspace);
    let observed = blocking(move |_| workspace.observe()).await;
    observed.map_err(|error| format!("What changed in the workspace could not be observed: {error}."))
}

/// Why a command line cannot be run at all.
fn fault(command: &str) -> Option<String> {
    if command.trim().is_empty() {
        Some("`command` is empty. Give a command line.".to_owned())
    } else if command.contains('\0') {
        Some("`command` holds a NUL character, which no command line can. Leave it out.".to_owned())
    } else if command.len() > COMMAND_LIMIT_BYTES {
        let limit = thousands(COMMAND_LIMIT_BYTES as u64);
        Some(format!("`command` is longer than {limit} bytes. Write a script with `write_file` and run that."))
    } else {
        None
    }
}

fn command(call: &Call, arguments: Arguments) -> CommandSpec {
    CommandSpec {
        program: Program::Shell(arguments.command),
        cwd: PathBuf::from("."),
        env: Vec::new(),
        timeout_ms: arguments.timeout_ms.unwrap_or(if arguments.background { JOB_LIFE_MS } else { DEFAULT_TIMEOUT_MS }),
        tmp: Tmp::Session,
        view: View::default(),
        peers: Peers::Session,
        keep_output: Some(output_file(&call.id)),
        capture_bytes: CAPTURE_BYTES,
    }
}

/// What a command whose time was up is told.
fn timed_out(timeout_ms: u64) -> String {
    format!(
        "Timed out after {} ms; the command and everything it started were ended. Give a larger `timeout_ms` (600000 \
         at most), or do less in one command.",
        thousands(timeout_ms)
    )
}

/// Where a call's whole output is kept, inside the sandbox's /tmp.
fn output_file(call: &CallId) -> String {
    format!("/tmp/outputs/{call}.txt")
}

/// Tells that a command did not run where the one before it had ended.
fn note_move(report: &mut Report, remembered: &str, folder: &str) {
    if folder != remembered {
        report.note(format!(
            "The working directory `{}` is gone or cannot be entered; this command ran in {}.",
            shown(remembered),
            named_folder(folder)
        ));
    }
}

fn named_folder(folder: &str) -> String {
    if folder == "." { "the workspace root".to_owned() } else { format!("`{}`", shown(folder)) }
}

fn named_changes(changes: &[FileChange]) -> String {
    let named: Vec<String> =
        changes.iter().take(NAMED_PATHS).map(|change| format!("`{}`", shown(&change.path))).collect();
    let more = changes.len().saturating_sub(NAMED_PATHS);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", named.join(", "))
}
