//! The keys of a reply, and what they mean together.

use hames_protocol::Usage;
use serde::de::IntoDeserializer;
use serde::de::value::StrDeserializer;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::checked::{FromText, checked};
use super::reply::{CallArguments, Cut, Fault, Pace, ScriptedPart, ScriptedReply, Split};

checked!(ScriptedReply, ReplyKeys);
checked!(PartKeys, PartChoices);
checked!(CallKeys, CallFields);
checked!(ReasoningKeys, ReasoningFields);
checked!(Stop, StopFields);
checked!(Fault, FaultKeys);
checked!(Hang, HangFields);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplyKeys {
    reasoning: Option<ReasoningKeys>,
    redacted: Option<String>,
    text: Option<String>,
    calls: Option<Vec<CallKeys>>,
    parts: Option<Vec<PartKeys>>,
    stop: Option<Stop>,
    #[serde(default, deserialize_with = "present")]
    usage: Option<Option<UsageKeys>>,
    #[serde(default)]
    delay_ms: u64,
    #[serde(default)]
    delta_delay_ms: u64,
    chunk: Option<usize>,
    #[serde(default)]
    interleave: bool,
    fault: Option<Fault>,
}

/// Tells a key that is there with no value from one that is not there.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UsageKeys {
    #[serde(default)]
    input: u64,
    #[serde(default)]
    output: u64,
    #[serde(default)]
    cache_read: u64,
    #[serde(default)]
    cache_write: u64,
}

impl FromText for ScriptedReply {
    fn from_text(text: &str) -> Result<Self, String> {
        Err(format!("a reply is a mapping; write `- text: {text}` for a reply of text"))
    }
}

impl TryFrom<ReplyKeys> for ScriptedReply {
    type Error = String;

    fn try_from(keys: ReplyKeys) -> Result<Self, String> {
        let mut parts = Vec::new();
        parts.extend(keys.reasoning.map(|ReasoningKeys(part)| part));
        parts.extend(keys.redacted.map(|data| ScriptedPart::Redacted { data }));
        parts.extend(keys.text.map(ScriptedPart::Text));
        parts.extend(keys.calls.into_iter().flatten().map(|CallKeys(part)| part));
        match keys.parts {
            Some(_) if !parts.is_empty() => {
                return Err("`parts` holds the whole content in order; move `reasoning`, `redacted`, `text` and \
                            `calls` into it"
                    .to_owned());
            }
            Some(listed) => parts = listed.into_iter().map(|PartKeys(part)| part).collect(),
            None => {}
        }
        match &keys.fault {
            Some(fault) if fault.replaces_content() && !parts.is_empty() => {
                return Err("this fault takes the place of the whole reply; remove the reply's content or the \
                            fault"
                    .to_owned());
            }
            None if parts.is_empty() => {
                return Err("a reply needs content: `text`, `reasoning`, `redacted`, `calls` or `parts` (write \
                            `fault: empty` for a reply without any)"
                    .to_owned());
            }
            _ => {}
        }
        if keys.chunk == Some(0) {
            return Err("`chunk` is a number of bytes, at least 1".to_owned());
        }
        let calls = parts.iter().any(|part| matches!(part, ScriptedPart::Call { .. }));
        let stop = keys.stop.map(|Stop(stop)| stop);
        Ok(Self {
            parts,
            stop: stop.unwrap_or_else(|| if calls { "tool_use" } else { "end_turn" }.to_owned()),
            usage: keys.usage.map(|usage| {
                usage.map(|usage| Usage {
                    input_tokens: usage.input,
                    output_tokens: usage.output,
                    cache_read_tokens: usage.cache_read,
                    cache_write_tokens: usage.cache_write,
                    estimated: false,
                })
            }),
            pace: Pace { delay_ms: keys.delay_ms, delta_delay_ms: keys.delta_delay_ms },
            split: Split { chunk: keys.chunk, interleave: keys.interleave },
            fault: keys.fault,
        })
    }
}

struct PartKeys(ScriptedPart);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartChoices {
    text: Option<String>,
    reasoning: Option<ReasoningKeys>,
    redacted: Option<String>,
    call: Option<CallKeys>,
}

impl FromText for PartKeys {
    fn from_text(text: &str) -> Result<Self, String> {
        Err(format!("a part is a mapping; write `- text: {text}`"))
    }
}

impl TryFrom<PartChoices> for PartKeys {
    type Error = String;

    fn try_from(keys: PartChoices) -> Result<Self, String> {
        let mut parts = Vec::new();
        parts.extend(keys.text.map(ScriptedPart::Text));
        parts.extend(keys.reasoning.map(|ReasoningKeys(part)| part));
        parts.extend(keys.redacted.map(|data| ScriptedPart::Redacted { data }));
        parts.extend(keys.call.map(|CallKeys(part)| part));
        match (parts.pop(), parts.is_empty()) {
            (Some(part), true) => Ok(Self(part)),
            _ => Err("a part is exactly one of `text`, `reasoning`, `redacted` and `call`".to_owned()),
        }
    }
}

struct CallKeys(ScriptedPart);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallFields {
    tool: String,
    args: Option<Map<String, Value>>,
    raw_args: Option<String>,
    id: Option<String>,
}

impl FromText for CallKeys {
    fn from_text(text: &str) -> Result<Self, String> {
        Err(format!("a call is a mapping; write `{{tool: {text}, args: {{…}}}}`"))
    }
}

impl TryFrom<CallFields> for CallKeys {
    type Error = String;

