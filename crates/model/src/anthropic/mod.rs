//! The Anthropic Messages dialect: `POST /v1/messages`, version 2023-06-01, streamed.
//!
//! Source of the format: <https://docs.claude.com/en/api/messages> and
//! <https://docs.claude.com/en/docs/build-with-claude/streaming>.

mod assemble;
mod encode;

use std::sync::Arc;

use hames_protocol::{Encoded, Head, Message, ModelInfo, Request};
use reqwest::header::{HeaderMap, HeaderValue, InvalidHeaderValue};

use crate::effort::Effort;
use crate::wire::{Assembler, Wire, without_endings};

/// Anthropic Messages.
pub(crate) struct AnthropicWire;

impl Wire for AnthropicWire {
    fn encode_head(&self, info: &ModelInfo, effort: Option<Effort>, head: &Head) -> Arc<str> {
        encode::encode_head(info, effort, head)
    }

    fn encode(&self, model: &str, message: &Message) -> Encoded {
        encode::encode(model, message)
    }

    fn join(&self, request: &Request) -> String {
        encode::join(request)
    }

    fn assembler(&self, provider: &str, model: &str) -> Box<dyn Assembler> {
        Box::new(assemble::MessageAssembler::new(provider, model))
    }

    fn endpoint(&self, path: &str, _: &str) -> String {
        let path = without_endings(path, &["/messages"]);
        format!("{}/v1/messages", without_endings(path, &["/v1"]))
    }

    fn headers(&self, key: Option<&str>, headers: &mut HeaderMap) -> Result<(), InvalidHeaderValue> {
        if let Some(key) = key {
            let mut key = HeaderValue::from_str(key)?;
            key.set_sensitive(true);
            headers.insert("x-api-key", key);
        }
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        Ok(())
    }
}
