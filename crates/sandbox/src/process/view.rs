//! How the workspace looks from inside: what protection binds, and what a view replaces or leaves out.
//!
//! Every path that needs a mount of its own gets one action; carried out from the top down, they make the view.
//!
//! A protected path is bound onto itself read-only, and so is, writable, every folder on the way to it: without that
//! a command could move the folder away and make another one. Moving such a folder fails with EBUSY; the price is that
//! a rename or hard link between two of them fails with EXDEV, as between file systems.
//!
//! A path that must not be seen cannot be unmounted out of a folder, so its folder is built anew: an empty one in
//! memory in which everything else is bound. What a command adds there is gone when it ends.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use hames_protocol::port::{SandboxProblem, View};

use super::config::Mode;
use super::layout::Layout;
use super::outcome::io_problem;
use crate::protection::names;
use crate::{GuardKind, Guarded};

/// Mounts for what is protected; each costs a command about half a millisecond, and more the more there are. Beyond
/// that watching the command, the comparison of digests afterwards, and the verifier hold them.
const GUARDS: usize = 300;
/// Entries of a folder up to which it is built anew to leave a file out; above, the file is shown as empty instead.
const REBUILT_ENTRIES: usize = 200;

/// What is mounted at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Action {
    /// What the host has there, as writable as the workspace.
    Keep,
    /// What the host has there, read-only.
    Guard,
    /// A link, as the host has it.
    Link(PathBuf),
    /// An empty folder in memory.
    Rebuild,
    /// A file of the host, read-only.
    Original(PathBuf),
}

/// The mounts below the workspace's path.
#[derive(Debug)]
pub(crate) struct Arrangement<'a> {
    /// The host folder that is shown.
    base: &'a Path,
    mode: Mode,
    /// By path relative to the workspace; a folder comes before what is in it.
    actions: BTreeMap<PathBuf, Action>,
    /// What folders that are built anew do not show.
    hidden: BTreeSet<PathBuf>,
}

impl<'a> Arrangement<'a> {
    /// Nothing but the folder `base` itself.
    pub(crate) fn new(base: &'a Path, mode: Mode) -> Self {
        Self { base, mode, actions: BTreeMap::new(), hidden: BTreeSet::new() }
    }

    /// Binds what is protected.
    pub(crate) fn guard(&mut self, existing: &[Guarded], placeholders: impl Iterator<Item = PathBuf>) {
        let unheld = unheld(existing);
        for guarded in existing.iter().filter(|guarded| !unheld.contains(&guarded.path)) {
            self.pin(&guarded.path);
            self.actions.insert(guarded.path.clone(), Action::Guard);
            for open in &guarded.writable {
                self.actions.insert(open.clone(), Action::Keep);
            }
        }
        for path in placeholders {
            self.pin(&path);
            self.actions.insert(path, Action::Guard);
        }
    }

    /// Applies what a view asks for; `empty` is a file of the host without content.
    ///
    /// # Errors
    /// When a path of it is not plain, or a folder that must be built anew cannot be read.
    pub(crate) fn apply(&mut self, view: &View, empty: &Path) -> Result<(), SandboxProblem> {
        check(view)?;
        self.replace(view, empty).map_err(io_problem)
    }

    fn replace(&mut self, view: &View, empty: &Path) -> io::Result<()> {
        let mut rebuilt = BTreeSet::new();
        for path in &view.left_out {
            let Some(path) = self.real(Path::new(path)) else { continue };
            let folder = path.parent().unwrap_or(Path::new("")).to_owned();
            let is_file = self.base.join(&path).symlink_metadata().is_ok_and(|found| found.is_file());
            if is_file && fs::read_dir(self.base.join(&folder))?.count() > REBUILT_ENTRIES {
                self.actions.insert(path, Action::Original(empty.to_owned()));
            } else {
                self.hidden.insert(path);
                rebuilt.insert(folder);
            }
        }
        for (path, bytes) in &view.originals {
            let path = Path::new(path);
            if let Some(in_the_way) = self.in_the_way(path) {
                rebuilt.insert(in_the_way.parent().unwrap_or(Path::new("")).to_owned());
                self.hidden.insert(in_the_way);
            }
            self.actions.insert(path.to_owned(), Action::Original(bytes.clone()));
        }
        for folder in rebuilt {
            self.rebuild(&folder)?;
        }
        let hidden = &self.hidden;
        self.actions.retain(|path, action| {
            matches!(action, Action::Original(_)) || !path.ancestors().any(|above| hidden.contains(above))
        });
        Ok(())
    }

