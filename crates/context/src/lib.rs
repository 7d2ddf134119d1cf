//! Entries to a request: the instructions, and the view of the conversation that the model gets.
//!
//! Licence of this crate: purity that the compiler proves. It loads nothing itself; what it needs is given to it.
//! Order is what a provider's prefix cache sees: first what never differs (instructions, tools), then what differs
//! between machines, folders and days (the surroundings, in the first message), then the conversation.

mod estimate;
mod instruction;
mod prompt;
mod view;

pub use estimate::{message_tokens, text_tokens};
pub use instruction::{
    InstructionContent, InstructionFile, MAX_ALL_BYTES, MAX_FILE_BYTES, ProjectInstructions, fenced,
};
pub use prompt::{Surroundings, SystemPrompt, head};
pub use view::View;
