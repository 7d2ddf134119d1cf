//! A scripted reply as the events of an Anthropic stream, or as one message.
//!
//! Source of the event order: <https://docs.claude.com/en/docs/build-with-claude/streaming>.

use hames_protocol::Usage;
use serde_json::{Map, Value, json};

use super::{Envelope, Event, content, in_turn, object, pieces};
use crate::script::reply::{ScriptedPart, ScriptedReply};

/// The whole stream of a reply, faults aside.
pub(super) fn stream(reply: &ScriptedReply, envelope: &Envelope<'_>) -> Vec<Event> {
    let usage = reply.usage(envelope.position);
    let mut message = message_fields(envelope, Vec::new(), Value::Null);
    if let Some(usage) = &usage {
        message.insert("usage".to_owned(), usage_fields(&Usage { output_tokens: 1, ..*usage }));
    }
    let mut events = vec![Event::named(json!({"type": "message_start", "message": message}), "message_start")];
    let blocks: Vec<BlockEvents> =
        content(reply).iter().enumerate().map(|(index, part)| block_events(envelope, index, part)).collect();
    if reply.split.interleave {
        interleave(blocks, &mut events);
    } else {
        for block in blocks {
            events.push(block.start);
            events.extend(block.deltas);
            events.push(block.stop);
        }
    }
    let ping = Event::named(json!({"type": "ping"}), "ping");
    events.insert(events.len().min(2), ping);
    let mut end = json!({"type": "message_delta", "delta": {"stop_reason": reply.stop, "stop_sequence": null}});
    if let Some(usage) = &usage {
        end["usage"] = usage_fields(usage);
    }
    events.push(Event::named(end, "message_delta"));
    events.push(Event::named(json!({"type": "message_stop"}), "message_stop"));
    events
}

/// The reply as one JSON message, for a request that does not stream.
pub(super) fn message(reply: &ScriptedReply, envelope: &Envelope<'_>) -> Value {
    let blocks = content(reply).iter().enumerate().map(|(index, part)| whole_block(envelope, index, part)).collect();
    let mut message = message_fields(envelope, blocks, json!(reply.stop));
    if let Some(usage) = reply.usage(envelope.position) {
        message.insert("usage".to_owned(), usage_fields(&usage));
    }
    Value::Object(message)
}

fn message_fields(envelope: &Envelope<'_>, content: Vec<Value>, stop: Value) -> Map<String, Value> {
    let fields = [
        ("id", json!(envelope.message_id("msg"))),
        ("type", json!("message")),
        ("role", json!("assistant")),
        ("model", json!(envelope.model)),
        ("content", Value::Array(content)),
        ("stop_reason", stop),
        ("stop_sequence", Value::Null),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn usage_fields(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
    })
}

struct BlockEvents {
    start: Event,
    deltas: Vec<Event>,
    stop: Event,
}

fn block_events(envelope: &Envelope<'_>, index: usize, part: &ScriptedPart) -> BlockEvents {
    let delta = |delta: Value| {
        Event::named(json!({"type": "content_block_delta", "index": index, "delta": delta}), "content_block_delta")
    };
    let (start, deltas) = match part {
        ScriptedPart::Text(text) => {
            let deltas = pieces(text).map(|piece| delta(json!({"type": "text_delta", "text": piece})));
            (json!({"type": "text", "text": ""}), deltas.collect())
        }
        ScriptedPart::Reasoning { text, signature } => {
            let thinking = pieces(text).map(|piece| delta(json!({"type": "thinking_delta", "thinking": piece})));
            let signed =
                (!signature.is_empty()).then(|| delta(json!({"type": "signature_delta", "signature": signature})));
            (json!({"type": "thinking", "thinking": "", "signature": ""}), thinking.chain(signed).collect())
        }
        ScriptedPart::Redacted { .. } => (whole_block(envelope, index, part), Vec::new()),
        ScriptedPart::Call { tool, id, arguments } => {
            let id = id.clone().unwrap_or_else(|| envelope.id("toolu", index));
            let text = arguments.text();
            // The API begins every input with an empty piece.
            let json_pieces = std::iter::once("").chain(pieces(&text));
            let deltas = json_pieces.map(|piece| delta(json!({"type": "input_json_delta", "partial_json": piece})));
            (json!({"type": "tool_use", "id": id, "name": tool, "input": {}}), deltas.collect())
        }
    };
    BlockEvents {
        start: Event::named(
            json!({"type": "content_block_start", "index": index, "content_block": start}),
            "content_block_start",
        ),
        deltas,
        stop: Event::named(json!({"type": "content_block_stop", "index": index}), "content_block_stop"),
    }
}

fn whole_block(envelope: &Envelope<'_>, index: usize, part: &ScriptedPart) -> Value {
    match part {
        ScriptedPart::Text(text) => json!({"type": "text", "text": text}),
        ScriptedPart::Reasoning { text, signature } => {
            json!({"type": "thinking", "thinking": text, "signature": signature})
        }
        ScriptedPart::Redacted { data } => json!({"type": "redacted_thinking", "data": data}),
        ScriptedPart::Call { tool, id, arguments } => {
            let id = id.clone().unwrap_or_else(|| envelope.id("toolu", index));
            json!({"type": "tool_use", "id": id, "name": tool, "input": object(arguments)})
        }
    }
}

/// All blocks are open at once, and their deltas come in turn.
fn interleave(blocks: Vec<BlockEvents>, events: &mut Vec<Event>) {
    let (mut rows, mut stops) = (Vec::new(), Vec::new());
    for block in blocks {
        events.push(block.start);
        rows.push(block.deltas);
        stops.push(block.stop);
    }
    in_turn(rows, events);
    events.extend(stops);
}
