//! Streams of the Gemini API.

use hames_protocol::{Arguments, Delta, FailureKind, PartKind, Reply, StopReason, Usage};
use serde_json::{Value, json};

use crate::served::{Answer, End, data, outcome};

fn chunk(parts: Value) -> String {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}], "responseId": "r1"}).to_string()
}

fn finish(reason: &str) -> String {
    json!({"candidates": [{"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": reason}]}).to_string()
}

async fn outcome_of(chunks: &[&str]) -> (Result<Reply, hames_protocol::ModelFailure>, Vec<Delta>) {
    outcome("gemini", "gemini-3.8-flash", Answer::stream(data(chunks))).await
}

async fn reply(chunks: &[&str]) -> Reply {
    outcome_of(chunks).await.0.unwrap()
}

fn natives(reply: &Reply) -> Vec<Value> {
    reply.parts.iter().map(|part| serde_json::from_str(part.native.as_str()).unwrap()).collect()
}

#[tokio::test]
async fn pieces_of_text_are_joined_and_signed_parts_stay_apart() {
    let (reply, deltas) = outcome_of(&[
        &chunk(json!([{"text": "Hm", "thought": true}])),
        &chunk(json!([{"text": ".", "thought": true}, {"text": "Hel"}])),
        &chunk(json!([{"text": "lo"}])),
        &chunk(json!([{"text": "", "thoughtSignature": "sig"}])),
        &finish("STOP"),
    ])
    .await;
    let reply = reply.unwrap();
    assert_eq!(
        natives(&reply),
        [
            json!({"text": "Hm.", "thought": true}),
            json!({"text": "Hello"}),
            json!({"text": "", "thoughtSignature": "sig"})
        ]
    );
    assert_eq!(reply.parts[0].kind, PartKind::Reasoning { text: "Hm.".to_owned(), signed: false });
    assert_eq!((reply.stop.clone(), reply.provider_id.as_deref()), (StopReason::EndTurn, Some("r1")));
    assert_eq!(deltas[0], Delta::Reasoning("Hm".to_owned()));
    assert_eq!(deltas[2], Delta::Text("Hel".to_owned()));
}

#[tokio::test]
async fn calls_come_with_and_without_ids_and_the_first_of_parallel_ones_is_signed() {
    let calls = json!([
        {"functionCall": {"name": "read", "args": {"path": "x"}}, "thoughtSignature": "sig"},
        {"functionCall": {"name": "list"}},
        {"functionCall": {"id": "f1", "name": "list", "args": {"n": 1}}}
    ]);
    let reply = reply(&[&chunk(calls.clone()), &finish("STOP")]).await;
    assert_eq!(reply.stop, StopReason::ToolUse);
    assert_eq!(Value::Array(natives(&reply)), calls);
    let seen: Vec<_> = reply.calls().map(|call| (call.provider_id.as_deref(), call.name.as_str())).collect();
    assert_eq!(seen, [(None, "read"), (None, "list"), (Some("f1"), "list")]);
    assert!(reply.calls().all(|call| matches!(call.arguments, Arguments::Whole(_))));
}

#[tokio::test]
async fn arguments_that_are_no_object_are_broken() {
    let reply = reply(&[&chunk(json!([{"functionCall": {"name": "read", "args": [1]}}])), &finish("STOP")]).await;
    assert!(matches!(reply.calls().next().unwrap().arguments, Arguments::Broken { .. }));
}

#[tokio::test]
async fn every_reason_to_finish_is_known() {
    for (reason, stop) in [
        ("STOP", StopReason::EndTurn),
        ("MAX_TOKENS", StopReason::OutputLimit),
        ("SAFETY", StopReason::Refusal),
        ("RECITATION", StopReason::Refusal),
        ("BLOCKLIST", StopReason::Refusal),
        ("PROHIBITED_CONTENT", StopReason::Refusal),
        ("SPII", StopReason::Refusal),
        ("OTHER", StopReason::Other("OTHER".to_owned())),
    ] {
        assert_eq!(reply(&[&chunk(json!([{"text": "hi"}])), &finish(reason)]).await.stop, stop);
    }
    for (reason, kind) in [
        ("MALFORMED_FUNCTION_CALL", FailureKind::Transient),
        ("UNEXPECTED_TOOL_CALL", FailureKind::Transient),
        ("MISSING_THOUGHT_SIGNATURE", FailureKind::Rejected),
    ] {
        let failure = outcome_of(&[&finish(reason)]).await.0.unwrap_err();
        assert_eq!(failure.kind, kind);
        assert!(failure.message.contains(reason) && failure.message.contains("Gemini"), "{failure}");
    }
}

#[tokio::test]
async fn a_prompt_that_is_blocked_is_told_with_the_reason() {
    let blocked = r#"{"promptFeedback":{"blockReason":"SAFETY","blockReasonMessage":"Too dangerous."},"usageMetadata":{"promptTokenCount":9}}"#;
    let failure = outcome_of(&[blocked]).await.0.unwrap_err();
    assert_eq!((failure.kind, failure.usage.unwrap().input_tokens), (FailureKind::Rejected, 9));
    assert!(failure.message.contains("SAFETY: Too dangerous"), "{failure}");
}

#[tokio::test]
async fn a_stream_without_a_reason_to_finish_is_cut_and_one_with_it_is_whole() {
    let text = chunk(json!([{"text": "hi"}]));
    for end in [End::Whole, End::Cut] {
        let cut = Answer::stream(data(&[&text])).ending(end);
        assert_eq!(outcome("gemini", "m", cut).await.0.unwrap_err().kind, FailureKind::Transient);
        let whole = Answer::stream(data(&[&text, &finish("STOP")])).ending(end);
        assert_eq!(outcome("gemini", "m", whole).await.0.unwrap().text(), "hi");
    }
}

#[tokio::test]
async fn cached_tokens_are_told_apart_and_thoughts_are_output() {
    let usage = r#"{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":60,"candidatesTokenCount":5,"thoughtsTokenCount":15,"totalTokenCount":120}}"#;
    let expected =
        Usage { input_tokens: 40, output_tokens: 20, cache_read_tokens: 60, cache_write_tokens: 0, estimated: false };
    assert_eq!(reply(&[usage]).await.usage, Some(expected));
}

#[tokio::test]
async fn an_error_in_the_stream_is_told_by_its_status() {
    for (error, kind) in [
        (r#"{"error":{"code":503,"message":"Overloaded","status":"UNAVAILABLE"}}"#, FailureKind::Transient),
        (r#"{"error":{"code":400,"message":"Bad","status":"INVALID_ARGUMENT"}}"#, FailureKind::Rejected),
    ] {
        let failure = outcome_of(&[&chunk(json!([{"text": "hi"}])), error]).await.0.unwrap_err();
        assert_eq!(failure.kind, kind, "{failure}");
    }
}
