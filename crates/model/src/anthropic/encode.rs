//! Writes requests: each message once, in bytes that every later request repeats.
//!
//! Everything here is pure and deterministic, since the provider's cache works on identical prefixes: cache markers
//! are put in when the body is joined, and they are the only bytes that move between requests.

use std::sync::Arc;

use hames_protocol::{
    Arguments, Block, Dialect, Encoded, Head, Message, ModelInfo, Part, PartKind, RawCall, Reply, Request, Status,
    StopReason, ToolSpec, WireResult,
};
use serde_json::{Map, Value, json};

use crate::content::{CallIds, EMPTY, NO_CONTENT, NO_OUTPUT, arguments_text, is_blank, valid_name};
use crate::effort::Effort;
use crate::raw_json::Object;

/// The field that marks the end of a cacheable prefix.
/// Source: <https://platform.claude.com/docs/en/build-with-claude/prompt-caching>.
const MARKER: &str = r#","cache_control":{"type":"ephemeral"}"#;

/// How many messages carry a marker: the newest one writes the cache, the one before it was the newest in the request
/// before and is where the cache is found. With the one in the head that is three of the four that are allowed.
const MARKED_MESSAGES: usize = 2;

/// The ids that the API accepts; the length is that of other providers.
const CALL_IDS: CallIds = CallIds::Words(64);

