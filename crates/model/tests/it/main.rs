//! The crate through its public face: real HTTP on 127.0.0.1, bytes chosen by each test.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop at what it did not expect")]

mod anthropic_failure;
mod anthropic_reply;
mod anthropic_request;
mod script_file;
mod script_model;
mod script_police;
mod script_server;
mod served;
mod sse;
