//! The wire, held against the official client of the provider: its request types, its stream reader, its errors.

use std::io::Write;
use std::process::{Command, Stdio};

use hames::model::script::police::{self, Issued};
use hames::model::script::{Script, ScriptServer};
use hames::model::{Client, ClientConfig};
use hames::protocol::port::Model;
use hames::protocol::{
    AttemptNo, Block, Dialect, FailureKind, Head, Message, Reply, Request, SessionId, Status, ToolSpec, WireResult,
};
use serde_json::{Value, json};

use crate::place::{Place, kill, repository};
use crate::provider::Provider;
use crate::signals::wait_for;

/// Runs a program of `tests/oracle` with the official client and returns the lines that it prints.
fn oracle(program: &str, input: &str) -> Vec<Value> {
    let python = repository().join("target/oracle/bin/python");
    let installed = repository().join("target/oracle/requirements.txt");
    assert!(installed.exists(), "The official client is not installed in target/oracle: run `scripts/setup --tests`.");
    let program = repository().join("crates/cli/tests/oracle").join(program);
    let mut child = Command::new(python)
        .args(["-I", "-W", "ignore"])
        .arg(program)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The violations of the official request types, each with the name of its body.
fn violations(bodies: &[(String, String)]) -> Vec<(String, String)> {
    let lines = bodies.iter().map(|(name, body)| json!({"name": name, "body": body}).to_string() + "\n");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let found = oracle("requests.py", &lines.collect::<String>());
    found.iter().map(|line| (text(&line["name"]), text(&line["problem"]))).collect()
}

/// A call whose command leaves `begun` and then sleeps.
const SLOW: &str =
    "{tool: bash, args: {command: 'touch begun; sleep 30'}}, {tool: read_file, args: {path: a.txt}, id: toolu_b}";

/// The bundled example.
fn example() -> Vec<String> {
    let place = Place::example();
    let provider = Provider::serving(Script::load(&repository().join("examples/checkout.yaml")).unwrap());
    let check = "python3 -m unittest discover -s tests -t .";
    let ran = provider.run(&place, ["run", "--verify", check, "Fix the checkout total."]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    provider.bodies()
}

/// Everything that a reply can hold and that comes back in the next request: reasoning of each kind, calls beside each
/// other, invented names and ids, arguments that are broken or strange.
fn odd_replies() -> Vec<String> {
    let provider = Provider::of(
        r#"
- reasoning: Two files to read.
  text: "Looking at 北京 naïve 😀\u0000\u2028."
  calls: [{tool: list_files}, {tool: read_file, args: {path: a.txt}, id: toolu_b}, {tool: read_file, args: {path: a.txt}}]
  interleave: true
- parts:
    - redacted: ZW5jcnlwdGVk
    - reasoning: {text: "not signed", signature: null}
    - call: {tool: read_file, args: {path: "a.txt\u0000"}, id: toolu_b}
    - call: {tool: "run command!", args: {n: 1.0e+20}, id: "spaces in it"}
    - call: {tool: "", raw_args: '{"path": "\ud800"}'}
- calls: [{tool: write_file, raw_args: '{"path": "b.txt", "content": "half'}]
  stop: max_tokens
- {text: "A long sen", stop: max_tokens}
- {text: "Wait.  \n", stop: pause_turn}
- {reasoning: only, stop: pause_turn}
- fault: empty
- fault: {status: 529, headers: {retry-after-ms: 1}}
- {text: cut, fault: {cut: {after_events: 4}}}
- text: done
"#,
    );
    let place = Place::empty();
    std::fs::write(place.work().join("a.txt"), "\u{0}\u{feff}a\u{1b}[31m\r\n").unwrap();
    let ran = provider.run(
        &place,
        [
            "run",
            "-m",
            "anthropic/claude-sonnet-4-5",
            "--effort",
            "low",
            "--append-system-prompt",
            "\u{202e}\u{7}",
            "go\u{1}",
        ],
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    // Another model may not be told the first one's reasoning.
    let other = Provider::of(&format!("{}- text: hello\n", "- text: never\n".repeat(10)));
    let ran = other.run(&place, ["run", "--continue", "-m", "anthropic/other", "again"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    [provider.bodies(), other.bodies()].concat()
}

/// Images with the prompt and from a tool; instructions from files; a result and a prompt that are very long.
fn large_content() -> Vec<String> {
    let provider = Provider::of(
        "- calls: [{tool: read_file, args: {path: logo.gif}}, {tool: bash, args: {command: 'yes long | head -c 3000000'}}]\n- text: ok\n",
    );
    let place = Place::empty();
    let write = |name: &str, bytes: &[u8]| std::fs::write(place.work().join(name), bytes).unwrap();
    write("logo.gif", b"GIF89a\x03\0\x02\0\0\0\0;");
    write("own.md", "You answer. \u{1f600}\n".repeat(1000).as_bytes());
    write("AGENTS.md", b"# Rules\r\n- be kind\n");
    let mut command = provider.hames(&place, ["run", "--image", "logo.gif", "--system-prompt-file", "own.md"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all("Read this. ".repeat(50_000).as_bytes()).unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    provider.bodies()
}

/// Calls that were cancelled, then a new prompt; calls that a crash left in doubt, then the same run.
fn stopped_calls() -> Vec<String> {
    let mut bodies = Vec::new();
    for (signal, prompt) in [("-INT", &["go on"][..]), ("-KILL", &[])] {
        let provider = Provider::of(&format!("- calls: [{SLOW}]\n- text: ok\n"));
        let place = Place::empty();
        let child = provider.hames(&place, ["run", "go"]).spawn().unwrap();
        wait_for(|| place.work().join("begun").exists());
        kill(&child, signal);
        child.wait_with_output().unwrap();
        let ran = provider.run(&place, ["run", "--continue"].into_iter().chain(prompt.iter().copied()));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        bodies.extend(provider.bodies());
    }
    bodies
}

/// What Hames tells the model of its own accord.
fn notices() -> Vec<String> {
    let same = "- calls: [{tool: list_files}]\n".repeat(3);
    let provider = Provider::of(&format!("{same}- text: done\n- calls: [{{tool: finish, args: {{summary: s}}}}]\n"));
    let ran = provider.run(&Place::empty(), ["run", "--verify", "true", "go"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    provider.bodies()
}

#[test]
fn every_request_body_validates_against_the_official_request_types() {
    let families = std::thread::scope(|scope| {
        let run = |name: &'static str, family: fn() -> Vec<String>| (name, scope.spawn(family));
        let running = [
            run("example", example),
            run("odd replies", odd_replies),
            run("large content", large_content),
            run("stopped calls", stopped_calls),
            run("notices", notices),
            run("results", results),
        ];
        running.map(|(name, family)| (name, family.join().unwrap()))
    });
    let bodies: Vec<(String, String)> = families
        .into_iter()
        .flat_map(|(name, bodies)| {
            bodies.into_iter().enumerate().map(move |(at, body)| (format!("{name} {}", at + 1), body))
        })
        .collect();
    assert_eq!(violations(&bodies), []);
    // What the families are for is in them.
    let all: String = bodies.iter().map(|(_, body)| body.as_str()).collect();
    for part in [
        r#""type":"thinking""#,
        r#""type":"redacted_thinking""#,
        r#""type":"image","source":{"type":"base64","media_type":"image/gif""#,
        r#""is_error":true"#,
        r#""cache_control":{"type":"ephemeral"}"#,
        r#""output_config":{"effort":"low"}"#,
        "IN DOUBT",
        "Cancelled by the user",
        "three times",
        "is not verified yet",
        "Continue exactly where it stopped",
        "\\u0000",
        "run_command_",
        "\"unnamed\"",
    ] {
        assert!(all.contains(part), "no request holds {part}");
    }
}

/// Every shape of result and message that the client can be given, sent as it is.
fn results() -> Vec<String> {
    let provider = Provider::of(
        "- calls: [{tool: bash, id: a}, {tool: bash, id: b}, {tool: bash, id: c}, {tool: bash, id: d}]\n- text: ok\n",
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = client(&provider);
        let prompt = Message::User(vec![Block::text(" "), Block::text("\u{feff}")]);
        let reply = send(&client, 1, std::slice::from_ref(&prompt)).await.unwrap();
        let image = |media_type: &str, data: &str| Block::Image { media_type: media_type.into(), data: data.into() };
        // One pixel of each kind that the API takes.
        let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";
        let webp = "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==";
        let images = vec![image("image/png", png), image("image/webp", webp), Block::text("\t")];
        let result =
            |wire_id: &str, status, blocks| WireResult { wire_id: wire_id.into(), name: "bash".into(), status, blocks };
        let results = vec![
            result("a", Status::Ok, images.clone()),
            result("b", Status::Failed, images),
            result("c", Status::Refused, Vec::new()),
            result("d", Status::InDoubt, vec![Block::text("\u{0}\u{10ffff}")]),
        ];
        let wire_ids = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        let reply = Message::Assistant { reply: reply.into(), wire_ids };
        let messages = [prompt, reply, Message::Results(results), Message::User(Vec::new())];
        send(&client, 2, &messages).await.unwrap();
    });
    provider.bodies()
}

fn client(server: &ScriptServer) -> Client {
    let base_url = Some(server.base_url());
    Client::new(ClientConfig { base_url, ..ClientConfig::anthropic("claude-test", "any") }).unwrap()
}

async fn send(client: &Client, attempt: u32, messages: &[Message]) -> Result<Reply, hames::protocol::ModelFailure> {
    let schema = json!({"type": "object"}).as_object().unwrap().clone();
    let tool = |name: &str| ToolSpec { name: name.into(), description: String::new(), schema: schema.clone() };
    let request = Request {
        head: client.encode_head(&Head { system: String::new(), tools: vec![tool("bash"), tool("read_file")] }),
        messages: messages.iter().map(|message| client.encode(message)).collect(),
        session: SessionId::new("oracle"),
        attempt: AttemptNo(attempt),
    };
    client.send(request, &|_| {}).await
}

/// A body with every kind of block; each change to it below breaks it.
fn whole_body() -> Value {
    json!({
        "model": "m", "max_tokens": 5, "stream": true,
        "tools": [{"name": "bash", "description": "", "input_schema": {"type": "object", "properties": {"x": {}}}}],
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "hi"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "R0lGODlhAwACAAAAADs="}},
            ]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "", "signature": "x"},
                {"type": "tool_use", "id": "t", "name": "bash", "input": {"x": 1}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "r"}], "is_error": true},
            ]},
        ],
    })
}

