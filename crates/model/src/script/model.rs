//! A script as a model, in process.
//!
//! It writes and checks the same bytes as the client and the server do, plays the same answer, and reads it with the
//! client's own decoder: only the socket between them is missing.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hames_protocol::port::Model;
use hames_protocol::{
    BoxFuture, Delta, Dialect, Encoded, FailureKind, Head, Message, ModelFailure, ModelInfo, Reply, Request,
};
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::playback::{Act, Answer, Playback, Target};
use super::{Script, ScriptProblem};
use crate::anthropic::AnthropicWire;
use crate::failure::{Source, failure, from_answer};
use crate::sse::Decoder;
use crate::wire::{Progress, Wire};

/// A model that gives the replies of a script: attempt N of the session gets reply N.
#[derive(Debug, Clone)]
pub struct Scripted {
    info: ModelInfo,
    source: Source,
    playback: Playback,
}

impl Scripted {
    /// Reads a script file; see [`Script::load`]. The model is named like the file.
    ///
    /// # Errors
    /// When the file cannot be read or does not fit the format.
    pub fn load(path: &Path) -> Result<Self, ScriptProblem> {
        Script::load(path).map(Self::new)
    }

    /// A model that gives the replies of `script`.
    pub fn new(script: Script) -> Self {
        let info = ModelInfo {
            provider: "scripted".to_owned(),
            name: script.name.clone(),
            dialect: Dialect::Anthropic,
            context_tokens: script.context_tokens,
            output_tokens: script.output_tokens,
            price: script.price,
        };
        let provider = format!("The script {}", script.name);
        let source = Source { provider, key: "the script".to_owned(), base_url: "the script".to_owned() };
        Self { info, source, playback: Playback::new(Arc::new(script), Dialect::Anthropic) }
    }

    async fn attempt(&self, request: Request, on_delta: &(dyn Fn(Delta) + Send + Sync)) -> Result<Reply, ModelFailure> {
        let position = usize::try_from(request.attempt.0).unwrap_or(usize::MAX).saturating_sub(1);
        if position >= self.playback.script.replies.len() {
            return Err(failure(FailureKind::Setup, self.playback.script.exhausted()));
        }
        let (_, answer) = self.playback.answer(position, AnthropicWire.join(&request).as_bytes(), Target::BODY);
        if answer.is_silent() {
            return std::future::pending().await;
        }
        pass(answer.delay_ms).await;
        if answer.is_event_stream() { self.read(answer, on_delta).await } else { Err(self.refused(answer).await) }
    }

    /// Reads the stream as the client reads it from a socket.
    async fn read(&self, answer: Answer, on_delta: &(dyn Fn(Delta) + Send + Sync)) -> Result<Reply, ModelFailure> {
        let mut assembler = AnthropicWire.assembler(&self.source.provider, &self.info.name);
        let (mut decoder, mut events, mut deltas) = (Decoder::default(), Vec::new(), Vec::new());
        for act in answer.acts {
            match act {
                Act::Wait(ms) => pass(ms).await,
                Act::Hang => std::future::pending().await,
                Act::Close => break,
                Act::Send(chunk) => decoder.feed(&chunk, &mut events).map_err(|problem| {
                    let text = format!("The stream of the script {} cannot be read: {problem}.", self.info.name);
                    ModelFailure { usage: assembler.usage(), ..failure(FailureKind::Transient, text) }
                })?,
            }
            for event in events.drain(..) {
                assembler.event(&event.name, &event.data, &mut deltas)?;
                deltas.drain(..).for_each(on_delta);
            }
            if assembler.progress() == Progress::Ended {
                break;
            }
        }
        assembler.finish()
    }

    /// The failure that an answer other than a stream means.
    async fn refused(&self, answer: Answer) -> ModelFailure {
        let mut body = Vec::new();
        for act in answer.acts {
            match act {
                Act::Wait(ms) => pass(ms).await,
                Act::Send(chunk) => body.extend_from_slice(&chunk),
                Act::Hang | Act::Close => break,
            }
        }
        let headers: HeaderMap = answer
            .headers
            .iter()
            .filter_map(|(name, value)| Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?)))
            .collect();
        let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        from_answer(&self.source, &self.source.provider, status, &headers, &String::from_utf8_lossy(&body))
    }
}

async fn pass(ms: u64) {
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

impl Model for Scripted {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn encode_head(&self, head: &Head) -> Arc<str> {
        AnthropicWire.encode_head(&self.info, None, head)
    }

    fn encode(&self, message: &Message) -> Encoded {
        AnthropicWire.encode(&self.info.name, message)
    }

    fn send<'a>(
        &'a self,
        request: Request,
        on_delta: &'a (dyn Fn(Delta) + Send + Sync),
    ) -> BoxFuture<'a, Result<Reply, ModelFailure>> {
        Box::pin(self.attempt(request, on_delta))
    }
}
