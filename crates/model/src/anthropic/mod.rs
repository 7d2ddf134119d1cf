//! The Anthropic Messages dialect: `POST /v1/messages`, version 2023-06-01, streamed.
//!
//! Source of the format: <https://docs.claude.com/en/api/messages> and
//! <https://docs.claude.com/en/docs/build-with-claude/streaming>.

pub(crate) mod assemble;
mod client;
mod effort;
pub(crate) mod encode;
pub(crate) mod failure;

pub use client::{Anthropic, AnthropicConfig};
pub use effort::Effort;
