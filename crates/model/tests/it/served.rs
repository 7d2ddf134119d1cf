//! A server on 127.0.0.1 that answers each request with chosen bytes, cut at chosen places.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hames_model::{Client, ClientConfig, preset};
use hames_protocol::port::Model;
use hames_protocol::{AttemptNo, Block, Delta, Head, Message, ModelFailure, Reply, Request, SessionId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The model that the tests ask for.
pub(crate) const MODEL: &str = "claude-sonnet-5-5";

/// The key that the tests send.
pub(crate) const KEY: &str = "sk-ant-test-0123456789";

/// An answer to one request.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) head: String,
    /// Each is one HTTP chunk, which the client sees as one piece whatever the network does.
    pub(crate) chunks: Vec<Vec<u8>>,
    pub(crate) end: End,
}

/// What happens after the last chunk.
#[derive(Clone, Copy)]
pub(crate) enum End {
    /// The body ends as HTTP wants it; the connection stays open.
    Whole,
    /// The connection closes in the middle of the body.
    Cut,
    /// Nothing more is said, and the connection stays open until the client closes it.
    Silent,
}

impl Answer {
    /// A stream of events in one chunk.
    pub(crate) fn stream(body: impl AsRef<[u8]>) -> Self {
        Self::stream_in([body])
    }

    /// A stream of events in these chunks.
    pub(crate) fn stream_in(chunks: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        let chunks = chunks.into_iter().map(|chunk| chunk.as_ref().to_vec()).collect();
        Self { head: head(200, "content-type: text/event-stream; charset=utf-8\r\n"), chunks, end: End::Whole }
    }

    /// A body with a status and further header lines.
    pub(crate) fn status(status: u16, headers: &str, body: &str) -> Self {
        Self { head: head(status, headers), chunks: vec![body.as_bytes().to_vec()], end: End::Whole }
    }

    pub(crate) fn ending(self, end: End) -> Self {
        Self { end, ..self }
    }
}

fn head(status: u16, headers: &str) -> String {
    format!("HTTP/1.1 {status} Status\r\n{headers}transfer-encoding: chunked\r\n\r\n")
}

/// One request as it arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct Received {
    /// The request line and the header lines, names in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// What a server has seen so far.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) requests: Vec<Received>,
    pub(crate) connections: usize,
    pub(crate) closed_by_client: usize,
}

/// The server; it stops when it is dropped.
pub(crate) struct Served {
    pub(crate) url: String,
    pub(crate) seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Served {
    /// Answers the first request with the first answer, and so on; the last one is repeated.
    pub(crate) async fn new(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::<Mutex<Seen>>::default();
        let task = tokio::spawn({
            let seen = Arc::clone(&seen);
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    seen.lock().unwrap().connections += 1;
                    tokio::spawn(serve(stream, answers.clone(), Arc::clone(&seen)));
                }
            }
        });
        Self { url, seen, task }
    }

    pub(crate) fn client(&self) -> Client {
        self.client_with(|_| {})
    }

    pub(crate) fn client_with(&self, change: impl FnOnce(&mut ClientConfig)) -> Client {
        let mut config = ClientConfig::anthropic(MODEL, KEY);
        config.base_url = Some(self.url.clone());
        change(&mut config);
        Client::new(config).unwrap()
    }

    /// A client of another provider that asks this server.
    pub(crate) fn client_of(&self, provider: &str, model: &str) -> Client {
        let preset = preset::find(provider).unwrap();
        let config =
            ClientConfig { base_url: Some(self.url.clone()), ..ClientConfig::new(preset, model, Some(KEY.into())) };
        Client::new(config).unwrap()
    }

    pub(crate) fn requests(&self) -> Vec<Received> {
        self.seen.lock().unwrap().requests.clone()
    }

    /// Waits until the client has closed a connection that the server kept open.
    pub(crate) async fn until_closed_by_client(&self) {
        while self.seen.lock().unwrap().closed_by_client == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn serve(mut stream: TcpStream, answers: Vec<Answer>, seen: Arc<Mutex<Seen>>) {
    stream.set_nodelay(true).unwrap();
    while let Some(request) = read_request(&mut stream).await {
        let answer = {
            let mut seen = seen.lock().unwrap();
            seen.requests.push(request);
            answers[(seen.requests.len() - 1).min(answers.len() - 1)].clone()
        };
        stream.write_all(answer.head.as_bytes()).await.unwrap();
        for chunk in answer.chunks.iter().filter(|chunk| !chunk.is_empty()) {
            let framed = [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat();
            if stream.write_all(&framed).await.is_err() {
                return;
            }
        }
        match answer.end {
            End::Whole => stream.write_all(b"0\r\n\r\n").await.unwrap(),
            End::Cut => return,
            End::Silent => {
                let _ = stream.read(&mut [0; 1]).await;
                seen.lock().unwrap().closed_by_client += 1;
                return;
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        (stream.read_buf(&mut bytes).await.ok()? > 0).then_some(())?;
    };
    let mut head = String::new();
    for line in String::from_utf8(bytes[..head_end].to_vec()).unwrap().lines() {
        match line.split_once(": ") {
            Some((name, value)) => head.push_str(&format!("{}: {value}\n", name.to_ascii_lowercase())),
            None => head.push_str(&format!("{line}\n")),
        }
    }
    let mut received = Received { head, body: String::new() };
    let length: usize = received.header("content-length")?.parse().unwrap();
    while bytes.len() < head_end + length {
        (stream.read_buf(&mut bytes).await.ok()? > 0).then_some(())?;
    }
    received.body = String::from_utf8(bytes[head_end..].to_vec()).unwrap();
    Some(received)
}

/// Events as the provider writes them: the name is the data's type.
pub(crate) fn sse(events: &[&str]) -> String {
    let frame = |data: &&str| {
        // Not parsed: some tests send what no parser takes.
        let name = data.strip_prefix(r#"{"type":""#).and_then(|rest| rest.split('"').next()).unwrap();
        format!("event: {name}\ndata: {data}\n\n")
    };
    events.iter().map(frame).collect()
}

/// The event that begins a reply.
pub(crate) const START: &str = r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-5-5","content":[],"stop_reason":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":3,"cache_read_input_tokens":100,"output_tokens":1}}}"#;

/// The event that ends a reply.
pub(crate) const STOP: &str = r#"{"type":"message_stop"}"#;

/// The event before the last, with a stop reason.
pub(crate) fn ended(reason: &str) -> String {
    format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}","stop_sequence":null}},"usage":{{"output_tokens":15}}}}"#
    )
}

