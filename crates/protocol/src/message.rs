//! What goes to a model and what comes back.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{AttemptNo, SessionId, Status, ToolSpec};

/// A wire format that providers speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// Anthropic Messages, `POST /v1/messages`, version 2023-06-01.
    Anthropic,
    /// OpenAI Responses, `POST /v1/responses`.
    #[serde(rename = "openai")]
    OpenAi,
    /// OpenAI-compatible chat completions, `POST /v1/chat/completions`.
    #[serde(rename = "openai-chat")]
    OpenAiChat,
    /// Gemini, `POST /v1beta/models/MODEL:streamGenerateContent`.
    Gemini,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 4] = [Self::Anthropic, Self::OpenAi, Self::OpenAiChat, Self::Gemini];

    /// The name in options and configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::OpenAiChat => "openai-chat",
            Self::Gemini => "gemini",
        }
    }

    /// Says whether a tool call id may be sent on this wire as it is.
    pub fn accepts_call_id(self, id: &str) -> bool {
        match self {
            // The API's own message: "String should match pattern '^[a-zA-Z0-9_-]+$'".
            Self::Anthropic => {
                !id.is_empty()
                    && id.len() <= 64
                    && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
            }
            // What a server gave out it takes back; these bounds only keep out what no server means.
            Self::OpenAi | Self::OpenAiChat | Self::Gemini => {
                !id.is_empty() && id.len() <= 256 && id.bytes().all(|b| b.is_ascii_graphic())
            }
        }
    }
}

/// One piece of content that Hames writes for the model: in a prompt, a notice, or a tool result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// Plain text.
    Text(String),
    /// An image, base64-encoded.
    Image {
        /// For example `image/png`.
        media_type: String,
        /// The bytes in base64.
        data: String,
    },
}

impl Block {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// The text of a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Image { .. } => None,
        }
    }
}

/// JSON text as a provider wrote it, kept byte for byte.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Native(pub Box<RawValue>);

impl Native {
    /// The JSON text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for Native {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

/// One part of a reply: what Hames understands of it, beside the provider's own JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// What Hames understands.
    pub kind: PartKind,
    /// The part as it is echoed in later requests of the same dialect and model.
    pub native: Native,
}

/// What a part of a reply is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// Text for the user.
    Text(String),
    /// Reasoning, shown or hidden; only a signed one may be echoed.
    Reasoning {
        /// The readable text, empty when the provider hides it.
        text: String,
        /// Whether the provider's signature or encrypted form came with it.
        signed: bool,
    },
    /// A proposed tool call.
    ToolCall(RawCall),
    /// A kind that this version does not know; echoed untouched.
    Other,
}

/// A tool call as the model proposed it, before any gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RawCall {
    /// The provider's id, where it sent one.
    pub provider_id: Option<String>,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The arguments.
    pub arguments: Arguments,
}

/// Arguments of a call: whole, or not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arguments {
    /// A whole JSON object.
    Whole(serde_json::Map<String, serde_json::Value>),
    /// Text that is not a whole JSON object; never repaired, never run.
    Broken {
        /// What arrived.
        text: String,
        /// Why it cannot be used, as a sentence.
        problem: String,
    },
}

/// Why a reply ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model had said what it wanted to say.
    EndTurn,
    /// The model waits for tool results.
    ToolUse,
    /// The output limit cut the reply.
    OutputLimit,
    /// The context window was full.
    ContextWindow,
    /// The provider declined to answer.
    Refusal,
    /// The provider paused a long turn; sending the history again continues it.
    Pause,
    /// Another reason, in the provider's words.
    Other(String),
}

/// Tokens of one attempt, or a sum of several. Cached tokens are not part of `input_tokens`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens that were neither read from nor written to the cache.
    pub input_tokens: u64,
    /// Output tokens, reasoning included.
    pub output_tokens: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Input tokens written to the provider's cache.
    pub cache_write_tokens: u64,
    /// Whether some of them are an estimate, or missing: the provider reported none, or not to the end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

impl Usage {
    /// Input (cached included) and output together: what `--max-tokens` bounds.
    pub fn total(&self) -> u64 {
        self.input_tokens
            .saturating_add(self.output_tokens)
            .saturating_add(self.cache_read_tokens)
            .saturating_add(self.cache_write_tokens)
    }

