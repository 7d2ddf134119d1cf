//! What went wrong, as failures shaped by what may be done next.

use std::time::SystemTime;

use hames_protocol::{FailureKind, ModelFailure};
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use serde_json::Value;

use crate::retry_hint::{retry_after_ms, retry_after_ms_in};

/// How much of a provider's own words a message quotes, in characters.
const QUOTED_CHARS: usize = 300;

/// A failure without hints.
pub(crate) fn failure(kind: FailureKind, message: impl Into<String>) -> ModelFailure {
    ModelFailure { kind, message: message.into(), retry_after_ms: None, usage: None }
}

/// What an error body or an error event says.
struct Told {
    /// The provider's error type, for example `overloaded_error`; empty when it names none.
    name: String,
    /// Its words, on one line and bounded.
    words: String,
}

impl Told {
    /// Reads `{"type":"error","error":{"type":…,"message":…}}`, what gateways make of it, or plain text.
    fn read(body: &str) -> Self {
        let json: Value = serde_json::from_str(body).unwrap_or_default();
        let error = json.get("error").unwrap_or(&json);
        let field = |name: &str| error.get(name).or_else(|| json.get(name)).and_then(Value::as_str);
        let words = error.as_str().or_else(|| field("message")).or_else(|| field("detail")).unwrap_or(body);
        let name = error.get("type").and_then(Value::as_str).unwrap_or_default();
        Self { name: one_line(name), words: one_line(words) }
    }

    /// What may be done about it; a type that this version does not know may pass.
    fn kind(&self) -> FailureKind {
        match self.name.as_str() {
            "invalid_request_error" | "not_found_error" | "request_too_large" => FailureKind::Rejected,
            "authentication_error" | "permission_error" | "billing_error" => FailureKind::Credential,
            _ => FailureKind::Transient,
        }
    }

    /// Type and words, without a full stop at the end.
    fn sentence(&self) -> String {
        let words = self.words.trim_end_matches('.');
        match (self.name.as_str(), words) {
            ("", "") => "it gave no reason".to_owned(),
            ("", words) => words.to_owned(),
            (name, "") => name.to_owned(),
            (name, words) => format!("{name}: {words}"),
        }
    }
}

/// The failure that an `error` event tells of after the provider had already answered 200.
pub(super) fn from_event(data: &str) -> ModelFailure {
    let told = Told::read(data);
    let text = format!("Anthropic broke off its reply ({}).{}", told.sentence(), remedy(told.kind()));
    ModelFailure { retry_after_ms: retry_after_ms_in(data), ..failure(told.kind(), text) }
}

/// The failure that an answer other than an event stream means; `source` is who gave it.
pub(crate) fn from_answer(source: &str, status: StatusCode, headers: &HeaderMap, body: &str) -> ModelFailure {
    let told = Told::read(body);
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("none");
    let (kind, text) = if status.is_redirection() {
        let text = format!("{source} redirects to {} instead of answering (HTTP {status}).", header(LOCATION));
        (FailureKind::Setup, text)
    } else if status.is_success() && told.name.is_empty() {
        let (found, said) = (header(CONTENT_TYPE), told.sentence());
        (FailureKind::Setup, format!("{source} answered with {found} instead of an event stream ({said})."))
    } else {
        let kind = if status.is_success() { told.kind() } else { status_kind(status.as_u16()) };
        (kind, format!("{source} answered HTTP {} ({}).", status.as_u16(), told.sentence()))
    };
    ModelFailure {
        retry_after_ms: retry_after_ms(headers, body, SystemTime::now()),
        ..failure(kind, format!("{text}{}", remedy(kind)))
    }
}

/// What an HTTP status says may be done about it.
fn status_kind(status: u16) -> FailureKind {
    match status {
        408 | 409 | 429 | 500.. => FailureKind::Transient,
        401..=403 => FailureKind::Credential,
        _ => FailureKind::Rejected,
    }
}

/// What the reader of a failure can do, as a sentence with a blank before it.
fn remedy(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Transient => " The same request may succeed later.",
        FailureKind::Credential => " Check the API key, its rights and its account (ANTHROPIC_API_KEY).",
        FailureKind::Rejected => " Repeating the same request cannot help.",
        FailureKind::Setup => " Check the base URL (ANTHROPIC_BASE_URL).",
    }
}

/// Foreign text for people: runs of blanks and control characters become one blank, and the end is cut off.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    match line.char_indices().nth(QUOTED_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
