//! The tools through the registry, over a real folder and real processes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step of a test is a failed test")]

mod ask_user;
mod command;
mod edit;
mod instruction;
mod look;
mod patch;
mod plan;
mod registry;
mod shell;
mod world;
mod write;