#[test]
fn broken_request_bodies_are_found_by_the_official_types_and_refused_by_the_served_rules() {
    let issued = Issued::default();
    let whole = whole_body().to_string();
    police::check(whole.as_bytes(), &issued).unwrap();
    let mut bodies = vec![("whole".to_owned(), whole)];
    // Each a pointer to an object, a key in it, and the wrong value; none takes the key away.
    for (at, key, value) in [
        ("", "unknown", Some(json!(1))),
        ("", "max_tokens", Some(json!("5"))),
        ("", "stream", Some(json!("yes"))),
        ("", "messages", None),
        ("/tools/0", "input_schema", None),
        ("/tools/0", "parameters", Some(json!({}))),
        ("/system/0", "type", Some(json!("words"))),
        ("/system/0/cache_control", "type", Some(json!("forever"))),
        ("/messages/0", "role", Some(json!("tool"))),
        ("/messages/0", "name", Some(json!("me"))),
        ("/messages/0/content/0", "text", Some(json!(5))),
        ("/messages/0/content/0", "unknown", Some(json!(1))),
        ("/messages/0/content/0", "type", Some(json!("word"))),
        ("/messages/0/content/1/source", "media_type", None),
        ("/messages/0/content/1/source", "media_type", Some(json!("image/bmp"))),
        ("/messages/1/content/0", "signature", None),
        ("/messages/1/content/0", "cache_control", Some(json!({"type": "ephemeral"}))),
        ("/messages/1/content/1", "input", Some(json!([]))),
        ("/messages/1/content/1", "id", None),
        ("/messages/2/content/0", "tool_use_id", None),
        ("/messages/2/content/0", "is_error", Some(json!("no"))),
        ("/messages/2/content/0/content/0", "type", Some(json!("word"))),
    ] {
        let mut body = whole_body();
        let object = body.pointer_mut(at).unwrap().as_object_mut().unwrap();
        match value.clone() {
            Some(value) => object.insert(key.to_owned(), value),
            None => object.remove(key),
        };
        bodies.push((format!("{at}/{key} as {value:?}"), body.to_string()));
    }
    bodies.push(("torn".to_owned(), "{\"model\":".to_owned()));
    let found = violations(&bodies);
    for (name, body) in &bodies[1..] {
        assert!(found.iter().any(|(broken, _)| broken == name), "{name} was not found");
        assert!(police::check(body.as_bytes(), &issued).is_err(), "{name} is served");
    }
    assert!(found.iter().all(|(name, _)| name != "whole"), "{found:#?}");
}

