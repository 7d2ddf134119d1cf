//! A script as a model: in process, and the same over HTTP through the client.

use std::sync::Mutex;
use std::time::Duration;

use hames_model::script::{Script, ScriptServer, Scripted};
use hames_model::{Client, ClientConfig};
use hames_protocol::port::Model;
use hames_protocol::{
    Arguments, AttemptNo, Block, Delta, FailureKind, Head, Message, ModelFailure, PartKind, Reply, Request, SessionId,
    Status, StopReason, ToolSpec, Usage, WireResult,
};
use serde_json::json;

/// What came of an attempt, with the deltas told meanwhile.
type Attempt = (Result<Reply, ModelFailure>, Vec<Delta>);

fn scripted(yaml: &str) -> Scripted {
    Scripted::new(Script::from_yaml("demo.yaml", yaml).unwrap())
}

fn head() -> Head {
    let schema = json!({"type": "object"}).as_object().unwrap().clone();
    let tool = |name: &str| ToolSpec { name: name.to_owned(), description: String::new(), schema: schema.clone() };
    Head { system: "Be careful.".to_owned(), tools: vec![tool("bash"), tool("read_file")] }
}

async fn ask(model: &dyn Model, attempt: u32, messages: &[Message]) -> Attempt {
    let request = Request {
        head: model.encode_head(&head()),
        messages: messages.iter().map(|message| model.encode(message)).collect(),
        session: SessionId::new("s"),
        attempt: AttemptNo(attempt),
    };
    let deltas = Mutex::new(Vec::new());
    let result = model.send(request, &|delta| deltas.lock().unwrap().push(delta)).await;
    (result, deltas.into_inner().unwrap())
}

fn prompt() -> Message {
    Message::User(vec![Block::text("Fix it.")])
}

/// Serves the script and asks for a reply with the client, under the script's own name.
async fn ask_over_http(yaml: &str, attempt: u32) -> Attempt {
    let script = Script::from_yaml("demo.yaml", yaml).unwrap();
    let server = ScriptServer::bind(script, "127.0.0.1:0".parse().unwrap()).await.unwrap();
    let base_url = Some(format!("{}/some/prefix", server.base_url()));
    let client = Client::new(ClientConfig { base_url, ..ClientConfig::anthropic("demo.yaml", "sk-scripted") }).unwrap();
    ask(&client, attempt, &[prompt()]).await
}

const ALL_SORTS: &str = "
- reasoning: I should look first.
  text: \"Looking at 北京 naïve 😀.\"
  calls:
    - {tool: bash, args: {command: 'ls 北京', timeout_ms: 5}}
    - {tool: read_file, args: {path: a.txt}, id: toolu_own}
  usage: {input: 12, output: 34, cache_read: 56, cache_write: 78}