    fn try_from(keys: CallFields) -> Result<Self, String> {
        let arguments = match (keys.args, keys.raw_args) {
            (Some(_), Some(_)) => return Err("a call has either `args` or `raw_args`, not both".to_owned()),
            (_, Some(text)) => CallArguments::Raw(text),
            (args, None) => CallArguments::Whole(args.unwrap_or_default()),
        };
        Ok(Self(ScriptedPart::Call { tool: keys.tool, id: keys.id, arguments }))
    }
}

struct ReasoningKeys(ScriptedPart);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReasoningFields {
    #[serde(default)]
    text: String,
    #[serde(default, deserialize_with = "present")]
    signature: Option<Option<String>>,
}

impl FromText for ReasoningKeys {
    fn from_text(text: &str) -> Result<Self, String> {
        Ok(Self(ScriptedPart::reasoning(text.to_owned(), None)))
    }
}

impl TryFrom<ReasoningFields> for ReasoningKeys {
    type Error = String;

    fn try_from(keys: ReasoningFields) -> Result<Self, String> {
        let signature = keys.signature.map(Option::unwrap_or_default);
        Ok(Self(ScriptedPart::reasoning(keys.text, signature)))
    }
}

/// A stop reason in the provider's words.
struct Stop(String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StopFields {
    other: String,
}

/// The stop reasons of the Messages API, <https://platform.claude.com/docs/en/api/handling-stop-reasons>.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum KnownStop {
    EndTurn,
    ToolUse,
    MaxTokens,
    StopSequence,
    PauseTurn,
    Refusal,
    ModelContextWindowExceeded,
}

impl FromText for Stop {
    fn from_text(text: &str) -> Result<Self, String> {
        named::<KnownStop>(text).map(|_| Self(text.to_owned()))
    }
}

impl TryFrom<StopFields> for Stop {
    type Error = String;

    fn try_from(keys: StopFields) -> Result<Self, String> {
        Ok(Self(keys.other))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultKeys {
    status: Option<u16>,
    #[serde(default)]
    headers: Map<String, Value>,
    body: Option<Value>,
    cut: Option<CutKeys>,
    error_event: Option<ErrorKeys>,
    empty: Option<Always>,
    hang: Option<Hang>,
    non_sse_body: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CutKeys {
    after_events: Option<usize>,
    after_bytes: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorKeys {
    #[serde(rename = "type")]
    kind: String,
    message: String,
    after_events: Option<usize>,
}

/// A key that can only be `true`.
struct Always;

impl<'de> Deserialize<'de> for Always {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match bool::deserialize(deserializer)? {
            true => Ok(Self),
            false => Err(serde::de::Error::custom("this key is either `true` or left out")),
        }
    }
}

struct Hang(Option<usize>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HangFields {
    after_events: usize,
}

impl FromText for Hang {
    fn from_text(_: &str) -> Result<Self, String> {
        Err("`hang` is `true` or `{after_events: N}`".to_owned())
    }

    fn from_bool(value: bool) -> Result<Self, String> {
        if value { Ok(Self(None)) } else { Self::from_text("") }
    }
}

impl TryFrom<HangFields> for Hang {
    type Error = String;

    fn try_from(keys: HangFields) -> Result<Self, String> {
        Ok(Self(Some(keys.after_events)))
    }
}

/// The faults that need nothing more than their name.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum PlainFault {
    Empty,
    Hang,
}

impl FromText for Fault {
    fn from_text(text: &str) -> Result<Self, String> {
        match named(text)? {
            PlainFault::Empty => Ok(Self::Empty),
            PlainFault::Hang => Ok(Self::Hang { after_events: None }),
        }
    }
}

impl TryFrom<FaultKeys> for Fault {
    type Error = String;

    fn try_from(keys: FaultKeys) -> Result<Self, String> {
        let decorated = !keys.headers.is_empty() || keys.body.is_some();
        let mut faults = Vec::new();
        if let Some(status) = keys.status {
            if !(400..=599).contains(&status) {
                return Err(format!("`status: {status}` is no error; give one from 400 to 599"));
            }
            let headers = keys.headers.into_iter().map(|(name, value)| (name, plain_text(&value))).collect();
            faults.push(Self::Status { status, headers, body: keys.body.map(|body| plain_text(&body)) });
        } else if decorated {
            return Err("`headers` and `body` belong to `status`".to_owned());
        }
        if let Some(cut) = keys.cut {
            faults.push(Self::Cut(match (cut.after_events, cut.after_bytes) {
                (Some(events), None) => Cut::AfterEvents(events),
                (None, Some(bytes)) => Cut::AfterBytes(bytes),
                _ => return Err("`cut` has exactly one of `after_events` and `after_bytes`".to_owned()),
            }));
        }
        faults.extend(keys.error_event.map(|error| Self::Error {
            kind: error.kind,
            message: error.message,
            // The first event names the message; an error before it is rare.
            after_events: error.after_events.unwrap_or(1),
        }));
        faults.extend(keys.empty.map(|Always| Self::Empty));
        faults.extend(keys.hang.map(|Hang(after_events)| Self::Hang { after_events }));
        faults.extend(keys.non_sse_body.map(|body| Self::NonSse { body }));
        match (faults.pop(), faults.is_empty()) {
            (Some(fault), true) => Ok(fault),
            _ => Err("a fault is exactly one of `status`, `cut`, `error_event`, `empty`, `hang` and `non_sse_body`"
                .to_owned()),
        }
    }
}

/// A value as it stands in a header or a body: text as it is, anything else as JSON.
fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Finds the variant of that name; the error lists the valid ones.
fn named<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    let text: StrDeserializer<'a, serde::de::value::Error> = text.into_deserializer();
    T::deserialize(text).map_err(|error| error.to_string())
}
