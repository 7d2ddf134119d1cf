//! What a request to a script is answered with: the one place where the checker, the position and the faults meet.
//!
//! The scripted model plays an answer in process and the server plays it over HTTP; both play the same one.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use hames_protocol::Dialect;
use serde_json::Value;

use super::Script;
use super::police::{self, Issued};
use super::reply::{Cut, Fault, ScriptedReply};
use super::stream::{self, Envelope, Event, UsageAsked};

/// A script, ready to answer requests.
#[derive(Debug, Clone)]
pub(super) struct Playback {
    pub(super) script: Arc<Script>,
    pub(super) dialect: Dialect,
    issued: Arc<Issued>,
}

/// What the address of a request says, where the dialect puts it there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target<'a> {
    /// The model; none where the body names it.
    pub(super) model: Option<&'a str>,
    /// The form of the answer.
    pub(super) form: Form,
}

/// In which form a request wants its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As its body says.
    AsAsked,
    /// As a stream of events.
    Stream,
    /// As one message.
    Whole,
}

impl Target<'_> {
    /// The body says everything.
    pub(super) const BODY: Self = Self { model: None, form: Form::AsAsked };
}

/// An HTTP response, in the order in which things happen.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    /// The HTTP status.
    pub(super) status: u16,
    /// The headers.
    pub(super) headers: Vec<(String, String)>,
    /// How long to wait before the head, in milliseconds.
    pub(super) delay_ms: u64,
    /// What happens to the body.
    pub(super) acts: VecDeque<Act>,
}

/// One thing that happens to a response body.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Act {
    /// That many milliseconds pass.
    Wait(u64),
    /// A chunk is sent.
    Send(Bytes),
    /// The connection is closed, though the body is not at its end.
    Close,
    /// Nothing more happens, ever.
    Hang,
}

/// How a request was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// A reply of the script, or its fault, answers it.
    Accepted,
    /// The checker or the end of the script refused it.
    Refused,
}

impl Playback {
    pub(super) fn new(script: Arc<Script>, dialect: Dialect) -> Self {
        let issued = Arc::new(Issued::by(&script));
        Self { script, dialect, issued }
    }

    /// Answers a request body with the reply at `position`, counted from 0.
    pub(super) fn answer(&self, position: usize, body: &[u8], target: Target<'_>) -> (Taken, Answer) {
        let request = match police::check_as(self.dialect, body, target.model, &self.issued) {
            Ok(request) => request,
            Err(violation) => {
                return (Taken::Refused, self.error(violation.status, violation.kind, &violation.message));
            }
        };
        let Some(reply) = self.script.replies.get(position) else {
            return (Taken::Refused, self.error(400, police::rejection(self.dialect), &self.script.exhausted()));
        };
        let model = target.model.or_else(|| request.get("model").and_then(Value::as_str)).unwrap_or_default();
        let asked = request.pointer("/stream_options/include_usage") == Some(&Value::Bool(true));
        let envelope = Envelope { position, model, usage: if asked { UsageAsked::Yes } else { UsageAsked::No } };
        let streams = match target.form {
            Form::AsAsked => request.get("stream") == Some(&Value::Bool(true)),
            Form::Stream => true,
            Form::Whole => false,
        };
        let mut answer = if streams { self.streamed(reply, &envelope) } else { self.whole(reply, &envelope) };
        answer.headers.push(("request-id".to_owned(), format!("req_script_{:04}", position + 1)));
        (Taken::Accepted, answer)
    }

    /// The provider's error body.
    pub(super) fn error(&self, status: u16, kind: &str, message: &str) -> Answer {
        let body = stream::error_body(self.dialect, status, kind, message);
        Answer::body(status, "application/json", body.to_string())
    }

    fn whole(&self, reply: &ScriptedReply, envelope: &Envelope<'_>) -> Answer {
        let body = || stream::message(self.dialect, reply, envelope).to_string();
        let mut answer = match &reply.fault {
            None | Some(Fault::Empty) => Answer::body(200, "application/json", body()),
            Some(Fault::Status { status, headers, body }) => self.status_fault(*status, headers, body.as_deref()),
            Some(Fault::Error { kind, message, .. }) => self.error(status_of(kind), kind, message),
            Some(Fault::NonSse { body }) => Answer::body(200, "text/html; charset=utf-8", body.clone()),
            Some(Fault::Hang { .. }) => Answer::silence(),
            Some(Fault::Cut(cut)) => {
                let mut answer = Answer::body(200, "application/json", body());
                let bytes = match cut {
                    Cut::AfterBytes(bytes) => *bytes,
                    // A whole message has no events; half of it is as good a place as any.
                    Cut::AfterEvents(_) => body().len() / 2,
                };
                close_after(&mut answer.acts, bytes);
                answer
            }
        };
        answer.delay_ms = reply.pace.delay_ms;
        answer
    }

