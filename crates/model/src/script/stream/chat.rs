//! A scripted reply as chat completions: chunks, or one completion.
//!
//! Source: <https://platform.openai.com/docs/api-reference/chat-streaming>; reasoning comes in `reasoning_content`, as
//! compatible servers send it. Hidden reasoning has no form here and is left out.

use hames_protocol::Usage;
use serde_json::{Value, json};

use super::{Content, Envelope, Event, UsageAsked, content, in_turn, pieces};
use crate::script::reply::{ScriptedPart, ScriptedReply};

pub(super) fn stream(reply: &ScriptedReply, envelope: &Envelope<'_>) -> Vec<Event> {
    let chunk = |delta: Value, finish: Value| {
        let choices = json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]);
        fields(envelope, "chat.completion.chunk", choices)
    };
    let piece = |delta: Value| Event::chunk(&chunk(delta, Value::Null), Content::Piece);
    let mut events =
        vec![Event::chunk(&chunk(json!({"role": "assistant", "content": ""}), Value::Null), Content::None)];
    let (mut rows, mut calls) = (Vec::new(), 0);
    for (place, part) in content(reply).iter().enumerate() {
        let row: Vec<Event> = match part {
            ScriptedPart::Text(text) => pieces(text).map(|text| piece(json!({"content": text}))).collect(),
            ScriptedPart::Reasoning { text, .. } => {
                pieces(text).map(|text| piece(json!({"reasoning_content": text}))).collect()
            }
            ScriptedPart::Redacted { .. } => Vec::new(),
            ScriptedPart::Call { tool, arguments, .. } => {
                let index = calls;
                calls += 1;
                let start = json!([{"index": index, "id": call_id(part, envelope, place), "type": "function",
                    "function": {"name": tool, "arguments": ""}}]);
                let text = arguments.text();
                let rest = pieces(&text).map(|text| json!([{"index": index, "function": {"arguments": text}}]));
                std::iter::once(start).chain(rest).map(|calls| piece(json!({"tool_calls": calls}))).collect()
            }
        };
        rows.push(row);
    }
    if reply.split.interleave {
        in_turn(rows, &mut events);
    } else {
        events.extend(rows.into_iter().flatten());
    }
    events.push(Event::chunk(&chunk(json!({}), json!(finish_reason(&reply.stop))), Content::None));
    if let (UsageAsked::Yes, Some(usage)) = (envelope.usage, reply.usage(envelope.position)) {
        let mut chunk = fields(envelope, "chat.completion.chunk", json!([]));
        chunk["usage"] = usage_fields(&usage);
        events.push(Event::chunk(&chunk, Content::None));
    }
    events.push(Event { name: None, data: "[DONE]".to_owned(), content: Content::None });
    events
}

pub(super) fn message(reply: &ScriptedReply, envelope: &Envelope<'_>) -> Value {
    let mut message = json!({"role": "assistant", "content": null, "refusal": null});
    let (mut texts, mut reasoning, mut calls) = (String::new(), String::new(), Vec::new());
    for (place, part) in content(reply).iter().enumerate() {
        match part {
            ScriptedPart::Text(text) => texts.push_str(text),
            ScriptedPart::Reasoning { text, .. } => reasoning.push_str(text),
            ScriptedPart::Redacted { .. } => {}
            ScriptedPart::Call { tool, arguments, .. } => calls.push(json!({
                "id": call_id(part, envelope, place),
                "type": "function",
                "function": {"name": tool, "arguments": arguments.text()},
            })),
        }
    }
    if !texts.is_empty() {
        message["content"] = json!(texts);
    }
    if !reasoning.is_empty() {
        message["reasoning_content"] = json!(reasoning);
    }
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    let finish = finish_reason(&reply.stop);
    let choices = json!([{"index": 0, "message": message, "logprobs": null, "finish_reason": finish}]);
    let mut completion = fields(envelope, "chat.completion", choices);
    if let Some(usage) = reply.usage(envelope.position) {
        completion["usage"] = usage_fields(&usage);
    }
    completion
}

fn fields(envelope: &Envelope<'_>, object: &str, choices: Value) -> Value {
    let id = envelope.message_id("chatcmpl");
    json!({"id": id, "object": object, "created": 1_700_000_000, "model": envelope.model, "choices": choices})
}

fn call_id(part: &ScriptedPart, envelope: &Envelope<'_>, place: usize) -> String {
    match part {
        ScriptedPart::Call { id: Some(id), .. } => id.clone(),
        _ => envelope.id("call", place),
    }
}

fn usage_fields(usage: &Usage) -> Value {
    let prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": usage.output_tokens,
        "total_tokens": prompt + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens},
    })
}

/// The word for a stop that the script names in Anthropic's words; any other stands as it is.
fn finish_reason(stop: &str) -> &str {
    match stop {
        "end_turn" | "stop_sequence" | "pause_turn" => "stop",
        "tool_use" => "tool_calls",
        "max_tokens" => "length",
        "refusal" => "content_filter",
        "model_context_window_exceeded" => "model_length",
        other => other,
    }
}
