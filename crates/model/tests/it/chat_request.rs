//! Requests of chat completions: addresses, fields, messages, and what each server wants differently.

use std::sync::Arc;

use hames_model::{Client, ClientConfig, Effort, preset};
use hames_protocol::port::Model;
use hames_protocol::{Arguments, Block, Dialect, Head, Message, Reply, Status, StopReason, ToolSpec, WireResult};
use serde_json::{Value, json};

use crate::served::{Answer, KEY, Served, body_of, data, hello, outcome, request};

fn client(provider: &str, model: &str) -> Client {
    Client::new(ClientConfig::new(preset::find(provider).unwrap(), model, Some(KEY.to_owned()))).unwrap()
}

fn head() -> Head {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let tool = ToolSpec {
        name: "read_file".to_owned(),
        description: "Reads.".to_owned(),
        schema: schema.as_object().unwrap().clone(),
    };
    Head { system: "Be brief.".to_owned(), tools: vec![tool] }
}

fn result(id: &str, status: Status, blocks: Vec<Block>) -> WireResult {
    WireResult { wire_id: id.to_owned(), name: "read_file".to_owned(), status, blocks }
}

fn image() -> Block {
    Block::Image { media_type: "image/png".to_owned(), data: "iVBORw0KGgo=".to_owned() }
}

/// A reply of this model, read from a stream: reasoning, text and a call.
async fn reply(provider: &str, model: &str, arguments: &str) -> Reply {
    let chunk = json!({"id": "c1", "choices": [{"index": 0, "finish_reason": "tool_calls", "delta": {
        "reasoning_content": "Hm.", "content": "I read.",
        "tool_calls": [{"index": 0, "id": "functions.read:0", "type": "function", "extra_content": {"google": {"thought_signature": "s"}},
            "function": {"name": "read_file", "arguments": arguments}}]}}]});
    outcome(provider, model, Answer::stream(data(&[&chunk.to_string(), "[DONE]"]))).await.0.unwrap()
}

fn assistant(reply: Reply, id: &str) -> Message {
    Message::Assistant { reply: Arc::new(reply), wire_ids: vec![id.to_owned()] }
}

#[tokio::test]
async fn every_form_of_base_url_leads_to_the_endpoint() {
    let served = Served::new(vec![Answer::status(500, "", "no")]).await;
    for (provider, suffix, path) in [
        ("openai-chat", "", "/v1/chat/completions"),
        ("openai-chat", "/", "/v1/chat/completions"),
        ("openai-chat", "/v1", "/v1/chat/completions"),
        ("openai-chat", "/v1/", "/v1/chat/completions"),
        ("openai-chat", "/v1/chat/completions", "/v1/chat/completions"),
        ("openai-chat", "/v1/responses", "/v1/chat/completions"),
        ("openai-chat", "/api/paas/v4", "/api/paas/v4/chat/completions"),
        ("openai-chat", "/v1beta/openai/", "/v1beta/openai/chat/completions"),
        ("openai-chat", "/gate", "/gate/v1/chat/completions"),
        ("openai-chat", "/own/chat/completions", "/own/chat/completions"),
        ("openai-chat", "/openai/v1?api-version=2#x", "/openai/v1/chat/completions?api-version=2"),
        ("openai", "", "/v1/responses"),
        ("openai", "/v1/", "/v1/responses"),
        ("openai", "/v1/chat/completions", "/v1/responses"),
        ("openai", "/gate/v1/responses", "/gate/v1/responses"),
        ("gemini", "", "/v1beta/models/m:streamGenerateContent?alt=sse"),
        ("gemini", "/v1beta/", "/v1beta/models/m:streamGenerateContent?alt=sse"),
        ("gemini", "/v1", "/v1/models/m:streamGenerateContent?alt=sse"),
        ("gemini", "/gate", "/gate/v1beta/models/m:streamGenerateContent?alt=sse"),
        ("gemini", "/v1beta/models/other:generateContent", "/v1beta/models/m:streamGenerateContent?alt=sse"),
    ] {
        let base_url = Some(format!("{}{suffix}", served.url));
        let config =
            ClientConfig { base_url, ..ClientConfig::new(preset::find(provider).unwrap(), "m", Some(KEY.into())) };
        let client = Client::new(config).unwrap();
        client.send(request(&client, &[hello()]), &|_| {}).await.unwrap_err();
        let line = served.requests().pop().unwrap().head.lines().next().unwrap().to_owned();
        assert_eq!(line, format!("POST {path} HTTP/1.1"), "{provider} {suffix}");
    }
}

