//! The repository of a workspace that keeps it elsewhere: a linked worktree, or a submodule.
//!
//! There `.git` is a file that names a folder outside the workspace. That file came with the workspace and is not
//! trusted: any folder could be named in it. So the repository must name the workspace in turn, as git has it do for
//! worktrees (`gitdir`) and submodules (`core.worktree`); one that does not stays out of sight.
//!
//! Commands may write what commits need: objects, branches and their logs, and what belongs to this worktree alone. Hooks
//! and settings are read-only, and so is everything else that is there, the other worktrees above all. What is not there
//! can be made (git wants its lock files), and is looked at afterwards like in a new repository.

use std::fs;
use std::path::{Path, PathBuf};

use super::part;
use super::settings::Settings;
use crate::Mode;

/// What of a repository's own folder is never written to.
const SETTINGS: [&str; 8] =
    ["hooks", "info", "config", "config.worktree", "commondir", "gitdir", "modules", "worktrees"];
/// What commits write of the folder that all worktrees share.
const SHARED: [&str; 4] = ["objects", "refs", "logs", "packed-refs"];

/// The folders of a repository outside the workspace, as real paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outside {
    /// What belongs to this worktree alone.
    own: PathBuf,
    /// What all worktrees share; the same for a submodule.
    common: PathBuf,
}

impl Outside {
    /// Finds the repository of the workspace at `root`; none when it is inside, or does not name the workspace.
    pub(crate) fn of(root: &Path) -> Option<Self> {
        let pointer = root.join(".git");
        let own = part::leads_to(&pointer).filter(|own| own.is_dir() && !own.starts_with(root))?;
        let common = part::leads_to(&own.join("commondir"));
        let names_it = match &common {
            Some(common) => {
                own.starts_with(common.join("worktrees"))
                    && part::leads_to(&own.join("gitdir")) == Some(root.join(".git"))
            }
            None => {
                let settings = Settings::read(&fs::read(own.join("config")).ok()?);
                let worktree = settings.value("core", "worktree")?;
                own.join(worktree).canonicalize().is_ok_and(|worktree| worktree == root)
            }
        };
        let common = common.unwrap_or_else(|| own.clone());
        let apart = !common.starts_with(root) && !root.starts_with(&common);
        (names_it && apart).then_some(Self { own, common })
    }

    /// The repository's folders, each once.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let mut folders = vec![self.own.clone(), self.common.clone()];
        folders.dedup();
        folders
    }

    /// The folders and files to show, each with whether it may be written to; what lies in another one comes after it.
    pub(crate) fn shown(&self, mode: Mode) -> Vec<(PathBuf, Mode)> {
        let mut shown = vec![(self.common.clone(), mode)];
        if mode == Mode::ReadOnly {
            return shown;
        }
        if self.own != self.common {
            let entries = fs::read_dir(&self.common).into_iter().flatten().flatten();
            let others = entries.filter(|entry| !SHARED.iter().any(|name| entry.file_name() == *name));
            shown.extend(others.map(|entry| (entry.path(), Mode::ReadOnly)));
            shown.push((self.own.clone(), mode));
        }
        shown.extend(SETTINGS.map(|name| (self.own.join(name), Mode::ReadOnly)));
        // Nothing can be bound over a link; git makes none here.
        shown.retain(|(path, _)| path.symlink_metadata().is_ok_and(|found| !found.is_symlink()));
        shown
    }
}
