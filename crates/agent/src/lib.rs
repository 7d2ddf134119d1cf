//! The heart of Hames: a log is folded to a state, the state says what should be going on, the driver does it.
//!
//! ```text
//! records --fold--> State --next--> Steps --do--> what happened --append--> records
//! ```
//!
//! Licence of this crate: [`fold`] and [`next`] hold every rule of the loop and are pure: no clock, no I/O, no
//! randomness. The [`Driver`] is the only thing here that does anything, and it does it through the ports. Crash
//! recovery is not a feature of its own: fold the records, ask `next`, go on.

mod driver;
mod fold;
mod next;
mod result;
mod retry;
mod running;
mod state;
mod stuck;
mod words;

pub use driver::{AgentProblem, Driver, Ports, Prompt};
pub use fold::fold;
pub use next::{EffectId, Step, next, take_up};
pub use result::run_result;
pub use state::{Branch, CallState, Ledger, Phase, Run, Stage, State, Turn};