/// A whole reply around these block events.
pub(crate) fn reply_of(blocks: &[&str], reason: &str) -> String {
    let end = ended(reason);
    let events: Vec<&str> = [START].into_iter().chain(blocks.iter().copied()).chain([end.as_str(), STOP]).collect();
    sse(&events)
}

/// A reply of one text.
pub(crate) fn text_reply(text: &str) -> String {
    let start = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    let delta =
        serde_json::json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}});
    let stop = r#"{"type":"content_block_stop","index":0}"#;
    reply_of(&[start, &delta.to_string(), stop], "end_turn")
}

/// A request of these messages.
pub(crate) fn request(client: &Client, messages: &[Message]) -> Request {
    Request {
        head: client.encode_head(&Head { system: "Be brief.".to_owned(), tools: Vec::new() }),
        messages: messages.iter().map(|message| client.encode(message)).collect(),
        session: SessionId::new("0190-session"),
        attempt: AttemptNo(7),
    }
}

pub(crate) fn hello() -> Message {
    Message::User(vec![Block::text("Hello")])
}

/// Sends one message and gathers what streams in.
pub(crate) async fn ask(client: &Client) -> (Result<Reply, ModelFailure>, Vec<Delta>) {
    let deltas = Mutex::new(Vec::new());
    let on_delta = |delta| deltas.lock().unwrap().push(delta);
    let result = client.send(request(client, &[hello()]), &on_delta).await;
    (result, deltas.into_inner().unwrap())
}

/// The reply to one answer.
pub(crate) async fn reply(answer: Answer) -> Reply {
    let served = Served::new(vec![answer]).await;
    ask(&served.client()).await.0.unwrap()
}

/// The failure that one answer makes.
pub(crate) async fn failure(answer: Answer) -> ModelFailure {
    let served = Served::new(vec![answer]).await;
    ask(&served.client()).await.0.unwrap_err()
}

/// Chunks as servers of chat completions and Gemini write them: data without a name.
pub(crate) fn data(chunks: &[&str]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
}

/// What one of `provider`'s models replies, or fails with, when the server answers with this.
pub(crate) async fn outcome(provider: &str, model: &str, answer: Answer) -> (Result<Reply, ModelFailure>, Vec<Delta>) {
    let served = Served::new(vec![answer]).await;
    ask(&served.client_of(provider, model)).await
}

/// The body that one of `provider`'s models is asked with.
pub(crate) fn body_of(client: &Client, head: &Head, messages: &[Message]) -> serde_json::Value {
    let messages = messages.iter().map(|message| client.encode(message)).collect();
    let (session, attempt) = (SessionId::new("0190-session"), AttemptNo(7));
    let request = Request { head: client.encode_head(head), messages, session, attempt };
    serde_json::from_str(&client.body(&request)).unwrap()
}