/// Replies of every kind, with each stop reason, cut into pieces in each way.
const REPLIES: &str = r#"
- reasoning: I should look first.
  text: "Looking at 北京 naïve 😀."
  calls:
    - {tool: bash, args: {command: 'ls 北京', timeout_ms: 5, nested: {list: [1, 2.5, null, "\u0000"]}}}
    - {tool: read_file, args: {path: a.txt}, id: toolu_own}
  interleave: true
  usage: {input: 12, output: 34, cache_read: 56, cache_write: 78}
- parts: [{redacted: ZW5j}, {call: {tool: bash}}, {text: between}, {call: {tool: bash, args: {command: ls}}}]
  chunk: 7
- {text: cut, stop: max_tokens}
- {calls: [{tool: bash, raw_args: '{"command": "l'}], stop: max_tokens}
- {text: waiting, stop: pause_turn}
- {text: no, stop: refusal}
- {text: full, stop: model_context_window_exceeded}
- {text: over, stop: stop_sequence}
- {text: new, stop: {other: novel}}
- {text: slow, delta_delay_ms: 2, chunk: 1}
- fault: empty
"#;

#[test]
fn the_official_client_reads_served_streams_as_hames_does() {
    let provider = Provider::of(REPLIES);
    let attempts = REPLIES.lines().filter(|line| line.starts_with('-')).count();
    let read = oracle("streams.py", &json!({"base_url": provider.base_url(), "attempts": attempts}).to_string());
    assert_eq!(read.len(), attempts);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = client(&provider);
    for (at, official) in read.iter().enumerate() {
        let attempt = u32::try_from(at).unwrap() + 1;
        let prompt = [Message::User(vec![Block::text("Go on.")])];
        let reply = runtime.block_on(send(&client, attempt, &prompt)).unwrap();
        let message = &official["message"];
        let parts: Vec<Value> =
            reply.parts.iter().map(|part| serde_json::from_str(part.native.as_str()).unwrap()).collect();
        assert_eq!(Value::Array(parts), message["content"], "{attempt}: {official:#}");
        assert_eq!(reply.provider_id.as_deref(), message["id"].as_str());
        let usage = reply.usage.unwrap();
        let counted = json!({
            "input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens,
            "cache_read_input_tokens": usage.cache_read_tokens, "cache_creation_input_tokens": usage.cache_write_tokens,
        });
        assert_eq!(counted, message["usage"], "{attempt}");
        let named = serde_json::to_value(&reply.stop).unwrap();
        let expected = match message["stop_reason"].as_str().unwrap() {
            "max_tokens" => json!("output_limit"),
            "model_context_window_exceeded" => json!("context_window"),
            "pause_turn" => json!("pause"),
            known @ ("end_turn" | "tool_use" | "refusal") => json!(known),
            other => json!({"other": other}),
        };
        assert_eq!(named, expected, "{attempt}");
    }
}

