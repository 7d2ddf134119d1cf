//! The state of a session: what its log says, and nothing else.

use std::collections::BTreeSet;
use std::sync::Arc;

use hames_context::View;
use hames_protocol::{
    Ask, AttemptNo, Baseline, BootId, Call, CallId, CancelCause, CheckEvidence, Epoch, Examination, FileChange,
    GuardFired, Judgement, Limits, ModelInfo, Network, RunEnded, RunId, RunSuspended, Seq, SessionId, Status, Survey,
    ToolResult, UntouchedCounts, Usage, Verdict,
};

use crate::retry::Retry;
use crate::stuck::Progress;

/// A session as its log tells it.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// True of the session, whatever branch is looked at.
    pub ledger: Ledger,
    /// The conversation and the run that goes on in it.
    pub branch: Branch,
}

/// What is true of the session as a whole.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// The session; none before the first record.
    pub session: Option<SessionId>,
    /// The last time it was opened.
    pub epoch: Epoch,
    /// The boot in which it was last opened.
    pub boot: Option<BootId>,
    /// The last record.
    pub head: Seq,
    /// Active time at the last record, in milliseconds.
    pub tick: u64,
    /// Wall-clock time at the last record, in milliseconds since 1970.
    pub at: u64,
    /// Calls proposed so far; the next one's number is one more.
    pub calls: u32,
    /// Attempts ended so far; the next one's number is one more.
    pub attempts: u32,
    /// Runs started so far.
    pub runs: u32,
    /// Ids that were echoed to the provider; none is used twice.
    pub wire_ids: BTreeSet<String>,
}

impl Ledger {
    /// The number of the attempt that is in flight or comes next.
    pub fn next_attempt(&self) -> AttemptNo {
        AttemptNo(self.attempts.saturating_add(1))
    }
}

/// The conversation and its run.
#[derive(Debug, Clone, Default)]
pub struct Branch {
    /// What the model sees.
    pub view: View,
    /// The last run; none before the first prompt.
    pub run: Option<Run>,
    /// The surroundings that the view told last.
    pub surroundings: String,
}

/// A run: from a prompt until the agent yields.
#[derive(Debug, Clone)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Its bounds.
    pub limits: Limits,
    /// Its model.
    pub model: ModelInfo,
    /// The sandbox's mode.
    pub sandbox: String,
    /// The network that commands have.
    pub network: Network,
    /// The configured checks.
    pub checks: Vec<String>,
    /// Active time at its start, in milliseconds.
    pub started: u64,
    /// What goes on.
    pub stage: Stage,
    /// What was kept before the first effect.
    pub baseline: Option<Arc<Baseline>>,
    /// The checks counted on the untouched copy.
    pub counts: Option<Arc<UntouchedCounts>>,
    /// Replies so far.
    pub turns: u32,
    /// Calls proposed so far.
    pub tool_calls: u32,
    /// Tokens so far.
    pub usage: Usage,
    /// Guards that fired.
    pub guards: Vec<GuardFired>,
    /// File changes, in order.
    pub changes: Vec<FileChange>,
    /// Whether a call left a job running that was not ended yet.
    pub has_jobs: bool,
    /// The jobs that were ended for the next judgement.
    pub jobs_ended: Vec<String>,
    /// Failed attempts in a row.
    pub retry: Retry,
    /// Repetition without progress.
    pub progress: Progress,
    /// Whether something has begun that may change more than the log.
    pub acted: bool,
    /// The last look at the workspace before the end.
    pub survey: Option<Arc<Survey>>,
    /// Whether the reminder to call `finish` was given.
    pub reminded: bool,
    /// Whether a `finish` was accepted.
    pub accepted: bool,
    /// The last judgement.
    pub judgement: Option<Judgement>,
    /// The last words of the model.
    pub summary: String,
    /// A cancel that arrived.
    pub cancel: Option<CancelCause>,
    /// Set when a tool said that trying again cannot help.
    pub permanent: Option<String>,
    /// How long it has waited for a person, in milliseconds: no part of its time.
    pub waited: u64,
    /// Why it is suspended; none while it goes on.
    pub suspended: Option<RunSuspended>,
    /// How it ended; none while it goes on or is suspended.
    pub ended: Option<RunEnded>,
    /// Active time at its end, in milliseconds.
    pub ended_at: u64,
}

