//! The sandbox crate through its public face, with real files.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod process;
mod process_confinement;
mod process_end;
mod protection;
