//! Requests of the Responses API: items, and what must go back together.

use std::sync::Arc;

use hames_model::{Client, ClientConfig, Effort, preset};
use hames_protocol::{
    Arguments, Block, Dialect, Head, Message, Native, Part, PartKind, RawCall, Reply, Status, StopReason, ToolSpec,
    WireResult,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::served::{KEY, body_of, hello};

const MODEL: &str = "gpt-5";

fn client(model: &str) -> Client {
    Client::new(ClientConfig::new(preset::find("openai").unwrap(), model, Some(KEY.to_owned()))).unwrap()
}

fn head() -> Head {
    let schema = json!({"type": "object", "properties": {}}).as_object().unwrap().clone();
    let tool = ToolSpec { name: "list".to_owned(), description: "Lists.".to_owned(), schema };
    Head { system: "Be brief.".to_owned(), tools: vec![tool] }
}

fn part(kind: PartKind, native: Value) -> Part {
    Part { kind, native: Native(RawValue::from_string(native.to_string()).unwrap()) }
}

fn reasoning(signed: bool) -> Part {
    let native = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": if signed { "gAAA" } else { "" }});
    part(PartKind::Reasoning { text: String::new(), signed }, native)
}

fn text(text: &str) -> Part {
    let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
    let native = json!({"type": "message", "id": "msg_1", "role": "assistant", "content": content});
    part(PartKind::Text(text.to_owned()), native)
}

fn call(id: &str) -> Part {
    let call = RawCall {
        provider_id: Some(id.to_owned()),
        name: "list".to_owned(),
        arguments: Arguments::Whole(Default::default()),
    };
    part(
        PartKind::ToolCall(call),
        json!({"type": "function_call", "id": "fc_1", "call_id": id, "name": "list", "arguments": "{ }"}),
    )
}

fn items(model: &str, parts: Vec<Part>, wire_ids: &[&str]) -> Vec<Value> {
    let (dialect, provider_id, stop) = (Dialect::OpenAi, None, StopReason::ToolUse);
    let reply = Arc::new(Reply { dialect, model: MODEL.to_owned(), provider_id, parts, stop, usage: None });
    let wire_ids = wire_ids.iter().map(|id| (*id).to_owned()).collect();
    let body = body_of(&client(model), &head(), &[hello(), Message::Assistant { reply, wire_ids }]);
    body["input"].as_array().unwrap()[1..].to_vec()
}

fn native(part: &Part) -> Value {
    serde_json::from_str(part.native.as_str()).unwrap()
}

#[test]
fn the_head_stores_nothing_and_asks_for_encrypted_reasoning_of_models_that_reason() {
    let body = body_of(&client(MODEL), &head(), &[hello()]);
    assert_eq!((&body["store"], &body["stream"]), (&json!(false), &json!(true)));
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
    assert_eq!(body["instructions"], "Be brief.");
    assert_eq!(body["max_output_tokens"], 128_000);
    assert_eq!(body["tools"][0]["strict"], false);
    assert_eq!(body["prompt_cache_key"], "0190-session");
    assert_eq!(
        body["input"][0],
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]})
    );
    assert_eq!(body_of(&client("gpt-4.1"), &head(), &[hello()]).get("include"), None);
    let config = ClientConfig::new(preset::find("openai").unwrap(), MODEL, Some(KEY.to_owned()));
    let eager = Client::new(ClientConfig { effort: Some(Effort::High), ..config }).unwrap();
    assert_eq!(body_of(&eager, &head(), &[hello()])["reasoning"], json!({"effort": "high"}));
}

#[test]
fn reasoning_goes_back_with_what_followed_it() {
    let parts = vec![reasoning(true), text("Hi"), reasoning(true), call("a")];
    let expected: Vec<Value> = parts.iter().map(native).collect();
    assert_eq!(items(MODEL, parts, &["a"]), expected);
}

#[test]
fn reasoning_without_a_follower_is_left_out() {
    assert_eq!(items(MODEL, vec![text("Hi"), reasoning(true)], &[]), [native(&text("Hi"))]);
    assert_eq!(items(MODEL, vec![reasoning(true), text(" ")], &[])[0]["content"][0]["text"], "(no content)");
}

#[test]
fn where_reasoning_is_lost_its_followers_go_back_without_ids() {
    for items in [
        items(MODEL, vec![reasoning(false), text("Hi"), call("a")], &["a"]),
        items("gpt-6.2-sol", vec![reasoning(true), text("Hi"), call("a")], &["a"]),
    ] {
        assert_eq!(items.len(), 2);
        assert!(items.iter().all(|item| item.get("id").is_none()), "{items:?}");
        assert_eq!(items[1], json!({"type": "function_call", "call_id": "a", "name": "list", "arguments": "{}"}));
    }
}

#[test]
fn an_id_that_repeats_is_replaced_and_nothing_else() {
    let mut expected = native(&call("a"));
    expected["call_id"] = json!("call-9");
    assert_eq!(items(MODEL, vec![call("a")], &["call-9"]), [expected]);
}

#[test]
fn results_hold_text_and_their_images_follow() {
    let image = Block::Image { media_type: "image/png".to_owned(), data: "iVBORw0KGgo=".to_owned() };
    let result =
        |id: &str, status, blocks| WireResult { wire_id: id.to_owned(), name: "list".to_owned(), status, blocks };
    let results = Message::Results(vec![
        result("a", Status::Ok, vec![image]),
        result("b", Status::Refused, vec![Block::text("no")]),
    ]);
    let body = body_of(&client(MODEL), &head(), &[results]);
    let input = body["input"].as_array().unwrap();
    assert_eq!(input[0]["type"], "function_call_output");
    assert_eq!((&input[1]["call_id"], &input[1]["output"]), (&json!("b"), &json!("ERROR: no")));
    assert_eq!(
        input[2]["content"][1],
        json!({"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"})
    );
}
