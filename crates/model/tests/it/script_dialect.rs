//! The script server as a provider of each dialect: what it plays, and what it refuses.

use std::net::SocketAddr;
use std::sync::Arc;

use hames_model::script::police::{Issued, check_as};
use hames_model::script::{Script, ScriptServer};
use hames_model::{Client, ClientConfig, preset};
use hames_protocol::port::Model;
use hames_protocol::{
    AttemptNo, Block, Dialect, FailureKind, Head, Message, ModelFailure, PartKind, Reply, Request, SessionId, Status,
    StopReason, ToolSpec, WireResult,
};
use serde_json::{Value, json};

use crate::served::KEY;

/// Each dialect with a model of its default provider.
const DIALECTS: [(Dialect, &str); 4] = [
    (Dialect::Anthropic, "claude-sonnet-5-5"),
    (Dialect::OpenAi, "gpt-6.2-sol"),
    (Dialect::OpenAiChat, "gpt-4.1"),
    (Dialect::Gemini, "gemini-3.8-flash"),
];

const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";

async fn serve(dialect: Dialect, yaml: &str) -> ScriptServer {
    let script = Script::from_yaml("script.yaml", yaml).unwrap();
    ScriptServer::bind_as(dialect, script, SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap()
}

fn client(dialect: Dialect, model: &str, base_url: String) -> Client {
    let preset = preset::of_dialect(dialect);
    let config = ClientConfig::new(preset, model, Some(KEY.to_owned()));
    Client::new(ClientConfig { base_url: Some(base_url), ..config }).unwrap()
}

fn head() -> Head {
    let schema = json!({"type": "object", "properties": {
        "path": {"type": "string"}, "lines": {"type": ["array", "null"]}, "mode": {"enum": ["a", null]}}});
    let tool = |name: &str, schema: &Value| ToolSpec {
        name: name.to_owned(),
        description: "Does.".to_owned(),
        schema: schema.as_object().unwrap().clone(),
    };
    Head {
        system: "Be brief.".to_owned(),
        tools: vec![tool("read", &schema), tool("list", &json!({"type": "object"}))],
    }
}

async fn send(client: &Client, attempt: u32, messages: &[Message]) -> Result<Reply, ModelFailure> {
    let messages = messages.iter().map(|message| client.encode(message)).collect();
    let (head, session) = (client.encode_head(&head()), SessionId::new("s"));
    client.send(Request { head, messages, session, attempt: AttemptNo(attempt) }, &|_| {}).await
}

/// A reply with its calls, and their results: one with an image, one that failed.
fn turn(reply: Reply) -> [Message; 2] {
    let ids: Vec<String> = reply
        .calls()
        .enumerate()
        .map(|(n, call)| call.provider_id.clone().unwrap_or_else(|| format!("call-{n}")))
        .collect();
    let image = Block::Image { media_type: "image/png".to_owned(), data: PNG.to_owned() };
    let names: Vec<String> = reply.calls().map(|call| call.name.clone()).collect();
    let results = ids.iter().zip(names).enumerate().map(|(n, (id, name))| WireResult {
        wire_id: id.clone(),
        name,
        status: if n == 0 { Status::Ok } else { Status::Failed },
        blocks: vec![Block::text("content"), image.clone()],
    });
    let results = results.collect();
    [Message::Assistant { reply: Arc::new(reply), wire_ids: ids }, Message::Results(results)]
}

const SESSION: &str = "
- reasoning: Two files to read.
  text: Looking at 北京 naïve 😀.
  calls: [{tool: read, args: {path: 北京.txt}}, {tool: list}]
  interleave: true
  usage: {input: 12, output: 34, cache_read: 56}
- parts: [{redacted: ZW5j}, {call: {tool: list, id: own}}]
  chunk: 7
- {text: done}
";

#[tokio::test]
async fn a_session_runs_on_every_dialect_without_a_refusal() {
    for (dialect, model) in DIALECTS {
        let server = serve(dialect, SESSION).await;
        let client = client(dialect, model, server.base_url());
        let mut messages = vec![Message::User(vec![Block::text("Go on.")])];
        for attempt in 1..=3 {
            let reply =
                send(&client, attempt, &messages).await.unwrap_or_else(|failure| panic!("{dialect:?}: {failure}"));
            match attempt {
                1 => {
                    assert_eq!(reply.text(), "Looking at 北京 naïve 😀.", "{dialect:?}");
                    assert_eq!(reply.calls().map(|call| call.name.as_str()).collect::<Vec<_>>(), ["read", "list"]);
                    assert!(reply.parts.iter().any(|part| matches!(&part.kind,
                        PartKind::Reasoning { text, .. } if text == "Two files to read.")));
                    let usage = reply.usage.unwrap();
                    assert_eq!((usage.input_tokens, usage.output_tokens, usage.cache_read_tokens), (12, 34, 56));
                    assert_eq!(reply.stop, StopReason::ToolUse);
                }
                2 => assert_eq!(reply.calls().next().unwrap().provider_id.as_deref(), Some("own")),
                _ => assert_eq!((reply.text().as_str(), reply.stop.clone()), ("done", StopReason::EndTurn)),
            }
            messages.extend(turn(reply));
        }
        let received = server.received();
        assert!(received.iter().all(|request| request.status == Some(200)), "{dialect:?}");
    }
}

#[tokio::test]
async fn a_session_goes_on_on_any_other_dialect_without_a_refusal() {
    for (from, from_model) in DIALECTS {
        let server = serve(from, SESSION).await;
        let begun = client(from, from_model, server.base_url());
        let prompt = Message::User(vec![Block::text("Go on.")]);
        let mut messages = vec![prompt.clone()];
        for attempt in 1..=2 {
            let reply = send(&begun, attempt, &messages).await.unwrap();
            messages.extend(turn(reply));
        }
        for (to, to_model) in DIALECTS.into_iter().filter(|(to, _)| *to != from) {
            let server = serve(to, "- text: hello").await;
            let reply = send(&client(to, to_model, server.base_url()), 1, &messages).await;
            assert_eq!(reply.unwrap_or_else(|failure| panic!("{from:?} to {to:?}: {failure}")).text(), "hello");
        }
    }
}

#[tokio::test]
async fn stop_reasons_and_faults_mean_the_same_on_every_dialect() {
    use FailureKind::{Credential, Rejected, Setup, Transient};
    for (dialect, model) in DIALECTS {
        let yaml = "
- {text: half a sen, stop: max_tokens}
- {text: no, stop: refusal}
- fault: {status: 429, headers: {retry-after: 2}}
- fault: {status: 401}
- fault: {status: 400}
- {text: half, fault: {cut: {after_events: 2}}}
- {text: half, fault: {error_event: {type: overloaded_error, message: M, after_events: 2}}}
- fault: {non_sse_body: <html>Log in.</html>}
";
        let server = serve(dialect, yaml).await;
        let client = client(dialect, model, server.base_url());
        let prompt = [Message::User(vec![Block::text("Go on.")])];
        assert_eq!(send(&client, 1, &prompt).await.unwrap().stop, StopReason::OutputLimit, "{dialect:?}");
        assert_eq!(send(&client, 2, &prompt).await.unwrap().stop, StopReason::Refusal, "{dialect:?}");
        for (attempt, kind) in
            [(3, Transient), (4, Credential), (5, Rejected), (6, Transient), (7, Transient), (8, Setup)]
        {
            let failure = send(&client, attempt, &prompt).await.unwrap_err();
            assert_eq!(failure.kind, kind, "{dialect:?}: {failure}");
            if attempt == 3 {
                assert_eq!(failure.retry_after_ms, Some(2_000));
            }
        }
        let exhausted = send(&client, 9, &prompt).await.unwrap_err();
        assert!(exhausted.message.contains("has 8 replies"), "{exhausted}");
    }
}

#[tokio::test]
async fn a_request_without_a_key_or_to_another_path_is_refused() {
    for (dialect, model) in DIALECTS {
        let server = serve(dialect, "- text: hi").await;
        let preset = preset::of_dialect(dialect);
        let config = ClientConfig { base_url: Some(server.base_url()), ..ClientConfig::new(preset, model, None) };
        let failure =
            send(&Client::new(config).unwrap(), 1, &[Message::User(vec![Block::text("x")])]).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Credential, "{failure}");
        let (other, other_model) = DIALECTS.into_iter().find(|(other, _)| *other != dialect).unwrap();
        let lost = client(other, other_model, server.base_url());
        let failure = send(&lost, 1, &[Message::User(vec![Block::text("x")])]).await.unwrap_err();
        assert!(failure.message.contains("HTTP 404"), "{failure}");
    }
}

