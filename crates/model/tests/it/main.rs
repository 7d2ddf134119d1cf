//! The model crate through its public face.

mod script_file;
mod script_police;
mod script_server;
