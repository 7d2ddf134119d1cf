//! What a provider's error body says, whichever of the many forms it has.
//!
//! Known forms: Anthropic's and OpenAI's `{"error":{"type","code","message"}}`, Google's `{"error":{"status","details"}}`
//! (also as a list), OpenRouter's with the words of the provider behind it, FastAPI's and Mistral's `detail`, Ollama's
//! `{"error":"…"}`, xAI's `{"code","error"}`, a gateway's HTML page, and plain text.

use hames_protocol::FailureKind;
use serde_json::Value;

/// How much of a provider's own words a message quotes, in characters.
const QUOTED_CHARS: usize = 300;

/// Names of errors that a better request would not have.
const REJECTED: [&str; 10] = [
    "invalid_request_error",
    "not_found_error",
    "request_too_large",
    "context_length_exceeded",
    "invalid_prompt",
    "model_not_found",
    "INVALID_ARGUMENT",
    "FAILED_PRECONDITION",
    "NOT_FOUND",
    "OUT_OF_RANGE",
];

/// Names of errors that only the holder of the account can mend, whatever status they come with: OpenAI tells of an
/// empty account with 429, Google of a bad key with 400.
const ACCOUNT: [&str; 10] = [
    "authentication_error",
    "permission_error",
    "billing_error",
    "insufficient_quota",
    "billing_hard_limit_reached",
    "invalid_api_key",
    "account_deactivated",
    "UNAUTHENTICATED",
    "PERMISSION_DENIED",
    "API_KEY_INVALID",
];

/// What an error body or an error event says.
pub(crate) struct Told {
    /// Every name that the error has, the most telling first; for example `overloaded_error`.
    names: Vec<String>,
    /// The status that the body itself gives.
    status: Option<u16>,
    /// Its words, on one line and bounded.
    words: String,
    /// Whether the body says at all that it is an error.
    pub(crate) is_error: bool,
}

impl Told {
    /// Reads an error body or the data of an error event.
    pub(crate) fn read(body: &str) -> Self {
        let json: Value = serde_json::from_str(body).unwrap_or_default();
        let json = json.get(0).unwrap_or(&json);
        let error = json.get("error").filter(|error| !error.is_null());
        let inner = error.filter(|error| error.is_object()).unwrap_or(json);
        let words = words(inner).or_else(|| words(json)).or_else(|| error.and_then(Value::as_str).map(str::to_owned));
        let words = words.unwrap_or_else(|| if is_page(body) { page(body) } else { body.to_owned() });
        let words = match behind(inner) {
            Some(behind) => format!("{}: {behind}", words.trim_end_matches('.')),
            None => words,
        };
        let name = |name: &str| inner.get(name).or_else(|| json.get(name)).and_then(Value::as_str);
        let details = inner.get("details").and_then(Value::as_array).into_iter().flatten();
        let reasons = details.filter_map(|detail| detail.get("reason").and_then(Value::as_str));
        let of_error = |name: &str| inner.get(name).and_then(Value::as_str).filter(|name| *name != "error");
        let kind = of_error("type");
        let names = kind.into_iter().chain(of_error("status")).chain(name("code")).chain(reasons);
        let names: Vec<String> = names.map(one_line).filter(|name| !name.is_empty()).collect();
        let status = inner.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        let is_error = error.is_some() || kind.is_some() || json.get("object").is_some_and(|object| object == "error");
        Self { is_error, status, words: one_line(&words), names }
    }

    /// What may be done about it; an error that this version does not know may pass.
    pub(crate) fn kind(&self) -> FailureKind {
        match self.status.filter(|status| (400..600).contains(status)) {
            Some(status) => self.kind_with(status),
            None if self.has(&ACCOUNT) => FailureKind::Credential,
            None if self.has(&REJECTED) => FailureKind::Rejected,
            None => FailureKind::Transient,
        }
    }

    /// What may be done about it when it came with this HTTP status.
    pub(crate) fn kind_with(&self, status: u16) -> FailureKind {
        match status {
            _ if self.has(&ACCOUNT) => FailureKind::Credential,
            408 | 409 | 429 | 500.. => FailureKind::Transient,
            401..=403 => FailureKind::Credential,
            _ => FailureKind::Rejected,
        }
    }

    /// Name and words, without a full stop at the end.
    pub(crate) fn sentence(&self) -> String {
        let words = self.words.trim_end_matches('.');
        match (self.names.first().map_or("", String::as_str), words) {
            ("", "") => "it gave no reason".to_owned(),
            ("", words) => words.to_owned(),
            (name, "") => name.to_owned(),
            (name, words) => format!("{name}: {words}"),
        }
    }

    fn has(&self, known: &[&str]) -> bool {
        self.names.iter().any(|name| known.contains(&name.as_str()))
    }
}

/// The words of an object: a message, or the details of a validation.
fn words(object: &Value) -> Option<String> {
    let detail = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(problems) => {
            let problems: Vec<String> = problems.iter().filter_map(problem).collect();
            (!problems.is_empty()).then(|| problems.join("; "))
        }
        _ => None,
    };
    let message = object.get("message");
    let nested = message.and_then(|message| message.get("detail").or_else(|| message.get("message")));
    message.and_then(detail).or_else(|| nested.and_then(detail)).or_else(|| object.get("detail").and_then(detail))
}

/// One problem of a validation, `{"loc": ["body", "messages", 0], "msg": "Field required"}`.
fn problem(value: &Value) -> Option<String> {
    let words = value.as_str().or_else(|| value.get("msg")?.as_str())?;
    let steps = value.get("loc").and_then(Value::as_array).into_iter().flatten();
    let steps: Vec<String> = steps.map(|step| step.as_str().map_or_else(|| step.to_string(), str::to_owned)).collect();
    Some(if steps.is_empty() { words.to_owned() } else { format!("{}: {words}", steps.join(".")) })
}

/// What the provider behind a router said.
fn behind(error: &Value) -> Option<String> {
    let metadata = error.get("metadata")?;
    let raw = metadata.get("raw")?;
    let raw = raw.as_str().map_or_else(|| raw.to_string(), str::to_owned);
    let said = serde_json::from_str::<Value>(&raw).ok();
    let said = said.as_ref().and_then(|json| words(json.get("error").unwrap_or(json))).unwrap_or(raw);
    let name = metadata.get("provider_name").and_then(Value::as_str).unwrap_or("the provider behind it");
    Some(format!("{name} said {said}"))
}

fn is_page(body: &str) -> bool {
    let start: String = body.trim_start().chars().take(15).collect::<String>().to_ascii_lowercase();
    start.starts_with("<!doctype") || start.starts_with("<html") || start.starts_with("<head")
}

/// The title of an HTML page, else its text.
fn page(body: &str) -> String {
    let lower = body.to_ascii_lowercase();
    let title = lower.find("<title").and_then(|at| Some(at + lower[at..].find('>')? + 1));
    let title = title.and_then(|from| Some(&body[from..from + lower[from..].find("</title")?]));
    let text = title.map(str::to_owned).filter(|title| !title.trim().is_empty()).unwrap_or_else(|| without_tags(body));
    format!("a web page: {}", text.trim())
}

fn without_tags(body: &str) -> String {
    let mut text = String::new();
    for piece in body.split('<') {
        text.push(' ');
        text.push_str(piece.split_once('>').map_or(piece, |(_, after)| after));
    }
    text
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