/// A body that passes, for each dialect.
fn whole(dialect: Dialect) -> Value {
    let schema = json!({"type": "object", "properties": {"x": {"type": "string"}}});
    match dialect {
        Dialect::Anthropic => json!({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}),
        Dialect::OpenAiChat => json!({
            "model": "m", "max_tokens": 5, "stream": true, "stream_options": {"include_usage": true},
            "tools": [{"type": "function", "function": {"name": "read", "description": "", "parameters": schema}}],
            "messages": [
                {"role": "system", "content": "s"},
                {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PNG}")}}]},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}},
                    {"id": "b", "type": "function", "function": {"name": "read", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "a", "content": "r"},
                {"role": "tool", "tool_call_id": "b", "content": "r"},
            ]
        }),
        Dialect::OpenAi => json!({
            "model": "m", "max_output_tokens": 16, "stream": true, "store": false,
            "tools": [{"type": "function", "name": "read", "description": "", "parameters": schema, "strict": false}],
            "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
                {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "read", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "a", "output": "r"},
            ]
        }),
        Dialect::Gemini => json!({
            "generationConfig": {"maxOutputTokens": 5, "thinkingConfig": {"includeThoughts": true}},
            "tools": [{"functionDeclarations": [{"name": "read", "description": "", "parameters": schema}]}],
            "systemInstruction": {"parts": [{"text": "s"}]},
            "contents": [
                {"role": "user", "parts": [{"text": "hi"}, {"inlineData": {"mimeType": "image/png", "data": PNG}}]},
                {"role": "model", "parts": [
                    {"functionCall": {"id": "a", "name": "read", "args": {}}, "thoughtSignature": "s"},
                    {"functionCall": {"name": "read", "args": {}}}]},
                {"role": "user", "parts": [
                    {"functionResponse": {"id": "a", "name": "read", "response": {"output": "r"}}},
                    {"functionResponse": {"id": "b", "name": "read", "response": {"output": "r"}}}]},
            ]
        }),
    }
}

