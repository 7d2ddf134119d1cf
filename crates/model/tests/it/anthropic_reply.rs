//! Streams become replies: nothing is lost, nothing is repaired.

use std::sync::Arc;

use hames_protocol::port::Model;
use hames_protocol::{Arguments, Delta, FailureKind, Message, PartKind, Reply, StopReason, Usage};
use serde_json::{Value, json};

use crate::served::{Answer, End, START, STOP, Served, ask, ended, failure, reply, reply_of, sse, text_reply};

/// The events of a call whose input arrives in these pieces, without the event that closes it.
fn call(index: u32, pieces: &[&str]) -> Vec<String> {
    let start = json!({"type": "content_block_start", "index": index, "content_block":
        {"type": "tool_use", "id": format!("toolu_{index}"), "name": "bash", "input": {}}});
    let delta = |piece: &&str| {
        json!({"type": "content_block_delta", "index": index, "delta":
            {"type": "input_json_delta", "partial_json": piece}})
    };
    [start].into_iter().chain(pieces.iter().map(delta)).map(|event| event.to_string()).collect()
}

fn close(index: u32) -> String {
    json!({"type": "content_block_stop", "index": index}).to_string()
}

async fn replied(blocks: &[impl AsRef<str>], reason: &str) -> Reply {
    let blocks: Vec<&str> = blocks.iter().map(AsRef::as_ref).collect();
    reply(Answer::stream(reply_of(&blocks, reason))).await
}

async fn arguments(pieces: &[&str]) -> (Arguments, String) {
    let reply = replied(&[call(0, pieces), vec![close(0)]].concat(), "tool_use").await;
    let part = &reply.parts[0];
    (reply.calls().next().unwrap().arguments.clone(), part.native.as_str().to_owned())
}

