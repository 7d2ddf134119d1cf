//! What only a person can say: what is asked, and the answer.

use serde::{Deserialize, Serialize};

use crate::Block;

/// What a person is asked before a call can go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// A question of the model, in its words: text of unknown origin, so that whoever shows it makes it safe first.
    Question(String),
}

/// What a person answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// What they said to a question; the model reads it as it is. Never empty.
    Said(Vec<Block>),
}

impl Answer {
    /// An answer in words.
    pub fn said(text: impl Into<String>) -> Self {
        Self::Said(vec![Block::text(text)])
    }
}
