//! Writes requests: each message once, in bytes that every later request repeats.

use std::sync::Arc;

use hames_protocol::{
    Arguments, Block, Dialect, Encoded, Head, Message, ModelInfo, Part, PartKind, RawCall, Reply, Request, ToolSpec,
    WireResult,
};
use serde_json::{Map, Value, json};

use super::manners::{AfterResults, AskUsage, CacheKey, Echo, Manners};
use crate::content::{
    EMPTY, IMAGES_OF_RESULTS, NO_CONTENT, arguments_text, images, is_blank, openai_schema, result_text, valid_name,
};
use crate::effort::Effort;
use crate::raw_json::Object;

/// Stands between results and a user's message where only the assistant may speak after results.
const BETWEEN: &str = r#"{"role":"assistant","content":"(noted)"}"#;

/// Writes everything that precedes the messages, the instructions being the first of them.
pub(super) fn encode_head(manners: &Manners, info: &ModelInfo, effort: Option<Effort>, head: &Head) -> Arc<str> {
    let mut text =
        format!(r#""model":{},"{}":{},"stream":true"#, json!(info.name), manners.output_limit, info.output_tokens);
    if manners.usage == AskUsage::Option {
        text.push_str(r#","stream_options":{"include_usage":true}"#);
    }
    if let Some(effort) = effort {
        text.push_str(&format!(r#","reasoning_effort":"{}""#, effort.as_str()));
    }
    if !head.tools.is_empty() {
        let tools = head.tools.iter().map(tool).collect::<Vec<_>>();
        text.push_str(&format!(r#","tools":{}"#, Value::Array(tools)));
    }
    text.push_str(r#","messages":["#);
    if !is_blank(&head.system) {
        text.push_str(&json!({"role": manners.instructions, "content": head.system}).to_string());
    }
    text.into()
}

fn tool(spec: &ToolSpec) -> Value {
    let function =
        json!({"name": spec.name, "description": spec.description, "parameters": openai_schema(&spec.schema)});
    json!({"type": "function", "function": function})
}

/// Writes one message for `model`; results with images become several, with commas between them.
pub(super) fn encode(manners: &Manners, model: &str, message: &Message) -> Encoded {
    let body = match message {
        Message::User(blocks) => user_message(blocks),
        Message::Results(results) => results_messages(manners, results),
        Message::Assistant { reply, wire_ids } => assistant_message(manners, model, reply, wire_ids),
    };
    // The cache of this format is found without markers.
    Encoded { body: body.into(), marker_at: None }
}

fn user_message(blocks: &[Block]) -> String {
    let content = if blocks.iter().any(|block| matches!(block, Block::Image { .. })) {
        Value::Array(blocks.iter().filter_map(part).collect())
    } else {
        // Plain text: some servers' templates know nothing else.
        let texts = blocks.iter().filter_map(Block::as_text).filter(|text| !is_blank(text));
        let text = texts.collect::<Vec<_>>().join("\n\n");
        Value::String(if text.is_empty() { EMPTY.to_owned() } else { text })
    };
    json!({"role": "user", "content": content}).to_string()
}

fn part(block: &Block) -> Option<Value> {
    match block {
        Block::Text(text) => (!is_blank(text)).then(|| json!({"type": "text", "text": text})),
        Block::Image { media_type, data } => {
            let url = format!("data:{media_type};base64,{data}");
            Some(json!({"type": "image_url", "image_url": {"url": url}}))
        }
    }
}

fn results_messages(manners: &Manners, results: &[WireResult]) -> String {
    let mut messages: Vec<String> = results
        .iter()
        .map(|result| {
            let id = manners.call_ids.fit(&result.wire_id);
            json!({"role": "tool", "tool_call_id": id, "content": result_text(result)}).to_string()
        })
        .collect();
    let images = images(results);
    if !images.is_empty() {
        if manners.after_results == AfterResults::AssistantFirst {
            messages.push(BETWEEN.to_owned());
        }
        let label = json!({"type": "text", "text": IMAGES_OF_RESULTS});
        let content: Vec<Value> = std::iter::once(label).chain(images.into_iter().filter_map(part)).collect();
        messages.push(json!({"role": "user", "content": content}).to_string());
    }
    messages.join(",")
}

fn assistant_message(manners: &Manners, model: &str, reply: &Reply, wire_ids: &[String]) -> String {
    let own = reply.dialect == Dialect::OpenAiChat && reply.model == model;
    let mut wire_ids = wire_ids.iter();
    let (mut texts, mut calls, mut reasoning) = (Vec::new(), Vec::new(), Map::new());
    for part in &reply.parts {
        match &part.kind {
            PartKind::Text(text) if !is_blank(text) => texts.push(text.as_str()),
            PartKind::ToolCall(call) => {
                let id = wire_ids.next().map_or("", String::as_str);
                calls.push(tool_call(&manners.call_ids.fit(id), own.then_some(part), call));
            }
            PartKind::Reasoning { .. } if own && manners.reasoning != Echo::Nothing => {
                if let Ok(Value::Object(fields)) = serde_json::from_str(part.native.as_str()) {
                    reasoning.extend(fields);
                }
            }
            _ => {}
        }
    }
    if manners.reasoning == Echo::Always {
        reasoning.entry("reasoning_content").or_insert_with(|| json!(""));
    }
    let content = match (texts.is_empty(), calls.is_empty()) {
        (true, true) => json!(NO_CONTENT),
        (true, false) => Value::Null,
        (false, _) => json!(texts.join("\n\n")),
    };
    let mut text = format!(r#"{{"role":"assistant","content":{content}"#);
    for (name, value) in &reasoning {
        text.push_str(&format!(",{}:{value}", json!(name)));
    }
    if !calls.is_empty() {
        text.push_str(&format!(r#","tool_calls":[{}]"#, calls.join(",")));
    }
    text.push('}');
    text
}

/// A call: as received where this model wrote it, with what servers add to it (signatures, for one).
fn tool_call(id: &str, own: Option<&Part>, call: &RawCall) -> String {
    let name = json!(valid_name(&call.name)).to_string();
    let received = own.and_then(|part| Object::parse(part.native.as_str()).ok());
    let function = received.as_ref().and_then(|fields| Object::parse(fields.get("function")?).ok());
    let (Some(mut fields), Some(mut function)) = (received, function) else {
        let arguments = json!(arguments_text(call));
        return format!(
            r#"{{"id":{},"type":"function","function":{{"name":{name},"arguments":{arguments}}}}}"#,
            json!(id)
        );
    };
    function.set("name", name);
    if matches!(call.arguments, Arguments::Broken { .. }) {
        function.set("arguments", json!("{}").to_string());
    }
    fields.set("id", json!(id).to_string());
    fields.set("function", function.to_string());
    fields.to_string()
}

/// Joins head and messages to the request body.
pub(super) fn join(manners: &Manners, request: &Request) -> String {
    let size: usize = request.messages.iter().map(|message| message.body.len() + BETWEEN.len() + 2).sum();
    let mut body = String::with_capacity(request.head.len() + size + 128);
    body.push('{');
    body.push_str(&request.head);
    let mut before = "";
    for message in &request.messages {
        if !body.ends_with('[') {
            body.push(',');
        }
        let follows_results = before.starts_with(r#"{"role":"tool""#) && !before.contains(r#"},{"role":"user""#);
        if follows_results
            && manners.after_results == AfterResults::AssistantFirst
            && message.body.starts_with(r#"{"role":"user""#)
        {
            body.push_str(BETWEEN);
            body.push(',');
        }
        body.push_str(&message.body);
        before = &message.body;
    }
    body.push(']');
    if manners.cache_key == CacheKey::Session {
        body.push_str(&format!(r#","prompt_cache_key":{}"#, json!(request.session.as_str())));
    }
    body.push('}');
    body
}
