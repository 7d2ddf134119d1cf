//! The nouns and the ports of Hames: what every ring shares, and nothing else.
//!
//! Licence of this crate: it is the only one that all others may import, so it stays small and free of
//! runtimes, files and clocks. Nouns are plain data with serde; ports are traits whose contracts are written
//! on them. Sibling crates never import each other; they meet here.

mod ask;
mod call;
mod change;
mod digest;
mod entry;
mod event;
mod id;
mod message;
pub mod port;
mod repository;
mod run;
mod verdict;

pub use ask::*;
pub use call::*;
pub use change::*;
pub use digest::Digest;
pub use entry::*;
pub use event::*;
pub use id::*;
pub use message::*;
pub use repository::*;
pub use run::*;
pub use verdict::*;

/// A boxed future that may cross threads; every asynchronous port method returns one.
pub use futures_core::future::BoxFuture;