    /// Adds another attempt's tokens.
    pub fn add(&mut self, other: &Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(other.cache_read_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
        self.estimated |= other.estimated;
    }
}

/// A whole reply: the stream reached its end event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The dialect its parts are written in.
    pub dialect: Dialect,
    /// The model that wrote it, as the provider names it.
    pub model: String,
    /// The provider's id of the reply.
    pub provider_id: Option<String>,
    /// The parts, in order.
    pub parts: Vec<Part>,
    /// Why it ended.
    pub stop: StopReason,
    /// Its tokens; none when the provider reported none.
    pub usage: Option<Usage>,
}

impl Reply {
    /// The proposed calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = &RawCall> {
        self.parts.iter().filter_map(|part| match &part.kind {
            PartKind::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// The text parts joined; empty when there is none.
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match &part.kind {
            PartKind::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// One message of a conversation, before a dialect writes it.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Content from the user or from Hames.
    User(Vec<Block>),
    /// A reply, echoed; `wire_ids` holds the id of each of its tool calls, in order.
    Assistant {
        /// The reply as received.
        reply: Arc<Reply>,
        /// The ids to echo, one for each tool call part.
        wire_ids: Vec<String>,
    },
    /// The results of all calls of the reply before, in call order.
    Results(Vec<WireResult>),
}

/// A tool result as it goes to the model.
#[derive(Debug, Clone, PartialEq)]
pub struct WireResult {
    /// The id that was echoed for the call.
    pub wire_id: String,
    /// The tool's name.
    pub name: String,
    /// Anything but `Ok` is told to the model as an error.
    pub status: Status,
    /// The content.
    pub blocks: Vec<Block>,
}

/// What stands before the messages of every request of a run: stable bytes first.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// The instructions.
    pub system: String,
    /// The tools on offer.
    pub tools: Vec<ToolSpec>,
}

/// A message in a dialect's own bytes, written once and reused by every later request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// The JSON text of the message; where the dialect needs several for one, with commas between them.
    pub body: Arc<str>,
    /// The byte offset in `body` at which the dialect may insert a cache marker.
    pub marker_at: Option<usize>,
}

/// One model request, ready to be sent.
#[derive(Debug, Clone)]
pub struct Request {
    /// The head in the dialect's bytes.
    pub head: Arc<str>,
    /// The messages in the dialect's bytes.
    pub messages: Vec<Encoded>,
    /// The session it is sent for.
    pub session: SessionId,
    /// The attempt within the session: also the position of a scripted model.
    pub attempt: AttemptNo,
}

/// The name, the sizes and the price of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// The provider's short name, for example `anthropic` or `scripted`.
    pub provider: String,
    /// The model's name as the provider knows it.
    pub name: String,
    /// The wire format.
    pub dialect: Dialect,
    /// The context window, in tokens.
    pub context_tokens: u64,
    /// The output limit asked for in each request, in tokens.
    pub output_tokens: u64,
    /// The price, where it is known.
    pub price: Option<Price>,
}

/// Prices in USD for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// Uncached input.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input read from the cache.
    pub cache_read: f64,
    /// Input written to the cache.
    pub cache_write: f64,
}

impl Price {
    /// The cost of `usage`, in USD.
    pub fn cost_usd(&self, usage: &Usage) -> f64 {
        let per_token = |tokens: u64, price: f64| tokens as f64 * price / 1_000_000.0;
        per_token(usage.input_tokens, self.input)
            + per_token(usage.output_tokens, self.output)
            + per_token(usage.cache_read_tokens, self.cache_read)
            + per_token(usage.cache_write_tokens, self.cache_write)
    }
}

/// Why an attempt failed, shaped by what may be done next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ModelFailure {
    /// What may be done next.
    pub kind: FailureKind,
    /// A sentence that names the provider, the cause and the remedy.
    pub message: String,
    /// How long the provider asked to wait, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// What was reported before the attempt failed.
    pub usage: Option<Usage>,
}

/// What may be done after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The same request may succeed later (408, 409, 429, 5xx, 529, a lost connection, a cut stream).
    Transient,
    /// The key is missing, wrong, or not allowed (401, 403).
    Credential,
    /// The provider rejects the request itself (400, 404, 413, 422).
    Rejected,
    /// The request could not be made at all (a bad URL, a script that has no more replies).
    Setup,
}
