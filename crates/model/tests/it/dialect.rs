//! A session that was begun on one dialect goes on on another.

use std::sync::Arc;

use hames_model::{Client, ClientConfig, preset};
use hames_protocol::port::Model;
use hames_protocol::{Block, Message, Reply, Status, WireResult};
use serde_json::{Value, json};

use crate::served::{Answer, KEY, data, hello, outcome, reply_of, sse};

const PROVIDERS: [(&str, &str); 4] = [
    ("anthropic", "claude-sonnet-5-5"),
    ("openai", "gpt-6.2-sol"),
    ("openai-chat", "gpt-4.1"),
    ("gemini", "gemini-3.8-flash"),
];

/// What each provider says for the same turn: hidden reasoning, a text, two calls.
async fn turn(provider: &str, model: &str) -> Reply {
    let answer = match provider {
        "anthropic" => reply_of(
            &[
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"Secret thought.","signature":"c2ln"}}"#,
                r#"{"type":"content_block_stop","index":0}"#,
                r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"I look."}}"#,
                r#"{"type":"content_block_stop","index":1}"#,
                r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"read","input":{"path":"a"}}}"#,
                r#"{"type":"content_block_stop","index":2}"#,
                r#"{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_2","name":"read","input":{"path":"b"}}}"#,
                r#"{"type":"content_block_stop","index":3}"#,
            ],
            "tool_use",
        ),
        "openai" => {
            let call = |id: &str, path: &str| json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": format!("call|{id}.{}", "x".repeat(50)), "name": "read", "arguments": json!({"path": path}).to_string()});
            let output = json!([
                {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Secret thought."}], "encrypted_content": "c2ln"},
                {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "I look.", "annotations": []}]},
                call("1", "a"),
                call("2", "b")
            ]);
            sse(&[&json!({"type": "response.completed", "response": {"id": "r", "output": output}}).to_string()])
        }
        "openai-chat" => {
            let call = |n: u32, path: &str| json!({"index": n, "id": format!("functions.read:{n}"), "type": "function", "function": {"name": "read", "arguments": json!({"path": path}).to_string()}});
            let delta = json!({"reasoning_content": "Secret thought.", "content": "I look.", "tool_calls": [call(0, "a"), call(1, "b")]});
            data(&[
                &json!({"choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]}).to_string(),
                "[DONE]",
            ])
        }
        _ => {
            let parts = json!([
                {"text": "Secret thought.", "thought": true, "thoughtSignature": "c2ln"},
                {"text": "I look."},
                {"functionCall": {"name": "read", "args": {"path": "a"}}, "thoughtSignature": "c2ln"},
                {"functionCall": {"name": "read", "args": {"path": "b"}}}
            ]);
            data(&[&json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]})
                .to_string()])
        }
    };
    outcome(provider, model, Answer::stream(answer)).await.0.unwrap()
}

fn conversation(reply: Reply) -> Vec<Message> {
    let ids: Vec<String> = reply
        .calls()
        .enumerate()
        .map(|(n, call)| call.provider_id.clone().unwrap_or_else(|| format!("call-{n}")))
        .collect();
    let result = |id: &String| WireResult {
        wire_id: id.clone(),
        name: "read".to_owned(),
        status: Status::Ok,
        blocks: vec![Block::text("content")],
    };
    let results = ids.iter().map(result).collect();
    vec![hello(), Message::Assistant { reply: Arc::new(reply), wire_ids: ids }, Message::Results(results), hello()]
}

fn client(provider: &str, model: &str) -> Client {
    Client::new(ClientConfig::new(preset::find(provider).unwrap(), model, Some(KEY.to_owned()))).unwrap()
}

/// Ids of calls and of results within a message, wherever the dialect puts them.
fn ids(value: &Value, fields: &[&str], found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| ids(item, fields, found)),
        Value::Object(map) => {
            for (name, value) in map {
                match value.as_str().filter(|_| fields.contains(&name.as_str())) {
                    Some(id) => found.push(id.to_owned()),
                    None => ids(value, fields, found),
                }
            }
        }
        _ => {}
    }
}

#[tokio::test]
async fn a_turn_of_any_dialect_goes_on_on_any_other_without_its_reasoning() {
    for (from, from_model) in PROVIDERS {
        for (to, to_model) in PROVIDERS.into_iter().filter(|(to, _)| *to != from) {
            let client = client(to, to_model);
            let messages = conversation(turn(from, from_model).await);
            let encoded: Vec<Value> = messages
                .iter()
                .map(|message| serde_json::from_str(&format!("[{}]", client.encode(message).body)).unwrap())
                .collect();
            let assistant = encoded[1].to_string();
            assert!(assistant.contains("I look."), "{from} to {to}: {assistant}");
            assert!(!assistant.contains("Secret") && !assistant.contains("c2ln"), "{from} to {to}: {assistant}");
            let (mut calls, mut results) = (Vec::new(), Vec::new());
            ids(&encoded[1], &["id", "call_id"], &mut calls);
            ids(&encoded[2], &["tool_use_id", "tool_call_id", "call_id", "id"], &mut results);
            assert_eq!(calls, results, "{from} to {to}");
            assert_eq!(calls.len(), 2, "{from} to {to}: {assistant}");
            let longest = if to == "openai-chat" { 40 } else { 64 };
            assert!(calls.iter().all(|id| !id.is_empty() && id.len() <= longest), "{from} to {to}: {calls:?}");
            if to == "anthropic" {
                let is_word =
                    |id: &String| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
                assert!(calls.iter().all(is_word), "{calls:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_message_has_the_same_bytes_in_every_request() {
    for (provider, model) in PROVIDERS {
        let client = client(provider, model);
        let messages = conversation(turn(provider, model).await);
        let body = |count: usize| {
            let messages = messages[..count].iter().map(|message| client.encode(message)).collect();
            let head = client.encode_head(&hames_protocol::Head { system: "Be brief.".to_owned(), tools: vec![] });
            let (session, attempt) = (hames_protocol::SessionId::new("s"), hames_protocol::AttemptNo(1));
            let body = client.body(&hames_protocol::Request { head, messages, session, attempt });
            body.replace(r#","cache_control":{"type":"ephemeral"}"#, "")
        };
        let mut before = body(1);
        for count in 2..=messages.len() {
            let next = body(count);
            let end = before.rfind(']').unwrap();
            assert!(next.starts_with(&before[..end]), "{provider}: {before}\n{next}");
            before = next;
        }
    }
}
