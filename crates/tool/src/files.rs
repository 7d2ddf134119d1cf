//! What the file tools share: the workspace, and what of it the model has seen.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use hames_protocol::port::{PathProblem, Workspace};
use hames_protocol::{Digest, Guard, Problem, Status, ToolResult};
use serde_json::{Value, json};

use crate::blocking::lock;
use crate::instruction::Instructions;

/// The largest file that is read or searched, in bytes.
pub(crate) const READ_LIMIT_BYTES: u64 = 64 * 1024 * 1024;

/// The largest file that is edited or replaced, in bytes.
pub(crate) const EDIT_LIMIT_BYTES: u64 = 10 * 1024 * 1024;

/// The workspace and what of it the model has seen, shared by all file tools of a session.
#[derive(Clone)]
pub(crate) struct Files {
    pub(crate) workspace: Arc<dyn Workspace>,
    pub(crate) seen: Arc<Seen>,
    pub(crate) instructions: Arc<Instructions>,
}

/// For each path, the digest of the content that the model last read or wrote there.
///
/// Keys are landings, so that a file read through a link counts as read under its own name as well.
#[derive(Default)]
pub(crate) struct Seen(Mutex<HashMap<String, Digest>>);

impl Seen {
    /// Remembers that the model knows this content.
    pub(crate) fn note(&self, path: &str, digest: &Digest) {
        lock(&self.0).insert(path.to_owned(), digest.clone());
    }

    /// The content that the model knows.
    pub(crate) fn digest(&self, path: &str) -> Option<Digest> {
        lock(&self.0).get(path).cloned()
    }

    /// Forgets a file that the model knows to be gone.
    pub(crate) fn forget(&self, path: &str) {
        lock(&self.0).remove(path);
    }

    /// Takes up what a logged result's `data` says was seen.
    pub(crate) fn recall(&self, data: &Value) {
        let several = data.get("files").and_then(Value::as_array);
        for sighting in several.map_or(std::slice::from_ref(data), Vec::as_slice) {
            let Some(path) = sighting.get("path").and_then(Value::as_str) else { continue };
            match sighting.get("digest") {
                Some(Value::Null) => self.forget(path),
                Some(digest) => {
                    if let Ok(digest) = serde_json::from_value(digest.clone()) {
                        self.note(path, &digest);
                    }
                }
                None => {}
            }
        }
    }
}

/// The part of a result's `data` from which [`Seen::recall`] rebuilds what was seen; no digest where a file is gone.
pub(crate) fn sighting(path: &str, digest: Option<&Digest>) -> Value {
    json!({ "path": path, "digest": digest })
}

/// A path problem as the gate that refuses it.
pub(crate) fn refusal(problem: &PathProblem) -> Problem {
    let guard = match problem {
        PathProblem::Outside(_) => Guard::Jail,
        PathProblem::Protected { .. } => Guard::Protected,
        _ => Guard::Valid,
    };
    Problem { guard, text: problem.to_string() }
}

/// A path problem met while a call ran. One that a gate should have stopped is counted as a guard that fired.
pub(crate) fn failure(problem: &PathProblem) -> ToolResult {
    let refusal = refusal(problem);
    let mut result = ToolResult::new(Status::Failed, refusal.text.clone());
    if refusal.guard != Guard::Valid {
        result.fired.push(refusal);
    }
    result
}
