//! The conversation as the model sees it: grows at its end, never changes before it.

use std::sync::Arc;

use hames_protocol::{Block, Message, Reply, WireResult};

/// The messages of the next request, in order.
///
/// A message that was added is never altered, so that its encoded bytes can be kept and the prefix of each request
/// is byte-identical to the one before.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    messages: Vec<Message>,
}

impl View {
    /// The messages.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Adds the prompt of a run. The surroundings stand before it when they differ from those the view has last.
    pub fn prompt(&mut self, surroundings: Option<&str>, prompt: &[Block]) {
        let mut blocks: Vec<Block> = surroundings.map(Block::text).into_iter().collect();
        blocks.extend(prompt.iter().cloned());
        self.messages.push(Message::User(blocks));
    }

    /// Adds a reply with the ids that are echoed for its calls.
    pub fn reply(&mut self, reply: Arc<Reply>, wire_ids: Vec<String>) {
        self.messages.push(Message::Assistant { reply, wire_ids });
    }

    /// Adds the results of all calls of the reply before, in call order.
    pub fn results(&mut self, results: Vec<WireResult>) {
        self.messages.push(Message::Results(results));
    }

    /// Adds something that Hames says of its own accord.
    pub fn notice(&mut self, text: &str) {
        self.messages.push(Message::User(vec![Block::text(text)]));
    }
}
