//! The folders that file tools reach: the workspace, those added to it, and the session's private /tmp.
//!
//! Each is a jail of its own. A path that leaves one, by a link or by `..`, goes on only where it enters another; /tmp
//! stands apart.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hames_protocol::port::{FileKind, Landing};
use hames_protocol::{ChangedFile, FileChange};

use crate::Protection;
use crate::jail::{Jail, MAX_LINKS, Refusal, Spot, Way, spell};
use crate::manifest::Manifest;

/// Where the session's private folder lies for tools and commands.
const TMP: &str = "/tmp";
const TMP_RULE: &str = "file tools only read the session's /tmp; `bash` can write there";
const ADDED_RULE: &str = "it is in a folder that was added to be read only";

/// Folders beside the workspace that file tools and commands reach, at their own paths.
#[derive(Debug, Clone, Default)]
pub struct AddedFolders {
    /// Real paths of those that nobody may change.
    pub read_only: Vec<PathBuf>,
    /// Those that may be changed, each with what is protected in it.
    pub writable: Vec<Arc<Protection>>,
}

/// What may be done in a folder.
#[derive(Debug)]
enum Use {
    Workspace(Arc<Protection>),
    Added(Arc<Protection>),
    AddedToRead,
    Tmp,
}

/// One of the folders.
#[derive(Debug)]
pub(crate) struct Root {
    /// Its real path.
    pub(crate) path: PathBuf,
    pub(crate) jail: Jail,
    purpose: Use,
    manifest: Mutex<Manifest>,
}

impl Root {
    /// Opens the workspace, known by the real path and by the one that was `given`.
    pub(crate) fn workspace(given: PathBuf, protection: Arc<Protection>) -> io::Result<Self> {
        let path = protection.root().to_owned();
        Self::open(path.clone(), vec![path, given], Use::Workspace(protection))
    }

    /// Opens a folder that may be changed beside the workspace.
    pub(crate) fn added(protection: Arc<Protection>) -> io::Result<Self> {
        let path = protection.root().to_owned();
        Self::open(path.clone(), vec![path], Use::Added(protection))
    }

    /// Opens a folder beside the workspace, by its real path.
    pub(crate) fn added_to_read(path: PathBuf) -> io::Result<Self> {
        Self::open(path.clone(), vec![path], Use::AddedToRead)
    }

    /// Opens the host folder that is shown as /tmp.
    pub(crate) fn tmp(path: PathBuf) -> io::Result<Self> {
        Self::open(path, vec![TMP.into()], Use::Tmp)
    }

    fn open(path: PathBuf, names: Vec<PathBuf>, purpose: Use) -> io::Result<Self> {
        Ok(Self { jail: Jail::open(&path, names)?, path, purpose, manifest: Mutex::default() })
    }

    /// Whether what changes in it is observed.
    pub(crate) fn is_observed(&self) -> bool {
        matches!(self.purpose, Use::Workspace(_) | Use::Added(_))
    }

    /// Whether links may lead out of it and into it.
    fn is_linked(&self) -> bool {
        !matches!(self.purpose, Use::Tmp)
    }

    /// The path that names it from everywhere.
    pub(crate) fn name(&self) -> String {
        self.shown(".")
    }

    /// What its files held when they were last looked at.
    pub(crate) fn manifest(&self) -> MutexGuard<'_, Manifest> {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a spot in it lies, and what holds there.
    pub(crate) fn landing(&self, spot: &Spot) -> Result<Landing, Refusal> {
        let relative = self.jail.path_of(&spot.folder, &spot.rest)?;
        let relative = if relative.as_os_str().is_empty() { ".".to_owned() } else { spell(&relative) };
        let kind = spot.kind();
        let by_inode = || {
            let metadata = spot.metadata.as_ref().filter(|metadata| metadata.is_file() && metadata.nlink() > 1)?;
            match &self.purpose {
                Use::Workspace(protection) | Use::Added(protection) => {
                    protection.rule_of_inode(metadata.dev(), metadata.ino())
                }
                Use::AddedToRead | Use::Tmp => None,
            }
        };
        let completes = || self.completion_rule(&relative).filter(|_| kind == FileKind::Missing);
        let protected = self.rule(&relative, kind).or_else(by_inode).or_else(completes).map(str::to_owned);
        Ok(Landing { path: self.shown(&relative), kind, protected })
    }

