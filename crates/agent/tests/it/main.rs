//! The agent through its ports, with doubles that are strict where a provider is strict.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop at what it did not expect")]

mod ask;
mod bounds;
mod gates;
mod simulator;
mod stops;
mod toolbox;
mod world;
