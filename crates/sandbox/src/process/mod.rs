//! The process half: commands isolated from the host (promise P6).
//!
//! [`Bubblewrap`] runs each command in namespaces of its own; [`Unconfined`] is the same contract without isolation,
//! for who switched the sandbox off by name.

mod birth;
mod bubblewrap;
mod comparison;
mod config;
mod etc;
mod feed;
mod filter;
mod job;
mod layout;
mod leftover;
mod listener;
mod network;
mod observation;
mod outcome;
mod output;
mod placeholder;
mod refusal;
mod report;
mod running;
mod script;
mod state;
mod steward;
mod supervision;
mod territory;
mod tree;
mod unconfined;
mod variables;
mod view;
mod watched;

pub use bubblewrap::Bubblewrap;
pub use config::{GitIdentity, Mode, ProcessLimits, SandboxConfig};
pub use unconfined::Unconfined;
