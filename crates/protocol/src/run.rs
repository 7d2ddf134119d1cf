//! Limits, outcomes, and the one result of a run.

use serde::{Deserialize, Serialize};

use crate::{Access, ChangeKind, FileChange, Usage};

/// The bounds of a run. One reply may overshoot a bound, never two.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Model replies.
    pub max_turns: u32,
    /// Active time, in milliseconds; waiting for a person does not count.
    pub max_time_ms: u64,
    /// Input and output tokens together.
    pub max_tokens: u64,
    /// Cost in USD.
    pub max_cost_usd: Option<f64>,
}

impl Default for Limits {
    /// 50 turns, 30 minutes, 2,000,000 tokens, no bound on cost.
    fn default() -> Self {
        Self { max_turns: 50, max_time_ms: 30 * 60 * 1000, max_tokens: 2_000_000, max_cost_usd: None }
    }
}

/// The network that model-made commands have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// None but 127.0.0.1 among themselves.
    #[default]
    None,
    /// The host's.
    Full,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Finished, and the verdict is pass.
    Done,
    /// Answered; no checks were configured.
    Answered,
    /// A limit was reached.
    Limit,
    /// The same thing kept happening without progress.
    Stuck,
    /// A person must answer or decide: the run is suspended, not ended.
    NeedsApproval,
    /// Stopped or finished without a passing verdict.
    Unverified,
    /// A tool or a check failed for good.
    ToolFailed,
    /// The model or the provider failed.
    ModelFailed,
    /// Cancelled by the user.
    Cancelled,
}

/// A signal that cancels a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelCause {
    /// SIGINT, or a person.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// Input from outside a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Stop: running calls are cancelled and every open call gets a cancelled result.
    Cancel {
        /// Where it came from.
        cause: CancelCause,
    },
    /// The answer to what a person was asked. It changes nothing when that call waits for none.
    Answer {
        /// The call that waits.
        call: crate::CallId,
        /// The answer.
        answer: crate::Answer,
    },
}

/// A folder beside the workspace that file tools and commands reach at its own path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddedFolder {
    /// Its real path.
    pub path: String,
    /// What may be done in it.
    pub access: Access,
}

/// A guard that fired, as the result lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardFired {
    /// The gate's name.
    pub guard: crate::Guard,
    /// The tool's name as the model wrote it.
    pub tool: String,
    /// The provider's call id, else Hames's.
    pub call_id: String,
    /// Why, as a sentence.
    pub reason: String,
}

/// A changed file, as the result lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    /// Relative to the workspace root; absolute in a folder that was added.
    pub path: String,
    /// How it changed.
    pub change: ChangeKind,
    /// Whether an ignore file leaves it out; told in JSON only when it is so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignored: bool,
}

/// The last look at the workspace and at the folders added to it, when a run is about to end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survey {
    /// What changed since the look before.
    pub changes: Vec<FileChange>,
    /// Ignored files that were created or changed during the run, at most [`Survey::LISTED`], those in folders of caches
    /// and packages last.
    pub ignored: Vec<ChangedFile>,
    /// How many more of those there are.
    pub not_listed: u64,
}

impl Survey {
    /// The most ignored files that are listed.
    pub const LISTED: usize = 100;
}

/// The one result of a run: what `--output-format json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The session.
    pub session_id: String,
    /// The run within it.
    pub run_id: String,
    /// Why it ended.
    pub outcome: Outcome,
    /// The outcome in a sentence.
    pub reason: String,
    /// The model's last words.
    pub summary: String,
    /// The verdict, where one was reached.
    pub verdict: Option<crate::Verdict>,
    /// Model replies.
    pub turns: u32,
    /// Proposed calls.
    pub tool_calls: u32,
    /// Guards that fired, in order.
    pub guards: Vec<GuardFired>,
    /// Tokens of all attempts. `estimated` stands in it only where it is true.
    pub usage: Usage,
    /// Cost in USD; null when the price is not known or tokens are estimated.
    pub cost_usd: Option<f64>,
    /// Active time, in milliseconds; waiting for a person does not count.
    pub duration_ms: u64,
    /// Files that differ from before the run; ignored ones that were created or changed come last.
    pub files_changed: Vec<ChangedFile>,
    /// How many more ignored files were created or changed than are listed.
    #[serde(default)]
    pub files_not_listed: u64,
    /// The evidence behind the verdict, a line for each check.
    pub evidence: Vec<crate::CheckEvidence>,
    /// The sandbox that effects ran in, for example `workspace-write` or `off`.
    pub sandbox: String,
    /// The network that commands had.
    pub network: Network,
}
