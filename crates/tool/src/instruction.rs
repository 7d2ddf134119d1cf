//! Tells the model once of files of instructions that lie deeper than the workspace's root.
//!
//! Those from the repository's root down to the workspace stand in the first message. One in a folder beneath concerns
//! only who works there, so it is named when a file beside or beneath it is first read or changed; nothing is walked
//! for it, and it is read like any other file, whole or in pages.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Mutex;

use hames_protocol::port::{FileKind, Workspace};
use hames_protocol::{Block, ToolResult};
use serde_json::{Value, json};

use crate::blocking::lock;
use crate::text::shown;

/// The names that are looked for in a folder; the first that is there counts.
const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// The key of a result's `data` that lists the files which were named.
const KEY: &str = "instructions";

/// The folders whose instructions the model knows of, or that have none.
#[derive(Default)]
pub(crate) struct Instructions(Mutex<HashSet<String>>);

impl Instructions {
    /// Adds to `result` the names of the files of instructions that hold for files at these landings and were not named
    /// before, the outermost first.
    pub(crate) fn mention<'a>(
        &self,
        workspace: &dyn Workspace,
        landings: impl Iterator<Item = &'a str>,
        result: &mut ToolResult,
    ) {
        let mut named: Vec<String> = Vec::new();
        for landing in landings {
            for folder in folders(workspace, landing) {
                if !lock(&self.0).insert(folder.to_owned()) {
                    continue;
                }
                let file = |name: &&str| {
                    let found = workspace.locate(&format!("{folder}/{name}")).ok()?;
                    (found.kind == FileKind::File).then_some(found.path)
                };
                // Who reads the instructions themselves need not be told of them.
                let found = NAMES.iter().find_map(file).filter(|found| found != landing);
                named.extend(found.filter(|found| !named.contains(found)));
            }
        }
        if named.is_empty() {
            return;
        }
        let notes: Vec<String> = named.iter().map(|file| note(file)).collect();
        result.blocks.push(Block::text(notes.join("\n")));
        if result.data.is_null() {
            result.data = json!({});
        }
        result.data[KEY] = json!(named);
    }

    /// Takes up what a logged result's `data` says was named.
    pub(crate) fn recall(&self, data: &Value) {
        let named = data.get(KEY).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let folders = named.filter_map(|file| file.rsplit_once('/')).map(|(folder, _)| folder.to_owned());
        lock(&self.0).extend(folders);
    }
}

fn note(file: &str) -> String {
    let folder = file.rsplit_once('/').map_or(".", |(folder, _)| folder);
    format!(
        "[`{}` says how to work on what lies in `{}`. Read it before you change anything there; what holds stays as it is.]",
        shown(file),
        shown(folder)
    )
}

/// The folders above a landing, the outermost first: beneath the workspace's root, or from the top of an added folder.
fn folders<'a>(workspace: &dyn Workspace, landing: &'a str) -> Vec<&'a str> {
    let path = Path::new(landing);
    let added = workspace.added().iter().find(|added| path.starts_with(added));
    if path.is_absolute() && added.is_none() {
        return Vec::new();
    }
    let is_within = |folder: &&Path| added.is_none_or(|added| folder.starts_with(added));
    let above = path.ancestors().skip(1).filter(is_within).filter_map(Path::to_str).filter(|folder| !folder.is_empty());
    let mut folders: Vec<&str> = above.collect();
    folders.reverse();
    folders
}
