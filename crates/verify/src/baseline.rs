//! What is kept before the first effect: the protected files as they are, and which runner files there are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::thread;

use hames_protocol::port::{Blobs, PathProblem, VerifyProblem, Workspace};
use hames_protocol::{Baseline, Original};

use crate::addition::{Node, Surroundings, is_runners_own};
use crate::blocking::Stop;
use crate::recipe;

/// The largest protected file that is kept, in bytes.
pub(crate) const MAX_ORIGINAL: u64 = 256 << 20;

/// The largest makefile or script that is looked at, in bytes.
const MAX_RECIPE: u64 = 4 << 20;

/// How many write at once: each waits for the disk, and what waits together is written together.
const WRITERS: usize = 16;

/// Keeps every protected file and every file that is a test runner's own, and lists what could change how tests run.
///
/// # Errors
/// When the workspace cannot be read or the store not be written.
pub(crate) fn keep(
    workspace: &dyn Workspace,
    blobs: &dyn Blobs,
    commands: &[String],
    stop: &Stop,
) -> Result<Baseline, VerifyProblem> {
    let nodes = nodes(workspace.root(), stop).map_err(|error| unreadable(workspace.root(), &error))?;
    let mut paths: BTreeSet<String> =
        workspace.protected_files().map_err(|error| unreadable(workspace.root(), &error))?.into_iter().collect();
    let own = nodes.iter().filter(|(path, node)| **node == Node::File && is_runners_own(path));
    paths.extend(own.map(|(path, _)| path.clone()));
    let text = |path: &str| Some(String::from_utf8_lossy(&workspace.read(path, MAX_RECIPE).ok()?.bytes).into_owned());
    let recipes: Vec<String> =
        recipe::find(commands, &nodes, text).into_iter().filter(|path| !paths.contains(path)).collect();
    paths.extend(recipes.iter().cloned());

    let paths: Vec<String> = paths.into_iter().collect();
    let keep_all = |paths: &[String]| -> Result<Vec<(String, Original)>, VerifyProblem> {
        let kept =
            paths.iter().map(|path| Ok(keep_one(workspace, blobs, path, stop)?.map(|kept| (path.clone(), kept))));
        kept.filter_map(Result::transpose).collect()
    };
    let share = paths.len().div_ceil(WRITERS).max(1);
    let shares: Vec<_> = thread::scope(|scope| {
        let writers: Vec<_> = paths.chunks(share).map(|share| scope.spawn(move || keep_all(share))).collect();
        writers.into_iter().map(|writer| writer.join()).collect()
    });
    let mut originals = BTreeMap::new();
    for share in shares {
        let stopped = || VerifyProblem::System("Keeping the protected files was stopped.".to_owned());
        originals.extend(share.map_err(|_| stopped())??);
    }
    let around = Surroundings::of(originals.keys().filter(|path| !recipes.contains(path)).map(String::as_str));
    let runner_files =
        nodes.into_iter().filter(|(path, node)| around.may_change_tests(path, *node)).map(|(path, _)| path).collect();
    Ok(Baseline { originals, recipes, runner_files, manifest: None })
}

/// Keeps one file; none when it is gone.
fn keep_one(
    workspace: &dyn Workspace,
    blobs: &dyn Blobs,
    path: &str,
    stop: &Stop,
) -> Result<Option<Original>, VerifyProblem> {
    stop.check().map_err(|error| VerifyProblem::System(error.to_string()))?;
    match workspace.read(path, MAX_ORIGINAL) {
        Ok(content) => {
            let blob = blobs.put(&content.bytes).map_err(|error| {
                VerifyProblem::System(format!("The protected file `{path}` could not be kept: {error}."))
            })?;
            Ok(Some(Original { blob, mode: content.mode & 0o7777 }))
        }
        Err(PathProblem::Missing(_)) => Ok(None),
        Err(problem) => Err(VerifyProblem::System(format!("A protected file cannot be kept: {problem}"))),
    }
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
