//! The chat completions dialect: `POST /v1/chat/completions`, streamed, as OpenAI defined it and others speak it.
//!
//! Source of the format: <https://platform.openai.com/docs/api-reference/chat>. What servers do differently is in
//! [`Manners`]; what their streams do differently, the assembler takes as it comes.

mod assemble;
mod call;
mod encode;
mod manners;

use std::sync::Arc;

use hames_protocol::{Encoded, Head, Message, ModelInfo, Request};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, InvalidHeaderValue};

use crate::effort::Effort;
use crate::preset::Server;
use crate::wire::{Assembler, Wire, with_version, without_endings};
use manners::Manners;

/// OpenAI-compatible chat completions.
pub(crate) struct ChatWire {
    manners: Manners,
}

impl ChatWire {
    /// The format as a server and a model want it.
    pub(crate) fn new(server: Server, model: &str) -> Self {
        Self { manners: Manners::of(server, model) }
    }
}

impl Wire for ChatWire {
    fn encode_head(&self, info: &ModelInfo, effort: Option<Effort>, head: &Head) -> Arc<str> {
        encode::encode_head(&self.manners, info, effort, head)
    }

    fn encode(&self, model: &str, message: &Message) -> Encoded {
        encode::encode(&self.manners, model, message)
    }

    fn join(&self, request: &Request) -> String {
        encode::join(&self.manners, request)
    }

    fn assembler(&self, provider: &str, model: &str) -> Box<dyn Assembler> {
        Box::new(assemble::ChatAssembler::new(provider, model))
    }

    fn endpoint(&self, path: &str, _: &str) -> String {
        const ENDPOINT: &str = "/chat/completions";
        match path.trim_end_matches('/') {
            whole if whole.ends_with(ENDPOINT) => whole.to_owned(),
            path => format!("{}{ENDPOINT}", with_version(without_endings(path, &["/responses"]), "/v1")),
        }
    }

    fn headers(&self, key: Option<&str>, headers: &mut HeaderMap) -> Result<(), InvalidHeaderValue> {
        bearer(key, headers)
    }
}

/// Adds a key as OpenAI wants it.
pub(crate) fn bearer(key: Option<&str>, headers: &mut HeaderMap) -> Result<(), InvalidHeaderValue> {
    if let Some(key) = key {
        let mut value = HeaderValue::from_str(&format!("Bearer {key}"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(())
}