#[tokio::test]
async fn calls_whose_deltas_are_interleaved_come_out_in_order() {
    let (first, second) = (call(0, &[r#"{"command":"#, r#""a"}"#]), call(1, &[r#"{"comm"#, r#"and":"b"}"#]));
    let blocks = [&second[0], &first[0], &first[1], &second[1], &second[2], &close(1), &first[2], &close(0)];
    let served = Served::new(vec![Answer::stream(reply_of(&blocks.map(String::as_str), "tool_use"))]).await;
    let (result, deltas) = ask(&served.client()).await;
    let reply = result.unwrap();
    let calls: Vec<_> = reply.calls().map(|call| (call.provider_id.as_deref().unwrap(), &call.arguments)).collect();
    let Arguments::Whole(a) = calls[0].1 else { panic!() };
    let Arguments::Whole(b) = calls[1].1 else { panic!() };
    assert_eq!((calls[0].0, &a["command"]), ("toolu_0", &json!("a")));
    assert_eq!((calls[1].0, &b["command"]), ("toolu_1", &json!("b")));
    let shown: Vec<_> = deltas.into_iter().filter(|delta| !matches!(delta, Delta::Usage(_))).collect();
    assert_eq!(shown, vec![Delta::Call { name: "bash".to_owned() }; 2]);
    assert_eq!(reply.stop, StopReason::ToolUse);
}

#[tokio::test]
async fn reasoning_is_echoed_as_received_in_its_place() {
    let body = reply_of(
        &[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me see.  "}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"\n","estimated_tokens":4}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"S1+/=="}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":" I read. "}}"#,
            r#"{"type":"content_block_stop","index":1}"#,
            r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t1","name":"read","input":{}}}"#,
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"path\": \"a.txt\", \"n\": 1.00}"}}"#,
            r#"{"type":"content_block_stop","index":2}"#,
            r#"{"type":"content_block_start","index":3,"content_block":{"type":"redacted_thinking","data":"D1=="}}"#,
            r#"{"type":"content_block_stop","index":3}"#,
            r#"{"type":"content_block_start","index":4,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            r#"{"type":"content_block_delta","index":4,"delta":{"type":"signature_delta","signature":"S2"}}"#,
            r#"{"type":"content_block_stop","index":4}"#,
            r#"{"type":"content_block_start","index":5,"content_block":{"type":"tool_use","id":"t2","name":"read","input":{}}}"#,
            r#"{"type":"content_block_stop","index":5}"#,
        ],
        "tool_use",
    );
    let expected = [
        r#"{"type":"thinking","thinking":"Let me see.  \n","signature":"S1+/=="}"#,
        r#"{"type":"text","text":" I read. "}"#,
        r#"{"type":"tool_use","id":"t1","name":"read","input":{"path": "a.txt", "n": 1.00}}"#,
        r#"{"type":"redacted_thinking","data":"D1=="}"#,
        r#"{"type":"thinking","thinking":"","signature":"S2"}"#,
        r#"{"type":"tool_use","id":"t2","name":"read","input":{}}"#,
    ];
    let served = Served::new(vec![Answer::stream(body)]).await;
    let client = served.client();
    let reply = Arc::new(ask(&client).await.0.unwrap());
    let wire_ids = vec!["t1".to_owned(), "t2".to_owned()];
    let message = Message::Assistant { reply: Arc::clone(&reply), wire_ids };
    let echoed = client.encode(&message);
    assert_eq!(&*echoed.body, format!(r#"{{"role":"assistant","content":[{}]}}"#, expected.join(",")));
    assert_eq!(echoed.marker_at, None);

    let other = served.client_with(|config| config.model = "claude-opus-5-5".to_owned());
    let without: Vec<_> = expected.into_iter().filter(|block| !block.contains("thinking")).collect();
    assert_eq!(&*other.encode(&message).body, format!(r#"{{"role":"assistant","content":[{}]}}"#, without.join(",")));
}

#[tokio::test]
async fn tokens_are_the_last_that_were_reported() {
    let again = r#"{"type":"message_delta","delta":{},"usage":{"input_tokens":25,"cache_read_input_tokens":100,"output_tokens":15}}"#;
    let half = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}"#;
    let usage = |output_tokens| Usage {
        input_tokens: 25,
        output_tokens,
        cache_read_tokens: 100,
        cache_write_tokens: 3,
        estimated: false,
    };
    let whole = reply(Answer::stream(sse(&[START, half, again, STOP]))).await;
    assert_eq!(whole.usage, Some(usage(15)));
    for (events, spent) in [(vec![START], 1), (vec![START, half], 7)] {
        for end in [End::Whole, End::Cut] {
            let failure = failure(Answer::stream(sse(&events)).ending(end)).await;
            assert_eq!(failure.usage, Some(usage(spent)));
        }
    }
    let silent = reply(Answer::stream(sse(&[r#"{"type":"message_start","message":{"id":"m"}}"#, STOP]))).await;
    assert_eq!(silent.usage, None);
}

#[tokio::test]
async fn every_stop_reason_is_told_apart() {
    for (word, stop) in [
        ("end_turn", StopReason::EndTurn),
        ("tool_use", StopReason::ToolUse),
        ("max_tokens", StopReason::OutputLimit),
        ("model_context_window_exceeded", StopReason::ContextWindow),
        ("refusal", StopReason::Refusal),
        ("pause_turn", StopReason::Pause),
        ("stop_sequence", StopReason::Other("stop_sequence".to_owned())),
        ("novelty", StopReason::Other("novelty".to_owned())),
    ] {
        assert_eq!(replied(&[""; 0], word).await.stop, stop);
    }
    let none = reply(Answer::stream(sse(&[START, STOP]))).await;
    assert_eq!(none.stop, StopReason::Other("no stop reason".to_owned()));
    assert!(none.parts.is_empty());
}

#[tokio::test]
async fn arguments_are_a_whole_object_or_broken() {
    let whole = |value: Value| Arguments::Whole(value.as_object().unwrap().clone());
    assert_eq!(arguments(&[]).await.0, whole(json!({})));
    assert_eq!(arguments(&["", " "]).await.0, whole(json!({})));
    assert_eq!(arguments(&[r#"{"a":"#, "[1]}"]).await.0, whole(json!({"a": [1]})));
    for broken in [r#"{"path":"a"#, "[1]", "null", r#"{"a":1}}"#, "{'a':1}", r#""{}""#, r#"{"a":"\ud83d"}"#] {
        let (arguments, native) = arguments(&[broken]).await;
        let Arguments::Broken { text, problem } = arguments else { panic!("{broken}") };
        assert_eq!(text, broken);
        assert!(problem.ends_with('.'), "{problem}");
        assert!(native.ends_with(r#""input":{}}"#), "{native}");
    }
}

#[tokio::test]
async fn an_input_that_comes_with_the_start_of_a_call_counts() {
    let start = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"n","input":{"a":1}}}"#;
    let reply = replied(&[start, &close(0)], "tool_use").await;
    assert_eq!(reply.calls().next().unwrap().arguments, Arguments::Whole(json!({"a": 1}).as_object().unwrap().clone()));
}

#[tokio::test]
async fn a_stream_that_ends_early_is_never_a_reply() {
    let mut events = vec![START.to_owned()];
    events.extend(call(0, &[r#"{"command":"touch hal"#]));
    let text = text_reply("half a tex");
    let text = &text[..text.find("event: message_delta").unwrap()];
    let call = sse(&events.iter().map(String::as_str).collect::<Vec<_>>());
    for body in [
        call.as_str(),
        text,
        &text_reply("hi").replace("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", ""),
    ] {
        for end in [End::Whole, End::Cut] {
            let failure = failure(Answer::stream(body).ending(end)).await;
            assert_eq!(failure.kind, FailureKind::Transient);
            assert!(failure.message.contains("before its end event"), "{failure}");
        }
    }
}

#[tokio::test]
async fn what_follows_the_end_event_does_not_undo_the_reply() {
    let error = sse(&[r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#]);
    for end in [End::Whole, End::Cut, End::Silent] {
        let body = text_reply("done") + &error;
        assert_eq!(reply(Answer::stream(body).ending(end)).await.text(), "done");
    }
}

#[tokio::test]
async fn a_call_that_is_still_open_at_the_end_is_broken_even_when_it_parses() {
    let reply = replied(&call(0, &[r#"{"command":"touch half"}"#]), "tool_use").await;
    let Arguments::Broken { problem, .. } = &reply.calls().next().unwrap().arguments else { panic!() };
    assert!(problem.contains("cut off"), "{problem}");
}

#[tokio::test]
async fn unknown_blocks_deltas_and_fields_are_kept() {
    let reply = replied(
        &[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"novelty","x":1.50,"note":"a"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"novelty_delta","note":"b","more":[1]}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"query\":\"q\"}"}}"#,
            r#"{"type":"content_block_stop","index":1}"#,
            r#"{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"","citations":[]}}"#,
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"t"}}"#,
            r#"{"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{"url":"u"}}}"#,
            r#"{"type":"content_block_stop","index":2}"#,
        ],
        "end_turn",
    )
    .await;
    let natives: Vec<_> = reply.parts.iter().map(|part| part.native.as_str()).collect();
    assert_eq!(
        natives,
        [
            r#"{"type":"novelty","x":1.50,"note":"ab","more":[1]}"#,
            r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"q"}}"#,
            r#"{"type":"text","text":"t","citations":[{"url":"u"}]}"#,
        ]
    );
    assert_eq!((&reply.parts[0].kind, &reply.parts[1].kind), (&PartKind::Other, &PartKind::Other));
}

#[tokio::test]
async fn a_part_stays_on_one_line_and_holds_no_half_of_a_surrogate_pair() {
    let (_, native) = arguments(&["{\n  \"a\": 1,\r\n  \"b\": \"x\\ny\"\n}"]).await;
    assert!(!native.contains(['\n', '\r']), "{native}");
    assert!(native.contains(r#""b": "x\ny""#), "{native}");
    let blocks = [
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\ud83d"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\ude00b\ud83d"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
    ];
    let reply = replied(&blocks, "end_turn").await;
    assert_eq!(reply.text(), "a😀b\u{fffd}");
    assert_eq!(reply.parts[0].native.as_str(), r#"{"type":"text","text":"a\ud83d\ude00b\ufffd"}"#);
}

#[tokio::test]
async fn blocks_that_all_carry_the_same_number_stay_apart() {
    let block = |text: &str| {
        let start = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#.to_owned();
        let delta = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}});
        [start, delta.to_string(), close(0)]
    };
    assert_eq!(replied(&[block("a"), block("b")].concat(), "end_turn").await.text(), "a\nb");
}

#[tokio::test]
async fn a_known_event_that_cannot_be_understood_is_a_failure() {
    for bad in [
        "event: content_block_delta\ndata: {\"type\":\"content_block_del\n\n",
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":3,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n",
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0}\n\n",
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":[]}\n\n",
        "data: {\"type\":\"content_block_del\n\n",
    ] {
        let body = format!("{}{bad}{}", sse(&[START]), sse(&[&ended("end_turn"), STOP]));
        let failure = failure(Answer::stream(body)).await;
        assert_eq!(failure.kind, FailureKind::Transient);
        assert!(failure.message.contains("malformed"), "{failure}");
    }
}

#[tokio::test]
async fn a_stream_that_jumps_to_its_end_in_the_middle_of_a_block_is_no_reply() {
    let text = [
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"half an ans"}}"#,
    ];
    let call = call(0, &[r#"{"command":"touch a"}"#]);
    for blocks in [text.to_vec(), call.iter().map(String::as_str).collect()] {
        let events: Vec<&str> = [START].into_iter().chain(blocks).chain([STOP]).collect();
        assert_eq!(failure(Answer::stream(sse(&events))).await.kind, FailureKind::Transient, "{events:?}");
    }
}

/// They come back in the next request, and a parser that gives up there would end the session for good.
#[tokio::test]
async fn arguments_that_nest_too_deep_to_be_sent_back_are_not_whole() {
    let nested = |levels: usize| format!("{{\"x\":{}1{}}}", "[".repeat(levels), "]".repeat(levels));
    assert!(matches!(arguments(&[&nested(100)]).await.0, Arguments::Whole(_)));
    for levels in [101, 120, 127, 5_000] {
        let (found, echoed) = arguments(&[&nested(levels)]).await;
        assert!(matches!(found, Arguments::Broken { .. }), "{levels}");
        assert_eq!(serde_json::from_str::<Value>(&echoed).unwrap()["input"], json!({}));
    }
}

#[tokio::test]
async fn a_stream_without_end_is_given_up_before_it_fills_the_memory() {
    let delta = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"TEXT"}}"#;
    let delta = delta.replace("TEXT", &"x".repeat(1_000_000));
    let start = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    let events: Vec<&str> = [START, start].into_iter().chain(std::iter::repeat_n(delta.as_str(), 14)).collect();
    let failure = failure(Answer::stream(sse(&events))).await;
    assert_eq!(failure.kind, FailureKind::Rejected, "{failure}");
    assert!(failure.message.contains("bytes"), "{failure}");
}

#[tokio::test]
async fn tokens_are_told_while_the_reply_streams_in() {
    let served = Served::new(vec![Answer::stream(text_reply("hi"))]).await;
    let (result, deltas) = ask(&served.client()).await;
    let told = deltas.iter().filter_map(|delta| if let Delta::Usage(usage) = delta { Some(*usage) } else { None });
    let told: Vec<Usage> = told.collect();
    assert_eq!((told.len(), told.last().copied()), (2, result.unwrap().usage));
}