/// Faults, each with the error that the official client raises for it and what Hames makes of it.
const FAULTS: [(&str, &str, FailureKind); 12] = [
    ("fault: {status: 400}", "BadRequestError", FailureKind::Rejected),
    ("fault: {status: 401}", "AuthenticationError", FailureKind::Credential),
    ("fault: {status: 403}", "PermissionDeniedError", FailureKind::Credential),
    ("fault: {status: 404}", "NotFoundError", FailureKind::Rejected),
    ("fault: {status: 413}", "ContentTooLargeError", FailureKind::Rejected),
    ("fault: {status: 429}", "RateLimitError", FailureKind::Transient),
    ("fault: {status: 500}", "InternalServerError", FailureKind::Transient),
    ("fault: {status: 504}", "GatewayTimeoutError", FailureKind::Transient),
    ("fault: {status: 529}", "OverloadedError", FailureKind::Transient),
    (
        "{text: half, fault: {error_event: {type: overloaded_error, message: M, after_events: 3}}}",
        "APIStatusError",
        FailureKind::Transient,
    ),
    (
        "{text: half, fault: {error_event: {type: invalid_request_error, message: M}}}",
        "APIStatusError",
        FailureKind::Rejected,
    ),
    ("{text: half, fault: {cut: {after_events: 4}}}", "RemoteProtocolError", FailureKind::Transient),
];

