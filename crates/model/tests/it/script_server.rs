//! The script server over real HTTP, as any client sees it.

use std::time::Duration;

use hames_model::script::{Script, ScriptServer};
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) async fn serve(yaml: &str) -> ScriptServer {
    let script = Script::from_yaml("demo.yaml", yaml).unwrap();
    ScriptServer::bind(script, "127.0.0.1:0".parse().unwrap()).await.unwrap()
}

fn client() -> Client {
    // Tests run in one process or in many: whoever comes first installs it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy().tls_certs_only([]).build().unwrap()
}

fn post(server: &ScriptServer, path: &str) -> RequestBuilder {
    let url = format!("{}{path}", server.base_url());
    client().post(url).header("x-api-key", "k").header("anthropic-version", "2023-06-01")
}

fn body(stream: bool) -> String {
    json!({"model": "m", "max_tokens": 9, "stream": stream, "messages": [{"role": "user", "content": "a"}]}).to_string()
}

async fn ask(server: &ScriptServer, stream: bool) -> Response {
    post(server, "/v1/messages").body(body(stream)).send().await.unwrap()
}

/// An error answer: its status, its type and its words.
async fn error(response: Response) -> (u16, String, String) {
    let status = response.status().as_u16();
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["type"], "error");
    let field = |name: &str| body["error"][name].as_str().unwrap().to_owned();
    (status, field("type"), field("message"))
}

fn names(stream: &str) -> Vec<&str> {
    stream.lines().filter_map(|line| line.strip_prefix("event: ")).collect()
}

