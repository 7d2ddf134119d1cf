//! Streams of chat completions, as servers really write them.

use hames_protocol::{Arguments, Delta, FailureKind, PartKind, RawCall, Reply, StopReason, Usage};
use serde_json::{Value, json};

use crate::served::{Answer, End, Served, ask, data, outcome};

const END: &str = r#"{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;

fn delta(delta: Value) -> String {
    json!({"id": "c1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
        .to_string()
}

fn stop(reason: &str) -> String {
    json!({"id": "c1", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).to_string()
}

fn stream(chunks: &[String]) -> Answer {
    let chunks: Vec<&str> = chunks.iter().map(String::as_str).chain(["[DONE]"]).collect();
    Answer::stream(data(&chunks))
}

async fn reply(answer: Answer) -> Reply {
    outcome("openai-chat", "some-model", answer).await.0.unwrap()
}

/// The calls of a reply whose chunks hold these lists of pieces.
async fn calls(pieces: &[Value]) -> Vec<(Option<String>, String, Value)> {
    let mut chunks: Vec<String> = pieces.iter().map(|pieces| delta(json!({"tool_calls": pieces}))).collect();
    chunks.push(END.to_owned());
    let reply = reply(stream(&chunks)).await;
    assert_eq!(reply.stop, StopReason::ToolUse);
    let call = |call: &RawCall| {
        let arguments = match &call.arguments {
            Arguments::Whole(map) => Value::Object(map.clone()),
            Arguments::Broken { text, .. } => json!({"broken": text}),
        };
        (call.provider_id.clone(), call.name.clone(), arguments)
    };
    reply.calls().map(call).collect()
}

fn call(id: &str, name: &str, arguments: Value) -> (Option<String>, String, Value) {
    (Some(id.to_owned()).filter(|id| !id.is_empty()), name.to_owned(), arguments)
}

fn piece(index: impl Into<Value>, id: impl Into<Value>, name: impl Into<Value>, arguments: impl Into<Value>) -> Value {
    let mut piece = json!({"type": "function", "function": {}});
    for (field, value) in [("index", index.into()), ("id", id.into())] {
        if !value.is_null() {
            piece[field] = value;
        }
    }
    for (field, value) in [("name", name.into()), ("arguments", arguments.into())] {
        if !value.is_null() {
            piece["function"][field] = value;
        }
    }
    piece
}

const NONE: Value = Value::Null;

#[tokio::test]
async fn pieces_of_parallel_calls_are_joined_by_number() {
    let expected = [call("a", "read", json!({"path": "x"})), call("b", "list", json!({"n": 1}))];
    let pieces = [
        json!([piece(0, "a", "read", "")]),
        json!([piece(1, "b", "list", "")]),
        json!([piece(0, NONE, NONE, "{\"pa"), piece(1, NONE, NONE, "{\"n\"")]),
        json!([piece(1, NONE, NONE, ":1}")]),
        json!([piece(0, NONE, NONE, "th\":\"x\"}")]),
    ];
    assert_eq!(calls(&pieces).await, expected);
}

#[tokio::test]
async fn pieces_of_parallel_calls_are_joined_by_id_where_no_number_tells() {
    let expected = [call("a", "read", json!({"path": "x"})), call("b", "list", json!({"n": 1}))];
    let by_id = [
        json!([piece(NONE, "a", "read", "{\"path\""), piece(NONE, "b", "list", "{")]),
        json!([piece(NONE, "b", NONE, "\"n\":1}")]),
        json!([piece(NONE, "a", NONE, ":\"x\"}")]),
    ];
    assert_eq!(calls(&by_id).await, expected);
    let all_numbered_zero = [
        json!([piece(0, "a", "read", "{\"path\":")]),
        json!([piece(0, NONE, NONE, "\"x\"}")]),
        json!([piece(0, "b", "list", "{\"n\":1}")]),
    ];
    assert_eq!(calls(&all_numbered_zero).await, expected);
}

#[tokio::test]
async fn pieces_of_parallel_calls_are_joined_by_neither() {
    let expected = [call("", "read", json!({"path": "x"})), call("", "list", json!({"n": 1}))];
    let in_turn = [
        json!([piece(NONE, NONE, "read", "{\"path\":")]),
        json!([piece(NONE, NONE, NONE, "\"x\"}")]),
        json!([piece(NONE, NONE, "list", "{\"n\":")]),
        json!([piece(NONE, "", NONE, "1}")]),
    ];
    assert_eq!(calls(&in_turn).await, expected);
    let at_once = [json!([piece(NONE, NONE, "read", "{\"path\":\"x\"}"), piece(NONE, NONE, "list", "{\"n\":1}")])];
    assert_eq!(calls(&at_once).await, expected);
    let numbered_zero = [json!([piece(0, "", "read", "{\"path\":\"x\"}")]), json!([piece(0, "", "list", "{\"n\":1}")])];
    assert_eq!(calls(&numbered_zero).await, expected);
}

#[tokio::test]
async fn two_calls_of_the_same_tool_and_arguments_are_two() {
    let twice = [call("a", "read", json!({"path": "x"})), call("b", "read", json!({"path": "x"}))];
    let pieces =
        [json!([piece(0, "a", "read", "{\"path\":\"x\"}")]), json!([piece(0, "b", "read", "{\"path\":\"x\"}")])];
    assert_eq!(calls(&pieces).await, twice);
    let pieces =
        [json!([piece(0, "a", "read", "{\"path\":\"x\"}")]), json!([piece(1, "b", "read", "{\"path\":\"x\"}")])];
    assert_eq!(calls(&pieces).await, twice);
}

#[tokio::test]
async fn names_may_come_late_in_pieces_or_again_and_again() {
    let expected = [call("a", "read_file", json!({"path": "x"}))];
    let late = [
        json!([piece(0, "a", NONE, NONE)]),
        json!([piece(0, NONE, "", NONE)]),
        json!([piece(0, NONE, "read_file", NONE)]),
        json!([piece(0, NONE, NONE, "{\"path\":\"x\"}")]),
    ];
    assert_eq!(calls(&late).await, expected);
    let in_pieces = [
        json!([piece(0, "a", "read", NONE)]),
        json!([piece(0, NONE, "_file", "")]),
        json!([piece(0, NONE, NONE, "{\"path\":\"x\"}")]),
    ];
    assert_eq!(calls(&in_pieces).await, expected);
    let repeated = [
        json!([piece(0, "a", "read_file", "{\"pa")]),
        json!([piece(0, "a", "read_file", "th\":")]),
        json!([piece(0, "a", "read_file", "\"x\"}")]),
        json!([piece(0, "a", "read_file", "{\"path\":\"x\"}")]),
    ];
    assert_eq!(calls(&repeated).await, expected);
}

#[tokio::test]
async fn ids_may_come_late_be_empty_or_change_with_each_piece() {
    let late = [json!([piece(0, "", "read", "{")]), json!([piece(0, "a", NONE, "}")])];
    assert_eq!(calls(&late).await, [call("a", "read", json!({}))]);
    let changing = [json!([piece(0, "a", "read", "{")]), json!([piece(0, "b", NONE, "}")])];
    assert_eq!(calls(&changing).await, [call("a", "read", json!({}))]);
    let changing_without_number = [json!([piece(NONE, "a", "read", "{")]), json!([piece(NONE, "b", NONE, "}")])];
    assert_eq!(calls(&changing_without_number).await, [call("a", "read", json!({}))]);
    let repeated = [json!([piece(NONE, "a", "read", "{\"n\":1}")]), json!([piece(NONE, "a", "list", "{\"n\":2}")])];
    assert_eq!(calls(&repeated).await, [call("a", "read", json!({"n": 1})), call("a", "list", json!({"n": 2}))]);
}

#[tokio::test]
async fn arguments_may_be_an_object_or_missing_and_are_never_repaired() {
    let object = [json!([piece(0, "a", "read", json!({"path": "x"}))])];
    assert_eq!(calls(&object).await, [call("a", "read", json!({"path": "x"}))]);
    let missing = [json!([piece(0, "a", "list", NONE)])];
    assert_eq!(calls(&missing).await, [call("a", "list", json!({}))]);
    let null = [json!([{"index": 0, "id": "a", "function": {"name": "list", "arguments": null}}])];
    assert_eq!(calls(&null).await, [call("a", "list", json!({}))]);
    let cut = [json!([piece(0, "a", "write", "{\"path\":\"keep.txt\",\"content\":\"only ha")])];
    assert_eq!(
        calls(&cut).await,
        [call("a", "write", json!({"broken": "{\"path\":\"keep.txt\",\"content\":\"only ha"}))]
    );
}

#[tokio::test]
async fn the_end_is_read_whatever_it_is_called() {
    let text = || delta(json!({"role": "assistant", "content": "hi"}));
    let tool = || delta(json!({"tool_calls": [piece(0, "a", "list", "{}")]}));
    for (chunks, expected) in [
        (vec![text(), stop("stop")], StopReason::EndTurn),
        (vec![tool(), stop("stop")], StopReason::ToolUse),
        (vec![text(), stop("tool_calls")], StopReason::EndTurn),
        (vec![tool(), stop("function_call")], StopReason::ToolUse),
        (vec![text(), stop("length")], StopReason::OutputLimit),
        (vec![tool(), stop("length")], StopReason::OutputLimit),
        (vec![text(), stop("content_filter")], StopReason::Refusal),
        (vec![text(), stop("model_length")], StopReason::ContextWindow),
        (vec![delta(json!({"refusal": "I cannot."})), stop("stop")], StopReason::Refusal),
        (vec![text(), stop("odd")], StopReason::Other("odd".to_owned())),
        // No reason at all, but the end mark.
        (vec![text()], StopReason::EndTurn),
        (vec![tool()], StopReason::ToolUse),
    ] {
        assert_eq!(reply(stream(&chunks)).await.stop, expected, "{chunks:?}");
    }
}

#[tokio::test]
async fn a_reply_with_its_reason_is_whole_without_the_end_mark_and_nothing_else_is() {
    let (text, end) = (delta(json!({"content": "hi"})), stop("stop"));
    for last in [End::Whole, End::Cut] {
        assert_eq!(reply(Answer::stream(data(&[&text, &end])).ending(last)).await.text(), "hi");
        let cut = outcome("openai-chat", "m", Answer::stream(data(&[&text])).ending(last)).await.0.unwrap_err();
        assert_eq!(cut.kind, FailureKind::Transient);
        assert!(cut.message.contains("end event"), "{cut}");
    }
    for empty in ["[DONE]", r#"{"id":"c1","choices":[]}"#] {
        assert_eq!(
            outcome("openai-chat", "m", Answer::stream(data(&[empty]))).await.0.unwrap_err().kind,
            FailureKind::Transient
        );
    }
    let comments = Answer::stream(": keep-alive\n\n: OPENROUTER PROCESSING\n\n");
    assert_eq!(outcome("openai-chat", "m", comments).await.0.unwrap_err().kind, FailureKind::Transient);
}

#[tokio::test]
async fn tokens_are_counted_wherever_they_stand() {
    let usage = |value: Value| {
        let mut chunk: Value = serde_json::from_str(&delta(json!({}))).unwrap();
        chunk["choices"] = json!([]);
        chunk["usage"] = value;
        chunk.to_string()
    };
    let expected = |input, output, cached| {
        let (input_tokens, output_tokens, cache_read_tokens) = (input, output, cached);
        Some(Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens: 0, estimated: false })
    };
    let (text, end) = (delta(json!({"content": "hi"})), stop("stop"));
    let last = usage(json!({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 60}, "completion_tokens_details": {"reasoning_tokens": 15}}));
    assert_eq!(reply(stream(&[text.clone(), end.clone(), last])).await.usage, expected(40, 20, 60));
    let growing = |n: u64| {
        let mut chunk: Value = serde_json::from_str(&text).unwrap();
        chunk["usage"] = json!({"prompt_tokens": 100, "completion_tokens": n});
        chunk.to_string()
    };
    assert_eq!(reply(stream(&[growing(1), growing(2), end.clone()])).await.usage, expected(100, 2, 0));
    assert_eq!(reply(stream(&[text.clone(), end.clone()])).await.usage, None);
    let null = usage(Value::Null);
    assert_eq!(reply(stream(&[growing(3), end.clone(), null])).await.usage, expected(100, 3, 0));
    let deepseek = usage(json!({"prompt_tokens": 100, "completion_tokens": 20, "prompt_cache_hit_tokens": 70}));
    assert_eq!(reply(stream(&[text.clone(), end.clone(), deepseek])).await.usage, expected(30, 20, 70));
    let apart = usage(json!({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 420,
        "completion_tokens_details": {"reasoning_tokens": 300}}));
    assert_eq!(reply(stream(&[text.clone(), end.clone(), apart])).await.usage, expected(100, 320, 0));
    let mut groq: Value = serde_json::from_str(&end).unwrap();
    groq["x_groq"] = json!({"usage": {"prompt_tokens": 5, "completion_tokens": 6}});
    assert_eq!(reply(stream(&[text.clone(), groq.to_string()])).await.usage, expected(5, 6, 0));
    let mut moonshot: Value = serde_json::from_str(&end).unwrap();
    moonshot["choices"][0]["usage"] = json!({"prompt_tokens": 7, "completion_tokens": 8});
    assert_eq!(reply(stream(&[text, moonshot.to_string()])).await.usage, expected(7, 8, 0));
}

#[tokio::test]
async fn an_error_inside_a_good_stream_fails_the_attempt() {
    use FailureKind::{Credential, Rejected, Transient};
    let text = delta(json!({"content": "hi"}));
    for (error, kind, told) in [
        (r#"{"error":{"message":"Overloaded","type":"server_error"}}"#, Transient, "server_error: Overloaded"),
        (r#"{"error":{"code":429,"message":"Slow down, try again in 2s"}}"#, Transient, "Slow down"),
        (r#"{"error":{"code":402,"message":"No credit"}}"#, Credential, "No credit"),
        (r#"{"error":{"message":"Bad","type":"invalid_request_error"}}"#, Rejected, "invalid_request_error: Bad"),
        (r#"{"object":"error","message":"boom","type":"InternalServerError","code":500}"#, Transient, "boom"),
        (
            r#"{"choices":[{"index":0,"delta":{},"error":{"code":502,"message":"gone"},"finish_reason":"error"}]}"#,
            Transient,
            "gone",
        ),
        (r#"{"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}"#, Transient, "broke off"),
        (
            r#"{"choices":[{"index":0,"delta":{},"finish_reason":"insufficient_system_resource"}]}"#,
            Transient,
            "insufficient",
        ),
        (r#"{"choices":[{"#, Transient, "malformed"),
    ] {
        let answer = Answer::stream(data(&[&text, error, "[DONE]"]));
        let failure = outcome("openrouter", "m", answer).await.0.unwrap_err();
        assert_eq!(failure.kind, kind, "{failure}");
        assert!(failure.message.contains(told) && failure.message.contains("OpenRouter"), "{failure}");
    }
}

#[tokio::test]
async fn reasoning_is_kept_apart_from_the_text() {
    for name in ["reasoning_content", "reasoning"] {
        let chunks = [
            delta(json!({name: "First "})),
            delta(json!({name: "this."})),
            delta(json!({"content": "Done."})),
            stop("stop"),
        ];
        let (reply, deltas) = outcome("deepseek", "m", stream(&chunks)).await;
        let reply = reply.unwrap();
        let PartKind::Reasoning { text, signed: false } = &reply.parts[0].kind else { panic!("{reply:?}") };
        assert_eq!((text.as_str(), reply.text().as_str()), ("First this.", "Done."));
        assert_eq!(reply.parts[0].native.as_str(), json!({name: "First this."}).to_string());
        assert_eq!(deltas[0], Delta::Reasoning("First ".to_owned()));
    }
    let both = [delta(json!({"reasoning": "x", "reasoning_content": "x"})), stop("stop")];
    assert_eq!(reply(stream(&both)).await.parts[0].native.as_str(), r#"{"reasoning_content":"x"}"#);
    let mistral = [
        delta(json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]})),
        delta(json!({"content": [{"type": "text", "text": "So."}]})),
        stop("stop"),
    ];
    let reply = reply(stream(&mistral)).await;
    assert_eq!(reply.text(), "So.");
    assert!(matches!(&reply.parts[0].kind, PartKind::Reasoning { text, .. } if text == "hm"), "{reply:?}");
}

#[tokio::test]
async fn structured_reasoning_is_joined_as_if_it_had_come_whole() {
    let detail = |text: &str, signature: Value| {
        delta(json!({"reasoning": text, "reasoning_details": [
            {"type": "reasoning.text", "index": 0, "text": text, "signature": signature}]}))
    };
    let encrypted = delta(json!({"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "xyz"}]}));
    let chunks =
        [detail("Fir", NONE), detail("st.", json!("sig")), encrypted, delta(json!({"content": "ok"})), stop("stop")];
    let reply = reply(stream(&chunks)).await;
    let native: Value = serde_json::from_str(reply.parts[0].native.as_str()).unwrap();
    assert_eq!(
        native["reasoning_details"],
        json!([{"type": "reasoning.text", "index": 0, "text": "First.", "signature": "sig"},
            {"type": "reasoning.encrypted", "index": 1, "data": "xyz"}])
    );
}

#[tokio::test]
async fn characters_cut_by_chunk_edges_arrive_whole() {
    let text = "北京 naïve 😀 end";
    let arguments = json!({"command": "echo 北京😀"});
    let chunks = [
        delta(json!({"content": "北京 naï"})),
        // Half a surrogate pair at the end of one piece, the other half at the start of the next.
        delta(json!({"content": "ve X"})).replace('X', "\\ud83d"),
        delta(json!({"content": "X end"})).replace('X', "\\ude00"),
        delta(json!({"tool_calls": [piece(0, "a", "bash", arguments.to_string())]})),
        END.to_owned(),
    ];
    let whole = data(&[&chunks[0], &chunks[1], &chunks[2], &chunks[3], &chunks[4], "[DONE]"]);
    for size in [1, 7, whole.len()] {
        let reply = reply(Answer::stream_in(whole.as_bytes().chunks(size))).await;
        assert_eq!(reply.text(), text, "{size}");
        assert_eq!(reply.calls().next().unwrap().arguments, Arguments::Whole(arguments.as_object().unwrap().clone()));
        assert!(!format!("{reply:?}").contains('\u{fffd}'));
    }
}

#[tokio::test]
async fn a_server_that_keeps_the_connection_open_after_the_reply_is_not_waited_for_long() {
    let answer = Answer::stream(data(&[&delta(json!({"content": "hi"})), &stop("stop")])).ending(End::Silent);
    let served = Served::new(vec![answer]).await;
    let (reply, _) = ask(&served.client_of("ollama", "m")).await;
    assert_eq!(reply.unwrap().text(), "hi");
    served.until_closed_by_client().await;
}
