//! Writes requests: each message once, in bytes that every later request repeats.

use std::sync::Arc;

use hames_protocol::{
    Arguments, Block, Dialect, Encoded, Head, Message, ModelInfo, Part, PartKind, RawCall, Reply, Request, Status,
    ToolSpec, WireResult,
};
use serde_json::{Map, Value, json};

use super::{generation, schema};
use crate::content::{
    CallIds, EMPTY, IMAGES_OF_RESULTS, NO_CONTENT, NO_OUTPUT, arguments_text, images, is_blank, result_text, valid_name,
};
use crate::effort::Effort;
use crate::raw_json::Object;

/// Ids are free here; the length is that of other providers.
const CALL_IDS: CallIds = CallIds::Visible(64);

/// Stands for the signature of a call that another model made: the documented value that is not checked,
/// <https://ai.google.dev/gemini-api/docs/thought-signatures#faqs>.
const SKIP_SIGNATURE: &str = "skip_thought_signature_validator";

/// Writes everything that precedes the contents.
pub(super) fn encode_head(info: &ModelInfo, effort: Option<Effort>, head: &Head) -> Arc<str> {
    let mut config = json!({"maxOutputTokens": info.output_tokens});
    if let Some(thinking) = generation::thinking(&info.name, effort) {
        config["thinkingConfig"] = thinking;
    }
    let mut text = format!(r#""generationConfig":{config}"#);
    if !head.tools.is_empty() {
        let tools = head.tools.iter().map(tool).collect::<Vec<_>>();
        text.push_str(&format!(r#","tools":[{{"functionDeclarations":{}}}]"#, Value::Array(tools)));
    }
    if !is_blank(&head.system) {
        text.push_str(&format!(r#","systemInstruction":{}"#, json!({"parts": [{"text": head.system}]})));
    }
    text.into()
}

fn tool(spec: &ToolSpec) -> Value {
    let mut declaration = json!({"name": spec.name, "description": spec.description});
    // The API's own words of an object without properties: "should be non-empty for OBJECT type".
    if let Some(parameters) = schema::parameters(&spec.schema) {
        declaration["parameters"] = parameters;
    }
    declaration
}

/// Writes one message for `model`.
pub(super) fn encode(model: &str, message: &Message) -> Encoded {
    let body = match message {
        Message::User(blocks) => user_content(blocks.iter().filter_map(part).collect()),
        Message::Results(results) => result_contents(results),
        Message::Assistant { reply, wire_ids } => {
            format!(r#"{{"role":"model","parts":[{}]}}"#, model_parts(model, reply, wire_ids).join(","))
        }
    };
    // The cache of this format is found without markers.
    Encoded { body: body.into(), marker_at: None }
}

fn user_content(mut parts: Vec<Value>) -> String {
    if parts.is_empty() {
        parts.push(json!({"text": EMPTY}));
    }
    json!({"role": "user", "parts": parts}).to_string()
}

fn part(block: &Block) -> Option<Value> {
    match block {
        Block::Text(text) => (!is_blank(text)).then(|| json!({"text": text})),
        Block::Image { media_type, data } => Some(json!({"inlineData": {"mimeType": media_type, "data": data}})),
    }
}

/// All results in one content: their number must be that of the calls. Images follow in a content of their own.
fn result_contents(results: &[WireResult]) -> String {
    let response = |result: &WireResult| {
        let text = result_text(&WireResult { status: Status::Ok, ..result.clone() });
        let key = if result.status == Status::Ok { "output" } else { "error" };
        let response = json!({key: if is_blank(&text) { NO_OUTPUT } else { &text }});
        let (id, name) = (CALL_IDS.fit(&result.wire_id), valid_name(&result.name));
        json!({"functionResponse": {"id": id, "name": name, "response": response}})
    };
    let mut contents = user_content(results.iter().map(response).collect());
    let images = images(results);
    if !images.is_empty() {
        let label = json!({"text": IMAGES_OF_RESULTS});
        contents.push(',');
        contents.push_str(&user_content(std::iter::once(label).chain(images.into_iter().filter_map(part)).collect()));
    }
    contents
}

/// The parts of an echoed reply, each as JSON text.
fn model_parts(model: &str, reply: &Reply, wire_ids: &[String]) -> Vec<String> {
    let own = reply.dialect == Dialect::Gemini && reply.model == model;
    let mut wire_ids = wire_ids.iter();
    let mut parts = Vec::new();
    let mut calls = Vec::new();
    for part in &reply.parts {
        let native = || part.native.as_str().to_owned();
        match &part.kind {
            PartKind::Text(_) if own => parts.push(native()),
            PartKind::Text(text) if !is_blank(text) => parts.push(json!({"text": text}).to_string()),
            PartKind::Reasoning { signed: true, .. } | PartKind::Other if own => parts.push(native()),
            PartKind::ToolCall(call) => {
                let id = wire_ids.next().or(call.provider_id.as_ref()).map_or("", String::as_str);
                calls.push(parts.len());
                parts.push(function_call(own.then_some(part), call, &CALL_IDS.fit(id)));
            }
            _ => {}
        }
    }
    if let Some(first) = calls.first().filter(|_| generation::demands_signatures(model)) {
        sign(&mut parts[*first]);
    }
    if parts.is_empty() {
        parts.push(json!({"text": NO_CONTENT}).to_string());
    }
    parts
}

/// Gives the first of a turn's calls the value that stands for a signature, where it has none.
fn sign(part: &mut String) {
    let Ok(mut fields) = Object::parse(part) else { return };
    if fields.get("thoughtSignature").is_none() && fields.get("thought_signature").is_none() {
        fields.set("thoughtSignature", json!(SKIP_SIGNATURE).to_string());
        *part = fields.to_string();
    }
}

/// A call as received, but for an id that would repeat, a name that no tool has, and arguments that are no object.
fn function_call(received: Option<&Part>, call: &RawCall, id: &str) -> String {
    let name = valid_name(&call.name);
    let received = received.and_then(|part| Object::parse(part.native.as_str()).ok());
    let inner = received.as_ref().and_then(|fields| Object::parse(fields.get("functionCall")?).ok());
    let (Some(mut fields), Some(mut inner)) = (received, inner) else {
        let (id, name, args) = (json!(id), json!(name), arguments_text(call));
        return format!(r#"{{"functionCall":{{"id":{id},"name":{name},"args":{args}}}}}"#);
    };
    let mut changed = false;
    // A call that came without an id goes back without one.
    if call.provider_id.as_deref().is_some_and(|received| received != id) {
        inner.set("id", json!(id).to_string());
        changed = true;
    }
    if name != call.name {
        inner.set("name", json!(name).to_string());
        changed = true;
    }
    if matches!(call.arguments, Arguments::Broken { .. }) {
        inner.set("args", Value::Object(Map::new()).to_string());
        changed = true;
    }
    if changed {
        fields.set("functionCall", inner.to_string());
    }
    fields.to_string()
}

/// Joins head and contents to the request body.
pub(super) fn join(request: &Request) -> String {
    let contents = request.messages.iter().map(|message| message.body.as_ref()).collect::<Vec<_>>().join(",");
    format!(r#"{{{},"contents":[{contents}]}}"#, request.head)
}
