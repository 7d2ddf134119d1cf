//! What went wrong, as failures shaped by what may be done next.

use std::time::SystemTime;

use hames_protocol::{FailureKind, ModelFailure};
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};

use crate::retry_hint::{retry_after_ms, retry_after_ms_in};
use crate::told::Told;

/// A failure without hints.
pub(crate) fn failure(kind: FailureKind, message: impl Into<String>) -> ModelFailure {
    ModelFailure { kind, message: message.into(), retry_after_ms: None, usage: None }
}

/// Who is spoken of in failures, and where its user can mend them.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// The provider's name, as it begins a sentence.
    pub(crate) provider: String,
    /// Where its key is: a variable's name.
    pub(crate) key: String,
    /// Where its base URL is: a variable's name, or a flag.
    pub(crate) base_url: String,
}

impl Source {
    /// What the reader of a failure can do, as a sentence with a blank before it.
    fn remedy(&self, kind: FailureKind) -> String {
        match kind {
            FailureKind::Transient => " The same request may succeed later.".to_owned(),
            FailureKind::Credential => format!(" Check the API key, its rights and its account ({}).", self.key),
            FailureKind::Rejected => " Repeating the same request cannot help.".to_owned(),
            FailureKind::Setup => format!(" Check the base URL ({}).", self.base_url),
        }
    }
}

/// The failure that an `error` event tells of after the provider had already answered 200.
pub(crate) fn from_event(provider: &str, data: &str) -> ModelFailure {
    let told = Told::read(data);
    let remedy = match told.kind() {
        FailureKind::Transient => " The same request may succeed later.",
        FailureKind::Credential => " Check the API key, its rights and its account.",
        FailureKind::Rejected | FailureKind::Setup => " Repeating the same request cannot help.",
    };
    let text = format!("{provider} broke off its reply ({}).{remedy}", told.sentence());
    ModelFailure { retry_after_ms: retry_after_ms_in(data), ..failure(told.kind(), text) }
}

/// The failure that an answer other than an event stream means; `host` is who gave it.
pub(crate) fn from_answer(
    source: &Source,
    host: &str,
    status: StatusCode,
    headers: &HeaderMap,
    body: &str,
) -> ModelFailure {
    let told = Told::read(body);
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("none");
    let (kind, text) = if status.is_redirection() {
        let text = format!("{host} redirects to {} instead of answering (HTTP {status}).", header(LOCATION));
        (FailureKind::Setup, text)
    } else if status.is_success() && !told.is_error {
        let (found, said) = (header(CONTENT_TYPE), told.sentence());
        (FailureKind::Setup, format!("{host} answered with {found} instead of an event stream ({said})."))
    } else {
        let kind = if status.is_success() { told.kind() } else { told.kind_with(status.as_u16()) };
        (kind, format!("{host} answered HTTP {} ({}).", status.as_u16(), told.sentence()))
    };
    let remedy = match (status.as_u16(), kind) {
        (404, FailureKind::Rejected) => {
            format!("{} Check the model's name and the base URL ({}).", source.remedy(kind), source.base_url)
        }
        _ => source.remedy(kind),
    };
    ModelFailure {
        retry_after_ms: retry_after_ms(headers, body, SystemTime::now()),
        ..failure(kind, format!("{text}{remedy}"))
    }
}
