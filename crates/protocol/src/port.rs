//! The ports: where effects leave the pure heart. Every contract says whether it may fail, block, and who cancels.
//!
//! One rule holds for every future here: **dropping it cancels it**, and when the drop returns nothing that it
//! started is running any more.

mod workspace;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{
    Baseline, BoxFuture, Call, Delta, Digest, Encoded, Entry, Event, Examination, Head, Judgement, Message,
    ModelFailure, ModelInfo, Probe, Record, Reply, Request, ToolResult, ToolSpec, UntouchedCounts,
};

pub use workspace::{Expected, FileContent, FileKind, Landing, PathProblem, Workspace};

/// A language model behind a wire.
///
/// `send` makes exactly one request: retrying is a rule of the loop, not of the client.
pub trait Model: Send + Sync {
    /// Its name, sizes and price; never changes.
    fn info(&self) -> &ModelInfo;

    /// Writes the head in the dialect's bytes. Pure.
    fn encode_head(&self, head: &Head) -> std::sync::Arc<str>;

    /// Writes one message in the dialect's bytes. Pure: the same message gives the same bytes.
    fn encode(&self, message: &Message) -> Encoded;

    /// Sends one request and reads the reply to its end event, telling `on_delta` what arrives meanwhile.
    ///
    /// # Errors
    /// Every way in which no whole reply came back, a cut stream included.
    fn send<'a>(
        &'a self,
        request: Request,
        on_delta: &'a (dyn Fn(Delta) + Send + Sync),
    ) -> BoxFuture<'a, Result<Reply, ModelFailure>>;
}

/// One tool. Its failures are results for the model, never errors of the loop.
pub trait Tool: Send + Sync {
    /// What the model sees; never changes.
    fn spec(&self) -> &ToolSpec;

    /// Says what a call would touch, without any effect. The arguments already fit the schema.
    fn examine<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Examination>;

    /// Runs the call.
    fn run<'a>(&'a self, call: &'a Call, output: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, ToolResult>;

    /// After a crash: finds out whether the call, examined as given before it began, happened; never repeats it.
    fn probe<'a>(&'a self, call: &'a Call, examined: &'a Examination) -> BoxFuture<'a, Probe>;
}

/// All tools of a session, by name. The one place where schemas are checked.
pub trait Toolbox: Send + Sync {
    /// The tools on offer, in a fixed order.
    fn specs(&self) -> Vec<ToolSpec>;

    /// Checks name and arguments against the schema, then asks the tool. Unknown names and wrong types are problems
    /// of the examination, in sentences that name the nearest valid thing.
    fn examine<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Examination>;

    /// Runs the call; see [`Tool::run`].
    fn run<'a>(&'a self, call: &'a Call, output: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, ToolResult>;

    /// See [`Tool::probe`].
    fn probe<'a>(&'a self, call: &'a Call, examined: &'a Examination) -> BoxFuture<'a, Probe>;
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A command line for bash.
    Shell(String),
    /// A program and its arguments.
    Direct(Vec<String>),
}

/// Which /tmp a command sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tmp {
    /// The session's own, kept between commands.
    Session,
    /// An empty one that goes away with the command.
    Fresh,
}

/// How the workspace looks to a command, beside what protection always does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    /// A folder shown at the workspace's path instead of it.
    pub stand_in: Option<PathBuf>,
    /// Files shown read-only at these paths (relative to the root) instead of what is there; host path of the bytes.
    pub originals: BTreeMap<String, PathBuf>,
    /// Paths (relative to the root) that the command must not see.
    pub left_out: Vec<String>,
    /// What becomes of folders that were added to be changed.
    pub added: AddedView,
}

/// How a command sees folders that were added to the workspace to be changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AddedView {
    /// As they were added.
    #[default]
    AsAdded,
    /// Read-only.
    ReadOnly,
}

/// A command for the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSpec {
    /// What to run.
    pub program: Program,
    /// The working directory: relative to the workspace root, or absolute inside the sandbox.
    pub cwd: PathBuf,
    /// Added to the scrubbed environment.
    pub env: Vec<(String, String)>,
    /// The longest time it may take, in milliseconds, on the monotonic clock.
    pub timeout_ms: u64,
    /// Which /tmp it sees.
    pub tmp: Tmp,
    /// How it sees the workspace.
    pub view: View,
    /// Where its whole output is kept: an absolute path beneath the sandbox's /tmp; none keeps only the capture.
    pub keep_output: Option<String>,
    /// How much of the output's head and of its tail is captured, in bytes each.
    pub capture_bytes: usize,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It was ended because its time was up.
    TimedOut,
}

impl Exit {
    /// The code a shell would show: 128 + signal, 124 for a time-out.
    pub fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
            Self::TimedOut => 124,
        }
    }
}

/// A bounded capture of a command's output (stdout and stderr as they came).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capture {
    /// The first bytes; everything when nothing was left out.
    pub head: Vec<u8>,
    /// The last bytes; empty when nothing was left out.
    pub tail: Vec<u8>,
    /// How many bytes between the two were left out.
    pub left_out: u64,
}

