//! Which ignored files were created or changed since a moment.
//!
//! Ignored trees are huge (installed packages, what compilers write), so nothing of them is kept or read: one walk at
//! the end of a run finds the files whose last change, as the system notes it, is not before the run. No ordinary call
//! sets that time back. A file rewritten with the same bytes counts as changed; one that was removed is not missed.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use hames_protocol::{ChangeKind, ChangedFile};
use ignore::WalkState;
use rustix::time::ClockId;

use crate::jail::spell;
use crate::replace::is_draft;
use crate::walk::{self, Show};

/// Folders of packages and caches that carry no mark.
const CACHES: [&str; 6] = ["node_modules", "site-packages", "__pycache__", ".venv", "venv", ".cache"];
/// The mark of a folder that can be made anew (<https://bford.info/cachedir/>).
const CACHE_MARK: &str = "CACHEDIR.TAG";

/// The time by the clock from which the kernel stamps files, in nanoseconds since 1970: it lags behind the usual one by
/// up to a tick.
pub(crate) fn file_clock_ns() -> i64 {
    let now = rustix::time::clock_gettime(ClockId::RealtimeCoarse);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

/// The files beneath `root` that changed at `since_ns` or later and that are not `known`, those in folders of caches
/// and packages last.
///
/// # Errors
/// When the root cannot be read.
pub(crate) fn changed_since(
    root: &Path,
    since_ns: i64,
    known: &(dyn Fn(&str) -> bool + Sync),
) -> io::Result<Vec<ChangedFile>> {
    std::fs::read_dir(root)?;
    let found = Mutex::new(Vec::new());
    let mut walker = walk::walker(root, Show::Everything);
    walker.filter_entry(|entry| entry.file_name() != ".git");
    walk::parallel(&mut walker).run(|| {
        Box::new(|entry| {
            let Ok(entry) = entry else { return WalkState::Continue };
            let is_file = entry.file_type().is_some_and(|kind| kind.is_file() || kind.is_symlink());
            if !is_file || is_draft(entry.file_name()) {
                return WalkState::Continue;
            }
            let (Ok(path), Ok(metadata)) = (entry.path().strip_prefix(root), entry.path().symlink_metadata()) else {
                return WalkState::Continue;
            };
            let changed_ns = metadata.ctime().saturating_mul(1_000_000_000).saturating_add(metadata.ctime_nsec());
            if changed_ns >= since_ns && !known(&spell(path)) {
                let born = metadata.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
                let is_new = born.is_some_and(|born| i64::try_from(born.as_nanos()).is_ok_and(|born| born >= since_ns));
                let change = if is_new { ChangeKind::Added } else { ChangeKind::Modified };
                found.lock().unwrap_or_else(PoisonError::into_inner).push((path.to_owned(), change));
            }
            WalkState::Continue
        })
    });
    let mut caches = HashMap::new();
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter();
    let mut found: Vec<_> = found
        .map(|(path, change)| {
            let in_cache = path.parent().is_some_and(|folder| is_cache(root, folder, &mut caches));
            (in_cache, path, change)
        })
        .collect();
    found.sort_by(|(in_cache, path, _), (other_in_cache, other, _)| (in_cache, path).cmp(&(other_in_cache, other)));
    let told = |(_, path, change): (bool, PathBuf, _)| ChangedFile { path: spell(&path), change, ignored: true };
    Ok(found.into_iter().map(told).collect())
}

/// Whether a folder is one of caches or packages, or lies in one; each is looked at once.
fn is_cache(root: &Path, folder: &Path, known: &mut HashMap<PathBuf, bool>) -> bool {
    if let Some(known) = known.get(folder) {
        return *known;
    }
    let is_cache = folder
        .file_name()
        .is_some_and(|name| CACHES.iter().any(|cache| name == *cache) || root.join(folder).join(CACHE_MARK).is_file())
        || folder.parent().is_some_and(|above| is_cache(root, above, known));
    known.insert(folder.to_owned(), is_cache);
    is_cache
}
