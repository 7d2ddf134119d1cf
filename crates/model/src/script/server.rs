//! A script served over real HTTP as a provider of one dialect, beneath any path prefix.
//!
//! One HTTP chunk is written for each act of an answer, so that chunk edges fall where the script puts them. Anyone
//! on the machine may connect: bind it to a loopback address.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hames_protocol::Dialect;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::header::HeaderMap;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Sleep;

use super::Script;
use super::playback::{Act, Answer, Form, Playback, Taken, Target};
use super::police;

/// The largest request that the API takes: 32 MB, <https://docs.claude.com/en/api/errors#request-size-limits>.
const MAX_REQUEST_BYTES: usize = 32 * 1024 * 1024;

/// A running server; dropping it closes every connection and frees the port.
#[derive(Debug)]
pub struct ScriptServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

/// A request as the server received it.
#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    /// The path.
    pub path: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The status it was answered with; none when it was never answered.
    pub status: Option<u16>,
}

#[derive(Debug)]
struct Shared {
    playback: Playback,
    /// The position for requests that do not name theirs.
    next: Mutex<usize>,
    received: Mutex<Vec<ReceivedRequest>>,
    hang_ups: AtomicUsize,
}

impl ScriptServer {
    /// Serves `script` in the Anthropic dialect; see [`Self::bind_as`].
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn bind(script: Script, address: SocketAddr) -> io::Result<Self> {
        Self::bind_as(Dialect::Anthropic, script, address).await
    }

    /// Serves `script` at `address` from now on; port 0 takes a free one. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn bind_as(dialect: Dialect, script: Script, address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            playback: Playback::new(Arc::new(script), dialect),
            next: Mutex::new(0),
            received: Mutex::default(),
            hang_ups: AtomicUsize::new(0),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, accepting })
    }

    /// The address it listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL for a client, without a path.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request received so far, refused ones too, in order.
    pub fn received(&self) -> Vec<ReceivedRequest> {
        self.shared.received().clone()
    }

    /// How often a client hung up before its answer was at its end.
    pub fn hang_ups(&self) -> usize {
        self.shared.hang_ups.load(Ordering::SeqCst)
    }
}

