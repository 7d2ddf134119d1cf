//! The agent through its ports, with doubles that are strict where a provider is strict.

mod bounds;
mod gates;
mod simulator;
mod stops;
mod world;
