//! The port to processes: what a command is, how it went, and who runs it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Appeared, BoxFuture, Network};

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

/// Whose servers on 127.0.0.1 a command can reach, beside its own, when it has no other network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peers {
    /// Those of the session's jobs, as its own can be reached by those.
    Session,
    /// Nobody's.
    Nobody,
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
    /// Whose servers it can reach.
    pub peers: Peers,
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
    /// Repositories that it brought into being, or to which it added settings.
    pub appeared: Vec<Appeared>,
    /// How long it ran, in milliseconds.
    pub ms: u64,
}

/// Why a command could not be run at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SandboxProblem(pub String);

/// What a job did since that was last asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct News {
    /// What it printed.
    pub output: Capture,
    /// Changes to protected paths that it tried.
    pub attempts: Vec<Attempt>,
    /// Repositories that it brought into being, told when it has ended.
    pub appeared: Vec<Appeared>,
    /// How it ended; none while it runs.
    pub exit: Option<Exit>,
    /// Processes that it left behind at its end and that were ended with it.
    pub strays: u32,
}

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Output, or the end.
    Output,
    /// The end.
    End,
}

/// A command that goes on beside others. **Dropping it ends it**, and when the drop returns no process of it is left;
/// that may block for a moment.
pub trait Job: Send + Sync {
    /// What it did since this was last asked, after waiting for what is wanted, but no longer than `wait_ms`.
    ///
    /// # Errors
    /// When it never came to run, with cause and remedy.
    fn news(&self, until: Until, wait_ms: u64) -> BoxFuture<'_, Result<News, SandboxProblem>>;

    /// Whether it has not ended yet.
    fn is_running(&self) -> bool;

    /// Ends it; what it did up to then can still be asked. When it returns no process of it is left.
    fn end(&self) -> BoxFuture<'_, ()>;
}

/// Runs processes isolated from the host (promise P6). One enforcement point for every caller.
pub trait Sandbox: Send + Sync {
    /// The mode in words, as results show it: `workspace-write`, `read-only`, `off`.
    fn mode(&self) -> &str;

    /// The network that commands have. Without isolation it is whatever the host has.
    fn network(&self) -> Network;

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

    /// Starts a command that goes on beside others, protected and isolated as they are, until it ends by itself, its
    /// time is up, or the job is ended or dropped. Its output is kept as `run` keeps it; where it was at its end is
    /// not told.
    ///
    /// # Errors
    /// When jobs cannot be had here, with cause and remedy; that the command did not come to run may only show in
    /// [`Job::news`].
    fn start(&self, command: CommandSpec) -> BoxFuture<'_, Result<Box<dyn Job>, SandboxProblem>>;
}
