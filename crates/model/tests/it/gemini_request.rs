//! Requests of the Gemini API: contents, declarations, signatures.

use std::sync::Arc;

use hames_model::{Client, ClientConfig, Effort, preset};
use hames_protocol::{Block, Dialect, Head, Message, Reply, Status, ToolSpec, WireResult};
use serde_json::{Value, json};

use crate::served::{Answer, KEY, body_of, data, hello, outcome};

const MODEL: &str = "gemini-3.8-flash";

fn client(model: &str, effort: Option<Effort>) -> Client {
    let config = ClientConfig::new(preset::find("gemini").unwrap(), model, Some(KEY.to_owned()));
    Client::new(ClientConfig { effort, ..config }).unwrap()
}

fn head() -> Head {
    let tool = |name: &str, schema: Value| ToolSpec {
        name: name.to_owned(),
        description: "Does.".to_owned(),
        schema: schema.as_object().unwrap().clone(),
    };
    let schema = json!({"$schema": "x", "type": "object", "additionalProperties": false,
        "properties": {"path": {"type": ["string", "null"]}}, "required": ["path"]});
    Head {
        system: "Be brief.".to_owned(),
        tools: vec![tool("read", schema), tool("list", json!({"type": "object", "properties": {}}))],
    }
}

async fn reply(parts: Value) -> Reply {
    let chunk = json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]});
    outcome("gemini", MODEL, Answer::stream(data(&[&chunk.to_string()]))).await.0.unwrap()
}

fn echoed(model: &str, reply: Reply, ids: &[&str]) -> Value {
    let wire_ids = ids.iter().map(|id| (*id).to_owned()).collect();
    let message = Message::Assistant { reply: Arc::new(reply), wire_ids };
    body_of(&client(model, None), &head(), &[hello(), message])["contents"][1]["parts"].clone()
}

#[test]
fn the_head_declares_tools_in_the_subset_that_is_taken() {
    let body = body_of(&client(MODEL, None), &head(), &[hello()]);
    assert_eq!(body["systemInstruction"], json!({"parts": [{"text": "Be brief."}]}));
    assert_eq!(
        body["generationConfig"],
        json!({"maxOutputTokens": 65_536, "thinkingConfig": {"includeThoughts": true}})
    );
    let declarations = &body["tools"][0]["functionDeclarations"];
    let parameters =
        json!({"type": "object", "properties": {"path": {"type": "string", "nullable": true}}, "required": ["path"]});
    assert_eq!(declarations[0], json!({"name": "read", "description": "Does.", "parameters": parameters}));
    assert_eq!(declarations[1].get("parameters"), None);
    assert_eq!(body["contents"], json!([{"role": "user", "parts": [{"text": "Hello"}]}]));
}

#[test]
fn thinking_is_asked_for_as_the_generation_knows_it() {
    let thinking = |model, effort| {
        body_of(&client(model, effort), &head(), &[hello()])["generationConfig"]["thinkingConfig"].clone()
    };
    assert_eq!(thinking(MODEL, Some(Effort::Low))["thinkingLevel"], "low");
    assert_eq!(thinking("gemini-2.5-pro", Some(Effort::High))["thinkingBudget"], 24_576);
    assert_eq!(thinking("gemini-2.5-flash-lite", None), json!({"includeThoughts": true}));
    for model in ["gemini-2.0-flash", "gemini-1.5-pro", "gemma-3-27b-it"] {
        assert_eq!(thinking(model, Some(Effort::Low)), Value::Null, "{model}");
    }
}

#[tokio::test]
async fn what_this_model_said_goes_back_as_it_came() {
    let parts = json!([
        {"text": "Let me see."},
        {"functionCall": {"name": "read", "args": {"path": "x", "n": 1.0}}, "thoughtSignature": "sig"},
        {"functionCall": {"id": "f1", "name": "list", "args": {}}}
    ]);
    assert_eq!(echoed(MODEL, reply(parts.clone()).await, &["call-1", "f1"]), parts);
    let mut other_id = parts;
    other_id[2]["functionCall"]["id"] = json!("call-2");
    assert_eq!(echoed(MODEL, reply(other_id.clone()).await, &["call-1", "call-2"]), other_id);
}

#[tokio::test]
async fn thoughts_go_back_only_with_a_signature() {
    let parts = json!([{"text": "Hm", "thought": true}, {"text": "So.", "thought": true, "thoughtSignature": "s"}, {"text": "Hi"}]);
    let expected = json!([parts[1], parts[2]]);
    assert_eq!(echoed(MODEL, reply(parts).await, &[]), expected);
    let only = json!([{"text": "Hm", "thought": true}]);
    assert_eq!(echoed(MODEL, reply(only).await, &[]), json!([{"text": "(no content)"}]));
}

#[tokio::test]
async fn a_history_from_elsewhere_gets_the_value_that_is_not_checked() {
    let parts = json!([
        {"functionCall": {"name": "read", "args": {"path": "x"}}, "thoughtSignature": "sig"},
        {"functionCall": {"name": "list", "args": {}}}
    ]);
    let first = json!({"functionCall": {"id": "call-1", "name": "read", "args": {"path": "x"}}});
    let second = json!({"functionCall": {"id": "call-2", "name": "list", "args": {}}});
    let mut signed = first.clone();
    signed["thoughtSignature"] = json!("skip_thought_signature_validator");
    // Another Gemini, and another dialect.
    let ids = ["call-1", "call-2"];
    assert_eq!(echoed("gemini-3.5-flash", reply(parts.clone()).await, &ids), json!([signed, second]));
    let foreign = Reply { dialect: Dialect::Anthropic, ..reply(parts.clone()).await };
    assert_eq!(echoed(MODEL, foreign, &ids), json!([signed, second]));
    // Older generations want none.
    assert_eq!(echoed("gemini-2.5-pro", reply(parts).await, &ids), json!([first, second]));
}

#[test]
fn all_results_stand_in_one_content_and_their_images_in_the_next() {
    let result =
        |id: &str, status, blocks| WireResult { wire_id: id.to_owned(), name: "read".to_owned(), status, blocks };
    let image = Block::Image { media_type: "image/png".to_owned(), data: "iVBORw0KGgo=".to_owned() };
    let results = Message::Results(vec![
        result("a", Status::Ok, vec![Block::text("one"), image]),
        result("b", Status::Failed, vec![Block::text("two")]),
    ]);
    let body = body_of(&client(MODEL, None), &head(), &[results]);
    assert_eq!(
        body["contents"][0],
        json!({"role": "user", "parts": [
            {"functionResponse": {"id": "a", "name": "read", "response": {"output": "one\n(an image: it is shown in the next message)"}}},
            {"functionResponse": {"id": "b", "name": "read", "response": {"error": "two"}}}
        ]})
    );
    assert_eq!(
        body["contents"][1]["parts"][1],
        json!({"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}})
    );
}
