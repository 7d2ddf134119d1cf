//! Live notifications: what was observed. Only `Committed` says that something is on disk.

use serde::Serialize;

use crate::{CallId, Record, Usage};

/// Something observed while a run goes on.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// An entry was written and synced.
    Committed(Record),
    /// The model streams text for the user.
    TextDelta(String),
    /// The model streams reasoning.
    ReasoningDelta(String),
    /// The model began to write a call of this tool.
    CallDelta {
        /// The tool's name so far.
        name: String,
    },
    /// The run waits before it asks the model again.
    Waiting {
        /// How long, in milliseconds.
        ms: u64,
        /// Why, as a sentence.
        reason: String,
    },
    /// A call printed something.
    Output {
        /// The call.
        call: CallId,
        /// The text, decoded lossily.
        text: String,
    },
}

/// A piece of a reply that is still arriving. What it shows is never acted upon; what it cost is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// Text for the user.
    Text(String),
    /// Reasoning.
    Reasoning(String),
    /// A call began.
    Call {
        /// The tool's name.
        name: String,
    },
    /// The attempt's tokens as reported so far: what is known when it never ends.
    Usage(Usage),
}
