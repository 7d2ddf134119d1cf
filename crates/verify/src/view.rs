//! Puts together how the judged workspace looks: originals over what was changed, without what was added around the
//! tests.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use hames_protocol::port::{Blobs, PathProblem, VerifyProblem, View, Workspace};
use hames_protocol::{Baseline, Digest, Original};

use crate::addition::{Node, Surroundings, needs_content};
use crate::baseline::{MAX_ORIGINAL, nodes, unreadable};
use crate::blocking::Stop;
use crate::command::Language;
use crate::control::{carries, is_source};
use crate::recipe;

/// The most that is read of a file whose content decides whether it is left out, in bytes.
const MAX_CONFIG: u64 = 4 << 20;

/// How a command sees the files that say what it runs in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recipes {
    /// As they were before the first change.
    AsBefore,
    /// As they are.
    AsNow,
}

/// The view for one command, and in sentences what it sets aside.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    pub(crate) view: View,
    pub(crate) set_aside: Vec<String>,
    /// Which of the originals are put back only because they say what a check runs.
    pub(crate) recipes: Vec<String>,
    /// Test files that were not there before; they run like all others.
    pub(crate) new_tests: Vec<String>,
    /// Sources beside the protected files that may hold tests or are compiled with them.
    pub(crate) sources: Vec<String>,
}

/// Compares the workspace with the baseline.
///
/// # Errors
/// When the workspace or the store cannot be read.
pub(crate) fn compare(
    workspace: &dyn Workspace,
    blobs: &dyn Blobs,
    baseline: &Baseline,
    recipes: Recipes,
    folder: &Path,
    stop: &Stop,
) -> Result<Judged, VerifyProblem> {
    let mut judged = Judged::default();
    for (path, original) in &baseline.originals {
        stop.check().map_err(|error| VerifyProblem::System(error.to_string()))?;
        let Some(how) = difference(workspace, path, original) else { continue };
        let lost =
            |error| VerifyProblem::System(format!("The original of `{path}` is no longer in the store: {error}."));
        if baseline.recipes.binary_search(path).is_ok() {
            if recipes == Recipes::AsBefore
                && let Some(bytes) = shown_recipe(workspace, blobs, path, original, folder).map_err(lost)?
            {
                judged.view.originals.insert(path.clone(), bytes);
                judged.recipes.push(path.clone());
                let part = if recipe::is_manifest(path) { "its scripts and runners' settings" } else { "it" };
                judged.set_aside.push(format!("`{path}` {how}; the checks ran with {part} as before the run."));
            }
            continue;
        }
        let bytes = shown(blobs, original, folder).map_err(lost)?;
        judged.view.originals.insert(path.clone(), bytes);
        judged.set_aside.push(format!("`{path}` {how}; the checks ran with it as it was before the run."));
    }
    let protected = baseline.originals.keys().filter(|path| baseline.recipes.binary_search(path).is_err());
    let around = Surroundings::of(protected.map(String::as_str));
    let nodes = nodes(workspace.root(), stop).map_err(|error| unreadable(workspace.root(), &error))?;
    for (path, node) in nodes {
        let is_kept = baseline.originals.contains_key(&path);
        if node == Node::File && !is_kept && Language::ALL.iter().any(|language| is_source(*language, &path)) {
            judged.sources.push(path.clone());
        }
        if is_kept || baseline.runner_files.binary_search(&path).is_ok() {
            continue;
        }
        if let Some(why) = reason(workspace, &around, &path, node) {
            judged.set_aside.push(format!("`{path}` was added; the checks ran without it, because {why}."));
            judged.view.left_out.push(path);
        } else if Language::ALL.iter().any(|language| carries(*language, &path)) {
            judged.new_tests.push(path);
        }
    }
    Ok(judged)
}

/// How a protected file differs from its original; none when it is the same file in the same place.
fn difference(workspace: &dyn Workspace, path: &str, original: &Original) -> Option<&'static str> {
    let Ok(now) = workspace.read(path, MAX_ORIGINAL) else {
        return Some("is gone or no longer a regular file");
    };
    // Reading follows links inside the workspace; a file that is reached through one can change at any time.
    if now.path != path {
        return Some("was replaced by a link");
    }
    if now.digest != original.blob {
        return Some("was changed");
    }
    (now.mode & 0o777 != original.mode & 0o777).then_some("has another mode")
}

/// Writes an original out, since the store keeps no modes. The new time makes build tools see that what they built
/// from the changed file is stale.
fn shown(blobs: &dyn Blobs, original: &Original, folder: &Path) -> io::Result<PathBuf> {
    let bytes = blobs.get(&original.blob)?;
    let mode = original.mode & 0o777;
    write_aside(&folder.join("restored"), &format!("{}-{mode:o}", original.blob), &bytes, mode)
}

/// The same for a file that says what a check runs; none when what it says is the same.
fn shown_recipe(
    workspace: &dyn Workspace,
    blobs: &dyn Blobs,
    path: &str,
    original: &Original,
    folder: &Path,
) -> io::Result<Option<PathBuf>> {
    if !recipe::is_manifest(path) {
        return shown(blobs, original, folder).map(Some);
    }
    let now = workspace.read(path, MAX_CONFIG).map(|content| content.bytes).unwrap_or_default();
    let Some(bytes) = recipe::restored(&blobs.get(&original.blob)?, &now) else { return Ok(None) };
    let name = Digest::of(&bytes).to_string();
    write_aside(&folder.join("restored"), &name, &bytes, original.mode & 0o777).map(Some)
}

/// Writes a file for binding into a sandbox and returns where it lies.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn write_aside(folder: &Path, name: &str, bytes: &[u8], mode: u32) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    let path = folder.join(name);
    // A file of an earlier process may lack the owner's write bit, and may be cut: it is made anew.
    if let Err(error) = fs::remove_file(&path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    fs::write(&path, bytes)?;
    fs::set_permissions(&path, Permissions::from_mode(mode))?;
    Ok(path)
}

/// Why an addition is left out. One whose content decides and is too large to look at is not given the benefit.
fn reason(workspace: &dyn Workspace, around: &Surroundings, path: &str, node: Node) -> Option<String> {
    if !needs_content(path) {
        return around.changes_tests(path, node, "");
    }
    match workspace.read(path, MAX_CONFIG) {
        Ok(content) => around.changes_tests(path, node, &String::from_utf8_lossy(&content.bytes)),
        Err(PathProblem::TooLarge { .. }) => Some("it is too large to be looked at".to_owned()),
        Err(_) => None,
    }
}
