//! Git repositories that come into being while commands run.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// A git repository that came into being in the workspace while a command ran, or to which settings were added.
///
/// What in it could make git run a program was set aside, so that neither a check nor the user's own git obeys it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Appeared {
    /// Its git folder, or the `.git` file, relative to the workspace root.
    pub path: String,
    /// Whether it is new itself.
    pub is_new: bool,
    /// What was set aside.
    pub set_aside: Vec<SetAside>,
}

/// One part of a repository that was set aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAside {
    /// The file, relative to the workspace root.
    pub path: String,
    /// Why, as a clause: `it is a hook, which git runs`.
    pub why: String,
    /// Where it is kept as it was, relative to the workspace root.
    pub kept: String,
}

impl Display for SetAside {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self { path, why, kept } = self;
        write!(formatter, "`{path}` is new and was set aside, because {why}. ")?;
        write!(formatter, "It is kept as `{kept}`; who has looked at it and wants it moves it back.")
    }
}
