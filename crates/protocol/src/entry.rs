//! The log's vocabulary: everything that happens to a session.

use serde::{Deserialize, Serialize};

use crate::{
    AddedFolder, Answer, Ask, AttemptNo, Baseline, Block, BootId, Call, CallId, Command, Decision, Digest, Epoch,
    Examination, FileChange, GuardFired, Judgement, Limits, ModelFailure, ModelInfo, Network, Outcome, Probe, Reply,
    RunId, Seq, SessionId, Survey, ToolResult, UntouchedCounts, Usage,
};

/// The version of the log's format, written in the first record.
pub const LOG_FORMAT: u32 = 1;

/// An entry with its place in the log. The log is the state: a session is the fold of its records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its place.
    pub seq: Seq,
    /// Wall-clock time, in milliseconds since 1970.
    pub at: u64,
    /// Active time of the session, in milliseconds: monotonic, does not run while no process has the session open.
    pub tick: u64,
    /// The epoch that wrote it.
    pub epoch: Epoch,
    /// What happened.
    pub entry: Entry,
}

/// One thing that happened to a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// A process opened the session; effects in flight from an older epoch become doubtful.
    Opened(Opened),
    /// A prompt began a run.
    RunStarted(Box<RunStarted>),
    /// Input arrived from outside.
    Commanded(Command),
    /// The protected files were kept and the workspace was listed, before the first effect.
    Baselined(Baseline),
    /// That failed, for this reason: no effect may begin, so the run ends.
    NotBaselined(String),
    /// The checks were counted on the untouched copy.
    Counted(UntouchedCounts),
    /// A request is about to be sent.
    AttemptStarted(AttemptStarted),
    /// A request ended.
    AttemptEnded(Box<AttemptEnded>),
    /// The model proposed a call.
    Proposed(Call),
    /// The tool said what the call would touch.
    Examined(CallId, Examination),
    /// The gates decided.
    Decided(CallId, Decision),
    /// A person is asked, or asked again after the run was suspended; synced before they see it.
    Asked(CallId, Ask),
    /// They answered.
    Answered(CallId, Answer),
    /// The call is about to run; synced before its effect.
    Intended(CallId),
    /// The effect begins now.
    Started(CallId),
    /// The effect was ended before its time by a cancel or a limit, and had changed these files; its result follows.
    Stopped(CallId, Vec<FileChange>),
    /// After a crash: a call in doubt was looked into.
    Probed(CallId, Box<Probe>),
    /// The call has its one result.
    Ended(Box<Ended>),
    /// The jobs that calls had left running were ended, before the verifier judges or the run ends.
    JobsEnded(Box<JobsEnded>),
    /// The verifier judged.
    Judged(CallId, Judgement),
    /// Hames told the model something of its own accord.
    Noticed(Notice),
    /// A broken record was set aside when the log was opened.
    Repaired(Repaired),
    /// The workspace was looked at for the last time in a run that may have changed it.
    Surveyed(Survey),
    /// A person must answer and nobody is there: the run waits for `Asked` or an answer, for as long as it takes.
    RunSuspended(RunSuspended),
    /// The run yielded.
    RunEnded(RunEnded),
}

/// See [`Entry::Opened`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The session.
    pub session: SessionId,
    /// The log's format.
    pub format: u32,
    /// The version of Hames that writes from here on.
    pub version: String,
    /// The machine's boot.
    pub boot: BootId,
    /// The workspace's root.
    pub workspace: String,
}

/// See [`Entry::RunStarted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The run.
    pub run: RunId,
    /// What the user asked for.
    pub prompt: Vec<Block>,
    /// What stands before the prompt in the first message: folder, date, platform.
    pub surroundings: String,
    /// Its bounds.
    pub limits: Limits,
    /// The model.
    pub model: ModelInfo,
    /// The configured checks.
    pub checks: Vec<String>,
    /// Globs that are protected on request, in gitignore syntax.
    pub protect: Vec<String>,
    /// Globs that are left open on request, in gitignore syntax.
    pub unprotect: Vec<String>,
    /// Folders that were added to the workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<AddedFolder>,
    /// The sandbox's mode, for example `workspace-write`.
    pub sandbox: String,
    /// The network that commands have.
    #[serde(default)]
    pub network: Network,
    /// The digest of the head sent with every request.
    pub head: Digest,
}

/// See [`Entry::AttemptStarted`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptStarted {
    /// The attempt.
    pub attempt: AttemptNo,
    /// How many messages the request holds.
    pub messages: u32,
    /// The digest of the request, cache markers aside: a chain that starts with the digest of the head and takes in
    /// each message in turn (`d = SHA-256(d, message)`), so that its cost does not grow with the conversation.
    pub request: Digest,
}

/// See [`Entry::AttemptEnded`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptEnded {
    /// The attempt.
    pub attempt: AttemptNo,
    /// What came of it.
    pub result: AttemptResult,
    /// How long it took, in milliseconds.
    pub ms: u64,
    /// A random number, 0..=999, drawn for the wait before a retry.
    pub jitter: u16,
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptResult {
    /// A whole reply.
    Reply(Reply),
    /// A failure.
    Failure(ModelFailure),
    /// Stopped by a cancel or a limit.
    Cancelled {
        /// The tokens reported until then; more may have been spent.
        usage: Option<Usage>,
        /// What the model had written for the user until then.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
    },
}

/// See [`Entry::Ended`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// The call.
    pub call: CallId,
    /// Its result.
    pub result: ToolResult,
    /// How long it ran, in milliseconds.
    pub ms: u64,
}

/// See [`Entry::JobsEnded`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobsEnded {
    /// The names of those that were still running.
    pub jobs: Vec<String>,
    /// The files that changed in the workspace since it was last looked at.
    pub changes: Vec<FileChange>,
    /// Guards that Hames saw fire since their calls ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fired: Vec<GuardFired>,
}

/// Something that Hames tells the model of its own accord.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Why.
    pub kind: NoticeKind,
    /// What the model reads.
    pub text: String,
}

/// Why Hames speaks up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// The same thing was done three times without progress.
    Repeating,
    /// The reply was cut at the output limit; go on.
    Continue,
    /// The reply stopped without `finish` while checks are configured.
    Unfinished,
}

/// See [`Entry::Repaired`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repaired {
    /// What was set aside or cut, as a sentence.
    pub text: String,
}

/// See [`Entry::RunSuspended`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSuspended {
    /// The run.
    pub run: RunId,
    /// What is asked and how to answer, in sentences.
    pub why: String,
}

/// See [`Entry::RunEnded`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnded {
    /// The run.
    pub run: RunId,
    /// Why.
    pub outcome: Outcome,
    /// The same in a sentence.
    pub reason: String,
}
