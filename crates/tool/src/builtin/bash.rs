//! `bash`: a command line in the sandbox.
//!
//! What the command did is told by its exit and by what Hames observed of the workspace and of the protected paths,
//! never by what it printed. The working directory goes on to the next command; the environment does not.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use hames_protocol::port::{
    Attempt, CommandSpec, Exit, FileKind, Finished, Program, Sandbox, SandboxProblem, Tmp, Tool, View, Workspace,
};
use hames_protocol::{
    BoxFuture, Call, CallId, EffectClass, Examination, FileChange, Guard, Probe, Problem, Reach, Status, ToolResult,
    ToolSpec,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::blocking::{blocking, lock};
use crate::bound::{Bounded, RESULT_LIMIT_BYTES, head_and_tail};
use crate::schema::{arguments, spec, whole_number};
use crate::terminal::{Cut, Live, plain};
use crate::text::{counted, shown, thousands};

const DEFAULT_TIMEOUT_MS: u64 = 120_000;

/// How much of the output's head and of its tail is captured, in bytes each. More than is shown, because folding
/// progress lines and stripping colours makes it shorter.
const CAPTURE_BYTES: usize = 128 * 1024;

/// The longest command, in bytes: the kernel's limit on one argument (`MAX_ARG_STRLEN`) less room for a wrapper.
const COMMAND_LIMIT_BYTES: usize = 120 * 1024;

/// How many changed or protected paths are named in a text.
const NAMED_PATHS: usize = 10;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The command line.
    command: String,
    /// Time limit; 120000 by default.
    #[serde(default, deserialize_with = "whole_number")]
    #[schemars(range(min = 1, max = 600_000))]
    timeout_ms: Option<u64>,
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
}

impl Bash {
    pub(super) fn new(workspace: Arc<dyn Workspace>, sandbox: Arc<dyn Sandbox>, folder: Arc<WorkingFolder>) -> Self {
        let confined = match sandbox.mode() {
            "off" => "Runs a command line; it gets no input.",
            "read-only" => "Runs a command line in a sandbox: no network, no input, only /tmp is writable.",
            _ => "Runs a command line in a sandbox: no network, no input, only the workspace and /tmp are writable.",
        };
        let description = format!(
            "{confined} The working directory is kept for the next call, variables are not. Background processes end \
             with the command. Long output is cut in the middle and kept whole in /tmp/outputs."
        );
        Self { spec: spec::<Arguments>("bash", &description), workspace, sandbox, folder }
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
        let spec = command(call, arguments);
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
        let mut report = Report::new(timeout_ms);
        if folder != remembered {
            report.notes.push(format!(
                "The working directory `{}` is gone or cannot be entered; this command ran in {}.",
                shown(&remembered),
                named_folder(&folder)
            ));
        }
        self.folder.set(&folder);
        self.follow(&folder, finished.cwd.as_deref(), &mut report.notes).await;
        let changes = observe(&self.workspace).await;
        report.finish(call, &finished, changes, self.folder.get())
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
    async fn follow(&self, started: &str, ended: Option<&Path>, notes: &mut Vec<String>) {
        let Some(ended) = ended.filter(|path| path.is_absolute()) else { return };
        let folder = match ended.strip_prefix(self.workspace.root()) {
            Ok(below) if below.as_os_str().is_empty() => ".".to_owned(),
            Ok(below) => below.to_string_lossy().into_owned(),
            Err(_) => ended.to_string_lossy().into_owned(),
        };
        let inside = Path::new(&folder).is_relative() || Path::new(&folder).starts_with("/tmp");
        if !inside {
            self.folder.set(".");
            notes.push(format!(
                "The working directory `{}` is outside the workspace; the next command starts in the workspace root.",
                shown(&folder)
            ));
        } else if folder != started && self.living(folder.clone()).await.as_ref() == Some(&folder) {
            self.folder.set(&folder);
            notes.push(format!("The working directory is now {}.", named_folder(&folder)));
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

    fn probe<'a>(&'a self, _: &'a Call, _: &'a Examination) -> BoxFuture<'a, Probe> {
        Box::pin(async move {
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
            Probe::Settled(ToolResult { changes, ..ToolResult::in_doubt(known) })
        })
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
        timeout_ms: arguments.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS),
        tmp: Tmp::Session,
        view: View::default(),
        keep_output: Some(output_file(&call.id)),
        capture_bytes: CAPTURE_BYTES,
    }
}

/// What a command tried to do to a protected path, in a sentence.
fn protected(first: &Attempt, actions: &[&str]) -> String {
    let Attempt { path, rule, .. } = first;
    let (path, rule) = (shown(path), shown(rule));
    if actions.contains(&Attempt::CHANGED) {
        return format!(
            "`{path}` is protected ({rule}) and changed while the command ran; the checks do not use what it holds now."
        );
    }
    format!("`{path}` is protected ({rule}) and was not changed (tried: {}).", shown(&actions.join(", ")))
}

/// Where a call's whole output is kept, inside the sandbox's /tmp.
fn output_file(call: &CallId) -> String {
    format!("/tmp/outputs/{call}.txt")
}

