//! The binary as its users meet it: real processes, a real sandbox, a home of its own for each test.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop at what it did not expect")]

mod added;
mod ask;
mod config;
mod connection;
mod cost_loops;
mod crash;
mod doctor;
mod edits;
mod example;
mod instructions;
mod jobs;
mod layouts;
mod network;
mod oracle;
mod outlet;
mod place;
mod provider;
mod repositories;
mod sessions;
mod shell;
mod signals;
mod sweep;
mod toolchain;
mod tracer;
mod usage;