impl Drop for ScriptServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    fn received(&self) -> MutexGuard<'_, Vec<ReceivedRequest>> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a request and returns its place in the list.
    fn note(&self, path: &str, headers: &HeaderMap, body: Bytes) -> usize {
        let mut received = self.received();
        received.push(ReceivedRequest { path: path.to_owned(), headers: headers.clone(), body, status: None });
        received.len() - 1
    }

    fn note_status(&self, place: usize, status: u16) {
        if let Some(request) = self.received().get_mut(place) {
            request.status = Some(status);
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this task, and every connection with it.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((socket, _)) = listener.accept().await else {
            // Out of file descriptors, or a client that was gone before it was accepted: both pass.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        // A chunk is to arrive when it is sent; without this, small ones wait for each other.
        let _ = socket.set_nodelay(true);
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(|request| serve(Arc::clone(&shared), request));
            // A scripted cut ends in an error here: that is its purpose.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

async fn serve(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Playing>, Infallible> {
    let (head, body) = request.into_parts();
    let body = read(body).await;
    let place = shared.note(head.uri.path(), &head.headers, body.clone().unwrap_or_default());
    let answer = answer(&shared, &head.method, &head.uri, &head.headers, body);
    let mut open = OpenAnswer { shared: Arc::clone(&shared), at_end: false };
    if answer.is_silent() {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(Duration::from_millis(answer.delay_ms)).await;
    shared.note_status(place, answer.status);
    open.at_end = answer.acts.is_empty();
    let mut response = Response::builder().status(StatusCode::from_u16(answer.status).unwrap_or_default());
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    let playing = Playing { acts: answer.acts, pause: None, flush: Flush::Done, open };
    // Only a header from the script can be invalid; the reply then goes without any.
    Ok(response.body(playing).unwrap_or_else(|error| {
        let words = format!("The script's headers cannot be sent: {error}.");
        let refusal = shared.playback.error(500, "api_error", &words);
        let open = OpenAnswer { shared, at_end: false };
        Response::new(Playing { acts: refusal.acts, pause: None, flush: Flush::Done, open })
    }))
}

/// Reads a body to its end, also one that is too large: a client that is still writing would not see the answer.
async fn read(mut body: Incoming) -> Option<Bytes> {
    let (mut bytes, mut length) = (BytesMut::new(), 0usize);
    while let Some(Ok(frame)) = body.frame().await {
        if let Ok(data) = frame.into_data() {
            length = length.saturating_add(data.len());
            if length <= MAX_REQUEST_BYTES {
                bytes.extend_from_slice(&data);
            }
        }
    }
    (length <= MAX_REQUEST_BYTES).then(|| bytes.freeze())
}

/// Checks in the order of the APIs: path, key, version, size, and then the body.
fn answer(shared: &Shared, method: &Method, uri: &Uri, headers: &HeaderMap, body: Option<Bytes>) -> Answer {
    let playback = &shared.playback;
    let refusal = |status, kind: &'static str, words: &str| {
        playback.error(status, police::error_kind(playback.dialect, status, kind), words)
    };
    let Some(target) = target(playback.dialect, uri) else {
        return refusal(404, "not_found_error", "Not found");
    };
    if method != Method::POST {
        return refusal(405, "invalid_request_error", "Method Not Allowed");
    }
    if let Some((status, kind, words)) = missing_header(playback.dialect, uri, headers) {
        return refusal(status, kind, words);
    }
    let Some(body) = body else {
        return refusal(413, "request_too_large", "Request exceeds the maximum size");
    };
    if let Some(position) = named_position(headers) {
        return playback.answer(position, &body, target).1;
    }
    let mut next = shared.next.lock().unwrap_or_else(PoisonError::into_inner);
    let (taken, answer) = playback.answer(*next, &body, target);
    *next += usize::from(taken == Taken::Accepted);
    answer
}

/// What a path asks for; none where the dialect has no such path.
fn target(dialect: Dialect, uri: &Uri) -> Option<Target<'_>> {
    let path = uri.path();
    let ending = match dialect {
        Dialect::Anthropic => "/v1/messages",
        Dialect::OpenAi => "/responses",
        Dialect::OpenAiChat => "/chat/completions",
        Dialect::Gemini => {
            let (model, method) = path.rsplit_once("/models/")?.1.split_once(':')?;
            let form = match method {
                "streamGenerateContent" => Form::Stream,
                "generateContent" => Form::Whole,
                _ => return None,
            };
            return Some(Target { model: Some(model), form });
        }
    };
    path.ends_with(ending).then_some(Target::BODY)
}

/// The header that is missing, as the provider tells of it.
fn missing_header(dialect: Dialect, uri: &Uri, headers: &HeaderMap) -> Option<(u16, &'static str, &'static str)> {
    let has = |name: &str| headers.get(name).is_some_and(|value| !value.is_empty());
    match dialect {
        // A key comes in either header: newer official clients send it as a bearer token.
        Dialect::Anthropic if !has("x-api-key") && !has("authorization") => {
            Some((401, "authentication_error", "x-api-key header is required"))
        }
        Dialect::Anthropic if !has("anthropic-version") => {
            Some((400, "invalid_request_error", "anthropic-version: header is required"))
        }
        Dialect::OpenAi | Dialect::OpenAiChat if !has("authorization") => {
            Some((401, "invalid_request_error", "You didn't provide an API key."))
        }
        Dialect::Gemini if !has("x-goog-api-key") && !uri.query().unwrap_or_default().contains("key=") => Some((
            403,
            "permission_error",
            "Method doesn't allow unregistered callers (callers without established identity).",
        )),
        Dialect::Gemini if uri.path().ends_with(":streamGenerateContent") && !asks_for_events(uri) => {
            Some((400, "invalid_request_error", "This server streams events only: ask with alt=sse."))
        }
        _ => None,
    }
}

fn asks_for_events(uri: &Uri) -> bool {
    uri.query().unwrap_or_default().split('&').any(|pair| pair == "alt=sse")
}

/// The position in `Idempotency-Key: SESSION/N`: attempt N gets reply N, counted from 1.
fn named_position(headers: &HeaderMap) -> Option<usize> {
    let key = headers.get("idempotency-key")?.to_str().ok()?;
    key.rsplit_once('/')?.1.parse::<usize>().ok()?.checked_sub(1)
}

/// An answer that is not at its end; dropped like that, the client has hung up.
#[derive(Debug)]
struct OpenAnswer {
    shared: Arc<Shared>,
    at_end: bool,
}

impl Drop for OpenAnswer {
    fn drop(&mut self) {
        if !self.at_end {
            self.shared.hang_ups.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Whether the chunk before has reached the socket.
#[derive(Debug, PartialEq)]
enum Flush {
    Due,
    Done,
}

/// A response body that plays an answer.
#[derive(Debug)]
struct Playing {
    acts: std::collections::VecDeque<Act>,
    pause: Option<Pin<Box<Sleep>>>,
    flush: Flush,
    open: OpenAnswer,
}

impl Body for Playing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        loop {
            if let Some(pause) = &mut self.pause {
                std::task::ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            // hyper writes out what it has when a body is not ready: the next act, a cut above all, must not
            // overtake the chunk before.
            if self.flush == Flush::Due {
                self.flush = Flush::Done;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            match self.acts.pop_front() {
                Some(Act::Wait(0)) => {}
                Some(Act::Wait(ms)) => self.pause = Some(Box::pin(tokio::time::sleep(Duration::from_millis(ms)))),
                Some(Act::Send(chunk)) => {
                    self.flush = Flush::Due;
                    return Poll::Ready(Some(Ok(Frame::data(chunk))));
                }
                Some(Act::Close) => {
                    self.open.at_end = true;
                    return Poll::Ready(Some(Err(io::Error::other("cut as scripted"))));
                }
                Some(Act::Hang) => {
                    self.acts.push_front(Act::Hang);
                    return Poll::Pending;
                }
                None => {
                    self.open.at_end = true;
                    return Poll::Ready(None);
                }
            }
        }
    }
}