/// A change to a protected path that a command tried, as Hames observed it from outside the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// The protected path, relative to the workspace root.
    pub path: String,
    /// The rule that protects it.
    pub rule: String,
    /// What was tried, for example `open for writing` or `rename`.
    pub action: String,
}

impl Attempt {
    /// The action of a path that did change while the command ran, whoever changed it.
    pub const CHANGED: &'static str = "changed";
}

/// How a sandboxed command went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub exit: Exit,
    /// Its output.
    pub capture: Capture,
    /// Processes that it left behind and that were ended with it.
    pub strays: u32,
    /// The working directory at its end, as a path inside the sandbox; none when it could not be told.
    pub cwd: Option<PathBuf>,
    /// Changes to protected paths that it tried.
    pub attempts: Vec<Attempt>,
    /// How long it ran, in milliseconds.
    pub ms: u64,
}

/// Why a command could not be run at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SandboxProblem(pub String);

/// Runs processes isolated from the host (promise P6). One enforcement point for every caller.
pub trait Sandbox: Send + Sync {
    /// The mode in words, as results show it: `workspace-write`, `read-only`, `off`.
    fn mode(&self) -> &str;

    /// Runs a command to its end. Returns when its main process has ended; what it left behind is ended too.
    /// `output` is told what it prints while it runs.
    ///
    /// # Errors
    /// When it could not be started, with cause and remedy.
    fn run<'a>(
        &'a self,
        command: CommandSpec,
        output: &'a (dyn Fn(&[u8]) + Send + Sync),
    ) -> BoxFuture<'a, Result<Finished, SandboxProblem>>;
}

/// Why the verifier cannot judge.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyProblem {
    /// A check's program is missing: nothing the model does can help.
    #[error("The check `{command}` cannot run: {why}. Install it, or change the check.")]
    MissingProgram {
        /// The check.
        command: String,
        /// Which program, in words.
        why: String,
    },
    /// The sandbox or the store failed.
    #[error("{0}")]
    System(String),
}

/// Checks the work (promise P4). Cannot see the agent, only the workspace.
pub trait Verifier: Send + Sync {
    /// The configured checks, as commands; empty when none is configured.
    fn checks(&self) -> Vec<String>;

    /// Keeps the protected files and makes the untouched copy. Runs before the first effect.
    ///
    /// # Errors
    /// When the workspace cannot be read or the store not be written.
    fn baseline(&self) -> BoxFuture<'_, Result<Baseline, VerifyProblem>>;

    /// Runs the checks on the untouched copy and counts their tests. May run beside other effects.
    fn count(&self) -> BoxFuture<'_, UntouchedCounts>;

    /// Judges the workspace as it is now.
    ///
    /// # Errors
    /// When a check cannot be run at all.
    fn judge<'a>(
        &'a self,
        baseline: &'a Baseline,
        counts: &'a UntouchedCounts,
    ) -> BoxFuture<'a, Result<Judgement, VerifyProblem>>;

    /// Runs the checks as the model may, in the workspace as it is, and reports what they showed.
    ///
    /// # Errors
    /// As `judge`.
    fn rehearse(&self) -> BoxFuture<'_, Result<Judgement, VerifyProblem>>;
}

/// Why the log cannot be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JournalProblem(pub String);

/// The log of one session, held open by one writer.
pub trait Journal: Send {
    /// Appends an entry and returns its record. Handed to the operating system when it returns: it survives the end
    /// of this process, not yet a power cut.
    ///
    /// # Errors
    /// When it could not be written whole; the log then ends with the entry before it.
    fn append(&mut self, tick: u64, entry: Entry) -> Result<Record, JournalProblem>;

    /// Makes everything appended before this call durable; the future may run beside later appends.
    ///
    /// # Errors
    /// When the disk refuses.
    fn sync(&mut self) -> BoxFuture<'static, Result<(), JournalProblem>>;
}

/// Content-addressed bytes that are too large for the log.
pub trait Blobs: Send + Sync {
    /// Keeps bytes durably. Blocks.
    ///
    /// # Errors
    /// When they could not be written.
    fn put(&self, bytes: &[u8]) -> io::Result<Digest>;

    /// The bytes of a digest, checked against it. Blocks.
    ///
    /// # Errors
    /// When they are missing or damaged.
    fn get(&self, digest: &Digest) -> io::Result<Vec<u8>>;

    /// The host path at which the bytes lie, for binding into a sandbox.
    ///
    /// # Errors
    /// When they are missing.
    fn path(&self, digest: &Digest) -> io::Result<PathBuf>;
}

/// Time, from outside.
pub trait Clock: Send + Sync {
    /// Milliseconds on a monotonic clock, from any origin.
    fn now_ms(&self) -> u64;

    /// Waits until `now_ms` is at least `at`.
    fn sleep_until(&self, at: u64) -> BoxFuture<'static, ()>;
}

/// Watches a run. Must not block and cannot fail.
pub trait Observer: Send + Sync {
    /// Something was observed.
    fn observe(&self, event: &Event);
}
