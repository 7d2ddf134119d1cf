//! Streams of the Responses API.

use hames_protocol::{Arguments, Delta, FailureKind, PartKind, Reply, StopReason, Usage};
use serde_json::{Value, json};

use crate::served::{Answer, End, outcome, sse};

const CREATED: &str = r#"{"type":"response.created","response":{"id":"resp_1","status":"in_progress","output":[]}}"#;

fn completed(output: Value) -> String {
    json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": output,
        "usage": {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
            "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 15}, "total_tokens": 120}}})
    .to_string()
}

fn added(index: u64, item: &Value) -> String {
    json!({"type": "response.output_item.added", "output_index": index, "item": item}).to_string()
}

fn done(index: u64, item: &Value) -> String {
    json!({"type": "response.output_item.done", "output_index": index, "item": item}).to_string()
}

fn arguments(index: u64, delta: &str) -> String {
    json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": delta}).to_string()
}

fn call(id: &str, name: &str, arguments: &str, status: &str) -> Value {
    json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": arguments, "status": status})
}

fn message(text: &str) -> Value {
    json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]})
}

async fn outcome_of(events: &[&str]) -> (Result<Reply, hames_protocol::ModelFailure>, Vec<Delta>) {
    outcome("openai", "gpt-5", Answer::stream(sse(events))).await
}

async fn reply(events: &[&str]) -> Reply {
    outcome_of(events).await.0.unwrap()
}

#[tokio::test]
async fn items_become_parts_in_their_order_and_their_bytes() {
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA",
        "summary": [{"type": "summary_text", "text": "A"}, {"type": "summary_text", "text": "B"}]});
    let (text, tool) = (message("Hello"), call("a", "read", "{\"path\": \"x\"}", "completed"));
    let hello = r#"{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"Hello"}"#;
    let thought = r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"A"}"#;
    let (reply, deltas) = outcome_of(&[
        CREATED,
        &added(0, &json!({"type": "reasoning", "id": "rs_1", "summary": []})),
        thought,
        &done(0, &reasoning),
        &added(1, &json!({"type": "message", "id": "msg_1", "role": "assistant", "content": []})),
        hello,
        &done(1, &text),
        &added(2, &call("a", "read", "", "in_progress")),
        &arguments(2, "{\"path\":"),
        &arguments(2, " \"x\"}"),
        &done(2, &tool),
        &completed(json!([reasoning, text, tool])),
    ])
    .await;
    let reply = reply.unwrap();
    assert_eq!(reply.provider_id.as_deref(), Some("resp_1"));
    assert_eq!(reply.stop, StopReason::ToolUse);
    let usage =
        Usage { input_tokens: 30, output_tokens: 20, cache_read_tokens: 60, cache_write_tokens: 10, estimated: false };
    assert_eq!(reply.usage, Some(usage));
    let natives: Vec<Value> =
        reply.parts.iter().map(|part| serde_json::from_str(part.native.as_str()).unwrap()).collect();
    assert_eq!(natives, [reasoning, text, tool]);
    assert_eq!(reply.parts[0].kind, PartKind::Reasoning { text: "A\n\nB".to_owned(), signed: true });
    assert_eq!(reply.parts[1].kind, PartKind::Text("Hello".to_owned()));
    let call = reply.calls().next().unwrap();
    assert_eq!((call.provider_id.as_deref(), call.name.as_str()), (Some("a"), "read"));
    assert_eq!(
        deltas,
        [
            Delta::Reasoning("A".to_owned()),
            Delta::Text("Hello".to_owned()),
            Delta::Call { name: "read".to_owned() },
            Delta::Usage(usage)
        ]
    );
}

#[tokio::test]
async fn parallel_calls_grow_side_by_side() {
    let reply = reply(&[
        CREATED,
        &added(0, &call("a", "read", "", "in_progress")),
        &added(1, &call("b", "list", "", "in_progress")),
        &arguments(1, "{\"n\":1}"),
        &arguments(0, "{}"),
        &done(1, &call("b", "list", "{\"n\":1}", "completed")),
        &done(0, &call("a", "read", "", "completed")),
        &completed(json!([])),
    ])
    .await;
    let calls: Vec<_> = reply.calls().map(|call| (call.name.as_str(), call.arguments.clone())).collect();
    let whole = |value: Value| Arguments::Whole(value.as_object().unwrap().clone());
    assert_eq!(calls, [("read", whole(json!({}))), ("list", whole(json!({"n": 1})))]);
}