    /// The rule that protects a path relative to it.
    pub(crate) fn rule(&self, relative: &str, kind: FileKind) -> Option<&str> {
        match &self.purpose {
            Use::Workspace(protection) | Use::Added(protection) => protection.rule(relative, kind),
            Use::AddedToRead => Some(ADDED_RULE),
            Use::Tmp => Some(TMP_RULE),
        }
    }

    /// The rule against a new file here that would make a folder a repository.
    pub(crate) fn completion_rule(&self, relative: &str) -> Option<&'static str> {
        match &self.purpose {
            Use::Workspace(protection) | Use::Added(protection) => protection.completion_rule(relative),
            Use::AddedToRead | Use::Tmp => None,
        }
    }

    /// A change in it, told by the path that names it from everywhere.
    pub(crate) fn told(&self, change: FileChange) -> FileChange {
        FileChange { path: self.shown(&change.path), ..change }
    }

    /// The same of a file that is known by name only.
    pub(crate) fn told_of(&self, file: ChangedFile) -> ChangedFile {
        ChangedFile { path: self.shown(&file.path), ..file }
    }

    /// A change told by [`Root::told`] as one of this folder; none when it lies elsewhere.
    pub(crate) fn own(&self, change: &FileChange) -> Option<FileChange> {
        let prefix = match &self.purpose {
            Use::Workspace(_) if change.path.starts_with('/') => return None,
            Use::Workspace(_) => return Some(change.clone()),
            Use::Added(_) | Use::AddedToRead => format!("{}/", spell(&self.path)),
            Use::Tmp => return None,
        };
        let path = change.path.strip_prefix(&prefix)?.to_owned();
        Some(FileChange { path, ..change.clone() })
    }

    /// The path that names one relative to this folder from everywhere.
    fn shown(&self, relative: &str) -> String {
        let folder = match &self.purpose {
            Use::Workspace(_) => return relative.to_owned(),
            Use::Added(_) | Use::AddedToRead => spell(&self.path),
            Use::Tmp => TMP.to_owned(),
        };
        if relative == "." { folder } else { format!("{folder}/{relative}") }
    }
}

/// All of them, the workspace first and the private /tmp last: where one lies in another, the earlier one counts.
#[derive(Debug)]
pub(crate) struct Roots(pub(crate) Vec<Root>);

impl Roots {
    /// Finds where a path leads, following links by hand. A relative one begins in the workspace.
    pub(crate) fn resolve(&self, path: &Path) -> Result<(&Root, Spot), Refusal> {
        let mut path = path.to_owned();
        let mut root = self.0.iter().find(|root| root.jail.beneath(&path).is_some()).ok_or(Refusal::Outside)?;
        for _ in 0..MAX_LINKS {
            match root.jail.resolve(&path)? {
                Way::Within(spot) => return Ok((root, spot)),
                // Commands plant in /tmp what they like, so nothing leads out of it, and nothing into it.
                Way::Out(_) if !root.is_linked() => return Err(Refusal::Outside),
                Way::Out(further) => path = further,
            }
            let mut linked = self.0.iter().filter(|root| root.is_linked());
            root = linked.find(|root| root.jail.beneath(&path).is_some()).ok_or(Refusal::Outside)?;
        }
        Err(Refusal::Loop)
    }

    /// Those in which changes are observed.
    pub(crate) fn observed(&self) -> impl Iterator<Item = &Root> {
        self.0.iter().filter(|root| root.is_observed())
    }
}
