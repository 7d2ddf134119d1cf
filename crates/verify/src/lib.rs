//! The verifier: runs the checks over the workspace and turns what they showed into a verdict (promise P4).
//!
//! Licence of this crate: it cannot see the agent, so nothing that the model says can reach a verdict. It knows the
//! workspace, a sandbox and a store of blobs, each through its port.
//!
//! - [`Checks`] is the verifier; its order of work is in `checks`.
//! - `baseline` keeps what was there before the first effect, `untouched` the copy that is counted.
//! - `addition` tells which new files would change how tests run, `view` puts the judged workspace together.
//! - `command` reads a check's command line, `missing` finds out whether its program exists.
//! - `recipe` finds what a check runs in turn, such as a makefile.
//! - `report` reads what a test runner says, `finding` weighs it, `control` asks whether the runner can fail at all.

mod addition;
mod baseline;
mod blocking;
mod checks;
mod command;
mod control;
mod finding;
mod missing;
mod output;
mod recipe;
mod report;
mod untouched;
mod view;

pub use checks::{Checks, ChecksConfig, DEFAULT_TIMEOUT_MS};
pub use command::named_scripts;
