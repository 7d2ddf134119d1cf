//! What goes over the wire: addresses, headers, bodies, cache markers.

use std::sync::Arc;

use hames_model::{Client, ClientConfig, Effort};
use hames_protocol::port::Model;
use hames_protocol::{
    Arguments, Block, Dialect, FailureKind, Head, Message, Native, Part, PartKind, RawCall, Reply, Status, StopReason,
    ToolSpec, WireResult,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::served::{Answer, KEY, MODEL, Served, hello, request, text_reply};

const MARKER: &str = r#","cache_control":{"type":"ephemeral"}"#;

fn client() -> Client {
    Client::new(ClientConfig::anthropic(MODEL, KEY)).unwrap()
}

fn encoded(message: &Message) -> Value {
    serde_json::from_str(&client().encode(message).body).unwrap()
}

fn part(kind: PartKind, native: &str) -> Part {
    Part { kind, native: Native(RawValue::from_string(native.to_owned()).unwrap()) }
}

fn text_part(text: &str) -> Part {
    part(PartKind::Text(text.to_owned()), &json!({"type": "text", "text": text}).to_string())
}

fn call_part(id: &str, name: &str, arguments: Arguments, native_input: &str) -> Part {
    let call = RawCall { provider_id: Some(id.to_owned()), name: name.to_owned(), arguments };
    let native = format!(
        r#"{{"type":"tool_use","id":"{id}","name":"{name}","input":{native_input},"caller":{{"type":"direct"}}}}"#
    );
    part(PartKind::ToolCall(call), &native)
}

fn whole() -> Arguments {
    Arguments::Whole(serde_json::Map::new())
}

fn assistant(parts: Vec<Part>, wire_ids: &[&str]) -> Message {
    let (dialect, model) = (Dialect::Anthropic, MODEL.to_owned());
    let reply = Reply { dialect, model, provider_id: None, parts, stop: StopReason::ToolUse, usage: None };
    Message::Assistant { reply: Arc::new(reply), wire_ids: wire_ids.iter().map(|id| (*id).to_owned()).collect() }
}

fn result(status: Status, blocks: Vec<Block>) -> WireResult {
    WireResult { wire_id: "t1".to_owned(), name: "bash".to_owned(), status, blocks }
}

#[tokio::test]
async fn every_form_of_base_url_leads_to_the_endpoint() {
    let served = Served::new(vec![Answer::stream(text_reply("hi"))]).await;
    for (suffix, path) in [
        ("", "/v1/messages"),
        ("/", "/v1/messages"),
        ("/v1", "/v1/messages"),
        ("/v1//", "/v1/messages"),
        ("/v1/messages", "/v1/messages"),
        ("/gate/anthropic", "/gate/anthropic/v1/messages"),
        ("/gate/v1/", "/gate/v1/messages"),
        ("/gate?zone=2#x", "/gate/v1/messages?zone=2"),
    ] {
        let client = served.client_with(|config| config.base_url = Some(format!(" {}{suffix} ", served.url)));
        client.send(request(&client, &[hello()]), &|_| {}).await.unwrap();
        let line = served.requests().pop().unwrap().head.lines().next().unwrap().to_owned();
        assert_eq!(line, format!("POST {path} HTTP/1.1"));
    }
}

#[test]
fn a_base_url_that_is_none_is_told_with_the_remedy() {
    for base in ["localhost:8080", "ftp://host", "/v1", "http://"] {
        let config = ClientConfig { base_url: Some(base.to_owned()), ..ClientConfig::anthropic(MODEL, KEY) };
        let failure = Client::new(config).err().unwrap();
        assert_eq!(failure.kind, FailureKind::Setup);
        assert!(failure.message.contains(base) && failure.message.contains("https://api.anthropic.com"), "{failure}");
    }
    assert!(
        Client::new(ClientConfig { base_url: Some(" ".to_owned()), ..ClientConfig::anthropic(MODEL, KEY) }).is_ok()
    );
}

#[test]
fn a_key_that_no_header_can_carry_is_told_without_showing_it() {
    for (key, cause) in
        [("sk-secret\n", "line end"), ("sk-secret\u{e9}", "character"), ("sk secret", "blank"), ("", "empty")]
    {
        let failure = Client::new(ClientConfig::anthropic(MODEL, key)).err().unwrap();
        assert_eq!(failure.kind, FailureKind::Credential);
        assert!(failure.message.contains(cause) && !failure.message.contains("secret"), "{failure}");
    }
    assert!(!format!("{:?}", ClientConfig::anthropic(MODEL, KEY)).contains(KEY));
}

#[tokio::test]
async fn the_headers_name_version_client_and_attempt() {
    let served = Served::new(vec![Answer::stream(text_reply("hi"))]).await;
    let client = served.client();
    client.send(request(&client, &[hello()]), &|_| {}).await.unwrap();
    let received = served.requests().pop().unwrap();
    for (name, value) in [
        ("x-api-key", KEY),
        ("anthropic-version", "2023-06-01"),
        ("content-type", "application/json"),
        ("accept", "text/event-stream"),
        ("user-agent", concat!("hames/", env!("CARGO_PKG_VERSION"))),
        ("idempotency-key", "0190-session/7"),
    ] {
        assert_eq!(received.header(name), Some(value), "{name}");
    }
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let served = Served::new(vec![Answer::stream(text_reply("hi"))]).await;
    let client = served.client();
    for _ in 0..3 {
        client.send(request(&client, &[hello()]), &|_| {}).await.unwrap();
    }
    assert_eq!((served.requests().len(), served.seen.lock().unwrap().connections), (3, 1));
}

#[test]
fn the_head_holds_everything_before_the_messages_in_a_fixed_order() {
    let schema = json!({"type": "object", "properties": {"z": {}, "a": {}}}).as_object().unwrap().clone();
    let tool = ToolSpec { name: "bash".to_owned(), description: "Runs \"it\".".to_owned(), schema };
    let head = client().encode_head(&Head { system: "Work.\u{7}".to_owned(), tools: vec![tool] });
    assert_eq!(
        &*head,
        r#""model":"claude-sonnet-5-5","max_tokens":128000,"stream":true,"tools":[{"name":"bash","description":"Runs \"it\".","input_schema":{"type":"object","properties":{"z":{},"a":{}}}}],"system":[{"type":"text","text":"Work.\u0007","cache_control":{"type":"ephemeral"}}]"#
    );
    let bare = client().encode_head(&Head { system: " ".to_owned(), tools: Vec::new() });
    assert_eq!(&*bare, r#""model":"claude-sonnet-5-5","max_tokens":128000,"stream":true"#);
}

#[test]
fn the_effort_is_asked_for_in_the_head_and_only_when_it_was_named() {
    let head = |effort| {
        let client = Client::new(ClientConfig { effort, ..ClientConfig::anthropic(MODEL, KEY) }).unwrap();
        client.encode_head(&Head { system: String::new(), tools: Vec::new() })
    };
    for (effort, name) in [(Effort::Low, "low"), (Effort::Medium, "medium"), (Effort::High, "high")] {
        assert!(head(Some(effort)).ends_with(&format!(r#","stream":true,"output_config":{{"effort":"{name}"}}"#)));
    }
    assert!(!head(None).contains("output_config"));
}

#[tokio::test]
async fn only_cache_markers_move_between_requests() {
    let served = Served::new(vec![Answer::stream(text_reply("hi"))]).await;
    let client = served.client();
    let turn = |id: &str| {
        let mut result = result(Status::Ok, vec![Block::text("out")]);
        result.wire_id = id.to_owned();
        [assistant(vec![call_part(id, "bash", whole(), "{}")], &[id]), Message::Results(vec![result])]
    };
    let mut messages = vec![hello()];
    let mut before = String::new();
    for id in ["t1", "t2", "t3"] {
        messages.extend(turn(id));
        client.send(request(&client, &messages), &|_| {}).await.unwrap();
        let body = served.requests().pop().unwrap().body;
        let marked = body.matches(MARKER).count();
        assert_eq!(marked, 3, "one in the head, two in messages");
        let json: Value = serde_json::from_str(&body).unwrap();
        let last = json["messages"].as_array().unwrap().last().unwrap();
        assert!(last["content"][0]["cache_control"].is_object());
        let plain = body.replace(MARKER, "");
        assert!(plain.starts_with(before.strip_suffix("]}").unwrap_or_default()), "the prefix changed");
        before = plain;
    }
}

#[test]
fn user_content_is_never_empty_or_blank() {
    let blocks = vec![
        Block::text(" \n"),
        Block::text("Hi\u{1b}"),
        Block::Image { media_type: "image/png".to_owned(), data: "AA==".to_owned() },
    ];
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}});
    let expected = json!({"role": "user", "content": [{"type": "text", "text": "Hi\u{1b}"}, image]});
    assert_eq!(encoded(&Message::User(blocks)), expected);
    for blank in [vec![], vec![Block::text("")], vec![Block::text("\u{a0}\t")]] {
        assert_eq!(encoded(&Message::User(blank))["content"], json!([{"type": "text", "text": "(empty)"}]));
    }
}

#[test]
fn results_keep_their_order_and_failures_are_told() {
    let image = || Block::Image { media_type: "image/png".to_owned(), data: "AA==".to_owned() };
    let mut all = vec![
        result(Status::Ok, vec![Block::text("fine"), image()]),
        result(Status::Failed, vec![Block::text("bad"), image()]),
        result(Status::Ok, vec![Block::text("")]),
    ];
    all.extend([Status::Refused, Status::Cancelled, Status::InDoubt].map(|status| result(status, vec![])));
    let content = encoded(&Message::Results(all))["content"].clone();
    let content = content.as_array().unwrap();
    let kinds: Vec<_> = content.iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["tool_result"; 6]);
    assert_eq!(content[0]["content"][1]["type"], "image");
    assert_eq!(content[0].get("is_error"), None);
    // The provider refuses an image in a failed result.
    assert_eq!(content[1]["content"][1]["type"], "text");
    assert_eq!(content[2]["content"], json!([{"type": "text", "text": "(no output)"}]));
    for failed in [1, 3, 4, 5] {
        assert_eq!(content[failed]["is_error"], json!(true));
    }
}

#[test]
fn a_marker_fits_where_the_encoding_says() {
    let notice = Message::User(vec![Block::text("Note.")]);
    for message in [notice, Message::Results(vec![result(Status::Ok, vec![Block::text("}]}")])])] {
        let encoded = client().encode(&message);
        let (before, after) = encoded.body.split_at(encoded.marker_at.unwrap());
        let json: Value = serde_json::from_str(&format!("{before}{MARKER}{after}")).unwrap();
        assert!(json["content"].as_array().unwrap().last().unwrap()["cache_control"].is_object());
    }
}

#[test]
fn replies_are_echoed_without_what_the_provider_would_refuse() {
    let unsigned = part(
        PartKind::Reasoning { text: "hm".to_owned(), signed: false },
        r#"{"type":"thinking","thinking":"hm","signature":""}"#,
    );
    let signed = part(
        PartKind::Reasoning { text: "hm".to_owned(), signed: true },
        r#"{"type":"thinking","thinking":"hm","signature":"S"}"#,
    );
    let nothing = json!([{"type": "text", "text": "(no content)"}]);
    assert_eq!(encoded(&assistant(vec![], &[]))["content"], nothing);
    assert_eq!(encoded(&assistant(vec![unsigned, text_part(" \n")], &[]))["content"], nothing);
    // The provider refuses a reply that ends in reasoning.
    let content = encoded(&assistant(vec![text_part("a"), signed], &[]))["content"].clone();
    assert_eq!((&content[1]["signature"], &content[2]), (&json!("S"), &nothing[0]));
}

#[test]
fn calls_are_echoed_with_ids_names_and_inputs_that_the_provider_accepts() {
    let broken = Arguments::Broken { text: "{\"a".to_owned(), problem: "Cut.".to_owned() };
    let long = "x".repeat(70);
    let parts = vec![
        call_part("t1", "bash", whole(), "{\"n\": 1.0}"),
        call_part("t1", "bash", whole(), "{}"),
        call_part("t3", "foo bar!", whole(), "{}"),
        call_part("t4", "", broken, "{\"a\":1}"),
        call_part("t5", &long, whole(), "{}"),
    ];
    let untouched = parts[0].native.as_str().to_owned();
    let message = assistant(parts, &["t1", "call_2", "t3", "t4", "t5"]);
    let body = client().encode(&message).body;
    assert!(body.contains(&untouched), "{body}");
    let content = encoded(&message)["content"].clone();
    let names: Vec<_> = (0..5).map(|index| content[index]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["bash", "bash", "foo_bar_", "unnamed", &long[..64]]);
    let ids: Vec<_> = (0..5).map(|index| content[index]["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["t1", "call_2", "t3", "t4", "t5"]);
    assert_eq!(content[3]["input"], json!({}));
    assert_eq!(content[1]["caller"], json!({"type": "direct"}));
}

#[test]
fn a_paused_reply_does_not_end_in_whitespace() {
    let Message::Assistant { reply, wire_ids } = assistant(vec![text_part("So far. \n"), text_part(" ")], &[]) else {
        panic!()
    };
    let paused = Arc::new(Reply { stop: StopReason::Pause, ..(*reply).clone() });
    let echoed = encoded(&Message::Assistant { reply: paused, wire_ids: wire_ids.clone() });
    assert_eq!(echoed["content"], json!([{"type": "text", "text": "So far."}]));
    let ended = encoded(&Message::Assistant { reply, wire_ids });
    assert_eq!(ended["content"][0]["text"], "So far. \n", "any other reply is echoed as received");
}
