//! A scripted reply as Gemini sends it: chunks, or one response.
//!
//! Source: <https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse>. The signature of a reply's
//! reasoning stands on its first call, else on its last text, as the provider places it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hames_protocol::Usage;
use serde_json::{Value, json};

use super::{Content, Envelope, Event, content, object, pieces};
use crate::script::reply::{ScriptedPart, ScriptedReply};

pub(super) fn stream(reply: &ScriptedReply, envelope: &Envelope<'_>) -> Vec<Event> {
    let usage = reply.usage(envelope.position);
    let mut events = Vec::new();
    for part in parts(reply, envelope) {
        let Some(text) = part["text"].as_str() else {
            events.push(Event::chunk(&response(envelope, vec![part], None, None), Content::Piece));
            continue;
        };
        let texts: Vec<&str> = pieces(text).collect();
        for (place, text) in texts.iter().enumerate() {
            let mut piece = json!({"text": text});
            let last = place + 1 == texts.len();
            for name in ["thought", "thoughtSignature"] {
                if let Some(value) = part.get(name).filter(|_| last || name == "thought") {
                    piece[name] = value.clone();
                }
            }
            events.push(Event::chunk(&response(envelope, vec![piece], None, None), Content::Piece));
        }
    }
    let last = response(envelope, vec![json!({"text": ""})], Some(finish_reason(&reply.stop)), usage.as_ref());
    events.push(Event::chunk(&last, Content::None));
    events
}

pub(super) fn message(reply: &ScriptedReply, envelope: &Envelope<'_>) -> Value {
    let usage = reply.usage(envelope.position);
    response(envelope, parts(reply, envelope), Some(finish_reason(&reply.stop)), usage.as_ref())
}

/// The parts of the reply with its signature in its place.
fn parts(reply: &ScriptedReply, envelope: &Envelope<'_>) -> Vec<Value> {
    let mut signature = None;
    let mut parts = Vec::new();
    for (index, part) in content(reply).iter().enumerate() {
        match part {
            ScriptedPart::Text(text) => parts.push(json!({"text": text})),
            ScriptedPart::Reasoning { text, signature: given } => {
                signature = Some(given.clone()).filter(|given| !given.is_empty()).or(signature);
                parts.push(json!({"text": text, "thought": true}));
            }
            ScriptedPart::Redacted { data } => signature = Some(data.clone()),
            ScriptedPart::Call { tool, id, arguments } => {
                let id = id.clone().unwrap_or_else(|| envelope.id("call", index));
                parts.push(json!({"functionCall": {"id": id, "name": tool, "args": object(arguments)}}));
            }
        }
    }
    let first_call = parts.iter().position(|part| part.get("functionCall").is_some());
    let last_text = parts.iter().rposition(|part| part.get("text").is_some() && part.get("thought").is_none());
    // A call is always signed, whether the thoughts behind it were shown or not.
    let signature = signature.or_else(|| first_call.map(|_| envelope.id("sig", 0)));
    if let (Some(place), Some(signature)) = (first_call.or(last_text), signature) {
        // The field holds bytes, which JSON carries in base64.
        parts[place]["thoughtSignature"] = json!(STANDARD.encode(signature));
    }
    parts
}

fn response(envelope: &Envelope<'_>, parts: Vec<Value>, finish: Option<&str>, usage: Option<&Usage>) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if let Some(finish) = finish {
        candidate["finishReason"] = json!(finish);
    }
    let mut response = json!({
        "candidates": [candidate],
        "modelVersion": envelope.model,
        "responseId": envelope.message_id("resp"),
    });
    if let Some(usage) = usage {
        let prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
        response["usageMetadata"] = json!({
            "promptTokenCount": prompt,
            "cachedContentTokenCount": usage.cache_read_tokens,
            "candidatesTokenCount": usage.output_tokens,
            "totalTokenCount": prompt + usage.output_tokens,
        });
    }
    response
}

/// The word for a stop that the script names in Anthropic's words; any other stands as it is.
fn finish_reason(stop: &str) -> &str {
    match stop {
        "end_turn" | "tool_use" | "stop_sequence" | "pause_turn" => "STOP",
        "max_tokens" => "MAX_TOKENS",
        "refusal" => "SAFETY",
        other => other,
    }
}