- parts:
    - reasoning: {text: \"First \\n\", signature: s1}
    - text: Two.
    - call: {tool: read_file, args: {path: a}}
    - redacted: ZA==
    - reasoning: {text: '', signature: s2}
    - reasoning: {text: Unsigned., signature: null}
    - call: {tool: bash}
  interleave: true
  chunk: 1
- calls: [{tool: bash, raw_args: '{\"command\": \"touch hal'}]
  stop: max_tokens
- text: Enough.
  stop: {other: bored}
  usage: null
  chunk: 7
- fault: empty
- text: Paused.
  stop: pause_turn
";

#[tokio::test]
async fn a_reply_is_the_same_in_process_and_over_http() {
    for attempt in 1..=6 {
        let (here, here_deltas) = ask(&scripted(ALL_SORTS), attempt, &[prompt()]).await;
        let (there, there_deltas) = ask_over_http(ALL_SORTS, attempt).await;
        assert_eq!(here.unwrap(), there.unwrap(), "attempt {attempt}");
        assert_eq!(here_deltas, there_deltas, "attempt {attempt}");
    }
}

#[tokio::test]
async fn a_reply_is_what_the_script_says() {
    let model = scripted(ALL_SORTS);
    let (reply, deltas) = ask(&model, 1, &[prompt()]).await;
    let reply = reply.unwrap();
    assert_eq!(reply.text(), "Looking at 北京 naïve 😀.");
    assert_eq!(reply.stop, StopReason::ToolUse);
    let usage =
        Usage { input_tokens: 12, output_tokens: 34, cache_read_tokens: 56, cache_write_tokens: 78, estimated: false };
    assert_eq!(reply.usage, Some(usage));
    let calls: Vec<_> = reply.calls().map(|call| (call.name.as_str(), call.provider_id.as_deref().unwrap())).collect();
    assert_eq!(calls, [("bash", "toolu_script_0001_03"), ("read_file", "toolu_own")]);
    let arguments = json!({"command": "ls 北京", "timeout_ms": 5}).as_object().unwrap().clone();
    assert_eq!(reply.calls().next().unwrap().arguments, Arguments::Whole(arguments));
    let told: String = deltas
        .iter()
        .filter_map(|delta| if let Delta::Text(text) = delta { Some(text.as_str()) } else { None })
        .collect();
    assert_eq!(told, reply.text());
    assert!(deltas.len() > 5, "{deltas:?}");

    let second = ask(&model, 2, &[prompt()]).await.0.unwrap();
    let kinds: Vec<_> = second
        .parts
        .iter()
        .map(|part| match &part.kind {
            PartKind::Reasoning { signed: true, .. } => "signed",
            PartKind::Reasoning { .. } => "unsigned",
            PartKind::Text(_) => "text",
            PartKind::ToolCall(_) => "call",
            PartKind::Other => "other",
        })
        .collect();
    assert_eq!(kinds, ["signed", "text", "call", "signed", "signed", "unsigned", "call"]);
    assert_eq!(second.parts[0].native.as_str(), r#"{"type":"thinking","thinking":"First \n","signature":"s1"}"#);

    let third = ask(&model, 3, &[prompt()]).await.0.unwrap();
    assert_eq!(third.stop, StopReason::OutputLimit);
    let Arguments::Broken { text, .. } = &third.calls().next().unwrap().arguments else { panic!("{third:?}") };
    assert_eq!(text, r#"{"command": "touch hal"#);

    let fourth = ask(&model, 4, &[prompt()]).await.0.unwrap();
    assert_eq!((fourth.stop, fourth.usage), (StopReason::Other("bored".to_owned()), None));
    let fifth = ask(&model, 5, &[prompt()]).await.0.unwrap();
    assert_eq!((fifth.parts.len(), fifth.stop), (0, StopReason::EndTurn));
    assert_eq!(ask(&model, 6, &[prompt()]).await.0.unwrap().stop, StopReason::Pause);
}

#[tokio::test]
async fn after_a_resume_the_script_goes_on_at_the_reply_not_seen() {
    let yaml = "[{text: one}, {text: two}, {text: three}]";
    // A new model each time, as after a crash: only the attempt's number counts.
    for (attempt, text) in [(2, "two"), (3, "three"), (1, "one"), (2, "two")] {
        assert_eq!(ask(&scripted(yaml), attempt, &[prompt()]).await.0.unwrap().text(), text);
        assert_eq!(ask_over_http(yaml, attempt).await.0.unwrap().text(), text);
    }
}

#[tokio::test]
async fn a_script_without_more_replies_says_so() {
    let failure = ask(&scripted("[{text: one}, {text: two}]"), 3, &[prompt()]).await.0.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Setup);
    let words =
        "The script demo.yaml has 2 replies and the run asked for another; add a reply or end with a finish call.";
    assert_eq!(failure.message, words);
    let failure = ask_over_http("[{text: one}]", 2).await.0.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Rejected);
    assert!(failure.message.contains("The script demo.yaml has 1 reply and the run asked"), "{}", failure.message);
}

const FAULTS: [(&str, FailureKind, &str, Option<u64>); 12] = [
    ("fault: {status: 529}", FailureKind::Transient, "overloaded_error: Overloaded", None),
    ("fault: {status: 429, headers: {retry-after: 2}}", FailureKind::Transient, "rate_limit_error", Some(2000)),
    ("fault: {status: 429, headers: {retry-after-ms: '700'}}", FailureKind::Transient, "429", Some(700)),
    ("fault: {status: 500, body: 'plain words'}", FailureKind::Transient, "plain words", None),
    ("fault: {status: 418}", FailureKind::Rejected, "418", None),
    ("fault: {status: 401}", FailureKind::Credential, "invalid x-api-key", None),
    ("fault: {status: 413}", FailureKind::Rejected, "Request exceeds the maximum size", None),
    ("{text: abcdef, fault: {cut: {after_events: 4}}}", FailureKind::Transient, "", None),
    ("{text: abcdef, fault: {cut: {after_bytes: 400}}}", FailureKind::Transient, "", None),
    ("fault: {cut: {after_events: 0}}", FailureKind::Transient, "", None),
    (
        "{text: a, fault: {error_event: {type: overloaded_error, message: Too busy}}}",
        FailureKind::Transient,
        "Too busy",
        None,
    ),
    ("fault: {non_sse_body: '<html>Log in</html>'}", FailureKind::Setup, "text/html", None),
];

#[tokio::test]
async fn a_fault_is_the_same_failure_in_process_and_over_http() {
    for (reply, kind, words, wait) in FAULTS {
        let yaml = format!("- {reply}\n");
        for (result, deltas) in [ask(&scripted(&yaml), 1, &[prompt()]).await, ask_over_http(&yaml, 1).await] {
            let failure = result.unwrap_err();
            assert_eq!(failure.kind, kind, "{reply}: {failure:?}");
            assert!(failure.message.contains(words), "{reply}: {failure:?}");
            assert_eq!(failure.retry_after_ms, wait, "{reply}");
            let whole: String = deltas.iter().map(|delta| format!("{delta:?}")).collect();
            assert!(!whole.contains("abcdef"), "{reply}: {whole}");
        }
    }
}

#[tokio::test]
async fn a_cut_keeps_the_usage_that_had_been_told() {
    let yaml = "[{text: abcdef, usage: {input: 7, output: 9}, fault: {cut: {after_events: 4}}}]";
    for (result, _) in [ask(&scripted(yaml), 1, &[prompt()]).await, ask_over_http(yaml, 1).await] {
        let usage = result.unwrap_err().usage.unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens), (7, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_hang_never_answers_and_delays_are_kept() {
    for fault in ["{fault: hang}", "{text: a, fault: {hang: {after_events: 3}}}"] {
        let model = scripted(&format!("- {fault}\n"));
        let messages = [prompt()];
        let asked = ask(&model, 1, &messages);
        assert!(tokio::time::timeout(Duration::from_secs(3600), asked).await.is_err(), "{fault}");
    }
    let model = scripted("[{text: ab, delay_ms: 1000, delta_delay_ms: 50}]");
    let begin = tokio::time::Instant::now();
    ask(&model, 1, &[prompt()]).await.0.unwrap();
    assert_eq!(begin.elapsed(), Duration::from_millis(1000 + 2 * 50));
}

#[tokio::test]
async fn a_request_that_the_provider_would_refuse_is_refused_in_process() {
    let model = scripted("[{calls: [{tool: bash, id: t1}, {tool: bash, id: t2}]}, {text: done}]");
    let reply = std::sync::Arc::new(ask(&model, 1, &[prompt()]).await.0.unwrap());
    let echo = Message::Assistant { reply, wire_ids: vec!["t1".to_owned(), "t2".to_owned()] };
    let result = |id: &str| WireResult {
        wire_id: id.to_owned(),
        name: "bash".to_owned(),
        status: Status::Ok,
        blocks: vec![Block::text("ok")],
    };
    let results = |results| Message::Results(results);
    let whole = [prompt(), echo.clone(), results(vec![result("t1"), result("t2")])];
    assert_eq!(ask(&model, 2, &whole).await.0.unwrap().text(), "done");
    let failure = ask(&model, 2, &[prompt(), echo, results(vec![result("t1")])]).await.0.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Rejected);
    assert!(
        failure.message.contains("`tool_use` ids were found without `tool_result` blocks immediately after: t2"),
        "{}",
        failure.message
    );
}

#[tokio::test]
async fn reasoning_comes_back_through_the_real_encoder_unharmed() {
    let yaml = "
- parts:
    - reasoning: {text: \"First  \\n\", signature: S1}
    - text: Both.
    - call: {tool: read_file, args: {path: a.txt}, id: t1}
    - redacted: D1
    - reasoning: {text: '', signature: S2}
    - call: {tool: read_file, args: {path: b.txt}, id: t2}
- text: done
";
    let model = scripted(yaml);
    let reply = ask(&model, 1, &[prompt()]).await.0.unwrap();
    let echo =
        |reply: Reply| Message::Assistant { reply: reply.into(), wire_ids: vec!["t1".to_owned(), "t2".to_owned()] };
    let result = |id: &str| WireResult {
        wire_id: id.to_owned(),
        name: "read_file".to_owned(),
        status: Status::Ok,
        blocks: vec![Block::text("x")],
    };
    let results = Message::Results(vec![result("t1"), result("t2")]);
    assert_eq!(ask(&model, 2, &[prompt(), echo(reply.clone()), results.clone()]).await.0.unwrap().text(), "done");
    let mut moved = reply;
    moved.parts.swap(0, 4);
    let failure = ask(&model, 2, &[prompt(), echo(moved), results]).await.0.unwrap_err();
    assert!(failure.message.contains("cannot be modified"), "{}", failure.message);
}

#[test]
fn the_model_is_named_and_measured_by_its_script() {
    let model =
        scripted("{context_tokens: 1000, output_tokens: 50, price: {input: 3, output: 15}, replies: [{text: a}]}");
    let info = model.info();
    assert_eq!((info.provider.as_str(), info.name.as_str()), ("scripted", "demo.yaml"));
    assert_eq!((info.context_tokens, info.output_tokens), (1000, 50));
    assert_eq!(info.price.unwrap().output, 15.0);
    assert_eq!(scripted("[{text: a}]").info().price, None);
}

#[tokio::test]
async fn reasoning_beside_what_cannot_be_echoed_passes_through_the_real_encoder() {
    for (reply, calls) in [
        ("reasoning: Only this.\n  stop: max_tokens", 0),
        ("parts: [{reasoning: {text: a, signature: null}}, {reasoning: b}, {text: '  '}, {text: c}]", 0),
        ("parts: [{reasoning: a}, {call: {tool: no such tool!}}, {redacted: b}, {call: {tool: bash}}]", 2),
        ("parts: [{reasoning: a}, {call: {tool: bash, raw_args: '{\"comm'}}]\n  stop: max_tokens", 1),
    ] {
        let model = scripted(&format!("- {reply}\n- text: done\n"));
        let reply = ask(&model, 1, &[prompt()]).await.0.unwrap();
        let wire_ids: Vec<String> = (0..calls).map(|index| format!("w{index}")).collect();
        let result = |id: &String| WireResult {
            wire_id: id.clone(),
            name: "bash".to_owned(),
            status: Status::Refused,
            blocks: vec![Block::text("no")],
        };
        let results = wire_ids.iter().map(result).collect();
        let echo = Message::Assistant { reply: reply.into(), wire_ids };
        let notice = Message::User(vec![Block::text("Go on.")]);
        let (answer, _) = ask(&model, 2, &[prompt(), echo, Message::Results(results), notice]).await;
        assert_eq!(answer.unwrap().text(), "done");
    }
}
