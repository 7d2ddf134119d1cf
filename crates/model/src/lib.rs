//! Wire dialects, retry hints, prices, and the scripted model.
//!
//! Licence of this crate: it is the only one that knows what providers' bytes look like, and it keeps HTTP and TLS
//! out of all others. A client makes one request and classifies what came back; whether to try again is the loop's
//! rule.

mod anthropic;
pub mod catalogue;
mod connection;
mod proxy;
mod raw_json;
mod retry_hint;
pub mod script;
mod sse;

pub use anthropic::{Anthropic, AnthropicConfig, Effort};
pub use proxy::Proxies;
