//! The checker: refuses a request body where the provider would, in the provider's words.
//!
//! A history that a provider rejects costs a user the whole session, so every test that runs on the scripted model
//! runs through here. The rules and texts were gathered from the API reference
//! (<https://docs.claude.com/en/api/messages>) and from error reports in public issue trackers. Where the API's own
//! limit differs between models, the stricter one is kept.

mod cache;
mod chat;
mod fields;
mod gemini;
mod image;
mod message;
mod pairing;
mod parameters;
mod reasoning;
mod responses;
mod schema;
mod tool;

use hames_protocol::Dialect;
use serde_json::Value;

pub use reasoning::Issued;

use fields::Fields;

/// What a provider would answer to a body that it refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct Violation {
    /// The HTTP status.
    pub status: u16,
    /// The error type, for example `invalid_request_error`.
    pub kind: &'static str,
    /// The provider's words.
    pub message: String,
}

type Checked<T = ()> = Result<T, Violation>;

/// Refuses the request with these words.
fn refuse<T>(message: impl Into<String>) -> Checked<T> {
    Err(Violation { status: 400, kind: "invalid_request_error", message: message.into() })
}

/// Checks the body of a `POST /v1/messages` and returns it parsed. Pure.
///
/// # Errors
/// The first rule that the body breaks. Signed reasoning must be among what was `issued`, unless nothing is known of
/// that.
pub fn check(body: &[u8], issued: &Issued) -> Result<Value, Violation> {
    let value = parse(body)?;
    let request = Fields::of(&value, "")?;
    parameters::check(&request)?;
    let messages = request.required_list("messages")?;
    cache::check(&value)?;
    let tools = tool::check(&request)?;
    message::check_system(&request)?;
    message::check(messages)?;
    pairing::check(messages)?;
    if tools == 0 && pairing::uses_tools(messages) {
        return refuse("Requests which include `tool_use` or `tool_result` blocks must define tools");
    }
    image::check(messages)?;
    reasoning::check(messages, issued)?;
    message::check_prefill(&request, messages)?;
    Ok(value)
}

/// Checks a request body as the provider of a dialect would, and returns it parsed; `model` is the one that the address
/// names, where the dialect puts it there. Pure.
///
/// # Errors
/// The first rule that the body breaks.
pub fn check_as(dialect: Dialect, body: &[u8], model: Option<&str>, issued: &Issued) -> Result<Value, Violation> {
    let checked = match dialect {
        Dialect::Anthropic => return check(body, issued),
        Dialect::OpenAi => parse(body).and_then(|request| responses::check(&request, issued).map(|()| request)),
        Dialect::OpenAiChat => parse(body).and_then(|request| chat::check(&request).map(|()| request)),
        Dialect::Gemini => {
            parse(body).and_then(|request| gemini::check(&request, model.unwrap_or_default(), issued).map(|()| request))
        }
    };
    checked.map_err(|violation| Violation { kind: error_kind(dialect, violation.status, violation.kind), ..violation })
}

/// The type of the error with which a provider refuses a request.
pub(super) fn rejection(dialect: Dialect) -> &'static str {
    error_kind(dialect, 400, "invalid_request_error")
}

/// A provider's own type of the error that comes with a status; `kind` is Anthropic's.
pub(super) fn error_kind(dialect: Dialect, status: u16, kind: &'static str) -> &'static str {
    match (dialect, status) {
        (Dialect::Gemini, 400 | 413) => "INVALID_ARGUMENT",
        (Dialect::Gemini, 401) => "UNAUTHENTICATED",
        (Dialect::Gemini, 403) => "PERMISSION_DENIED",
        (Dialect::Gemini, 404) => "NOT_FOUND",
        (Dialect::Gemini, 429) => "RESOURCE_EXHAUSTED",
        (Dialect::Gemini, 503 | 529) => "UNAVAILABLE",
        (Dialect::Gemini, _) => "INTERNAL",
        (Dialect::OpenAi | Dialect::OpenAiChat, 500..) => "server_error",
        (Dialect::OpenAi | Dialect::OpenAiChat, 429) => "requests",
        _ => kind,
    }
}

/// V8: whole JSON in UTF-8 without a lone surrogate. The reader refuses all of these itself; only its words differ.
fn parse(body: &[u8]) -> Checked<Value> {
    serde_json::from_slice(body).or_else(|error| {
        let told = error.to_string();
        let what = told.rsplit_once(" at line ").map_or(told.as_str(), |(what, _)| what);
        let what = match what {
            // Both are what a half of a pair without the other leads to.
            "lone leading surrogate in hex escape" | "unexpected end of hex escape" => "no low surrogate in string",
            "invalid unicode code point" => "str is not valid UTF-8",
            other => other,
        };
        let (line, column) = (error.line(), error.column());
        let lines = body.split_inclusive(|byte| *byte == b'\n').take(line.saturating_sub(1));
        let char = lines.map(<[u8]>::len).sum::<usize>() + column.saturating_sub(1);
        refuse(format!("The request body is not valid JSON: {what}: line {line} column {column} (char {char})"))
    })
}
