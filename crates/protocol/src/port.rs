//! The ports: where effects leave the pure heart. Every contract says whether it may fail, block, and who cancels.
//!
//! One rule holds for every future here: **dropping it cancels it**, and when the drop returns nothing that it
//! started is running any more.

mod approver;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    Access, Baseline, BoxFuture, Call, Delta, Digest, Encoded, Entry, Event, Examination, FileChange, Head, Judgement,
    Message, ModelFailure, ModelInfo, Probe, Record, Reply, Request, ToolResult, ToolSpec, Touch, UntouchedCounts,
};

pub use approver::Approver;

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

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Nothing yet; its folder may be missing as well.
    Missing,
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A device, socket or pipe.
    Special,
}

/// Where a path really lands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Landing {
    /// Relative to the workspace root with `/`, `.` for the root itself; absolute beneath `/tmp` for the session's
    /// private folder.
    pub path: String,
    /// What is there.
    pub kind: FileKind,
    /// The protection rule that covers it, in words.
    pub protected: Option<String>,
}

impl Landing {
    /// The touch that a call makes here.
    pub fn touch(&self, written: &str, access: Access) -> Touch {
        Touch { path: written.to_owned(), lands: self.path.clone(), access, protected: self.protected.clone() }
    }
}

/// A file's bytes with what identifies them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileContent {
    /// Where it really lies; see [`Landing::path`].
    pub path: String,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Their digest.
    pub digest: Digest,
    /// The permission bits.
    pub mode: u32,
}

/// What must be at a path for a write to go through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// Nothing.
    Missing,
    /// A file with this digest.
    Content(Digest),
}

/// Why a path cannot be used; each text is a sentence for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathProblem {
    /// It lands outside the workspace. The text never tells whether anything is there.
    #[error("`{0}` is outside the workspace. Use a path inside it.")]
    Outside(String),
    /// There is nothing.
    #[error("`{0}` does not exist.")]
    Missing(String),
    /// It is protected against changes.
    #[error("`{path}` is protected ({rule}) and was not changed. Reach the goal without changing it.")]
    Protected {
        /// The path as written.
        path: String,
        /// The rule.
        rule: String,
    },
    /// It is not a regular file.
    #[error("`{path}` is {what}, not a regular file.")]
    NotAFile {
        /// The path as written.
        path: String,
        /// For example `a folder`.
        what: String,
    },
    /// The file is not what the write expected.
    #[error("`{0}` has changed since it was read. Read it again, then repeat the edit.")]
    Changed(String),
    /// It is larger than the tools handle.
    #[error(
        "`{path}` has {bytes} bytes, more than the {limit} that this tool handles. Use `bash` to look at a part of it."
    )]
    TooLarge {
        /// The path as written.
        path: String,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The path itself cannot be used (a NUL byte, too long, a loop of links).
    #[error("`{path}` cannot be used as a path: {why}.")]
    Invalid {
        /// The path as written, shortened.
        path: String,
        /// Why.
        why: String,
    },
    /// The system refused.
    #[error("`{path}`: {why}.")]
    System {
        /// The path as written.
        path: String,
        /// The system's words.
        why: String,
    },
}

/// The files of the workspace, reached beneath a folder descriptor so that no link leads out of it.
///
/// All methods block for as long as the file system does; call them off the async thread. Every method resolves
/// again, so that a link planted between two calls changes nothing. Paths may be relative to the root, absolute
/// beneath it, or absolute beneath `/tmp` (the session's private folder, read only through this port).
pub trait Workspace: Send + Sync {
    /// The real path of the root.
    fn root(&self) -> &Path;

    /// The host path of the session's private folder, shown as `/tmp`; none when it can only be read by file name.
    fn private_tmp(&self) -> Option<&Path> {
        None
    }

    /// Finds where a path lands.
    ///
    /// # Errors
    /// When it cannot be used, [`PathProblem::Outside`] first of all.
    fn locate(&self, path: &str) -> Result<Landing, PathProblem>;

    /// Reads a whole file, at most `limit` bytes of it being allowed.
    ///
    /// # Errors
    /// As `locate`, and when it is no regular file or too large.
    fn read(&self, path: &str, limit: u64) -> Result<FileContent, PathProblem>;

    /// Replaces or creates a file atomically: the path holds the old bytes or the new, whatever happens. Mode bits of
    /// an existing file are kept; missing folders are made; a link inside the workspace is followed, not replaced.
    ///
    /// # Errors
    /// As `locate`, and when the path is protected or not as `expected`.
    fn replace(&self, path: &str, bytes: &[u8], expected: &Expected) -> Result<FileChange, PathProblem>;

    /// Creates a file where there is none, whole or not at all, with the permission bits `mode`: how a file that is
    /// moved or put back keeps its own. Missing folders are made.
    ///
    /// # Errors
    /// As `replace`, and when something is there already.
    fn create(&self, path: &str, bytes: &[u8], mode: u32) -> Result<FileChange, PathProblem>;

    /// Removes a file; a link inside the workspace is followed, and stays.
    ///
    /// # Errors
    /// As `locate`, and when the path is protected, or is no regular file with the digest `expected`.
    fn remove(&self, path: &str, expected: &Digest) -> Result<FileChange, PathProblem>;

    /// Lists the workspace for the first time and returns the manifest to keep with the session.
    ///
    /// # Errors
    /// When the root cannot be read.
    fn begin(&self) -> io::Result<Vec<u8>>;

    /// Takes up a manifest from `begin` and the changes logged since, after a restart.
    ///
    /// # Errors
    /// When the manifest cannot be read.
    fn adopt(&self, manifest: &[u8], changes: &[FileChange]) -> io::Result<()>;

    /// What changed since the last `begin`, `adopt`, `replace`, `create`, `remove` or `observe`; ignored files are left out.
    ///
    /// # Errors
    /// When the root cannot be read.
    fn observe(&self) -> io::Result<Vec<FileChange>>;

    /// The protected regular files that exist now, relative to the root.
    ///
    /// # Errors
    /// When the root cannot be read.
    fn protected_files(&self) -> io::Result<Vec<String>>;
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
