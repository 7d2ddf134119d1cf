//! What the files of the workspace held when they were last looked at, and what changed since.
//!
//! A look compares what the system says of each file (size, times, inode, mode) and reads only those that differ. A
//! file once known stays watched, so that editing a `.gitignore` hides no change and invents none.

use std::collections::{BTreeMap, HashMap};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use hames_protocol::{Digest, FileChange};
use ignore::WalkState;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::ignored;
use crate::jail::{Jail, spell, unspell};
use crate::replace::is_draft;
use crate::walk::{self, Show};

/// Files larger than this are not read; what the system says of them stands for their content. In bytes.
const LARGEST_READ: u64 = 64 * 1024 * 1024;
/// A file that changed this shortly before it was read may change again within the same tick of the file system's
/// clock, so it is read once more at the next look. In nanoseconds; the kernel's coarsest tick is 10 ms.
const TICK_NS: i64 = 20_000_000;
/// The version of the stored form.
const VERSION: u32 = 1;

/// What the system says of a file. While it stays the same, so does the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    size: u64,
    modified_ns: i64,
    changed_ns: i64,
    inode: u64,
    mode: u32,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        let ns = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Self {
            size: metadata.size(),
            modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino(),
            mode: metadata.mode(),
        }
    }
}

/// One file as last seen.
#[derive(Debug)]
struct Seen {
    digest: Digest,
    /// None when the file must be read again whatever the system says.
    stamp: Option<Stamp>,
    /// Whether the look that is under way came across it.
    met: AtomicBool,
}

impl Seen {
    /// A file that was read just now.
    fn now(digest: Digest, stamp: Stamp) -> Self {
        let settled = stamp.changed_ns.saturating_add(TICK_NS) < now_ns();
        Self { digest, stamp: settled.then_some(stamp), met: AtomicBool::new(true) }
    }
}

/// All files as last seen.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    /// When the first look began, by the clock that stamps files, in nanoseconds since 1970.
    began_ns: i64,
    files: HashMap<String, Seen>,
    /// A `.gitignore` changed since the last look, so that old files may come into view.
    rules_changed: bool,
}

/// The stored form of the workspace's manifest, and within it those of the folders that were added to it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Kept {
    version: u32,
    began_ns: i64,
    /// Sorted by path.
    files: Vec<(String, Digest, Option<Stamp>)>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    added: BTreeMap<String, Kept>,
}

/// The name of the workspace among the folders.
const WORKSPACE: &str = ".";

impl Kept {
    /// Takes up the manifest of a folder, by the path that names it.
    pub(crate) fn put(&mut self, folder: String, manifest: &Manifest) {
        let seen = |(path, seen): (&String, &Seen)| (path.clone(), seen.digest.clone(), seen.stamp);
        let mut files: Vec<_> = manifest.files.iter().map(seen).collect();
        files.sort_by(|a, b| a.0.cmp(&b.0));
        let of_folder = Self { version: VERSION, began_ns: manifest.began_ns, files, added: BTreeMap::new() };
        if folder == WORKSPACE {
            let added = std::mem::take(&mut self.added);
            *self = Self { added, ..of_folder };
        } else {
            self.added.insert(folder, of_folder);
        }
    }

    /// The manifest of a folder with the changes that were recorded after it; none when it was not kept.
    pub(crate) fn take(&mut self, folder: &str, changes: &[FileChange]) -> Option<Manifest> {
        let (began_ns, files) = if folder == WORKSPACE {
            (self.began_ns, std::mem::take(&mut self.files))
        } else {
            let kept = self.added.remove(folder)?;
            (kept.began_ns, kept.files)
        };
        let seen = |(path, digest, stamp)| (path, Seen { digest, stamp, met: AtomicBool::new(false) });
        let files = files.into_iter().map(seen).collect();
        let mut manifest = Manifest { began_ns, files, rules_changed: false };
        for change in changes {
            manifest.record(change);
        }
        Some(manifest)
    }

