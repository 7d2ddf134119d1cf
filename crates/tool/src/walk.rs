//! Walks folders of the workspace as a project's ignore files want it, without following links.
//!
//! Rules come from ignore files inside the workspace alone, never from folders above it or from the user's settings, so
//! that the same repository lists the same on every machine. A path asked for by name is walked although it is ignored.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hames_protocol::port::{FileKind, Landing, Workspace};
use ignore::{DirEntry, Walk, WalkBuilder};

/// Whether entries whose names begin with a dot are walked. `.git` never is, unless it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hidden {
    /// They are.
    Shown,
    /// They are not, unless they were asked for.
    Skipped,
}

/// A folder to walk.
pub(crate) struct Target {
    /// The top folder whose ignore files count, on the host.
    top: PathBuf,
    /// The folder to walk, on the host.
    folder: PathBuf,
    /// What stands before an entry's path relative to `top` to make it a path of the workspace port.
    prefix: String,
}

/// An entry that was found.
pub(crate) struct Found {
    /// The path as the workspace port names it.
    pub(crate) path: String,
    /// The path relative to the folder that was walked, on the host's terms.
    pub(crate) below: PathBuf,
    /// How deep beneath the folder that was walked, from 1.
    pub(crate) depth: usize,
    /// The entry itself.
    pub(crate) entry: DirEntry,
}

impl Target {
    /// The folder at which `landing` lies; none when it is one that cannot be walked.
    pub(crate) fn of(workspace: &dyn Workspace, landing: &Landing) -> Option<Self> {
        if landing.kind != FileKind::Folder {
            return None;
        }
        if Path::new(&landing.path).is_relative() {
            let top = workspace.root().to_path_buf();
            let folder = if landing.path == "." { top.clone() } else { top.join(&landing.path) };
            return Some(Self { top, folder, prefix: String::new() });
        }
        if let Some(top) = workspace.added().iter().find(|added| Path::new(&landing.path).starts_with(added)) {
            let prefix = format!("{}/", top.to_string_lossy());
            return Some(Self { top: top.clone(), folder: PathBuf::from(&landing.path), prefix });
        }
        let top = workspace.private_tmp()?.to_path_buf();
        let below = Path::new(&landing.path).strip_prefix("/tmp").ok()?;
        let folder = if below.as_os_str().is_empty() { top.clone() } else { top.join(below) };
        Some(Self { top, folder, prefix: "/tmp/".to_owned() })
    }

    /// Walks the folder in the order of names, at most `depth` levels deep.
    pub(crate) fn walk(self, hidden: Hidden, depth: Option<usize>) -> impl Iterator<Item = Found> {
        let reached = Arc::new(AtomicBool::new(false));
        let from_top = self.walk_from(&self.top, hidden, depth, Arc::clone(&reached));
        let mut walk = from_top.peekable();
        // Ignored on the way down: the request by name counts for more, so the walk begins at the folder itself.
        let nothing = walk.peek().is_none() && !reached.load(Ordering::Relaxed);
        let again = nothing.then(|| self.walk_from(&self.folder, hidden, depth, reached));
        walk.chain(again.into_iter().flatten())
    }

    fn walk_from(
        &self,
        start: &Path,
        hidden: Hidden,
        depth: Option<usize>,
        reached: Arc<AtomicBool>,
    ) -> impl Iterator<Item = Found> + use<> {
        let (top, folder, prefix) = (self.top.clone(), self.folder.clone(), self.prefix.clone());
        let levels_above = folder.strip_prefix(start).map_or(0, |way| way.components().count());
        build(start, &folder, hidden, depth.map(|depth| depth + levels_above), reached).filter_map(move |entry| {
            let entry = entry.ok()?;
            let below = entry.path().strip_prefix(&folder).ok()?.to_path_buf();
            let depth = below.components().count();
            let path = format!("{prefix}{}", entry.path().strip_prefix(&top).ok()?.to_string_lossy());
            (depth > 0).then_some(Found { path, below, depth, entry })
        })
    }
}

fn build(start: &Path, folder: &Path, hidden: Hidden, depth: Option<usize>, reached: Arc<AtomicBool>) -> Walk {
    let folder = folder.to_path_buf();
    let at_start = start == folder;
    reached.fetch_or(at_start, Ordering::Relaxed);
    WalkBuilder::new(start)
        .hidden(false)
        .parents(false)
        .git_global(false)
        .require_git(false)
        .follow_links(false)
        .max_depth(depth)
        .sort_by_file_name(std::ffi::OsStr::cmp)
        .filter_entry(move |entry| {
            let path = entry.path();
            if path == folder {
                reached.store(true, Ordering::Relaxed);
                return true;
            }
            if !path.starts_with(&folder) {
                return folder.starts_with(path);
            }
            let name = entry.file_name().as_encoded_bytes();
            name != b".git" && !(hidden == Hidden::Skipped && name.starts_with(b"."))
        })
        .build()
}
