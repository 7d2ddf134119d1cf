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

use crate::catalogue;
use crate::connection::{Connection, causes};
use crate::effort::Effort;
use crate::failure::{Source, failure, from_answer};
use crate::preset::{self, Preset};
use crate::proxy::Proxies;
use crate::sse::Decoder;
use crate::wire::{self, Assembler, Progress, Wire};

/// How long the provider may be silent; it sends pings far more often.
const IDLE_TIMEOUT: Duration = Duration::from_secs(180);

/// How long a whole reply waits for what some servers send after it: its tokens, an end mark, the end of the body.
const TRAILING_TIMEOUT: Duration = Duration::from_secs(2);

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
pub struct ClientConfig {
    /// The provider's short name, for example `anthropic`.
    pub provider: String,
    /// The wire format.
    pub dialect: Dialect,
    /// The model's name as the provider knows it.
    pub model: String,
    /// The API key, never shown; none for a server that wants none.
    pub key: Option<String>,
    /// Where the key comes from, for the remedies of failures; for example a variable's name.
    pub key_source: String,
    /// Where the API is, with or without a path, a version and slashes at its end; none or blank for the provider's own.
    pub base_url: Option<String>,
    /// Where the base URL comes from, for the remedies of failures.
    pub base_url_source: String,
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

impl ClientConfig {
    /// A model of a known provider, with a silence of at most 180 seconds.
    pub fn new(preset: &Preset, model: impl Into<String>, key: Option<String>) -> Self {
        Self {
            provider: preset.name.to_owned(),
            dialect: preset.dialect,
            model: model.into(),
            key,
            key_source: preset.key_variables.first().copied().unwrap_or("key_env in the configuration").to_owned(),
            base_url: None,
            base_url_source: preset.base_url_variable.unwrap_or("--base-url").to_owned(),
            idle_timeout: IDLE_TIMEOUT,
            effort: None,
            headers: Vec::new(),
            proxies: Proxies::default(),
            entry: None,
        }
    }

    /// A model at Anthropic itself.
    pub fn anthropic(model: impl Into<String>, key: impl Into<String>) -> Self {
        Self::new(&preset::ANTHROPIC, model, Some(key.into()))
    }
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("ClientConfig");
        out.field("provider", &self.provider).field("dialect", &self.dialect);
        out.field("model", &self.model).field("base_url", &self.base_url).field("idle_timeout", &self.idle_timeout);
        out.field("effort", &self.effort);
        out.finish_non_exhaustive()
    }
}

/// A client of a provider's API.
pub struct Client {
    info: ModelInfo,
    wire: Box<dyn Wire>,
    connection: Connection,
    url: Url,
    source: Source,
    /// What no text may show: the key, the values of the user's own headers, a proxy's password.
    secrets: Vec<String>,
    idle_timeout: Duration,
    effort: Option<Effort>,
}

impl Client {
    /// Prepares a client; nothing is sent.
    ///
    /// # Errors
    /// When the key cannot be sent in a header, or the base URL is none.
    pub fn new(config: ClientConfig) -> Result<Self, ModelFailure> {
        let preset = preset::of(&config.provider, config.dialect);
        check_key(&config)?;
        let base = config.base_url.as_deref().map(str::trim).filter(|base| !base.is_empty());
        let base = base.unwrap_or(preset.base_url);
        let wire = wire::of(config.dialect, preset::server_at(&config.provider, base), &config.model);
        let url = endpoint(wire.as_ref(), base, preset.base_url, &config.model)?;
        let mut headers = HeaderMap::new();
        wire.headers(config.key.as_deref(), &mut headers)
            .map_err(|_| bad_key(&config, "cannot be sent in a header"))?;
        let headers = request_headers(headers, own_headers(&config.headers)?);
        let connection = Connection::to(&url, headers, &config.proxies)?;
        let entry = config.entry.unwrap_or_else(|| catalogue::find(&config.model));
        let source = Source {
            provider: if preset.name == config.provider { preset.title.to_owned() } else { config.provider.clone() },
            key: config.key_source,
            base_url: config.base_url_source,
        };
        let info = ModelInfo {
            provider: config.provider,
            name: config.model,
            dialect: config.dialect,
            context_tokens: entry.context_tokens,
            output_tokens: entry.output_tokens,
            price: entry.price,
        };
        let values = config.headers.into_iter().map(|(_, value)| value);
        let secrets = config.key.into_iter().chain(values).chain(connection.secrets());
        let secrets = secrets.filter(|secret| secret.len() >= SHORTEST_SECRET).collect();
        let (idle_timeout, effort) = (config.idle_timeout, config.effort);
        Ok(Self { info, wire, connection, url, source, secrets, idle_timeout, effort })
    }