impl Run {
    /// Whether it goes on: neither ended nor suspended.
    pub fn is_under_way(&self) -> bool {
        self.ended.is_none() && self.suspended.is_none()
    }

    /// The call that waits for a person's answer. Nothing else of the turn is in flight then.
    pub fn asked(&self) -> Option<&CallState> {
        match &self.stage {
            Stage::Acting(turn) => turn.calls.iter().find(|known| known.phase == Phase::Asked),
            _ => None,
        }
    }

    /// Active time at which its time is up, in milliseconds. It moves on while a person is asked.
    pub fn deadline(&self) -> u64 {
        self.started.saturating_add(self.limits.max_time_ms).saturating_add(self.waited)
    }

    /// What it has cost so far in USD, where price and usage are known.
    pub fn cost_usd(&self) -> Option<f64> {
        self.model.price.filter(|_| !self.usage.estimated).map(|price| price.cost_usd(&self.usage))
    }

    /// The verdict of the last judgement.
    pub fn verdict(&self) -> Option<Verdict> {
        self.judgement.as_ref().map(|judgement| judgement.verdict)
    }

    /// The evidence of the last judgement.
    pub fn evidence(&self) -> &[CheckEvidence] {
        self.judgement.as_ref().map_or(&[], |judgement| &judgement.evidence)
    }
}

/// What a run is at.
#[derive(Debug, Clone)]
pub enum Stage {
    /// The model is to be asked.
    Asking {
        /// Whether a request of this epoch is in flight.
        in_flight: bool,
    },
    /// A reply is being acted on.
    Acting(Turn),
    /// A reply without calls must be judged as an answer.
    Answering(Answer),
}

/// What a reply without calls amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It said something and ended.
    Whole,
    /// The output limit cut its text.
    Cut,
    /// The provider declined.
    Declined,
    /// The context window is full.
    WindowFull,
    /// It held nothing, for the second time.
    Empty,
}

/// A reply with calls, and how far each call is.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The reply.
    pub reply: Arc<hames_protocol::Reply>,
    /// Why none of its calls may run, when it is not complete.
    pub incomplete: Option<String>,
    /// Its calls, in the order of the reply; grows as they are proposed.
    pub calls: Vec<CallState>,
    /// How many calls the reply holds.
    pub expected: usize,
}

impl Turn {
    /// The call with this id.
    pub fn call(&self, id: &CallId) -> Option<&CallState> {
        self.calls.iter().find(|state| &state.call.id == id)
    }

    /// The call with this id, to be changed.
    pub(crate) fn call_mut(&mut self, id: &CallId) -> Option<&mut CallState> {
        self.calls.iter_mut().find(|state| &state.call.id == id)
    }

    /// Whether every call of the reply has its result.
    pub fn is_settled(&self) -> bool {
        self.calls.len() == self.expected && self.calls.iter().all(|state| state.result.is_some())
    }
}

/// A call and how far it is.
#[derive(Debug, Clone)]
pub struct CallState {
    /// The call.
    pub call: Call,
    /// How far it is.
    pub phase: Phase,
    /// What its tool said of it.
    pub examined: Option<Examination>,
    /// What a person must answer first.
    pub ask: Option<Ask>,
    /// An answer that came from outside and is not taken yet.
    pub answer: Option<hames_protocol::Answer>,
    /// Its one result.
    pub result: Option<ToolResult>,
}

impl CallState {
    /// A call as it was proposed.
    pub(crate) fn new(call: Call) -> Self {
        Self { call, phase: Phase::Proposed, examined: None, ask: None, answer: None, result: None }
    }

    /// How it ended, once it has.
    pub fn status(&self) -> Option<Status> {
        self.result.as_ref().map(|result| result.status)
    }
}

/// How far a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Proposed by a reply.
    Proposed,
    /// Its tool said what it would touch.
    Examined,
    /// The gates want a person's answer; nobody was asked yet.
    ToAsk,
    /// A person was asked and has not answered.
    Asked,
    /// The gates let it through.
    Allowed,
    /// It is about to run.
    Intended,
    /// Its effect has begun.
    Started,
    /// A crash hides whether its effect happened.
    Doubtful,
    /// It has its result.
    Ended,
}
