//! What is kept before the first effect: the protected files as they are, and which runner files there are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use hames_protocol::port::{Blobs, PathProblem, VerifyProblem, Workspace};
use hames_protocol::{Baseline, Original};

use crate::addition::{Node, Surroundings, is_runners_own};
use crate::blocking::Stop;

/// The largest protected file that is kept, in bytes.
pub(crate) const MAX_ORIGINAL: u64 = 256 << 20;

/// Keeps every protected file and every file that is a test runner's own, and lists what could change how tests run.
///
/// # Errors
/// When the workspace cannot be read or the store not be written.
pub(crate) fn keep(workspace: &dyn Workspace, blobs: &dyn Blobs, stop: &Stop) -> Result<Baseline, VerifyProblem> {
    let nodes = nodes(workspace.root(), stop).map_err(|error| unreadable(workspace.root(), &error))?;
    let mut paths: BTreeSet<String> =
        workspace.protected_files().map_err(|error| unreadable(workspace.root(), &error))?.into_iter().collect();
    let own = nodes.iter().filter(|(path, node)| **node == Node::File && is_runners_own(path));
    paths.extend(own.map(|(path, _)| path.clone()));

    let mut originals = BTreeMap::new();
    for path in paths {
        stop.check().map_err(|error| VerifyProblem::System(error.to_string()))?;
        match workspace.read(&path, MAX_ORIGINAL) {
            Ok(content) => {
                let blob = blobs.put(&content.bytes).map_err(|error| {
                    VerifyProblem::System(format!("The protected file `{path}` could not be kept: {error}."))
                })?;
                originals.insert(path, Original { blob, mode: content.mode & 0o7777 });
            }
            Err(PathProblem::Missing(_)) => {}
            Err(problem) => return Err(VerifyProblem::System(format!("A protected file cannot be kept: {problem}"))),
        }
    }
    let around = Surroundings::of(originals.keys().map(String::as_str));
    let runner_files =
        nodes.into_iter().filter(|(path, node)| around.may_change_tests(path, *node)).map(|(path, _)| path).collect();
    Ok(Baseline { originals, runner_files, manifest: None })
}

/// Every file and link below `root`, ignored ones included, `.git` folders left out; links are not followed.
///
/// # Errors
/// When the root cannot be read. A folder further down that cannot be read is passed over: no check can read it.
pub(crate) fn nodes(root: &Path, stop: &Stop) -> io::Result<BTreeMap<String, Node>> {
    let mut found = BTreeMap::new();
    fs::read_dir(root)?;
    let mut open = vec![String::new()];
    while let Some(folder) = open.pop() {
        stop.check()?;
        let Ok(entries) = fs::read_dir(root.join(&folder)) else { continue };
        for entry in entries {
            let entry = entry?;
            // A name that is not UTF-8 is no name that a runner looks for.
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && name != ".git" => open.push(path),
                Ok(kind) if kind.is_file() => drop(found.insert(path, Node::File)),
                Ok(kind) if kind.is_symlink() => drop(found.insert(path, Node::Link)),
                _ => {}
            }
        }
    }
    Ok(found)
}

/// The problem of a workspace that cannot be read.
pub(crate) fn unreadable(root: &Path, error: &io::Error) -> VerifyProblem {
    VerifyProblem::System(format!("The workspace `{}` cannot be read: {error}.", root.display()))
}