#[tokio::test]
async fn a_stream_that_ends_in_the_middle_of_a_call_is_no_reply() {
    let begun =
        [CREATED.to_owned(), added(0, &call("a", "bash", "", "in_progress")), arguments(0, "{\"command\":\"touch hal")];
    let begun: Vec<&str> = begun.iter().map(String::as_str).collect();
    let finished = completed(json!([]));
    let half = completed(json!([call("a", "bash", "{\"command\":\"touch hal", "in_progress")]));
    let text = r#"{"type":"response.output_text.delta","output_index":0,"delta":"half"}"#;
    for events in [
        begun.clone(),
        [begun.clone(), vec![finished.as_str()]].concat(),
        [begun.clone(), vec![half.as_str()]].concat(),
        vec![CREATED, text],
    ] {
        for end in [End::Whole, End::Cut] {
            let answer = Answer::stream(sse(&events)).ending(end);
            let failure = outcome("openai", "gpt-5", answer).await.0.unwrap_err();
            assert_eq!(failure.kind, FailureKind::Transient, "{failure}");
            assert!(failure.message.contains("OpenAI") || failure.message.contains("127.0.0.1"), "{failure}");
        }
    }
}

#[tokio::test]
async fn a_reply_cut_at_the_output_limit_keeps_its_text_and_no_call_of_it_is_whole() {
    let incomplete = json!({"type": "response.incomplete", "response": {"id": "r", "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"}, "output": []}})
    .to_string();
    let reply = reply(&[
        CREATED,
        &added(
            0,
            &json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []}),
        ),
        r#"{"type":"response.output_text.delta","output_index":0,"delta":"Half a sen"}"#,
        &added(1, &call("a", "bash", "", "in_progress")),
        &arguments(1, "{\"command\":\"true\"}"),
        &incomplete,
    ])
    .await;
    assert_eq!((reply.stop.clone(), reply.text()), (StopReason::OutputLimit, "Half a sen".to_owned()));
    assert!(matches!(reply.calls().next().unwrap().arguments, Arguments::Broken { .. }));
}

#[tokio::test]
async fn items_without_events_are_taken_from_the_whole_response() {
    let reply = reply(&[CREATED, &completed(json!([message("Hi"), call("a", "list", "{}", "completed")]))]).await;
    assert_eq!((reply.text().as_str(), reply.calls().count()), ("Hi", 1));
}

#[tokio::test]
async fn a_refusal_is_told_as_one() {
    let refusal =
        json!({"type": "message", "id": "m", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]});
    let declined = reply(&[CREATED, &done(0, &refusal), &completed(json!([]))]).await;
    assert_eq!((declined.stop.clone(), declined.text()), (StopReason::Refusal, "No.".to_owned()));
    let filtered =
        json!({"type": "response.incomplete", "response": {"incomplete_details": {"reason": "content_filter"}}})
            .to_string();
    assert_eq!(reply(&[CREATED, &filtered]).await.stop, StopReason::Refusal);
}

#[tokio::test]
async fn failures_in_the_stream_are_told_with_their_names() {
    use FailureKind::{Credential, Rejected, Transient};
    for (event, kind, told) in [
        (
            r#"{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"server_error","message":"Oops"}}}"#,
            Transient,
            "server_error: Oops",
        ),
        (
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"Try again in 2s"}}}"#,
            Transient,
            "rate_limit_exceeded",
        ),
        (
            r#"{"type":"error","code":"insufficient_quota","message":"Pay","param":null}"#,
            Credential,
            "insufficient_quota: Pay",
        ),
        (
            r#"{"type":"error","error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"Too long"}}"#,
            Rejected,
            "Too long",
        ),
    ] {
        let failure = outcome_of(&[CREATED, event]).await.0.unwrap_err();
        assert_eq!(failure.kind, kind, "{failure}");
        assert!(failure.message.contains(told), "{failure}");
    }
}
