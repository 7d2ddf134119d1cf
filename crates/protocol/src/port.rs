//! The ports: where effects leave the pure heart. Every contract says whether it may fail, block, and who cancels.
//!
//! One rule holds for every future here: **dropping it cancels it**, and when the drop returns nothing that it
//! started is running any more.

mod approver;
mod sandbox;
mod workspace;

use std::io;
use std::path::PathBuf;

pub use approver::Approver;
pub use sandbox::{
    AddedView, Attempt, Capture, CommandSpec, Exit, Finished, Job, News, Peers, Program, Sandbox, SandboxProblem, Tmp,
    Until, View,
};
pub use workspace::{Expected, FileContent, FileKind, Landing, PathProblem, Workspace};

use crate::{
    Baseline, BoxFuture, Call, Delta, Digest, Encoded, Entry, Event, Examination, Head, JobsEnded, Judgement, Message,
    ModelFailure, ModelInfo, Probe, Record, Reply, Request, ToolResult, ToolSpec, UntouchedCounts,
};

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

    /// Ends the jobs that its calls left running, and says what came of them; none when it never leaves any.
    fn end_jobs(&self) -> Option<BoxFuture<'_, JobsEnded>> {
        None
    }
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

    /// Ends every job that a call left running, and says what they changed. When it returns none of their processes is
    /// left. Also after a restart, when no job lives any more: what they had changed is still to be told.
    fn end_jobs(&self) -> BoxFuture<'_, JobsEnded>;
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
