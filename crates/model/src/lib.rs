//! Wire dialects, retry hints, prices, and the scripted model.
//!
//! Licence of this crate: it is the only one that knows what providers' bytes look like, and it keeps HTTP and TLS
//! out of all others. A client makes one request and classifies what came back; whether to try again is the loop's
//! rule.

mod anthropic;
mod arguments;
pub mod catalogue;
mod chat;
mod client;
mod connection;
mod content;
mod effort;
mod failure;
mod gemini;
pub mod preset;
mod proxy;
mod raw_json;
mod responses;
mod retry_hint;
pub mod script;
mod sse;
mod told;
mod wire;

pub use client::{Client, ClientConfig};
pub use effort::Effort;
pub use preset::Preset;
pub use proxy::Proxies;
