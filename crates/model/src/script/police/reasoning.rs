//! Signed reasoning (rule V5): what comes back must be what was given out, all of it and in its place.
//!
//! A provider signs a block together with what stood around it. Leaving a turn's reasoning out as a whole is allowed;
//! changing, dropping or moving one of its blocks is not. The checker knows what the script gave out and compares.

use serde_json::Value;

use super::fields::is_word;
use super::tool::NAME_LENGTH;
use super::{Checked, refuse};
use crate::script::Script;
use crate::script::reply::ScriptedPart;

/// The reasoning that a script gives out, and what stands around it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Issued {
    /// One for each reply with reasoning; none when nothing is known.
    turns: Option<Vec<Vec<Block>>>,
}

/// A block of a turn, as far as its place matters.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Block {
    Thinking { text: String, signature: String },
    Redacted { data: String },
    Text,
    Call { tool: String },
    Other,
}

const MODIFIED: &str = "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. \
                        These blocks must remain as they were in the original response.";

impl Issued {
    /// Nothing is known of what was given out, so that any signature passes.
    pub fn unknown() -> Self {
        Self::default()
    }

    /// What the replies of a script give out.
    pub fn by(script: &Script) -> Self {
        // Reasoning without a signature is never sent back, and does not count.
        let turns = script.replies.iter().map(|reply| reply.parts.iter().map(Block::issued));
        let turns = turns.map(|turn| turn.filter(|block| !block.is_unsigned()).collect::<Vec<_>>());
        Self { turns: Some(turns.filter(|turn| turn.iter().any(Block::is_reasoning)).collect()) }
    }
}

impl Issued {
    /// Whether a signature, or hidden reasoning, was given out; anything passes where nothing is known.
    pub(super) fn knows(&self, signature: &str) -> bool {
        let Some(turns) = &self.turns else { return true };
        turns.iter().flatten().any(|block| match block {
            Block::Thinking { signature: known, .. } => known == signature,
            Block::Redacted { data } => data == signature,
            _ => false,
        })
    }
}

impl Block {
    fn issued(part: &ScriptedPart) -> Self {
        match part {
            ScriptedPart::Text(_) => Self::Text,
            ScriptedPart::Reasoning { text, signature } => {
                Self::Thinking { text: text.clone(), signature: signature.clone() }
            }
            ScriptedPart::Redacted { data } => Self::Redacted { data: data.clone() },
            ScriptedPart::Call { tool, .. } => Self::Call { tool: tool.clone() },
        }
    }

    fn echoed(block: &Value) -> Self {
        let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
        match block["type"].as_str() {
            Some("thinking") => Self::Thinking { text: text("thinking"), signature: text("signature") },
            Some("redacted_thinking") => Self::Redacted { data: text("data") },
            Some("text") => Self::Text,
            Some("tool_use") => Self::Call { tool: text("name") },
            _ => Self::Other,
        }
    }

    /// Whether this is `issued`, sent back. A name that no tool can have is not sent back as it is.
    fn echoes(&self, issued: &Self) -> bool {
        let invented = |tool: &str| !is_word(tool) || tool.len() > NAME_LENGTH;
        self == issued || matches!((self, issued), (Self::Call { .. }, Self::Call { tool }) if invented(tool))
    }

    fn is_unsigned(&self) -> bool {
        matches!(self, Self::Thinking { signature, .. } if signature.is_empty())
    }

    fn is_reasoning(&self) -> bool {
        matches!(self, Self::Thinking { .. } | Self::Redacted { .. })
    }
}

pub(super) fn check(messages: &[Value], issued: &Issued) -> Checked {
    let Some(turns) = &issued.turns else { return Ok(()) };
    for (index, message) in messages.iter().enumerate() {
        let blocks: Vec<Block> = message["content"].as_array().into_iter().flatten().map(Block::echoed).collect();
        if blocks.iter().any(Block::is_reasoning) {
            check_turn(&blocks, turns, index)?;
        }
    }
    Ok(())
}

fn check_turn(blocks: &[Block], turns: &[Vec<Block>], index: usize) -> Checked {
    let given_out = || turns.iter().flatten();
    for (place, block) in blocks.iter().enumerate() {
        let path = format!("messages.{index}.content.{place}");
        match block {
            Block::Thinking { signature, .. } => {
                let signed = |known: &&Block| matches!(known, Block::Thinking { signature: s, .. } if s == signature);
                if signature.is_empty() || given_out().find(signed).is_none() {
                    return refuse(format!("{path}: Invalid `signature` in `thinking` block"));
                }
                if !given_out().any(|known| known == block) {
                    return refuse(format!("{path}: {MODIFIED}"));
                }
            }
            Block::Redacted { .. } if !given_out().any(|known| known == block) => {
                return refuse(format!("{path}: Invalid `data` in `redacted_thinking` block"));
            }
            _ => {}
        }
    }
    // Reasoning must not come last, so a text may follow that was not there.
    let without_filler = match blocks {
        [rest @ .., Block::Text] => rest,
        _ => blocks,
    };
    match turns.iter().any(|turn| is_echo(blocks, turn) || is_echo(without_filler, turn)) {
        true => Ok(()),
        false => {
            let place = blocks.iter().position(Block::is_reasoning).unwrap_or_default();
            refuse(format!("messages.{index}.content.{place}: {MODIFIED}"))
        }
    }
}

/// Whether the echo holds all reasoning of the turn, and nothing but blocks of the turn, in its order. Other blocks
/// may be missing: blank text must not be sent back, for one.
fn is_echo(echo: &[Block], turn: &[Block]) -> bool {
    let mut rest = turn.iter();
    let in_order = echo.iter().all(|block| rest.any(|known| block.echoes(known)));
    let count = |blocks: &[Block]| blocks.iter().filter(|block| block.is_reasoning()).count();
    in_order && count(echo) == count(turn)
}