    /// Adds the mounts to `layout`, for a workspace at `root` inside.
    pub(crate) fn mount(&self, layout: &mut Layout, root: &Path) {
        for (path, action) in &self.actions {
            let (source, target) = (self.base.join(path), root.join(path));
            match action {
                Action::Keep if self.mode == Mode::WorkspaceWrite => layout.open(source, target),
                Action::Keep | Action::Guard => layout.show(source, target),
                Action::Link(leads_to) => layout.link(leads_to, target),
                Action::Rebuild => layout.empty(target),
                Action::Original(bytes) => layout.show(bytes, target),
            }
        }
        if self.mode == Mode::ReadOnly {
            for (path, _) in self.actions.iter().filter(|(_, action)| **action == Action::Rebuild) {
                layout.seal(root.join(path));
            }
        }
    }

    /// Binds every folder above `path` onto itself.
    fn pin(&mut self, path: &Path) {
        for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
            self.actions.entry(above.to_owned()).or_insert(Action::Keep);
        }
    }

    /// Shows everything in a folder but what is hidden, each entry by itself.
    fn rebuild(&mut self, folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(self.base.join(folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if !self.hidden.contains(&path) && !self.actions.contains_key(&path) {
                let link = entry.file_type()?.is_symlink();
                let action = if link { Action::Link(fs::read_link(entry.path())?) } else { Action::Keep };
                self.actions.insert(path, action);
            }
        }
        self.actions.insert(folder.to_owned(), Action::Rebuild);
        Ok(())
    }

    /// Where a path beneath the base really lies, when something is there.
    fn real(&self, path: &Path) -> Option<PathBuf> {
        let name = path.file_name()?;
        let folder = self.base.join(path.parent()?).canonicalize().ok()?;
        let real = folder.strip_prefix(self.base).ok()?.join(name);
        self.base.join(&real).symlink_metadata().is_ok().then_some(real)
    }

    /// The first part of a file's path that is not a real folder, or for the last one a real file.
    fn in_the_way(&self, path: &Path) -> Option<PathBuf> {
        let mut at = PathBuf::new();
        let parts: Vec<OsString> = path.components().map(|part| part.as_os_str().to_owned()).collect();
        for (index, part) in parts.iter().enumerate() {
            at.push(part);
            let found = self.base.join(&at).symlink_metadata();
            let fits = found.is_ok_and(|found| if index + 1 < parts.len() { found.is_dir() } else { found.is_file() });
            if !fits {
                return Some(at);
            }
        }
        None
    }
}

/// What of the protected paths, and of the folders above them, no mount holds: links, over which nothing can be bound,
/// and what is beyond [`GUARDS`]. Folders come first, for they are few, then git's settings.
pub(crate) fn unheld(existing: &[Guarded]) -> HashSet<PathBuf> {
    let mut held: HashSet<&Path> = HashSet::new();
    let mut unheld: HashSet<PathBuf> = HashSet::new();
    let mut ordered: Vec<&Guarded> = existing.iter().collect();
    ordered.sort_by_key(|guarded| (guarded.kind != GuardKind::Folder, !names::is_of_repository(&guarded.rule)));
    for guarded in &ordered {
        let new = guarded.path.ancestors().filter(|path| !path.as_os_str().is_empty() && !held.contains(path));
        let new: Vec<&Path> = new.collect();
        if guarded.kind != GuardKind::Link && held.len() + new.len() <= GUARDS {
            held.extend(new);
        } else {
            unheld.insert(guarded.path.clone());
        }
    }
    let above = ordered.iter().flat_map(|guarded| guarded.path.ancestors().skip(1));
    let above = above.filter(|path| !path.as_os_str().is_empty() && !held.contains(path)).map(Path::to_owned);
    unheld.extend(above.collect::<Vec<_>>());
    unheld
}

/// Makes sure that a view names plain paths beneath the workspace.
///
/// # Errors
/// When one is not.
pub(crate) fn check(view: &View) -> Result<(), SandboxProblem> {
    let is_plain =
        |path: &Path| path.file_name().is_some() && path.components().all(|part| matches!(part, Component::Normal(_)));
    let mut paths = view.left_out.iter().chain(view.originals.keys());
    match paths.find(|path| !is_plain(Path::new(path))) {
        Some(path) => Err(SandboxProblem(format!("`{path}` is not a plain path beneath the workspace."))),
        None => Ok(()),
    }
}