#[test]
fn the_official_client_raises_its_own_errors_for_served_faults() {
    let yaml: String = FAULTS.iter().map(|(fault, ..)| format!("- {fault}\n")).collect();
    let provider = Provider::of(&yaml);
    let read = oracle("streams.py", &json!({"base_url": provider.base_url(), "attempts": FAULTS.len()}).to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = client(&provider);
    for (at, ((fault, class, kind), official)) in FAULTS.iter().zip(&read).enumerate() {
        assert_eq!(official["error"].as_str(), Some(*class), "{fault}: {official}");
        let prompt = [Message::User(vec![Block::text("Go on.")])];
        let failure = runtime.block_on(send(&client, u32::try_from(at).unwrap() + 1, &prompt)).unwrap_err();
        assert_eq!(failure.kind, *kind, "{fault}: {failure}");
        // The provider's own name of the error is told in both.
        if let Some(name) = official["type"].as_str() {
            assert!(failure.message.contains(name), "{fault}: {failure}");
        }
    }
    assert_eq!(read.len(), FAULTS.len());
}

/// The other dialects, each with a model and the variable of its key.
const OTHERS: [(Dialect, &str, &str); 3] = [
    (Dialect::OpenAi, "openai/gpt-6.2-sol", "OPENAI_API_KEY"),
    (Dialect::OpenAiChat, "openai-chat/gpt-4.1", "OPENAI_API_KEY"),
    (Dialect::Gemini, "gemini/gemini-3.8-flash", "GEMINI_API_KEY"),
];

#[test]
fn requests_in_the_other_dialects_fit_the_official_types_as_well() {
    let mut lines = String::new();
    for (dialect, model, key) in OTHERS {
        let place = Place::example();
        let script = Script::load(&repository().join("examples/checkout.yaml")).unwrap();
        let provider = Provider::speaking(dialect, script);
        let url = provider.base_url();
        let check = "python3 -m unittest discover -s tests -t .";
        let arguments = ["run", "-m", model, "--base-url", &url, "--verify", check, "Fix the checkout total."];
        assert!(place.hames(arguments).env(key, "any").output().unwrap().status.success(), "{model}");
        for body in provider.bodies() {
            lines += &(json!({"name": model, "dialect": dialect.as_str(), "body": body}).to_string() + "\n");
        }
        let broken = r#"{"contents": 1, "input": 1, "messages": 1}"#;
        lines += &(json!({"name": "broken", "dialect": dialect.as_str(), "body": broken}).to_string() + "\n");
    }
    let found = oracle("other_requests.py", &lines);
    let (broken, wrong): (Vec<&Value>, Vec<&Value>) = found.iter().partition(|line| line["name"] == "broken");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(broken.len() >= OTHERS.len(), "{broken:#?}");
}

#[test]
fn the_official_clients_read_what_is_served_in_the_other_dialects() {
    let script = "- {reasoning: Hm., text: \"Naïve 😀 text.\"}\n\
                  - {text: Two., calls: [{tool: read_file, args: {path: a}}, {tool: bash, args: {path: b}}]}\n\
                  - fault: {status: 429}\n";
    for (dialect, model, _) in OTHERS {
        let provider = Provider::speaking(dialect, Script::from_yaml("script.yaml", script).unwrap());
        let task = json!({"dialect": dialect.as_str(), "base_url": provider.base_url(), "attempts": 3});
        let read = oracle("other_streams.py", &task.to_string());
        assert_eq!(read[0]["text"], "Naïve 😀 text.", "{model}: {read:#?}");
        assert_eq!(read[1]["text"], "Two.", "{model}: {read:#?}");
        let calls: Vec<(String, Value)> = read[1]["calls"].as_array().unwrap().iter().map(called).collect();
        let expected = [("read_file", "a"), ("bash", "b")].map(|(tool, path)| (tool.to_owned(), json!({"path": path})));
        assert_eq!(calls, expected, "{model}");
        assert_eq!(read[2]["status"], 429, "{model}: {read:#?}");
    }
}

/// A call as the official client read it: its name, and its arguments out of their text.
fn called(call: &Value) -> (String, Value) {
    (call[0].as_str().unwrap().to_owned(), serde_json::from_str(call[1].as_str().unwrap()).unwrap())
}