/// What the model reads of a command that ran.
struct Report {
    timeout_ms: u64,
    notes: Vec<String>,
}

impl Report {
    fn new(timeout_ms: u64) -> Self {
        Self { timeout_ms, notes: Vec::new() }
    }

    fn finish(
        mut self,
        call: &Call,
        finished: &Finished,
        changes: Result<Vec<FileChange>, String>,
        cwd: String,
    ) -> ToolResult {
        let kept = output_file(&call.id);
        self.note_exit(finished.exit);
        self.note_strays(finished.strays);
        let fired = self.note_attempts(&finished.attempts);
        let changes = changes.unwrap_or_else(|text| {
            self.notes.push(text);
            Vec::new()
        });
        let (text, left_out) = self.text(finished, &kept);
        let status = if finished.exit == Exit::Code(0) { Status::Ok } else { Status::Failed };
        let mut result = ToolResult::new(status, text);
        result.data = json!({
            "exit": finished.exit,
            "code": finished.exit.shell_code(),
            "ms": finished.ms,
            "left_out": left_out,
            "strays": finished.strays,
            "attempts": finished.attempts,
            "cwd": cwd,
        });
        if left_out > 0 {
            result.data["output"] = json!(kept);
        }
        result.changes = changes;
        result.fired = fired;
        result
    }

    fn note_exit(&mut self, exit: Exit) {
        match exit {
            Exit::Code(0) => {}
            Exit::Code(code) => self.notes.push(format!("Exit code {code}.")),
            Exit::Signal(signal) => self.notes.push(format!("Ended by signal {signal}{}.", signal_name(signal))),
            Exit::TimedOut => self.notes.push(format!(
                "Timed out after {} ms; the command and everything it started were ended. Give a larger `timeout_ms` \
                 (600000 at most), or do less in one command.",
                thousands(self.timeout_ms)
            )),
        }
    }

    fn note_strays(&mut self, strays: u32) {
        if strays > 0 {
            let (number, were) =
                (counted(strays as usize, "background process"), if strays == 1 { "was" } else { "were" });
            self.notes.push(format!(
                "{number} {were} ended with the command. Start a server, use it and stop it within one command."
            ));
        }
    }

    /// Tells of protected paths that the command tried to change: a guard that fired for each path.
    fn note_attempts(&mut self, attempts: &[Attempt]) -> Vec<Problem> {
        let mut of_path: Vec<(&Attempt, Vec<&str>)> = Vec::new();
        for attempt in attempts {
            match of_path.iter_mut().find(|(first, _)| first.path == attempt.path) {
                Some((_, actions)) => actions.push(&attempt.action),
                None => of_path.push((attempt, vec![&attempt.action])),
            }
        }
        let sentences: Vec<String> = of_path.iter().map(|(first, actions)| protected(first, actions)).collect();
        self.notes.extend(sentences.iter().take(NAMED_PATHS).cloned());
        if sentences.len() > NAMED_PATHS {
            let more = counted(sentences.len() - NAMED_PATHS, "more protected path");
            self.notes.push(format!("{more} would have been changed as well."));
        }
        if !sentences.is_empty() {
            self.notes.push("Reach the goal without changing protected paths.".to_owned());
        }
        sentences.into_iter().map(|text| Problem { guard: Guard::Protected, text }).collect()
    }

    /// The output and the notes, together within the limit.
    fn text(mut self, finished: &Finished, kept: &str) -> (String, u64) {
        let capture = &finished.capture;
        let cut = capture.left_out > 0;
        let head = plain(&capture.head, if cut { Cut::End } else { Cut::Nowhere });
        let tail = plain(&capture.tail, if cut { Cut::Start } else { Cut::Nowhere });
        if head.replaced || tail.replaced {
            self.notes.push("Bytes that are not UTF-8 are shown as \u{fffd}.".to_owned());
        }
        if head.stripped || tail.stripped {
            self.notes.push("Control characters were left out.".to_owned());
        }
        let notes = self.notes.iter().map(|note| format!("[{note}]")).collect::<Vec<_>>().join("\n");
        let between = capture.left_out + (head.dropped + tail.dropped) as u64;
        let gap = |left_out| format!("[… {} bytes left out; the whole output is in {kept} …]", thousands(left_out));
        let room = RESULT_LIMIT_BYTES.saturating_sub(notes.len() + 1);
        let tail_text = tail.text.trim_end_matches('\n');
        let head_text = if tail.text.is_empty() { head.text.trim_end_matches('\n') } else { &head.text };
        let Bounded { text, left_out } = head_and_tail(head_text, tail_text, between, room, gap);
        let text = match (text.is_empty(), notes.is_empty()) {
            (true, true) => "(no output)".to_owned(),
            (true, false) => notes,
            (false, true) => text,
            (false, false) => format!("{text}\n{notes}"),
        };
        (text, left_out)
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

/// The usual signals by name (numbers of Linux on x86-64 and arm64).
fn signal_name(signal: i32) -> &'static str {
    match signal {
        2 => " (SIGINT)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        _ => "",
    }
}
