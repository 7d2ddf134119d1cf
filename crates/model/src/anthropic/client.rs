//! The HTTP client: one request per `send`, classified, never repeated.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hames_protocol::port::Model;
use hames_protocol::{
    BoxFuture, Delta, Dialect, Encoded, FailureKind, Head, Message, ModelFailure, ModelInfo, Reply, Request,
};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use reqwest::{Response, Url};

use super::assemble::Assembler;
use super::effort::Effort;
use super::encode;
use super::failure::{failure, from_answer};
use crate::catalogue;
use crate::connection::{Connection, causes};
use crate::proxy::Proxies;
use crate::sse::Decoder;

/// Where requests go without a base URL.
const DEFAULT_BASE_URL: &str = "https://api.anthropic.com";

/// How long the provider may be silent; it sends pings far more often.
const IDLE_TIMEOUT: Duration = Duration::from_secs(180);

/// How long the end of the body is waited for after the end event, so that the connection can be used again.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(250);

/// How much of an error body is read, in bytes.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// How much of a stream is read, in bytes: far above any output limit, and what is kept of it fits one entry of the log.
const MAX_REPLY_BYTES: usize = 12 * 1024 * 1024;

/// Stands for the API key, or the value of a header, wherever a provider or a proxy repeats it.
const REDACTED: &str = "[key]";

/// The shortest text that may be a secret, in bytes. A shorter key is a stand-in for a server that wants none, and would
/// be found in ordinary words.
const SHORTEST_SECRET: usize = 8;

/// What a client needs to know.
#[derive(Clone)]
pub struct AnthropicConfig {
    /// The provider's short name, for example `anthropic`.
    pub provider: String,
    /// The model's name as the provider knows it.
    pub model: String,
    /// The API key; never shown.
    pub key: String,
    /// Where the API is, with or without a path, `/v1` and slashes at its end; none or blank for Anthropic itself.
    pub base_url: Option<String>,
    /// How long the provider may be silent before the attempt fails.
    pub idle_timeout: Duration,
    /// How much the model should put into its replies; none for the provider's default.
    pub effort: Option<Effort>,
    /// More headers of each request, name and value; the values are never shown.
    pub headers: Vec<(String, String)>,
    /// The proxies to go through; none by default. A provider on this machine is reached directly.
    pub proxies: Proxies,
    /// Sizes and price of the model; none to look them up in the [`catalogue`].
    pub entry: Option<catalogue::Entry>,
}

impl AnthropicConfig {
    /// A model at Anthropic itself, with a silence of at most 180 seconds.
    pub fn new(model: impl Into<String>, key: impl Into<String>) -> Self {
        Self {
            provider: "anthropic".to_owned(),
            model: model.into(),
            key: key.into(),
            base_url: None,
            idle_timeout: IDLE_TIMEOUT,
            effort: None,
            headers: Vec::new(),
            proxies: Proxies::default(),
            entry: None,
        }
    }
}

impl fmt::Debug for AnthropicConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("AnthropicConfig");
        out.field("provider", &self.provider);
        out.field("model", &self.model).field("base_url", &self.base_url).field("idle_timeout", &self.idle_timeout);
        out.field("effort", &self.effort);
        out.finish_non_exhaustive()
    }
}

/// A client of the Anthropic Messages API.
pub struct Anthropic {
    info: ModelInfo,
    connection: Connection,
    url: Url,
    /// What no text may show: the key, the values of the user's own headers, a proxy's password.
    secrets: Vec<String>,
    idle_timeout: Duration,
    effort: Option<Effort>,
}