/// Writes everything that precedes the messages.
pub(super) fn encode_head(info: &ModelInfo, effort: Option<Effort>, head: &Head) -> Arc<str> {
    let mut text = format!(r#""model":{},"max_tokens":{},"stream":true"#, json!(info.name), info.output_tokens);
    if let Some(effort) = effort {
        text.push_str(&format!(r#","output_config":{{"effort":"{}"}}"#, effort.as_str()));
    }
    if !head.tools.is_empty() {
        let tools = head.tools.iter().map(tool).collect::<Vec<_>>();
        text.push_str(&format!(r#","tools":{}"#, Value::Array(tools)));
    }
    if !is_blank(&head.system) {
        text.push_str(&format!(r#","system":[{{"type":"text","text":{}{MARKER}}}]"#, json!(head.system)));
    }
    text.into()
}

fn tool(spec: &ToolSpec) -> Value {
    json!({"name": spec.name, "description": spec.description, "input_schema": spec.schema})
}

/// Writes one message for `model`.
pub(super) fn encode(model: &str, message: &Message) -> Encoded {
    match message {
        Message::User(blocks) => user_message(content(blocks, EMPTY)),
        Message::Results(results) => user_message(or_text(results.iter().map(tool_result).collect(), EMPTY)),
        Message::Assistant { reply, wire_ids } => {
            let blocks = assistant_blocks(model, reply, wire_ids);
            let body = format!(r#"{{"role":"assistant","content":[{}]}}"#, blocks.join(","));
            // Reasoning cannot carry a marker, and the user message that follows covers the reply anyway.
            Encoded { body: body.into(), marker_at: None }
        }
    }
}

fn user_message(content: Vec<Value>) -> Encoded {
    let body = json!({"role": "user", "content": content}).to_string();
    let marker_at = body.len() - "}]}".len();
    Encoded { body: body.into(), marker_at: Some(marker_at) }
}

fn content(blocks: &[Block], placeholder: &str) -> Vec<Value> {
    or_text(blocks.iter().filter_map(block).collect(), placeholder)
}

fn or_text(content: Vec<Value>, placeholder: &str) -> Vec<Value> {
    if content.is_empty() { vec![text(placeholder)] } else { content }
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn block(block: &Block) -> Option<Value> {
    match block {
        Block::Text(words) => (!is_blank(words)).then(|| text(words)),
        Block::Image { media_type, data } => {
            let source = json!({"type": "base64", "media_type": media_type, "data": data});
            Some(json!({"type": "image", "source": source}))
        }
    }
}

fn tool_result(result: &WireResult) -> Value {
    let mut fields = Map::new();
    fields.insert("type".to_owned(), json!("tool_result"));
    fields.insert("tool_use_id".to_owned(), json!(CALL_IDS.fit(&result.wire_id)));
    let mut blocks = content(&result.blocks, NO_OUTPUT);
    if result.status != Status::Ok {
        // The API's own message: "all content must be type `text` if `is_error` is true".
        for block in blocks.iter_mut().filter(|block| block["type"] != "text") {
            *block = text("(an image was left out: a failed result may hold text only)");
        }
    }
    fields.insert("content".to_owned(), Value::Array(blocks));
    if result.status != Status::Ok {
        fields.insert("is_error".to_owned(), json!(true));
    }
    Value::Object(fields)
}

/// The blocks of an echoed reply, each as JSON text.
fn assistant_blocks(model: &str, reply: &Reply, wire_ids: &[String]) -> Vec<String> {
    let own = reply.dialect == Dialect::Anthropic;
    let mut wire_ids = wire_ids.iter();
    let mut blocks = Vec::new();
    let mut ends_in_reasoning = false;
    for part in &reply.parts {
        let native = || part.native.as_str().to_owned();
        let echo = match &part.kind {
            PartKind::Text(words) if is_blank(words) => None,
            PartKind::Text(words) => Some(if own { native() } else { text(words).to_string() }),
            // Signatures hold for one model only; a block may be left out, never altered.
            PartKind::Reasoning { signed, .. } => (own && *signed && reply.model == model).then(native),
            PartKind::ToolCall(call) => {
                let id = wire_ids.next().or(call.provider_id.as_ref()).map_or("", String::as_str);
                Some(tool_use(own.then_some(part), call, &CALL_IDS.fit(id)))
            }
            PartKind::Other => own.then(native),
        };
        if let Some(echo) = echo {
            ends_in_reasoning = matches!(part.kind, PartKind::Reasoning { .. });
            blocks.push(echo);
        }
    }
    // The API's own message: "final assistant content cannot end with trailing whitespace". Only a paused reply can be
    // the last message of a request; it is written the same way in later ones, so that the prefix stays as it was.
    if let (StopReason::Pause, Some(last)) = (&reply.stop, blocks.last_mut())
        && let Some(trimmed) = without_trailing_whitespace(last)
    {
        *last = trimmed;
    }
    // The API's own message: "The final block in an assistant message cannot be `thinking`".
    if blocks.is_empty() || ends_in_reasoning {
        blocks.push(text(NO_CONTENT).to_string());
    }
    blocks
}

/// A text block without blanks and line ends after its text; none for any other block.
fn without_trailing_whitespace(block: &str) -> Option<String> {
    let mut fields = Object::parse(block).ok()?;
    let words = fields.text("text").filter(|_| fields.text("type").as_deref() == Some("text"))?;
    fields.set("text", json!(words.trim_end()).to_string());
    Some(fields.to_native().ok()?.as_str().to_owned())
}

/// A call as received, but for an id that would repeat, a name that the API refuses, and arguments that are no object;
/// one of another dialect is written anew.
fn tool_use(own: Option<&Part>, call: &RawCall, id: &str) -> String {
    let name = valid_name(&call.name);
    let Some(mut fields) = own.and_then(|part| Object::parse(part.native.as_str()).ok()) else {
        let (id, name, input) = (json!(id), json!(name), arguments_text(call));
        return format!(r#"{{"type":"tool_use","id":{id},"name":{name},"input":{input}}}"#);
    };
    if call.provider_id.as_deref() != Some(id) {
        fields.set("id", json!(id).to_string());
    }
    if name != call.name {
        fields.set("name", json!(name).to_string());
    }
    if matches!(call.arguments, Arguments::Broken { .. }) {
        fields.set("input", "{}");
    }
    fields.to_string()
}

/// Joins head and messages to the request body and puts the cache markers in.
pub(super) fn join(request: &Request) -> String {
    let marked = request.messages.iter().enumerate().filter(|(_, message)| message.marker_at.is_some());
    let first_marked = marked.rev().nth(MARKED_MESSAGES - 1).map_or(0, |(index, _)| index);
    let size: usize = request.messages.iter().map(|message| message.body.len() + 1).sum();
    let mut body = String::with_capacity(request.head.len() + size + MARKED_MESSAGES * MARKER.len() + 32);
    body.push('{');
    body.push_str(&request.head);
    body.push_str(r#","messages":["#);
    for (index, message) in request.messages.iter().enumerate() {
        if index > 0 {
            body.push(',');
        }
        match message.marker_at.filter(|_| index >= first_marked).and_then(|at| message.body.split_at_checked(at)) {
            Some((before, after)) => body.extend([before, MARKER, after]),
            None => body.push_str(&message.body),
        }
    }
    body.push_str("]}");
    body
}
