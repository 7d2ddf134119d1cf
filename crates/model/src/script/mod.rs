//! The scripted model: replies from a file, in process or over HTTP, for tests, examples and users' own doubles.
//!
//! It never lets a request pass that the provider would refuse, so that whatever runs on a script also shows that its
//! histories are well formed.

mod checked;
mod file;
mod keys;
mod model;
mod playback;
pub mod police;
mod reply;
mod server;
mod stream;

pub use file::{Script, ScriptProblem};
pub use model::Scripted;
pub use server::{ReceivedRequest, ScriptServer};