impl Anthropic {
    /// Prepares a client; nothing is sent.
    ///
    /// # Errors
    /// When the key cannot be sent in a header, or the base URL is none.
    pub fn new(config: AnthropicConfig) -> Result<Self, ModelFailure> {
        let key = checked_key(&config.key)?;
        let base = config.base_url.as_deref().map(str::trim).filter(|base| !base.is_empty());
        let url = endpoint(base.unwrap_or(DEFAULT_BASE_URL))?;
        let headers = request_headers(key, own_headers(&config.headers)?);
        let connection = Connection::to(&url, headers, &config.proxies)?;
        let entry = config.entry.unwrap_or_else(|| catalogue::find(&config.model));
        let info = ModelInfo {
            provider: config.provider,
            name: config.model,
            dialect: Dialect::Anthropic,
            context_tokens: entry.context_tokens,
            output_tokens: entry.output_tokens,
            price: entry.price,
        };
        let values = config.headers.into_iter().map(|(_, value)| value);
        let secrets = std::iter::once(config.key).chain(values).chain(connection.secrets());
        let secrets = secrets.filter(|secret| secret.len() >= SHORTEST_SECRET).collect();
        Ok(Self { info, connection, url, secrets, idle_timeout: config.idle_timeout, effort: config.effort })
    }

    async fn attempt(&self, request: Request, on_delta: &(dyn Fn(Delta) + Send + Sync)) -> Result<Reply, ModelFailure> {
        let response = self.post(&request).await?;
        if response.status() != 200 || !is_event_stream(response.headers()) {
            return Err(self.refused(response).await);
        }
        self.read(response, on_delta).await
    }

    async fn post(&self, request: &Request) -> Result<Response, ModelFailure> {
        // The same for every repetition below this client, so that a gateway can tell a repetition from a new attempt.
        let attempt = format!("{}/{}", request.session, request.attempt);
        let client = self.connection.client().await?;
        let sent = client.post(self.url.clone()).header("idempotency-key", attempt).body(encode::join(request)).send();
        match tokio::time::timeout(self.idle_timeout, sent).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(problem)) => Err(self.connection.failed(problem)),
            Err(_) => Err(self.silent()),
        }
    }

    /// Reads the stream to its end event.
    async fn read(
        &self,
        mut response: Response,
        on_delta: &(dyn Fn(Delta) + Send + Sync),
    ) -> Result<Reply, ModelFailure> {
        let mut assembler = Assembler::new(&self.info.name);
        let mut decoder = Decoder::default();
        let (mut events, mut received) = (Vec::new(), 0);
        while !assembler.is_ended() {
            let chunk = match tokio::time::timeout(self.idle_timeout, response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) => break,
                Ok(Err(problem)) => {
                    let cause = causes(&problem.without_url());
                    let text =
                        format!("The stream from {} was cut off before its end event: {cause}.", self.connection.host);
                    return Err(assembler.with_usage(failure(FailureKind::Transient, text)));
                }
                Err(_) => return Err(assembler.with_usage(self.silent())),
            };
            received += chunk.len();
            if received > MAX_REPLY_BYTES {
                let text = format!(
                    "The stream from {} has more than {MAX_REPLY_BYTES} bytes. It was given up.",
                    self.connection.host
                );
                return Err(assembler.with_usage(failure(FailureKind::Rejected, text)));
            }
            decoder.feed(&chunk, &mut events).map_err(|problem| {
                let text = format!("The stream from {} cannot be read: {problem}.", self.connection.host);
                assembler.with_usage(failure(FailureKind::Transient, text))
            })?;
            for mut event in events.drain(..) {
                if event.name == "error" {
                    // Before the words are shortened: half a key is a leak as well.
                    event.data = self.redacted(&event.data);
                }
                if let Some(delta) = assembler.event(&event.name, &event.data)? {
                    on_delta(delta);
                }
            }
        }
        let drained = async { while let Ok(Some(_)) = response.chunk().await {} };
        // Nothing depends on what follows the end event; a server that keeps the connection open only loses it.
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, drained).await;
        assembler.finish()
    }

    /// The failure behind an answer that is no event stream.
    async fn refused(&self, mut response: Response) -> ModelFailure {
        let (status, headers) = (response.status(), response.headers().clone());
        if let (407, Some(failure)) = (status.as_u16(), self.connection.refused_by_proxy()) {
            return failure;
        }
        let mut bytes = Vec::new();
        while bytes.len() < MAX_ERROR_BYTES {
            match tokio::time::timeout(self.idle_timeout, response.chunk()).await {
                Ok(Ok(Some(chunk))) => bytes.extend_from_slice(&chunk),
                _ => break,
            }
        }
        let body = self.redacted(&String::from_utf8_lossy(&bytes));
        from_answer(&self.connection.host, status, &headers, &body)
    }

    /// Text without what no text may show.
    fn redacted(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, REDACTED))
    }

    fn silent(&self) -> ModelFailure {
        let text = format!(
            "{} was silent for {} ms. The attempt was given up.",
            self.connection.host,
            self.idle_timeout.as_millis()
        );
        failure(FailureKind::Transient, text)
    }
}

