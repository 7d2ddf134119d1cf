//! The tools through the registry, over a real folder and real processes.

mod command;
mod edit;
mod look;
mod registry;
mod world;
mod write;