    /// The stored bytes.
    pub(crate) fn encode(&self) -> io::Result<Vec<u8>> {
        Ok(serde_json::to_vec(self)?)
    }

    /// Reads the stored bytes.
    pub(crate) fn decode(bytes: &[u8]) -> io::Result<Self> {
        let kept: Self = serde_json::from_slice(bytes)?;
        if kept.version != VERSION {
            let text = format!("The manifest has format {}, and this version reads format {VERSION}.", kept.version);
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(kept)
    }
}

impl Manifest {
    /// Looks at everything for the first time.
    pub(crate) fn begin(root: &Path, jail: &Jail) -> io::Result<Self> {
        let mut manifest = Self { began_ns: ignored::file_clock_ns(), ..Self::default() };
        manifest.look(root, jail)?;
        Ok(manifest)
    }

    /// When the first look began, by the clock that stamps files, in nanoseconds since 1970; none before that.
    pub(crate) fn began_ns(&self) -> Option<i64> {
        (self.began_ns > 0).then_some(self.began_ns)
    }

    /// Whether a file of this name is among those that are watched.
    pub(crate) fn knows(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// Takes in a change that is accounted for already.
    pub(crate) fn record(&mut self, change: &FileChange) {
        self.rules_changed |= is_rules(&change.path);
        match &change.after {
            Some(digest) => {
                let seen = Seen { digest: digest.clone(), stamp: None, met: AtomicBool::new(false) };
                self.files.insert(change.path.clone(), seen);
            }
            None => {
                self.files.remove(&change.path);
            }
        }
    }

    /// Looks at everything again and returns what changed, sorted by path.
    pub(crate) fn look(&mut self, root: &Path, jail: &Jail) -> io::Result<Vec<FileChange>> {
        let fresh = self.walk(root, jail)?;
        let mut changes = Vec::new();
        let mut arrivals = Vec::new();
        for (path, digest, stamp) in fresh {
            let old = self.files.get(&path).map(|seen| seen.digest.clone());
            match FileChange::between(path.clone(), old.clone(), Some(digest.clone())) {
                Some(change) if old.is_none() => arrivals.push((change, stamp)),
                Some(change) => changes.push(change),
                None => {}
            }
            self.files.insert(path, Seen::now(digest, stamp));
        }
        let unmet = self.files.iter().filter(|(_, seen)| !seen.met.load(Ordering::Relaxed));
        let unmet: Vec<_> = unmet.map(|(path, _)| path.clone()).collect();
        for path in unmet {
            changes.extend(self.look_at(jail, path));
        }
        let mut seen_changes = changes.iter().chain(arrivals.iter().map(|(change, _)| change));
        let rules_changed = seen_changes.any(|change| is_rules(&change.path)) || self.rules_changed;
        self.rules_changed = false;
        // What was there before the first look and untouched since did not arrive; it only came into view.
        let came_into_view = |stamp: &Stamp| rules_changed && stamp.changed_ns.saturating_add(TICK_NS) < self.began_ns;
        changes.extend(arrivals.into_iter().filter(|(_, stamp)| !came_into_view(stamp)).map(|(change, _)| change));
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        for seen in self.files.values_mut() {
            *seen.met.get_mut() = false;
        }
        Ok(changes)
    }

    /// Walks the workspace, marks the files that did not change, and returns the others.
    fn walk(&self, root: &Path, jail: &Jail) -> io::Result<Vec<(String, Digest, Stamp)>> {
        std::fs::read_dir(root)?;
        let fresh = Mutex::new(Vec::new());
        walk::parallel(&mut walk::walker(root, Show::NotIgnored)).run(|| {
            Box::new(|entry| {
                // What vanished or cannot be read is not there for anyone.
                let Ok(entry) = entry else { return WalkState::Continue };
                let Ok(path) = entry.path().strip_prefix(root) else { return WalkState::Continue };
                let is_file = entry.file_type().is_some_and(|kind| kind.is_file() || kind.is_symlink());
                if !is_file || is_draft(entry.file_name()) {
                    return WalkState::Continue;
                }
                let Ok(metadata) = entry.path().symlink_metadata() else { return WalkState::Continue };
                let name = path.to_str().map_or_else(|| spell(path).into(), std::borrow::Cow::Borrowed);
                let known = self.files.get(name.as_ref());
                if let Some(seen) = known.filter(|seen| seen.stamp == Some(Stamp::of(&metadata))) {
                    seen.met.store(true, Ordering::Relaxed);
                } else if let Some((digest, stamp)) = read_state(jail, path) {
                    let mut fresh = fresh.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    fresh.push((name.into_owned(), digest, stamp));
                }
                WalkState::Continue
            })
        });
        Ok(fresh.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Looks at one known file that the walk did not come across: gone, or left out by a new ignore rule.
    fn look_at(&mut self, jail: &Jail, path: String) -> Option<FileChange> {
        let state = read_state(jail, Path::new(&path)).or_else(|| read_state(jail, &unspell(&path)));
        let old = self.files.get(&path).map(|seen| seen.digest.clone());
        match state {
            Some((digest, stamp)) => {
                let change = FileChange::between(path.clone(), old, Some(digest.clone()));
                self.files.insert(path, Seen::now(digest, stamp));
                change
            }
            None => {
                self.files.remove(&path);
                FileChange::between(path, old, None)
            }
        }
    }
}

/// The state of a regular file: the digest of its content, or one made of that when the file is executable. A file
/// that is too large to read is known by what the system says of it.
pub(crate) fn state_of_file(content: &Digest, metadata: &Metadata) -> Digest {
    if metadata.size() > LARGEST_READ {
        state_of_outside(metadata)
    } else if metadata.mode() & 0o111 != 0 {
        Digest::of(format!("executable\0{content}"))
    } else {
        content.clone()
    }
}

/// Reads a file or link at a path without links or `..`; none when there is neither.
fn read_state(jail: &Jail, path: &Path) -> Option<(Digest, Stamp)> {
    let link = jail.open_plain(path, OFlags::PATH).ok()?;
    let metadata = link.metadata().ok()?;
    if metadata.is_symlink() {
        let target = rustix::fs::readlinkat(&link, "", Vec::new()).ok()?;
        return Some((Digest::of_parts([b"link\0".as_slice(), target.as_bytes()]), Stamp::of(&metadata)));
    }
    if !metadata.is_file() {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let Ok(file) = jail.open_plain(path, flags) else {
        // There, but not for this user to read: as good as its outside.
        return Some((state_of_outside(&metadata), Stamp::of(&metadata)));
    };
    let metadata = file.metadata().ok().filter(Metadata::is_file)?;
    if metadata.size() > LARGEST_READ {
        return Some((state_of_outside(&metadata), Stamp::of(&metadata)));
    }
    let content = Digest::of_reader(file).ok()?;
    Some((state_of_file(&content, &metadata), Stamp::of(&metadata)))
}

fn state_of_outside(metadata: &Metadata) -> Digest {
    let Stamp { size, modified_ns, changed_ns, inode, mode } = Stamp::of(metadata);
    Digest::of(format!("unread\0{size} {modified_ns} {changed_ns} {inode} {mode}"))
}

fn is_rules(path: &str) -> bool {
    path.rsplit('/').next() == Some(".gitignore")
}

fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Finds what a crash left of half-written files, relative to the root.
pub(crate) fn drafts(root: &Path) -> io::Result<Vec<PathBuf>> {
    let found = Mutex::new(Vec::new());
    std::fs::read_dir(root)?;
    walk::parallel(&mut walk::walker(root, Show::Everything)).run(|| {
        Box::new(|entry| {
            if let Ok(entry) = entry
                && is_draft(entry.file_name())
                && let Ok(path) = entry.path().strip_prefix(root)
            {
                found.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(path.to_owned());
            }
            WalkState::Continue
        })
    });
    Ok(found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}
