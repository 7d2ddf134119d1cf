//! The tools: their registry, and the ones that every session has.
//!
//! Licence of this crate: it alone carries the schema generator, the schema checker and the searcher. It reaches
//! files only through the port `Workspace` and processes only through `Sandbox`; what a path means and what a command
//! may do is decided there.

mod blocking;
mod bound;
mod builtin;
mod excerpt;
mod files;
mod image;
mod instruction;
mod near_miss;
mod patch;
mod registry;
mod schema;
mod splice;
mod terminal;
mod text;
mod validation;
mod walk;

pub use builtin::{Memory, builtin};
pub use image::{Image, ImageProblem};
pub use registry::{Registry, RegistryProblem};