    /// The body of a request: the bytes that `send` sends. Pure.
    pub fn body(&self, request: &Request) -> String {
        self.wire.join(request)
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
        let sent = client.post(self.url.clone()).header("idempotency-key", attempt).body(self.body(request)).send();
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
        let mut assembler = self.wire.assembler(&self.source.provider, &self.info.name);
        let mut decoder = Decoder::default();
        let (mut events, mut deltas, mut received) = (Vec::new(), Vec::new(), 0);
        loop {
            let patience = match assembler.progress() {
                Progress::Streaming => self.idle_timeout,
                Progress::Whole => TRAILING_TIMEOUT.min(self.idle_timeout),
                Progress::Ended => break,
            };
            let chunk = match tokio::time::timeout(patience, response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) => break,
                // What did not come any more was not needed.
                _ if assembler.progress() == Progress::Whole => break,
                Ok(Err(problem)) => {
                    let cause = causes(&problem.without_url());
                    let text =
                        format!("The stream from {} was cut off before its end event: {cause}.", self.connection.host);
                    return Err(with_usage(assembler.as_ref(), failure(FailureKind::Transient, text)));
                }
                Err(_) => return Err(with_usage(assembler.as_ref(), self.silent())),
            };
            received += chunk.len();
            if received > MAX_REPLY_BYTES {
                let text = format!(
                    "The stream from {} has more than {MAX_REPLY_BYTES} bytes. It was given up.",
                    self.connection.host
                );
                return Err(with_usage(assembler.as_ref(), failure(FailureKind::Rejected, text)));
            }
            decoder.feed(&chunk, &mut events).map_err(|problem| {
                let text = format!("The stream from {} cannot be read: {problem}.", self.connection.host);
                with_usage(assembler.as_ref(), failure(FailureKind::Transient, text))
            })?;
            for mut event in events.drain(..) {
                if wire::tells_error(&event.name, &event.data) {
                    // Before the words are shortened: half a key is a leak as well.
                    event.data = self.redacted(&event.data);
                }
                assembler.event(&event.name, &event.data, &mut deltas)?;
                deltas.drain(..).for_each(on_delta);
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
        from_answer(&self.source, &self.connection.host, status, &headers, &body)
    }

    /// Text without the key and without the values of the user's own headers.
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

impl Model for Client {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn encode_head(&self, head: &Head) -> Arc<str> {
        self.wire.encode_head(&self.info, self.effort, head)
    }

    fn encode(&self, message: &Message) -> Encoded {
        self.wire.encode(&self.info.name, message)
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

fn request_headers(mut headers: HeaderMap, own: HeaderMap) -> HeaderMap {
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

fn check_key(config: &ClientConfig) -> Result<(), ModelFailure> {
    let problem = match config.key.as_deref() {
        None => return Ok(()),
        Some("") => "is empty",
        Some(key) if key.contains(['\n', '\r']) => "contains a line end",
        Some(key) if !key.bytes().all(|byte| byte.is_ascii_graphic()) => {
            "contains a character that no key has (a blank, a control character, or one outside ASCII)"
        }
        Some(_) => return Ok(()),
    };
    Err(bad_key(config, problem))
}

fn bad_key(config: &ClientConfig, problem: &str) -> ModelFailure {
    let source = &config.key_source;
    let text = format!("The API key {problem}. Copy it again, without anything around it ({source}).");
    failure(FailureKind::Credential, text)
}

/// The endpoint beneath a base URL, whichever part of it that already has.
fn endpoint(wire: &dyn Wire, base: &str, example: &str, model: &str) -> Result<Url, ModelFailure> {
    let invalid = |why: &str| {
        let text = format!("The base URL `{base}` cannot be used: {why}. Write it like {example}.");
        failure(FailureKind::Setup, text)
    };
    let mut url = Url::parse(base).map_err(|problem| invalid(&problem.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("it does not begin with http:// or https://"));
    }
    let path = wire.endpoint(url.path(), model);
    url.set_path(&path);
    url.set_fragment(None);
    if let Some((name, value)) = wire.query() {
        url.query_pairs_mut().append_pair(name, value);
    }
    Ok(url)
}

/// Gives a failure the usage reported so far: tokens of a broken attempt are spent all the same.
fn with_usage(assembler: &dyn Assembler, failure: ModelFailure) -> ModelFailure {
    ModelFailure { usage: assembler.usage(), ..failure }
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    // Without a type the bytes decide.
    headers.get(CONTENT_TYPE).is_none_or(|value| {
        value.to_str().is_ok_and(|value| value.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
    })
}
