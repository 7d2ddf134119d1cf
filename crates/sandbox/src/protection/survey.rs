//! Looks at every folder of the workspace for what is protected and for repositories, and after that only at those that
//! changed.
//!
//! The change time of a folder moves whenever a name in it comes, goes or is replaced, and only the kernel sets it. So
//! what was found in a folder holds while that time stands, unless it was read within the same tick of the clock. What
//! a rule says of a path depends on nothing but the path and the folder that holds it, so each is asked once. File
//! systems that are not known to keep such a time (FAT, FUSE, those of a network) are read each time.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use hames_protocol::port::FileKind;
use ignore::WalkState;

use super::{GuardKind, Guarded, Protection, Since, names, scan};

/// A folder that changed this shortly before it was read may change again within the same tick of the file system's
/// clock. In nanoseconds; the kernel's coarsest tick is 10 ms.
const TICK_NS: i128 = 20_000_000;
/// Folders of one level from which on several workers look at them.
const SHARED_FROM: usize = 64;
/// File systems of Linux whose folders have a change time that moves with each name (linux/magic.h): ext, xfs, btrfs,
/// bcachefs, f2fs, zfs, tmpfs, overlayfs.
const KEEPS_TIME: [u64; 8] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0xca45_1a4e, 0xf2f5_2010, 0x2fc1_2fc1, 0x0102_1994, 0x794c_7630];

/// What one look at the workspace found; paths are relative to the root, in no order.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// What is protected, a wholly protected folder once.
    pub(crate) guarded: Vec<Guarded>,
    /// Folders that git takes for a repository, and all that are named `.git`.
    pub(crate) repositories: Vec<PathBuf>,
    /// What is named `.git` and is no folder.
    pub(crate) pointers: Vec<PathBuf>,
}

/// What the last look found in each folder.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<HashMap<PathBuf, Arc<Folder>>>);

/// What tells that a folder holds the same names as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    changed_ns: i128,
}

#[derive(Debug)]
struct Folder {
    /// None when it must be read again whatever the system says.
    stamp: Option<Stamp>,
    below: Vec<OsString>,
    guarded: Vec<Guarded>,
    pointers: Vec<OsString>,
    is_repository: bool,
}

/// Looks at the whole workspace. Two looks at once wait for each other.
///
/// # Errors
/// When the root cannot be read; what lies in a folder that cannot be read, or that vanishes, is there for nobody.
pub(super) fn look(protection: &Protection, memory: &Memory) -> io::Result<Survey> {
    let root = &protection.root;
    fs::read_dir(root)?;
    let device = root.symlink_metadata()?.dev();
    let keeps_time = rustix::fs::statfs(root).is_ok_and(|found| KEEPS_TIME.contains(&(found.f_type as u64)));
    let visit = |path: &Path, known: Option<&Arc<Folder>>| -> Option<Arc<Folder>> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i128);
        let found = root.join(path).symlink_metadata().ok().filter(fs::Metadata::is_dir)?;
        let changed_ns = i128::from(found.ctime()) * 1_000_000_000 + i128::from(found.ctime_nsec());
        let stamp = Stamp { device: found.dev(), inode: found.ino(), changed_ns };
        if let Some(known) = known.filter(|known| known.stamp == Some(stamp)) {
            return Some(Arc::clone(known));
        }
        let lasts = keeps_time && stamp.device == device && changed_ns + TICK_NS < now;
        read(protection, path, lasts.then_some(stamp)).ok().map(Arc::new)
    };

    let mut known = memory.0.lock().unwrap_or_else(PoisonError::into_inner);
    let old = std::mem::take(&mut *known);
    let mut survey = Survey::default();
    let mut level = vec![PathBuf::new()];
    while !level.is_empty() {
        let found = each(&level, |path| visit(path, old.get(path)));
        let mut next = Vec::new();
        for (path, folder) in level.into_iter().zip(found) {
            let Some(folder) = folder else { continue };
            next.extend(folder.below.iter().map(|name| path.join(name)));
            survey.guarded.extend(folder.guarded.iter().cloned());
            survey.pointers.extend(folder.pointers.iter().map(|name| path.join(name)));
            if folder.is_repository {
                survey.repositories.push(path.clone());
            }
            known.insert(path, folder);
        }
        level = next;
    }
    Ok(survey)
}

/// Calls `visit` with each path, on several threads when there are many.
fn each<T: Send>(paths: &[PathBuf], visit: impl Fn(&Path) -> Option<T> + Sync) -> Vec<Option<T>> {
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get().min(8));
    if paths.len() < SHARED_FROM || workers == 1 {
        return paths.iter().map(|path| visit(path)).collect();
    }
    let mut found: Vec<Option<T>> = paths.iter().map(|_| None).collect();
    let share = paths.len().div_ceil(workers);
    std::thread::scope(|scope| {
        for (paths, found) in paths.chunks(share).zip(found.chunks_mut(share)) {
            let visit = &visit;
            scope.spawn(move || paths.iter().zip(found).for_each(|(path, found)| *found = visit(path)));
        }
    });
    found
}

/// Reads the names in one folder.
fn read(protection: &Protection, folder: &Path, stamp: Option<Stamp>) -> io::Result<Folder> {
    let root = &protection.root;
    let mut found =
        Folder { stamp, below: Vec::new(), guarded: Vec::new(), pointers: Vec::new(), is_repository: false };
    let mut marks: Vec<OsString> = Vec::new();
    for entry in fs::read_dir(root.join(folder))? {
        let Ok(entry) = entry else { continue };
        let Ok(kind) = entry.file_type() else { continue };
        let (name, path) = (entry.file_name(), folder.join(entry.file_name()));
        let text = name.to_string_lossy();
        if !kind.is_dir() && names::is_dot_git(&text) {
            found.pointers.push(name.clone());
        }
        // A name that is no text matches by its readable part; the path stays what it is.
        match protection.rule(&path.to_string_lossy(), scan::file_kind(kind)) {
            Some(rule) => {
                if kind.is_dir() && scan::may_have_exceptions(protection, &path) {
                    // What is in it decides as well.
                    found.stamp = None;
                }
                found.guarded.push(guard(protection, &path, kind, rule));
            }
            None if kind.is_dir() && matches!(scan::pruned(root, &path, kind), WalkState::Continue) => {
                found.below.push(name.clone());
            }
            None => {}
        }
        marks.push(name);
    }
    let has = |mark: &str| marks.iter().any(|name| name.eq_ignore_ascii_case(mark));
    let is_named = folder.file_name().is_some_and(|name| names::is_dot_git(&name.to_string_lossy()));
    found.is_repository = is_named || scan::is_git_layout(has);
    Ok(found)
}

fn guard(protection: &Protection, path: &Path, kind: fs::FileType, rule: &str) -> Guarded {
    let since = if protection.at_start.contains(path) { Since::Start } else { Since::Later };
    let writable = if kind.is_dir() { scan::writable(protection, path) } else { Vec::new() };
    let kind = match scan::file_kind(kind) {
        FileKind::Folder => GuardKind::Folder,
        _ if kind.is_symlink() => GuardKind::Link,
        _ => GuardKind::File,
    };
    Guarded { path: path.to_owned(), kind, rule: rule.to_owned(), since, writable }
}
