//! What happened to files of the workspace.

use serde::{Deserialize, Serialize};

use crate::Digest;

/// How a file changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It did not exist before.
    Added,
    /// Its content, mode or link target differs.
    Modified,
    /// It is gone.
    Deleted,
}

/// One changed file, with what it held before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Relative to the workspace root, with `/`; absolute in a folder that was added.
    pub path: String,
    /// How it changed.
    pub change: ChangeKind,
    /// The state before; none when it did not exist.
    pub before: Option<Digest>,
    /// The state after; none when it is gone.
    pub after: Option<Digest>,
}

impl FileChange {
    /// The change from `before` to `after`, or none when they are the same.
    pub fn between(path: impl Into<String>, before: Option<Digest>, after: Option<Digest>) -> Option<Self> {
        let change = match (&before, &after) {
            (None, None) => return None,
            (None, Some(_)) => ChangeKind::Added,
            (Some(_), None) => ChangeKind::Deleted,
            (Some(a), Some(b)) if a == b => return None,
            (Some(_), Some(_)) => ChangeKind::Modified,
        };
        Some(Self { path: path.into(), change, before, after })
    }
}
