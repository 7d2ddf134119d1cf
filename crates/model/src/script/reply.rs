//! One scripted reply: its content, its pace, and the fault that it plays.

use hames_protocol::Usage;
use serde_json::{Map, Value};

/// One reply of a script.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScriptedReply {
    /// The content, in order.
    pub(crate) parts: Vec<ScriptedPart>,
    /// The stop reason in the provider's words.
    pub(crate) stop: String,
    /// The tokens; outer none for a derived number, inner none for a reply that reports none.
    pub(crate) usage: Option<Option<Usage>>,
    /// How slowly it comes.
    pub(crate) pace: Pace,
    /// Where the stream is cut into pieces.
    pub(crate) split: Split,
    /// What goes wrong.
    pub(crate) fault: Option<Fault>,
}

/// One block of a reply.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ScriptedPart {
    Text(String),
    /// An empty signature stands for none: such a block cannot be echoed.
    Reasoning {
        text: String,
        signature: String,
    },
    Redacted {
        data: String,
    },
    Call {
        tool: String,
        id: Option<String>,
        arguments: CallArguments,
    },
}

/// What a call's `input_json` text is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CallArguments {
    Whole(Map<String, Value>),
    /// Sent as it is, whole JSON or not.
    Raw(String),
}

/// Delays, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pace {
    /// Before the first event.
    pub(crate) delay_ms: u64,
    /// Before each content delta.
    pub(crate) delta_delay_ms: u64,
}

/// How the stream is cut into pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Split {
    /// Bytes in each HTTP chunk; one event a chunk when none.
    pub(crate) chunk: Option<usize>,
    /// Whether the deltas of all blocks come in turn instead of one block after the other.
    pub(crate) interleave: bool,
}

/// What goes wrong with a reply.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fault {
    /// An HTTP error instead of a reply.
    Status { status: u16, headers: Vec<(String, String)>, body: Option<String> },
    /// The connection is closed without the end event.
    Cut(Cut),
    /// An error event in the stream, after HTTP 200.
    Error { kind: String, message: String, after_events: usize },
    /// A reply without content.
    Empty,
    /// Silence: from the start, or after that many events.
    Hang { after_events: Option<usize> },
    /// HTTP 200 with a body that is no event stream.
    NonSse { body: String },
}

/// Where a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    AfterEvents(usize),
    AfterBytes(usize),
}

impl Fault {
    /// Whether no content of the reply is ever sent.
    pub(crate) fn replaces_content(&self) -> bool {
        match self {
            Self::Status { .. } | Self::Empty | Self::NonSse { .. } | Self::Hang { after_events: None } => true,
            Self::Cut(_) | Self::Error { .. } | Self::Hang { after_events: Some(_) } => false,
        }
    }
}

impl ScriptedPart {
    /// A reasoning block; a signature that is not given is derived from the text, so that it is the same every time.
    pub(crate) fn reasoning(text: String, signature: Option<String>) -> Self {
        let signature = signature.unwrap_or_else(|| {
            // FNV-1a: any function of the text will do, nothing here is secret.
            let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            format!("scripted-{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, step))
        });
        Self::Reasoning { text, signature }
    }
}

impl ScriptedReply {
    /// The tokens that the reply reports. Derived ones depend on the script alone: they are the same in process and
    /// over HTTP, and on every machine.
    pub(crate) fn usage(&self, position: usize) -> Option<Usage> {
        self.usage.unwrap_or_else(|| {
            let bytes: usize = self.parts.iter().map(ScriptedPart::len).sum();
            let position = u64::try_from(position).unwrap_or(u64::MAX);
            Some(Usage {
                input_tokens: position.saturating_mul(50).saturating_add(500),
                output_tokens: u64::try_from(bytes / 4 + 1).unwrap_or(u64::MAX),
                ..Usage::default()
            })
        })
    }
}

impl ScriptedPart {
    fn len(&self) -> usize {
        match self {
            Self::Text(text) | Self::Reasoning { text, .. } => text.len(),
            Self::Redacted { data } => data.len(),
            Self::Call { tool, arguments, .. } => tool.len() + arguments.text().len(),
        }
    }
}

impl CallArguments {
    /// The `input_json` text.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Whole(map) => Value::Object(map.clone()).to_string(),
            Self::Raw(text) => text.clone(),
        }
    }
}
