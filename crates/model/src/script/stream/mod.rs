//! A scripted reply as a provider would send it: the events of a stream, or one message, in each dialect.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use hames_protocol::Dialect;
use serde_json::{Value, json};

use super::reply::{CallArguments, Fault, ScriptedPart, ScriptedReply};

/// One server-sent event.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Event {
    /// Its name; none in the dialects whose events have none.
    name: Option<&'static str>,
    /// Its data, on one line.
    data: String,
    content: Content,
}

/// Whether an event carries a piece of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Piece,
    None,
}

impl Event {
    /// An event whose name its data repeats as `type`.
    fn named(data: Value, name: &'static str) -> Self {
        let content = if name.ends_with("delta") && name != "message_delta" { Content::Piece } else { Content::None };
        Self { name: Some(name), data: data.to_string(), content }
    }

    /// A chunk, which has no name.
    fn chunk(data: &Value, content: Content) -> Self {
        Self { name: None, data: data.to_string(), content }
    }

    /// The bytes of the event on the wire.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let name = self.name.map_or_else(String::new, |name| format!("event: {name}\n"));
        format!("{name}data: {}\n\n", self.data).into_bytes()
    }

    /// Whether it carries a piece of content.
    pub(super) fn is_delta(&self) -> bool {
        self.content == Content::Piece
    }
}

/// What a reply says of itself, beside its content.
pub(super) struct Envelope<'a> {
    /// The place of the reply in the script, from 0.
    pub(super) position: usize,
    /// The model that the request named.
    pub(super) model: &'a str,
    /// Whether the tokens are told in a stream.
    pub(super) usage: UsageAsked,
}

/// Whether a request for a stream asked for its tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UsageAsked {
    Yes,
    No,
}

impl Envelope<'_> {
    /// An id that is the same every time, for example `call_script_0001_02`.
    fn id(&self, prefix: &str, index: usize) -> String {
        format!("{prefix}_script_{:04}_{:02}", self.position + 1, index + 1)
    }

    fn message_id(&self, prefix: &str) -> String {
        format!("{prefix}_script_{:04}", self.position + 1)
    }
}

/// The whole stream of a reply, faults aside.
pub(super) fn stream(dialect: Dialect, reply: &ScriptedReply, envelope: &Envelope<'_>) -> Vec<Event> {
    match dialect {
        Dialect::Anthropic => anthropic::stream(reply, envelope),
        Dialect::OpenAi => responses::stream(reply, envelope),
        Dialect::OpenAiChat => chat::stream(reply, envelope),
        Dialect::Gemini => gemini::stream(reply, envelope),
    }
}

/// The reply as one JSON message, for a request that does not stream.
pub(super) fn message(dialect: Dialect, reply: &ScriptedReply, envelope: &Envelope<'_>) -> Value {
    match dialect {
        Dialect::Anthropic => anthropic::message(reply, envelope),
        Dialect::OpenAi => responses::message(reply, envelope),
        Dialect::OpenAiChat => chat::message(reply, envelope),
        Dialect::Gemini => gemini::message(reply, envelope),
    }
}

/// An error body.
pub(super) fn error_body(dialect: Dialect, status: u16, kind: &str, message: &str) -> Value {
    match dialect {
        Dialect::Anthropic => json!({"type": "error", "error": {"type": kind, "message": message}}),
        Dialect::OpenAi | Dialect::OpenAiChat => {
            json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
        }
        Dialect::Gemini => json!({"error": {"code": status, "message": message, "status": kind}}),
    }
}

/// An error event, as it comes after HTTP 200.
pub(super) fn error_event(dialect: Dialect, kind: &str, message: &str) -> Event {
    match dialect {
        Dialect::Anthropic => Event::named(error_body(dialect, 500, kind, message), "error"),
        Dialect::OpenAi => {
            Event::named(json!({"type": "error", "code": kind, "message": message, "param": null}), "error")
        }
        Dialect::OpenAiChat | Dialect::Gemini => Event::chunk(&error_body(dialect, 500, kind, message), Content::None),
    }
}

fn content(reply: &ScriptedReply) -> &[ScriptedPart] {
    if reply.fault == Some(Fault::Empty) { &[] } else { &reply.parts }
}

/// Arguments as an object: an empty one where the script sends what is none.
fn object(arguments: &CallArguments) -> Value {
    match arguments {
        CallArguments::Whole(map) => Value::Object(map.clone()),
        CallArguments::Raw(text) => serde_json::from_str(text).unwrap_or_else(|_| json!({})),
    }
}

/// One event of each row in turn, until all rows are at their end.
fn in_turn(rows: Vec<Vec<Event>>, events: &mut Vec<Event>) {
    let mut rows: Vec<_> = rows.into_iter().map(Vec::into_iter).collect();
    loop {
        let before = events.len();
        events.extend(rows.iter_mut().filter_map(Iterator::next));
        if events.len() == before {
            return;
        }
    }
}

/// Splits text into two to eight pieces of about equal length, at characters.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let chars = text.chars().count();
    let length = chars.div_ceil((chars / 16).clamp(2, 8)).max(1);
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.char_indices().nth(length).map_or(rest.len(), |(end, _)| end);
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}