#[tokio::test]
async fn each_dialect_sends_the_key_in_its_own_header_and_none_without_one() {
    let served = Served::new(vec![Answer::status(500, "", "no")]).await;
    for (provider, header, value) in [
        ("openai", "authorization", format!("Bearer {KEY}")),
        ("openai-chat", "authorization", format!("Bearer {KEY}")),
        ("gemini", "x-goog-api-key", KEY.to_owned()),
    ] {
        let client = served.client_of(provider, "m");
        client.send(request(&client, &[hello()]), &|_| {}).await.unwrap_err();
        let received = served.requests().pop().unwrap();
        assert_eq!(received.header(header), Some(value.as_str()));
        assert_eq!(received.header("idempotency-key"), Some("0190-session/7"));
        assert_eq!(received.header("x-api-key"), None);
        let config = ClientConfig {
            base_url: Some(served.url.clone()),
            ..ClientConfig::new(preset::find(provider).unwrap(), "m", None)
        };
        let client = Client::new(config).unwrap();
        client.send(request(&client, &[hello()]), &|_| {}).await.unwrap_err();
        assert_eq!(served.requests().pop().unwrap().header(header), None);
    }
}

#[test]
fn the_head_asks_as_server_and_model_want_it() {
    for (provider, model, limit, role, options) in [
        ("openai-chat", "gpt-6.2-sol", "max_completion_tokens", "developer", true),
        ("openai-chat", "gpt-4.1", "max_completion_tokens", "system", true),
        ("deepseek", "deepseek-flash", "max_tokens", "system", true),
        ("openrouter", "openai/gpt-5", "max_tokens", "system", true),
        ("groq", "openai/gpt-oss-20b", "max_completion_tokens", "system", true),
        ("xai", "grok-4", "max_completion_tokens", "system", true),
        ("mistral", "mistral-large-latest", "max_tokens", "system", false),
        ("ollama", "qwen3", "max_tokens", "system", true),
        ("vllm", "Qwen/Qwen3-8B", "max_tokens", "system", true),
        ("lmstudio", "o3-mini", "max_completion_tokens", "system", true),
    ] {
        let client = client(provider, model);
        let body = body_of(&client, &head(), &[hello()]);
        assert_eq!(body["model"], model);
        assert_eq!(body[limit], client.info().output_tokens, "{provider}");
        assert_eq!(body["messages"][0], json!({"role": role, "content": "Be brief."}), "{provider}");
        assert_eq!(body["messages"][1], json!({"role": "user", "content": "Hello"}));
        assert_eq!(body.get("stream_options").is_some(), options, "{provider}");
        assert_eq!(body["stream"], true);
        assert_eq!(body["tools"][0]["function"]["name"], "read_file");
        assert_eq!(body.get("prompt_cache_key").is_some(), provider == "openai-chat");
        assert_eq!(body.get("reasoning_effort"), None);
    }
    let config = ClientConfig::new(preset::find("openai-chat").unwrap(), "gpt-5", Some(KEY.into()));
    let client = Client::new(ClientConfig { effort: Some(Effort::Low), ..config }).unwrap();
    assert_eq!(body_of(&client, &head(), &[hello()])["reasoning_effort"], "low");
}

#[tokio::test]
async fn results_hold_text_and_their_images_follow() {
    let results = Message::Results(vec![
        result("a", Status::Ok, vec![Block::text("one"), image()]),
        result("b", Status::Failed, vec![Block::text("no such file")]),
        result("c", Status::Ok, vec![Block::text(" ")]),
    ]);
    let messages =
        &body_of(&client("openai-chat", "m"), &Head { system: String::new(), tools: vec![] }, &[results])["messages"];
    assert_eq!(
        messages[0],
        json!({"role": "tool", "tool_call_id": "a", "content": "one\n(an image: it is shown in the next message)"})
    );
    assert_eq!(messages[1]["content"], "ERROR: no such file");
    assert_eq!(messages[2]["content"], "(no output)");
    assert_eq!(messages[3]["role"], "user");
    assert_eq!(
        messages[3]["content"][1],
        json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}})
    );
}

