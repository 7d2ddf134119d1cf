//! Writes requests: each message once, as one or several items, in bytes that every later request repeats.

use std::sync::Arc;

use hames_protocol::{
    Arguments, Block, Dialect, Encoded, Head, Message, ModelInfo, Part, PartKind, RawCall, Reply, Request, ToolSpec,
    WireResult,
};
use serde_json::{Value, json};

use crate::content::{
    CallIds, EMPTY, IMAGES_OF_RESULTS, NO_CONTENT, arguments_text, images, is_blank, openai_schema, result_text,
    valid_name,
};
use crate::effort::{self, Effort};
use crate::raw_json::Object;

/// The API's own words: "string too long. Expected a string with maximum length 64".
const CALL_IDS: CallIds = CallIds::Visible(64);

/// Writes everything that precedes the items.
pub(super) fn encode_head(info: &ModelInfo, effort: Option<Effort>, head: &Head) -> Arc<str> {
    let mut text = format!(
        r#""model":{},"max_output_tokens":{},"stream":true,"store":false"#,
        json!(info.name),
        info.output_tokens
    );
    // Without it the reasoning of a conversation that is not stored is lost; a model that does not reason refuses it.
    if effort::may_reason(&info.name) {
        text.push_str(r#","include":["reasoning.encrypted_content"]"#);
    }
    if let Some(effort) = effort {
        text.push_str(&format!(r#","reasoning":{{"effort":"{}"}}"#, effort.as_str()));
    }
    if !head.tools.is_empty() {
        let tools = head.tools.iter().map(tool).collect::<Vec<_>>();
        text.push_str(&format!(r#","tools":{}"#, Value::Array(tools)));
    }
    if !is_blank(&head.system) {
        text.push_str(&format!(r#","instructions":{}"#, json!(head.system)));
    }
    text.into()
}

/// Not strict: a strict schema must name every property as required, which would change what the tool takes.
fn tool(spec: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": openai_schema(&spec.schema),
        "strict": false,
    })
}

/// Writes one message for `model`.
pub(super) fn encode(model: &str, message: &Message) -> Encoded {
    let items = match message {
        Message::User(blocks) => vec![user_item(blocks.iter().filter_map(part).collect())],
        Message::Results(results) => result_items(results),
        Message::Assistant { reply, wire_ids } => assistant_items(model, reply, wire_ids),
    };
    // The cache of this format is found without markers.
    Encoded { body: items.join(",").into(), marker_at: None }
}

fn user_item(mut content: Vec<Value>) -> String {
    if content.is_empty() {
        content.push(input_text(EMPTY));
    }
    json!({"type": "message", "role": "user", "content": content}).to_string()
}

fn input_text(text: &str) -> Value {
    json!({"type": "input_text", "text": text})
}

fn part(block: &Block) -> Option<Value> {
    match block {
        Block::Text(text) => (!is_blank(text)).then(|| input_text(text)),
        Block::Image { media_type, data } => {
            let url = format!("data:{media_type};base64,{data}");
            Some(json!({"type": "input_image", "image_url": url, "detail": "auto"}))
        }
    }
}

fn result_items(results: &[WireResult]) -> Vec<String> {
    let output = |result: &WireResult| {
        let id = CALL_IDS.fit(&result.wire_id);
        json!({"type": "function_call_output", "call_id": id, "output": result_text(result)}).to_string()
    };
    let mut items: Vec<String> = results.iter().map(output).collect();
    let images = images(results);
    if !images.is_empty() {
        let label = input_text(IMAGES_OF_RESULTS);
        items.push(user_item(std::iter::once(label).chain(images.into_iter().filter_map(part)).collect()));
    }
    items
}

/// The items of an echoed reply.
///
/// A reasoning item and what followed it belong together: "Item of type 'reasoning' was provided without its required
/// following item", and the other way round by the ids. So reasoning goes back only whole and with a follower, and
/// where one had to be left out, the others go back without ids.
fn assistant_items(model: &str, reply: &Reply, wire_ids: &[String]) -> Vec<String> {
    let own = reply.dialect == Dialect::OpenAi && reply.model == model;
    let is_kept = |part: &Part| match &part.kind {
        PartKind::Text(text) => !is_blank(text),
        PartKind::ToolCall(_) => true,
        PartKind::Other => own,
        PartKind::Reasoning { .. } => false,
    };
    let lost = reply.parts.iter().any(|part| matches!(part.kind, PartKind::Reasoning { signed: false, .. }));
    let with_ids = own && !lost;
    let last_kept = reply.parts.iter().rposition(is_kept);
    let mut wire_ids = wire_ids.iter();
    let mut items = Vec::new();
    for (place, part) in reply.parts.iter().enumerate() {
        match &part.kind {
            PartKind::Reasoning { signed, .. } => {
                if own && *signed && last_kept.is_some_and(|last| place < last) {
                    items.push(part.native.as_str().to_owned());
                }
            }
            PartKind::Text(text) if is_kept(part) => items.push(match with_ids {
                true => part.native.as_str().to_owned(),
                false => assistant_text(text),
            }),
            PartKind::ToolCall(call) => {
                let id = wire_ids.next().or(call.provider_id.as_ref()).map_or("", String::as_str);
                items.push(function_call(with_ids.then_some(part), call, &CALL_IDS.fit(id)));
            }
            PartKind::Other if own => items.push(part.native.as_str().to_owned()),
            PartKind::Text(_) | PartKind::Other => {}
        }
    }
    if items.is_empty() {
        items.push(assistant_text(NO_CONTENT));
    }
    items
}

fn assistant_text(text: &str) -> String {
    json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text, "annotations": []}]})
        .to_string()
}

/// A call as received, but for an id that would repeat, a name that no tool has, and arguments that are no object.
fn function_call(received: Option<&Part>, call: &RawCall, id: &str) -> String {
    let name = valid_name(&call.name);
    let Some(mut fields) = received.and_then(|part| Object::parse(part.native.as_str()).ok()) else {
        return json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments_text(call)})
            .to_string();
    };
    if call.provider_id.as_deref() != Some(id) {
        fields.set("call_id", json!(id).to_string());
    }
    if name != call.name {
        fields.set("name", json!(name).to_string());
    }
    if matches!(call.arguments, Arguments::Broken { .. }) {
        fields.set("arguments", json!("{}").to_string());
    }
    fields.to_string()
}

/// Joins head and items to the request body.
pub(super) fn join(request: &Request) -> String {
    let items = request.messages.iter().map(|message| message.body.as_ref()).collect::<Vec<_>>().join(",");
    let session = json!(request.session.as_str());
    format!(r#"{{{},"input":[{items}],"prompt_cache_key":{session}}}"#, request.head)
}