impl Model for Anthropic {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn encode_head(&self, head: &Head) -> Arc<str> {
        encode::encode_head(&self.info, self.effort, head)
    }

    fn encode(&self, message: &Message) -> Encoded {
        encode::encode(&self.info.name, message)
    }

    fn send<'a>(
        &'a self,
        request: Request,
        on_delta: &'a (dyn Fn(Delta) + Send + Sync),
    ) -> BoxFuture<'a, Result<Reply, ModelFailure>> {
        Box::pin(async move {
            self.attempt(request, on_delta).await.map_err(|failure| {
                // The one way out for foreign words.
                ModelFailure { message: self.redacted(&failure.message), ..failure }
            })
        })
    }
}

fn request_headers(key: HeaderValue, own: HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("x-api-key", key);
    headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("hames/", env!("CARGO_PKG_VERSION"))));
    headers.extend(own);
    headers
}

/// The user's own headers, which no log shows.
fn own_headers(headers: &[(String, String)]) -> Result<HeaderMap, ModelFailure> {
    let mut own = HeaderMap::new();
    for (name, value) in headers {
        let pair = name.parse::<HeaderName>().ok().zip(HeaderValue::from_str(value).ok());
        let Some((name, mut value)) = pair else {
            let text = format!("The header `{name}` cannot be sent: a header is a word and one line of text.");
            return Err(failure(FailureKind::Setup, text));
        };
        value.set_sensitive(true);
        own.insert(name, value);
    }
    Ok(own)
}

/// The key as a header that no log shows.
fn checked_key(key: &str) -> Result<HeaderValue, ModelFailure> {
    let problem = match key {
        "" => Some("is empty"),
        key if key.contains(['\n', '\r']) => Some("contains a line end"),
        key if !key.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Some("contains a character that no key has (a blank, a control character, or one outside ASCII)")
        }
        _ => None,
    };
    match (problem, HeaderValue::from_str(key)) {
        (None, Ok(mut value)) => {
            value.set_sensitive(true);
            Ok(value)
        }
        (problem, _) => {
            let problem = problem.unwrap_or("cannot be sent in a header");
            let text = format!("The API key {problem}. Copy it again, without anything around it (ANTHROPIC_API_KEY).");
            Err(failure(FailureKind::Credential, text))
        }
    }
}

/// `…/v1/messages` beneath a base URL, whichever part of that it already has.
fn endpoint(base: &str) -> Result<Url, ModelFailure> {
    let invalid = |why: &str| {
        let text = format!("The base URL `{base}` cannot be used: {why}. Write it like {DEFAULT_BASE_URL}.");
        failure(FailureKind::Setup, text)
    };
    let mut url = Url::parse(base).map_err(|problem| invalid(&problem.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("it does not begin with http:// or https://"));
    }
    let path = url.path().trim_end_matches('/');
    let path = path.strip_suffix("/messages").unwrap_or(path).trim_end_matches('/');
    let path = path.strip_suffix("/v1").unwrap_or(path).trim_end_matches('/');
    url.set_path(&format!("{path}/v1/messages"));
    url.set_fragment(None);
    Ok(url)
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    // Without a type the bytes decide.
    headers.get(CONTENT_TYPE).is_none_or(|value| {
        value.to_str().is_ok_and(|value| value.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
    })
}