#[tokio::test]
async fn a_call_goes_back_as_it_came_with_what_the_server_added() {
    let reply = reply("openai-chat", "m", r#"{"path": "a",  "n": 1.0}"#).await;
    let body = body_of(&client("openai-chat", "m"), &head(), &[hello(), assistant(reply.clone(), "functions.read:0")]);
    let call = &body["messages"][2]["tool_calls"][0];
    assert_eq!(call["id"], "functions.read:0");
    assert_eq!(call["function"], json!({"name": "read_file", "arguments": r#"{"path": "a",  "n": 1.0}"#}));
    assert_eq!(call["extra_content"]["google"]["thought_signature"], "s");
    assert_eq!(body["messages"][2]["content"], "I read.");
    // Another model gets neither the signature nor the reasoning.
    let body = body_of(&client("openai-chat", "other"), &head(), &[hello(), assistant(reply, "call-7")]);
    assert_eq!(body["messages"][2]["tool_calls"][0].as_object().unwrap().len(), 3);
    assert_eq!(body["messages"][2]["tool_calls"][0]["id"], "call-7");
}

#[tokio::test]
async fn broken_arguments_and_invented_names_go_back_in_a_form_that_is_accepted() {
    let mut reply = reply("openai-chat", "m", "{\"path\": \"a").await;
    assert!(matches!(reply.calls().next().unwrap().arguments, Arguments::Broken { .. }));
    for part in &mut reply.parts {
        if let hames_protocol::PartKind::ToolCall(call) = &mut part.kind {
            call.name = "read file!".to_owned();
        }
    }
    let body = body_of(&client("openai-chat", "m"), &head(), &[hello(), assistant(reply, "x")]);
    assert_eq!(body["messages"][2]["tool_calls"][0]["function"], json!({"name": "read_file_", "arguments": "{}"}));
}

#[tokio::test]
async fn reasoning_goes_back_only_where_the_server_wants_it() {
    for (provider, model, expected) in [
        ("deepseek", "deepseek-flash", json!("Hm.")),
        ("vllm", "moonshotai/Kimi-K2", json!("Hm.")),
        ("openrouter", "any", json!("Hm.")),
        ("openai-chat", "gpt-5", Value::Null),
        ("groq", "m", Value::Null),
        ("mistral", "m", Value::Null),
        ("ollama", "m", Value::Null),
        ("xai", "m", Value::Null),
    ] {
        let body =
            body_of(&client(provider, model), &head(), &[hello(), assistant(reply(provider, model, "{}").await, "x")]);
        assert_eq!(body["messages"][2]["reasoning_content"], expected, "{provider}");
    }
    // DeepSeek refuses a reply without the field, even where there was no reasoning.
    let foreign = Reply { dialect: Dialect::Anthropic, ..reply("deepseek", "deepseek-flash", "{}").await };
    let body = body_of(&client("deepseek", "deepseek-flash"), &head(), &[hello(), assistant(foreign, "x")]);
    assert_eq!(body["messages"][2]["reasoning_content"], "");
}

#[tokio::test]
async fn mistral_gets_ids_of_nine_characters_and_hears_the_assistant_after_results() {
    let client = client("mistral", "m");
    let messages = [
        hello(),
        assistant(reply("mistral", "m", "{}").await, "call-1"),
        Message::Results(vec![result("call-1", Status::Ok, vec![Block::text("ok")])]),
        hello(),
        assistant(reply("mistral", "m", "{}").await, "abcDEF123"),
        Message::Results(vec![result("abcDEF123", Status::Ok, vec![image()])]),
        hello(),
    ];
    let body = body_of(&client, &head(), &messages);
    let roles: Vec<&str> = body["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(
        roles,
        ["system", "user", "assistant", "tool", "assistant", "user", "assistant", "tool", "assistant", "user", "user"]
    );
    let id = body["messages"][2]["tool_calls"][0]["id"].as_str().unwrap();
    assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
    assert_eq!(body["messages"][3]["tool_call_id"], id);
    assert_eq!(body["messages"][7]["tool_call_id"], "abcDEF123");
}

#[test]
fn user_content_is_never_empty_and_images_stand_beside_it() {
    let client = client("openai-chat", "m");
    let user = |blocks| {
        body_of(&client, &Head { system: String::new(), tools: vec![] }, &[Message::User(blocks)])["messages"][0]["content"].clone()
    };
    assert_eq!(user(vec![]), "(empty)");
    assert_eq!(user(vec![Block::text("\n")]), "(empty)");
    assert_eq!(user(vec![Block::text("a"), Block::text("b")]), "a\n\nb");
    assert_eq!(user(vec![Block::text("a"), image()])[1]["type"], "image_url");
    let (dialect, stop) = (Dialect::OpenAiChat, StopReason::EndTurn);
    let empty = Reply { dialect, model: "m".into(), provider_id: None, parts: vec![], stop, usage: None };
    let body = body_of(
        &client,
        &Head { system: String::new(), tools: vec![] },
        &[Message::Assistant { reply: Arc::new(empty), wire_ids: vec![] }],
    );
    assert_eq!(body["messages"][0], json!({"role": "assistant", "content": "(no content)"}));
}
