//! Whether protected files are after a command what they were before it.
//!
//! A mount protects a path only while the host leaves the file in its place, and not every protected path can be
//! bound. So what is protected is compared as well: first by what the system notes of a file, then by its digest.
//! A change that somebody made on the host while the command ran cannot be told from one by the command.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use hames_protocol::Digest;
use hames_protocol::port::Attempt;

use crate::Guarded;

/// Entries of protected folders that are looked at.
const FOLDER_ENTRIES: usize = 10_000;

/// What the system notes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    mode: u32,
    changed: (i64, i64),
}

/// What a path held.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Folder,
    /// Its size, and its digest when it can be read.
    File(u64, Option<Digest>),
    Link(PathBuf),
    Other,
}

/// Digests by stamp, so that each state of a file is read once.
#[derive(Debug, Default)]
pub(crate) struct Digests(Mutex<HashMap<(PathBuf, Stamp), Option<Digest>>>);

/// What the protected paths were at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    entries: BTreeMap<PathBuf, (Stamp, Content)>,
}

impl Snapshot {
    /// Looks at everything protected beneath `root`. Reads files that were not read before.
    pub(crate) fn take(root: &Path, existing: &[Guarded], digests: &Digests) -> Self {
        let mut entries = BTreeMap::new();
        for guarded in existing {
            note(root, &guarded.path, &guarded.writable, digests, &mut entries);
        }
        Self { entries }
    }

    /// What differs in `after`, as attempts that got through.
    pub(crate) fn differences(&self, after: &Self, existing: &[Guarded]) -> Vec<Attempt> {
        let paths = self.entries.keys().chain(after.entries.keys().filter(|path| !self.entries.contains_key(*path)));
        let changed = paths.filter(|path| {
            let (before, after) = (self.entries.get(*path), after.entries.get(*path));
            before.map(|(stamp, content)| (stamp.mode, content)) != after.map(|(stamp, content)| (stamp.mode, content))
        });
        let attempt = |path: &PathBuf| Attempt {
            path: path.to_string_lossy().into_owned(),
            rule: existing
                .iter()
                .find(|guarded| path.starts_with(&guarded.path))
                .map_or_else(String::new, |guarded| guarded.rule.clone()),
            action: Attempt::CHANGED.to_owned(),
        };
        changed.map(attempt).collect()
    }
}

fn note(
    root: &Path,
    path: &Path,
    skipped: &[PathBuf],
    digests: &Digests,
    entries: &mut BTreeMap<PathBuf, (Stamp, Content)>,
) {
    if entries.len() >= FOLDER_ENTRIES || skipped.iter().any(|skipped| skipped == path) {
        return;
    }
    let host = root.join(path);
    let Ok(found) = host.symlink_metadata() else { return };
    let stamp = Stamp {
        device: found.dev(),
        inode: found.ino(),
        bytes: found.len(),
        mode: found.mode(),
        changed: (found.ctime(), found.ctime_nsec()),
    };
    let content = if found.is_file() {
        Content::File(stamp.bytes, digests.of(&host, stamp))
    } else if found.is_symlink() {
        Content::Link(fs::read_link(&host).unwrap_or_default())
    } else if found.is_dir() {
        Content::Folder
    } else {
        Content::Other
    };
    entries.insert(path.to_owned(), (stamp, content));
    if found.is_dir() {
        for entry in fs::read_dir(&host).into_iter().flatten().flatten() {
            note(root, &path.join(entry.file_name()), skipped, digests, entries);
        }
    }
}

impl Digests {
    fn of(&self, path: &Path, stamp: Stamp) -> Option<Digest> {
        let key = (path.to_owned(), stamp);
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(digest) = known().get(&key) {
            return digest.clone();
        }
        // A file that cannot be read compares by its size and mode.
        let digest = File::open(path).and_then(Digest::of_reader).ok();
        let mut known = known();
        // Old states of files are of no use; a bound is enough.
        if known.len() > 4 * FOLDER_ENTRIES {
            known.clear();
        }
        known.insert(key, digest.clone());
        digest
    }
}