/// Each change, made to the body that passes, is refused in these words.
fn check_refusals(dialect: Dialect, changes: &[(&str, Value, &str)]) {
    let check =
        |body: &Value| check_as(dialect, body.to_string().as_bytes(), Some("gemini-3.8-flash"), &Issued::unknown());
    check(&whole(dialect)).unwrap();
    for (pointer, value, words) in changes {
        let mut body = whole(dialect);
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        match body.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer}")) {
            Value::Object(fields) if value == &json!("<gone>") => drop(fields.remove(key)),
            Value::Object(fields) => drop(fields.insert(key.to_owned(), value.clone())),
            Value::Array(items) if value == &json!("<gone>") => drop(items.remove(key.parse().unwrap())),
            Value::Array(items) if key == "-" => items.push(value.clone()),
            Value::Array(items) => items[key.parse::<usize>().unwrap()] = value.clone(),
            other => panic!("{pointer}: {other}"),
        }
        let violation = check(&body).expect_err(&format!("{pointer} as {value}"));
        assert!(violation.message.contains(words), "{pointer} as {value}: {violation}");
        assert_eq!(violation.status, 400);
    }
}

fn gone() -> Value {
    json!("<gone>")
}

#[test]
fn chat_completions_are_policed() {
    let tool = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "r"});
    check_refusals(
        Dialect::OpenAiChat,
        &[
            ("/unknown", json!(1), "Unrecognized request argument supplied: unknown"),
            ("/model", json!(""), "you must provide a model parameter"),
            ("/model", json!("gpt-5"), "Use 'max_completion_tokens' instead"),
            ("/max_completion_tokens", json!(5), "at the same time"),
            ("/max_tokens", json!(0), "minimum value"),
            ("/stream", json!(false), "only allowed when 'stream' is enabled"),
            ("/messages", json!([]), "minimum length 1"),
            ("/messages", gone(), "Missing required parameter: 'messages'"),
            ("/tools", json!([]), "[] is too short - 'tools'"),
            ("/tools/0/function/name", json!("read file"), "does not match pattern"),
            ("/tools/0/function/name", json!("x".repeat(65)), "does not match pattern"),
            ("/tools/-", whole(Dialect::OpenAiChat)["tools"][0].clone(), "must be unique"),
            ("/tools/0/function/parameters", json!({"type": "object"}), "object schema missing properties"),
            (
                "/tools/0/function/parameters/properties/x",
                json!({"type": "array"}),
                "In context=('x'), array schema missing items",
            ),
            ("/tools/0/function/parameters/anyOf", json!([]), "at the top level"),
            ("/messages/0/role", json!("robot"), "Invalid value: 'robot'"),
            (
                "/messages/0/content",
                json!([{"type": "image_url", "image_url": {"url": "x"}}]),
                "Supported values are: 'text'",
            ),
            ("/messages/1/content", json!([]), "empty array"),
            ("/messages/1/content", Value::Null, "got null"),
            (
                "/messages/1/content/1/image_url/url",
                json!("data:image/png;base64,R0lGODlhAwACAAAAADs="),
                "does not represent a valid image",
            ),
            ("/messages/1/content/1/image_url/url", json!("data:image/bmp;base64,AAAA"), "unsupported image"),
            ("/messages/2/tool_calls", json!([]), "minimum length 1"),
            ("/messages/2/tool_calls/0/id", json!(""), "Missing required parameter"),
            ("/messages/2/tool_calls/0/id", json!("x".repeat(41)), "maximum length 40"),
            ("/messages/2/tool_calls/0/id", json!("b"), "Duplicate value"),
            ("/messages/2/tool_calls/0/function/arguments", json!({}), "expected a string"),
            ("/messages/2/tool_calls/0/function/name", json!("a b"), "does not match pattern"),
            (
                "/messages/3/content",
                json!([{"type": "image_url", "image_url": {"url": "x"}}]),
                "Supported values are: 'text'",
            ),
            ("/messages/3/tool_call_id", json!("c"), "must be a response to a preceeding message"),
            ("/messages/3", json!({"role": "user", "content": "x"}), "did not have response messages: a, b"),
            ("/messages/4", gone(), "did not have response messages: b"),
            ("/messages/2", gone(), "must be a response to a preceeding message"),
            ("/messages/-", tool("a"), "must be a response to a preceeding message"),
        ],
    );
}

