//! The model crate through its public seams: the client over real HTTP, bytes chosen by each test, the scripted model,
//! and the server that plays a provider.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop at what it did not expect")]

mod anthropic_cancel;
mod anthropic_failure;
mod anthropic_reply;
mod anthropic_request;
mod chat_reply;
mod chat_request;
mod dialect;
mod error_body;
mod gemini_reply;
mod gemini_request;
mod responses_reply;
mod responses_request;
mod script_dialect;
mod script_file;
mod script_model;
mod script_police;
mod script_server;
mod served;
mod sse;
