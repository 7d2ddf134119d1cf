//! The verifier through its seam: a temporary workspace, and a sandbox that really runs the checks.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod baseline;
mod double;
mod forgery;
mod judge;
mod program;
mod runner;
