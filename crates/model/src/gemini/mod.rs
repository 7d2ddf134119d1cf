//! The Gemini dialect: `POST /v1beta/models/MODEL:streamGenerateContent`, as server-sent events.
//!
//! Source of the format: <https://ai.google.dev/api/generate-content>,
//! <https://ai.google.dev/gemini-api/docs/function-calling> and
//! <https://ai.google.dev/gemini-api/docs/thought-signatures>.

mod assemble;
mod encode;
mod generation;
mod schema;

use std::sync::Arc;

use hames_protocol::{Encoded, Head, Message, ModelInfo, Request};
use reqwest::header::{HeaderMap, HeaderValue, InvalidHeaderValue};

use crate::effort::Effort;
use crate::wire::{Assembler, Wire, with_version};

/// Gemini.
pub(crate) struct GeminiWire;

impl Wire for GeminiWire {
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
        Box::new(assemble::ContentAssembler::new(provider, model))
    }

    fn endpoint(&self, path: &str, model: &str) -> String {
        let path = path.trim_end_matches('/');
        // The whole endpoint, of whichever model.
        let path = path.find("/models").map_or(path, |at| &path[..at]);
        let model = model.trim_start_matches("models/");
        format!("{}/models/{model}:streamGenerateContent", with_version(path, "/v1beta"))
    }

    fn query(&self) -> Option<(&'static str, &'static str)> {
        Some(("alt", "sse"))
    }

    fn headers(&self, key: Option<&str>, headers: &mut HeaderMap) -> Result<(), InvalidHeaderValue> {
        if let Some(key) = key {
            let mut key = HeaderValue::from_str(key)?;
            key.set_sensitive(true);
            headers.insert("x-goog-api-key", key);
        }
        Ok(())
    }
}
