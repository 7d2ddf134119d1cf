//! What a wire format is to the client: how it writes a request and how it reads a stream.
//!
//! Everything here is pure. The client owns the socket, and the scripted model plays the same formats without one.

use std::sync::Arc;

use hames_protocol::{
    Delta, Dialect, Encoded, FailureKind, Head, Message, ModelFailure, ModelInfo, Reply, Request, Usage,
};
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::anthropic::AnthropicWire;
use crate::chat::ChatWire;
use crate::effort::Effort;
use crate::failure::failure;
use crate::gemini::GeminiWire;
use crate::preset::Server;
use crate::responses::ResponsesWire;

/// Writes requests in one format.
pub(crate) trait Wire: Send + Sync {
    /// Writes everything that precedes the messages.
    fn encode_head(&self, info: &ModelInfo, effort: Option<Effort>, head: &Head) -> Arc<str>;

    /// Writes one message for `model`: the same message gives the same bytes.
    fn encode(&self, model: &str, message: &Message) -> Encoded;

    /// Joins head and messages to the request body.
    fn join(&self, request: &Request) -> String;

    /// Begins to read a reply of `model`, the name that was asked for; failures name `provider`.
    fn assembler(&self, provider: &str, model: &str) -> Box<dyn Assembler>;

    /// The path of the endpoint beneath a base URL's path, whichever part of it that already has.
    fn endpoint(&self, path: &str, model: &str) -> String;

    /// The pair that the endpoint needs in its query.
    fn query(&self) -> Option<(&'static str, &'static str)> {
        None
    }

    /// Adds the key, where there is one, and the format's own headers.
    ///
    /// # Errors
    /// When the key cannot be sent in a header.
    fn headers(&self, key: Option<&str>, headers: &mut HeaderMap) -> Result<(), reqwest::header::InvalidHeaderValue>;
}

/// How far a stream has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More must come.
    Streaming,
    /// The reply is whole, yet something about it (its tokens, an end mark) may follow.
    Whole,
    /// The end event has come: nothing more will be read.
    Ended,
}

/// Turns the events of one streamed reply into the reply.
pub(crate) trait Assembler: Send {
    /// Takes one event in and adds what there is to show of it. Unknown events, and all events after the end, are
    /// ignored.
    ///
    /// # Errors
    /// When the provider tells of an error, or when a known event cannot be understood.
    fn event(&mut self, name: &str, data: &str, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure>;

    /// How far the stream has come.
    fn progress(&self) -> Progress;

    /// The tokens reported so far: those of a broken attempt are spent all the same.
    fn usage(&self) -> Option<Usage>;

    /// The whole reply.
    ///
    /// # Errors
    /// When its end has not come.
    fn finish(self: Box<Self>) -> Result<Reply, ModelFailure>;
}

/// The writer of a dialect, as `server` and `model` want it.
pub(crate) fn of(dialect: Dialect, server: Server, model: &str) -> Box<dyn Wire> {
    match dialect {
        Dialect::Anthropic => Box::new(AnthropicWire),
        Dialect::OpenAi => Box::new(ResponsesWire),
        Dialect::OpenAiChat => Box::new(ChatWire::new(server, model)),
        Dialect::Gemini => Box::new(GeminiWire),
    }
}

/// Says whether an event tells of an error: foreign words that may repeat a key.
pub(crate) fn tells_error(name: &str, data: &str) -> bool {
    const NAMES: [&str; 2] = ["error", "response.failed"];
    if NAMES.contains(&name) {
        return true;
    }
    // Most events have no such word, and parsing each of them twice would be for nothing.
    data.contains("error")
        && serde_json::from_str::<Value>(data).is_ok_and(|json| {
            let kind = json.get("type").and_then(Value::as_str).unwrap_or_default();
            NAMES.contains(&kind) || json.get("error").is_some_and(|error| !error.is_null())
        })
}

/// The failure of a stream that ended too early.
pub(crate) fn cut_short(provider: &str, usage: Option<Usage>) -> ModelFailure {
    let text = format!("{provider}'s stream ended before its end event. The reply is incomplete and was not used.");
    ModelFailure { usage, ..failure(FailureKind::Transient, text) }
}

/// The failure of a known event that cannot be understood.
pub(crate) fn malformed(provider: &str, event: &str, why: &str, usage: Option<Usage>) -> ModelFailure {
    let text = format!("{provider}'s stream is malformed: a `{event}` event cannot be understood ({why}).");
    ModelFailure { usage, ..failure(FailureKind::Transient, text) }
}

/// `path` without one of `endings` and without slashes at its end.
pub(crate) fn without_endings<'a>(path: &'a str, endings: &[&str]) -> &'a str {
    let path = path.trim_end_matches('/');
    let shorter = endings.iter().find_map(|ending| path.strip_suffix(ending));
    shorter.unwrap_or(path).trim_end_matches('/')
}

/// `path`, with `version` at its end where no part of it names one.
pub(crate) fn with_version(path: &str, version: &str) -> String {
    let path = path.trim_end_matches('/');
    let is_version =
        |part: &str| part.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if path.split('/').any(is_version) { path.to_owned() } else { format!("{path}{version}") }
}
