//! The OpenAI Responses dialect: `POST /v1/responses`, streamed, nothing stored at the provider.
//!
//! Source of the format: <https://platform.openai.com/docs/api-reference/responses> and
//! <https://platform.openai.com/docs/guides/reasoning>. The whole conversation goes with each request; reasoning goes
//! with it in the encrypted form that the provider gave out.

mod assemble;
mod encode;

use std::sync::Arc;

use hames_protocol::{Encoded, Head, Message, ModelInfo, Request};
use reqwest::header::{HeaderMap, InvalidHeaderValue};

use crate::chat::bearer;
use crate::effort::Effort;
use crate::wire::{Assembler, Wire, with_version, without_endings};

/// OpenAI Responses.
pub(crate) struct ResponsesWire;

impl Wire for ResponsesWire {
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
        Box::new(assemble::ResponseAssembler::new(provider, model))
    }

    fn endpoint(&self, path: &str, _: &str) -> String {
        const ENDPOINT: &str = "/responses";
        match path.trim_end_matches('/') {
            whole if whole.ends_with(ENDPOINT) => whole.to_owned(),
            path => format!("{}{ENDPOINT}", with_version(without_endings(path, &["/chat/completions"]), "/v1")),
        }
    }

    fn headers(&self, key: Option<&str>, headers: &mut HeaderMap) -> Result<(), InvalidHeaderValue> {
        bearer(key, headers)
    }
}