#[test]
fn responses_are_policed() {
    check_refusals(
        Dialect::OpenAi,
        &[
            ("/unknown", json!(1), "Unknown parameter: 'unknown'"),
            ("/max_output_tokens", json!(15), ">= 16"),
            ("/input", json!([]), "empty array"),
            ("/input", gone(), "Missing required parameter: 'input'"),
            ("/tools/0/name", json!("a b"), "does not match pattern"),
            ("/input/0/content/0/type", json!("text"), "Invalid value: 'text'"),
            ("/input/0/role", json!("tool"), "Supported values are"),
            ("/input/0/id", json!("fc_1"), "begins with 'msg'"),
            ("/input/1/encrypted_content", gone(), "Items are not persisted"),
            ("/input/2/call_id", json!("x".repeat(65)), "maximum length 64"),
            ("/input/2/arguments", json!({}), "arguments"),
            ("/input/3/call_id", json!("b"), "No tool call found for function call output with call_id b"),
            ("/input/3", gone(), "No tool output found for function call a"),
            (
                "/input/-",
                json!({"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "x"}),
                "required following item",
            ),
            (
                "/input/-",
                json!({"type": "function_call", "call_id": "a", "name": "read", "arguments": "{}"}),
                "Duplicate item",
            ),
            ("/input/-", json!({"type": "odd"}), "Invalid value: 'odd'"),
        ],
    );
    let issued = Issued::by(&Script::from_yaml("s", "- {reasoning: {text: t, signature: known}}").unwrap());
    let body = whole(Dialect::OpenAi).to_string();
    let violation = check_as(Dialect::OpenAi, body.as_bytes(), None, &issued).unwrap_err();
    assert!(violation.message.contains("could not be verified"), "{violation}");
    let known = body.replace(r#""encrypted_content":"x""#, r#""encrypted_content":"known""#);
    check_as(Dialect::OpenAi, known.as_bytes(), None, &issued).unwrap();
}

#[test]
fn gemini_is_policed() {
    check_refusals(
        Dialect::Gemini,
        &[
            ("/model", json!("m"), "Unknown name \"model\""),
            ("/contents", json!([]), "contents is not specified"),
            ("/contents/0/role", json!("system"), "valid role"),
            ("/contents/0/parts", json!([]), "must not be empty"),
            ("/contents/0/parts/0", json!({}), "must have one initialized field"),
            ("/contents/0/parts/0/text", json!(""), "empty text parameter"),
            ("/contents/0/parts/0/type", json!("text"), "Unknown name \"type\""),
            ("/contents/0/parts/1/inlineData/mimeType", json!("image/gif"), "valid image"),
            (
                "/generationConfig/thinkingConfig",
                json!({"thinkingLevel": "low", "thinkingBudget": 5}),
                "only set only one",
            ),
            ("/tools/0/functionDeclarations/0/name", json!("1 read"), "Invalid function name"),
            ("/tools/0/functionDeclarations/0/parameters/$schema", json!("x"), "Unknown name \"$schema\""),
            ("/tools/0/functionDeclarations/0/parameters/properties", json!({}), "should be non-empty"),
            (
                "/tools/0/functionDeclarations/0/parameters/properties/x",
                json!({"type": "array"}),
                "items: missing field",
            ),
            (
                "/tools/0/functionDeclarations/0/parameters/properties/x",
                json!({"type": "integer", "enum": [1]}),
                "only allowed for STRING",
            ),
            ("/tools/0/functionDeclarations/0/parameters/required", json!(["gone"]), "property is not defined"),
            ("/contents/1/parts/0/thoughtSignature", gone(), "missing a `thought_signature`"),
            ("/contents/1/parts/0/functionCall/args", json!([]), "Struct"),
            ("/contents/2/parts/0/functionResponse/name", json!("list"), "names match"),
            ("/contents/2/parts/0/functionResponse/id", json!("z"), "ids match"),
            ("/contents/2/parts/1", gone(), "number of function response parts"),
            ("/contents/2", gone(), "number of function response parts"),
            ("/contents/0", gone(), "immediately after a user turn"),
        ],
    );
    let capitals = whole(Dialect::Gemini).to_string().replace(r#""type":"object""#, r#""type":"OBJECT""#);
    check_as(Dialect::Gemini, capitals.as_bytes(), None, &Issued::unknown()).unwrap();
    let issued = Issued::by(&Script::from_yaml("s", "- {reasoning: {text: t, signature: known}}").unwrap());
    let body = whole(Dialect::Gemini).to_string();
    let check = |body: &str, model| check_as(Dialect::Gemini, body.as_bytes(), Some(model), &issued);
    assert!(check(&body, "gemini-3.8-flash").unwrap_err().message.contains("Corrupted thought signature"));
    check(&body, "gemini-2.5-pro").unwrap();
    for signature in ["a25vd24=", "skip_thought_signature_validator"] {
        let signed = body.replace(r#""thoughtSignature":"s""#, &format!(r#""thoughtSignature":"{signature}""#));
        check(&signed, "gemini-3.8-flash").unwrap();
    }
}