    fn streamed(&self, reply: &ScriptedReply, envelope: &Envelope<'_>) -> Answer {
        let mut events = stream::stream(self.dialect, reply, envelope);
        let ending = match &reply.fault {
            Some(Fault::Status { status, headers, body }) => {
                let answer = self.status_fault(*status, headers, body.as_deref());
                return Answer { delay_ms: reply.pace.delay_ms, ..answer };
            }
            Some(Fault::NonSse { body }) => {
                let answer = Answer::body(200, "text/html; charset=utf-8", body.clone());
                return Answer { delay_ms: reply.pace.delay_ms, ..answer };
            }
            Some(Fault::Hang { after_events: None }) => return Answer::silence(),
            Some(Fault::Hang { after_events: Some(count) }) => {
                events.truncate(*count);
                Some(Act::Hang)
            }
            Some(Fault::Cut(Cut::AfterEvents(count))) => {
                events.truncate(*count);
                Some(Act::Close)
            }
            Some(Fault::Error { kind, message, after_events }) => {
                events.truncate(*after_events);
                events.push(stream::error_event(self.dialect, kind, message));
                None
            }
            Some(Fault::Empty | Fault::Cut(Cut::AfterBytes(_))) | None => None,
        };
        let mut acts = chunks(&events, reply);
        if let Some(Fault::Cut(Cut::AfterBytes(bytes))) = &reply.fault {
            close_after(&mut acts, *bytes);
        }
        // A hang right at the start still answers with a head; only silence does not.
        acts.push_front(Act::Wait(reply.pace.delay_ms));
        acts.extend(ending);
        Answer { acts, ..Answer::body(200, "text/event-stream; charset=utf-8", String::new()) }
    }

    fn status_fault(&self, status: u16, headers: &[(String, String)], body: Option<&str>) -> Answer {
        let known = ERRORS.iter().find(|(known, ..)| *known == status);
        let (kind, message) = known.map_or(("api_error", "Internal server error"), |(_, kind, words)| (*kind, *words));
        let kind = police::error_kind(self.dialect, status, kind);
        let mut answer = self.error(status, kind, message);
        if let Some(body) = body {
            answer.acts = VecDeque::from([Act::Send(Bytes::from(body.to_owned()))]);
        }
        for (name, value) in headers {
            answer.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            answer.headers.push((name.clone(), value.clone()));
        }
        answer
    }
}

impl Answer {
    fn body(status: u16, content_type: &str, body: String) -> Self {
        Self {
            status,
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            delay_ms: 0,
            acts: VecDeque::from([Act::Send(Bytes::from(body))]),
        }
    }

    /// Whether the body is an event stream.
    pub(super) fn is_event_stream(&self) -> bool {
        let is_type = |(name, value): &&(String, String)| {
            name.eq_ignore_ascii_case("content-type") && value.starts_with("text/event-stream")
        };
        self.status == 200 && self.headers.iter().any(|header| is_type(&header))
    }

    /// Whether not even the head of the response is ever sent.
    pub(super) fn is_silent(&self) -> bool {
        self.acts.front() == Some(&Act::Hang)
    }

    fn silence() -> Self {
        Self { acts: VecDeque::from([Act::Hang]), ..Self::body(200, "text/event-stream", String::new()) }
    }
}

fn chunks(events: &[Event], reply: &ScriptedReply) -> VecDeque<Act> {
    let (mut acts, mut pending) = (VecDeque::new(), Vec::new());
    let flush = |acts: &mut VecDeque<Act>, pending: &mut Vec<u8>| {
        if !pending.is_empty() {
            acts.push_back(Act::Send(Bytes::from(std::mem::take(pending))));
        }
    };
    for event in events {
        if event.is_delta() && reply.pace.delta_delay_ms > 0 {
            flush(&mut acts, &mut pending);
            acts.push_back(Act::Wait(reply.pace.delta_delay_ms));
        }
        pending.extend(event.to_bytes());
        let Some(size) = reply.split.chunk else {
            flush(&mut acts, &mut pending);
            continue;
        };
        while pending.len() >= size {
            let rest = pending.split_off(size);
            acts.push_back(Act::Send(Bytes::from(std::mem::replace(&mut pending, rest))));
        }
    }
    flush(&mut acts, &mut pending);
    acts
}

/// Lets only the first bytes through and then closes the connection.
fn close_after(acts: &mut VecDeque<Act>, mut bytes: usize) {
    let mut kept = VecDeque::new();
    for act in acts.drain(..) {
        if let Act::Send(mut chunk) = act {
            chunk.truncate(bytes);
            bytes -= chunk.len();
            if chunk.is_empty() {
                break;
            }
            kept.push_back(Act::Send(chunk));
        } else {
            kept.push_back(act);
        }
    }
    kept.push_back(Act::Close);
    *acts = kept;
}

/// The API's error types, <https://docs.claude.com/en/api/errors>.
const ERRORS: [(u16, &str, &str); 10] = [
    (400, "invalid_request_error", "The request was refused."),
    (401, "authentication_error", "invalid x-api-key"),
    (402, "billing_error", "Your credit balance is too low."),
    (403, "permission_error", "Your API key does not have permission to use the specified resource."),
    (404, "not_found_error", "Not found"),
    (413, "request_too_large", "Request exceeds the maximum size"),
    (429, "rate_limit_error", "This request would exceed your organization's rate limit."),
    (500, "api_error", "Internal server error"),
    (504, "timeout_error", "The request timed out."),
    (529, "overloaded_error", "Overloaded"),
];

fn status_of(kind: &str) -> u16 {
    ERRORS.iter().find(|(_, known, _)| *known == kind).map_or(500, |(status, ..)| *status)
}
