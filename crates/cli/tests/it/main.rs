//! The binary as its users meet it: real processes, a real sandbox, a home of its own for each test.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop at what it did not expect")]

mod ask;
mod config;
mod crash;
mod doctor;
mod example;
mod outlet;
mod place;
mod sessions;
mod signals;
mod toolchain;
mod usage;
