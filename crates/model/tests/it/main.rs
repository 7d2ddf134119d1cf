//! The model crate through its public seams: the client over real HTTP, the scripted model, and the server that plays
//! a provider.

mod anthropic_failure;
mod anthropic_reply;
mod anthropic_request;
mod script_file;
mod served;
mod sse;