fn data(stream: &str) -> Vec<Value> {
    let lines = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn the_events_come_in_the_providers_order() {
    let server = serve("[{text: ab, calls: [{tool: bash, args: {command: ls}}], usage: {input: 3, output: 4}}]").await;
    let response = ask(&server, true).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
    assert!(response.headers().contains_key("request-id"));
    let text = response.text().await.unwrap();
    let expected = [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(names(&text), expected);
    let data = data(&text);
    for (name, data) in expected.iter().zip(&data) {
        assert_eq!(data["type"], *name);
    }
    assert_eq!(data[0]["message"]["model"], "m");
    assert_eq!(data[0]["message"]["usage"]["input_tokens"], 3);
    assert_eq!(data[7]["delta"]["partial_json"], "");
    assert_eq!(data[11]["delta"]["stop_reason"], "tool_use");
    assert_eq!(data[11]["usage"]["output_tokens"], 4);
}

#[tokio::test]
async fn interleaved_blocks_take_turns() {
    let server = serve("[{calls: [{tool: a, args: {x: 1}}, {tool: b, args: {x: 2}}], interleave: true}]").await;
    let text = ask(&server, true).await.text().await.unwrap();
    let deltas = data(&text).into_iter().filter(|data| data["type"] == "content_block_delta");
    let indexes: Vec<u64> = deltas.map(|data| data["index"].as_u64().unwrap()).collect();
    assert_eq!(indexes, [0, 1, 0, 1, 0, 1]);
}

#[tokio::test]
async fn a_request_that_does_not_stream_gets_one_message() {
    let server = serve("[{reasoning: Hm., text: ab, calls: [{tool: bash, args: {command: ls}}]}]").await;
    let message: Value = ask(&server, false).await.json().await.unwrap();
    let kinds: Vec<_> = message["content"].as_array().unwrap().iter().map(|block| block["type"].clone()).collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use"]);
    assert_eq!(message["content"][2]["input"], json!({"command": "ls"}));
    assert_eq!(message["stop_reason"], "tool_use");
    assert!(message["usage"]["output_tokens"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn faults_reach_a_request_that_does_not_stream_too() {
    let server = serve(
        "[{fault: {status: 529}}, {fault: {error_event: {type: rate_limit_error, message: Slow}}}, {fault: empty},
          {text: abc, fault: {cut: {after_bytes: 9}}}]",
    )
    .await;
    assert_eq!(error(ask(&server, false).await).await.0, 529);
    assert_eq!(error(ask(&server, false).await).await, (429, "rate_limit_error".to_owned(), "Slow".to_owned()));
    let message: Value = ask(&server, false).await.json().await.unwrap();
    assert_eq!(message["content"], json!([]));
    assert!(ask(&server, false).await.text().await.is_err());
}

#[tokio::test]
async fn without_a_position_the_server_counts_what_it_accepted() {
    let server = serve("[{text: one}, {text: two}]").await;
    let text = |response: Response| async { response.json::<Value>().await.unwrap()["content"][0]["text"].clone() };
    assert_eq!(text(ask(&server, false).await).await, "one");
    let refused = post(&server, "/v1/messages").body("{}").send().await.unwrap();
    assert_eq!(refused.status(), 400);
    assert_eq!(text(ask(&server, false).await).await, "two");
    let keyed =
        |key: &'static str| post(&server, "/v1/messages").header("idempotency-key", key).body(body(false)).send();
    assert_eq!(text(keyed("0199-abc/1").await.unwrap()).await, "one");
    assert_eq!(text(keyed("0199-abc/2").await.unwrap()).await, "two");
    let (status, _, words) = error(ask(&server, false).await).await;
    assert_eq!(status, 400);
    assert!(words.contains("has 2 replies"), "{words}");
}

#[tokio::test]
async fn path_method_key_and_version_are_checked_as_the_provider_does() {
    let server = serve("[{text: one}]").await;
    let sent = |request: RequestBuilder| async { error(request.body(body(true)).send().await.unwrap()).await };
    let (status, kind, _) = sent(post(&server, "/v1/message")).await;
    assert_eq!((status, kind.as_str()), (404, "not_found_error"));
    let url = format!("{}/v1/messages", server.base_url());
    assert_eq!(sent(client().get(&url)).await.0, 405);
    let (status, kind, words) = sent(client().post(&url).header("anthropic-version", "2023-06-01")).await;
    assert_eq!((status, kind.as_str(), words.as_str()), (401, "authentication_error", "x-api-key header is required"));
    let (status, _, words) = sent(client().post(&url).header("x-api-key", "k")).await;
    assert_eq!((status, words.as_str()), (400, "anthropic-version: header is required"));
    let bearer = client().post(&url).header("authorization", "Bearer k").header("anthropic-version", "2026-10-21");
    assert_eq!(bearer.body("{}").send().await.unwrap().status(), 400);
    let response = post(&server, "/gateway/anthropic/v1/messages").body(body(true)).send().await.unwrap();
    assert_eq!(response.status(), 200);
}

#[tokio::test]
async fn a_request_over_32_mb_is_too_large() {
    let server = serve("[{text: one}]").await;
    let sized = |bytes: usize| {
        let hollow = body(false).len() - 1;
        body(false).replace("\"content\":\"a\"", &format!("\"content\":\"{}\"", "a".repeat(bytes - hollow)))
    };
    let limit = 32 * 1024 * 1024;
    let (status, kind, words) = error(post(&server, "/v1/messages").body(sized(limit + 1)).send().await.unwrap()).await;
    assert_eq!((status, kind.as_str()), (413, "request_too_large"));
    assert_eq!(words, "Request exceeds the maximum size");
    let largest = sized(limit);
    assert_eq!(largest.len(), limit);
    assert_eq!(post(&server, "/v1/messages").body(largest).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn requests_are_kept_with_what_they_were_answered() {
    let server = serve("[{text: one}]").await;
    ask(&server, true).await.text().await.unwrap();
    post(&server, "/v1/messages").body("[]").send().await.unwrap();
    let received = server.received();
    assert_eq!(received.iter().map(|request| request.status).collect::<Vec<_>>(), [Some(200), Some(400)]);
    assert_eq!(received[0].body, body(true).as_bytes());
    assert_eq!(received[0].path, "/v1/messages");
    assert_eq!(received[0].headers["x-api-key"], "k");
}

/// Sends a request on a bare socket and reads until the server closes or `enough` has come.
async fn raw(server: &ScriptServer, enough: Option<&str>) -> (TcpStream, String) {
    let mut socket = TcpStream::connect(server.address()).await.unwrap();
    let body = body(true);
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: k\r\nanthropic-version: 2023-06-01\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        if enough.is_some_and(|enough| String::from_utf8_lossy(&bytes).contains(enough)) {
            break;
        }
        match socket.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
    }
    (socket, String::from_utf8_lossy(&bytes).into_owned())
}

#[tokio::test]
async fn chunk_edges_fall_where_the_script_puts_them() {
    let server = serve("[{text: 北京, chunk: 5}]").await;
    let (_, bytes) = raw(&server, Some("0\r\n\r\n")).await;
    let (_, chunks) = bytes.split_once("\r\n\r\n").unwrap();
    let sizes: Vec<&str> = chunks.split("\r\n").filter(|line| line.len() == 1 && *line != "5").collect();
    assert!(chunks.matches("5\r\n").count() > 100, "{chunks}");
    // Only the last chunk may be shorter, and then comes the end.
    assert!(sizes.len() <= 2, "{sizes:?}");
}

#[tokio::test]
async fn a_cut_sends_what_comes_before_it_and_no_end() {
    for (cut, last) in [("after_events: 4", "content_block_delta"), ("after_bytes: 30", "data: {")] {
        let server = serve(&format!("[{{text: abcdef, fault: {{cut: {{{cut}}}}}}}]")).await;
        for _ in 0..5 {
            let server = serve(&format!("[{{text: abcdef, fault: {{cut: {{{cut}}}}}}}]")).await;
            let (_, bytes) = raw(&server, None).await;
            assert!(bytes.contains(last), "{bytes}");
            assert!(!bytes.contains("message_stop") && !bytes.ends_with("0\r\n\r\n"), "{bytes}");
        }
        assert!(ask(&server, true).await.text().await.is_err());
    }
}

/// Waits for what another task is about to do; fails after ten seconds.
pub(crate) async fn eventually(what: impl Fn() -> bool) {
    for _ in 0..1000 {
        if what() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not happen");
}

#[tokio::test]
async fn a_client_that_hangs_up_is_noticed() {
    let server = serve("[{text: abcdef, fault: {hang: {after_events: 4}}}, {fault: hang}, {text: done}]").await;
    let (socket, _) = raw(&server, Some("content_block_delta")).await;
    assert_eq!(server.hang_ups(), 0);
    drop(socket);
    eventually(|| server.hang_ups() == 1).await;
    // Never even a head.
    let silent = ask(&server, true);
    assert!(tokio::time::timeout(Duration::from_millis(100), silent).await.is_err());
    eventually(|| server.hang_ups() == 2).await;
    assert_eq!(server.received()[1].status, None);
    ask(&server, true).await.text().await.unwrap();
    assert_eq!(server.hang_ups(), 2);
}

#[tokio::test]
async fn dropping_the_server_closes_its_connections_and_its_port() {
    let server = serve("[{text: a, fault: {hang: {after_events: 3}}}]").await;
    let (mut socket, _) = raw(&server, Some("content_block_start")).await;
    let address = server.address();
    drop(server);
    let mut rest = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(10), socket.read_to_end(&mut rest)).await;
    assert!(end.is_ok(), "the connection stayed open");
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn delays_are_waited_out() {
    let server = serve("[{text: ab, delay_ms: 60, delta_delay_ms: 20}, {fault: {status: 529}, delay_ms: 60}]").await;
    for least in [100, 60] {
        let begin = std::time::Instant::now();
        ask(&server, true).await.text().await.unwrap();
        assert!(begin.elapsed() >= Duration::from_millis(least), "{:?}", begin.elapsed());
    }
}
