//! A scripted reply as the Responses API sends it: events, or one response.
//!
//! Source: <https://platform.openai.com/docs/api-reference/responses-streaming>. A signature, and hidden reasoning,
//! come as `encrypted_content`.

use hames_protocol::Usage;
use serde_json::{Value, json};

use super::{Envelope, Event, content, in_turn, pieces};
use crate::script::reply::{ScriptedPart, ScriptedReply};

pub(super) fn stream(reply: &ScriptedReply, envelope: &Envelope<'_>) -> Vec<Event> {
    let begun = response(envelope, "in_progress", Vec::new());
    let mut events = vec![
        Event::named(json!({"type": "response.created", "response": begun}), "response.created"),
        Event::named(json!({"type": "response.in_progress", "response": begun}), "response.in_progress"),
    ];
    let rows: Vec<Vec<Event>> =
        content(reply).iter().enumerate().map(|(index, part)| item_events(reply, envelope, index, part)).collect();
    if reply.split.interleave {
        in_turn(rows, &mut events);
    } else {
        events.extend(rows.into_iter().flatten());
    }
    let whole = message(reply, envelope);
    let name = if whole["status"] == "completed" { "response.completed" } else { "response.incomplete" };
    events.push(Event::named(json!({"type": name, "response": whole}), name));
    for (number, event) in events.iter_mut().enumerate() {
        // Every event of this dialect is an object that ends in a brace.
        event.data.pop();
        event.data.push_str(&format!(r#","sequence_number":{number}}}"#));
    }
    events
}

pub(super) fn message(reply: &ScriptedReply, envelope: &Envelope<'_>) -> Value {
    let items = content(reply).iter().enumerate();
    let items = items.map(|(index, part)| item(envelope, index, part, status_of(reply, index))).collect();
    let reason = match reply.stop.as_str() {
        "end_turn" | "tool_use" | "stop_sequence" | "pause_turn" => None,
        "max_tokens" => Some("max_output_tokens"),
        "refusal" => Some("content_filter"),
        other => Some(other),
    };
    let mut whole = response(envelope, if reason.is_some() { "incomplete" } else { "completed" }, items);
    if let Some(reason) = reason {
        whole["incomplete_details"] = json!({"reason": reason});
    }
    if let Some(usage) = reply.usage(envelope.position) {
        whole["usage"] = usage_fields(&usage);
    }
    whole
}

/// The last item of a reply that was cut is not whole.
fn status_of(reply: &ScriptedReply, index: usize) -> &'static str {
    let cut = reply.stop == "max_tokens" && index + 1 == content(reply).len();
    if cut { "incomplete" } else { "completed" }
}

fn response(envelope: &Envelope<'_>, status: &str, output: Vec<Value>) -> Value {
    json!({
        "id": envelope.message_id("resp"),
        "object": "response",
        "created_at": 1_700_000_000,
        "status": status,
        "error": null,
        "incomplete_details": null,
        "instructions": null,
        "metadata": {},
        "model": envelope.model,
        "output": output,
        "parallel_tool_calls": true,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "store": false,
        "usage": null,
    })
}

fn usage_fields(usage: &Usage) -> Value {
    let input = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
    json!({
        "input_tokens": input,
        "input_tokens_details": {"cached_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input + usage.output_tokens,
    })
}

/// An item as it is when it is whole.
fn item(envelope: &Envelope<'_>, index: usize, part: &ScriptedPart, status: &str) -> Value {
    match part {
        ScriptedPart::Text(text) => json!({
            "id": envelope.id("msg", index),
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
        }),
        ScriptedPart::Reasoning { text, signature } => {
            let encrypted = if signature.is_empty() { Value::Null } else { json!(signature) };
            let summary = json!([{"type": "summary_text", "text": text}]);
            json!({"id": envelope.id("rs", index), "type": "reasoning", "summary": summary, "encrypted_content": encrypted})
        }
        ScriptedPart::Redacted { data } => {
            json!({"id": envelope.id("rs", index), "type": "reasoning", "summary": [], "encrypted_content": data})
        }
        ScriptedPart::Call { tool, id, arguments } => json!({
            "id": envelope.id("fc", index),
            "type": "function_call",
            "call_id": id.clone().unwrap_or_else(|| envelope.id("call", index)),
            "name": tool,
            "arguments": arguments.text(),
            "status": status,
        }),
    }
}

fn item_events(reply: &ScriptedReply, envelope: &Envelope<'_>, index: usize, part: &ScriptedPart) -> Vec<Event> {
    let whole = item(envelope, index, part, status_of(reply, index));
    let id = whole["id"].clone();
    let about = |mut data: Value, name: &'static str| {
        data["type"] = json!(name);
        data["item_id"] = id.clone();
        data["output_index"] = json!(index);
        Event::named(data, name)
    };
    let mut begun = whole.clone();
    let mut inner = Vec::new();
    match part {
        ScriptedPart::Text(text) => {
            begun["content"] = json!([]);
            begun["status"] = json!("in_progress");
            let part = |text: &str| json!({"content_index": 0, "part": {"type": "output_text", "text": text, "annotations": [], "logprobs": []}});
            inner.push(about(part(""), "response.content_part.added"));
            inner.extend(pieces(text).map(|text| {
                about(json!({"content_index": 0, "delta": text, "logprobs": []}), "response.output_text.delta")
            }));
            inner.push(about(json!({"content_index": 0, "text": text, "logprobs": []}), "response.output_text.done"));
            inner.push(about(part(text), "response.content_part.done"));
        }
        ScriptedPart::Reasoning { text, .. } => {
            begun["summary"] = json!([]);
            begun["encrypted_content"] = Value::Null;
            let part = |text: &str| json!({"summary_index": 0, "part": {"type": "summary_text", "text": text}});
            inner.push(about(part(""), "response.reasoning_summary_part.added"));
            inner.extend(pieces(text).map(|text| {
                about(json!({"summary_index": 0, "delta": text}), "response.reasoning_summary_text.delta")
            }));
            inner.push(about(json!({"summary_index": 0, "text": text}), "response.reasoning_summary_text.done"));
            inner.push(about(part(text), "response.reasoning_summary_part.done"));
        }
        ScriptedPart::Redacted { .. } => begun["encrypted_content"] = Value::Null,
        ScriptedPart::Call { tool, arguments, .. } => {
            begun["arguments"] = json!("");
            begun["status"] = json!("in_progress");
            let text = arguments.text();
            inner.extend(
                pieces(&text).map(|text| about(json!({"delta": text}), "response.function_call_arguments.delta")),
            );
            let done = json!({"arguments": text, "name": tool});
            inner.push(about(done, "response.function_call_arguments.done"));
        }
    }
    let item = |item: &Value, name: &'static str| {
        Event::named(json!({"type": name, "output_index": index, "item": item}), name)
    };
    let mut events = vec![item(&begun, "response.output_item.added")];
    events.extend(inner);
    events.push(item(&whole, "response.output_item.done"));
    events
}
