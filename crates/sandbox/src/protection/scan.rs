//! Finds on disk what the names and globs protect.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{File, FileType};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use hames_protocol::port::FileKind;
use ignore::WalkState;

use super::names::{self, TestName};
use super::{GuardKind, Guarded, Protection};
use crate::walk::{self, Show};

/// How much of a file is read to tell whether it is a test, in bytes.
const SNIFFED: u64 = 64 * 1024;

/// Calls `see` with each entry below `folder`, relative to `root`, on several threads.
fn each(root: &Path, folder: &Path, show: Show, see: impl Fn(&Path, FileType) -> WalkState + Sync) -> io::Result<()> {
    // An entry that cannot be read, or that vanished, is nothing that a rule could protect; only the root must be there.
    std::fs::read_dir(root)?;
    walk::parallel(&mut walk::walker(folder, show)).run(|| {
        Box::new(|entry| {
            let Ok(entry) = entry else { return WalkState::Continue };
            match (entry.path().strip_prefix(root), entry.file_type()) {
                (Ok(relative), Some(kind)) if entry.depth() > 0 => see(relative, kind),
                _ => WalkState::Continue,
            }
        })
    });
    Ok(())
}

/// The files that belong to the tests, relative to the root; those that `.gitignore` leaves out are not the project's.
pub(super) fn test_files(root: &Path) -> io::Result<BTreeSet<String>> {
    let found = Mutex::new(BTreeSet::new());
    each(root, root, Show::NotIgnored, |path, kind| {
        if let Some(text) = path.to_str().filter(|_| !kind.is_dir())
            && match names::test_name(text) {
                TestName::Yes => true,
                TestName::Perhaps => kind.is_file() && mentions_tests(&root.join(path)),
                TestName::No => false,
            }
        {
            lock(&found).insert(text.to_owned());
        }
        WalkState::Continue
    })?;
    Ok(into_inner(found))
}

fn mentions_tests(path: &Path) -> bool {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(SNIFFED).read_to_end(&mut bytes));
    let holds = |word: &[u8]| bytes.windows(word.len()).any(|window| window == word);
    read.is_ok() && (holds(b"unittest") || holds(b"def test"))
}

/// Whether something in a protected folder may stay writable.
pub(super) fn may_have_exceptions(protection: &Protection, folder: &Path) -> bool {
    folder == Path::new(".hames") || !protection.unprotect.is_empty() || protection.protect.has_exceptions()
}

/// What stays writable in a protected folder.
pub(super) fn writable(protection: &Protection, folder: &Path) -> Vec<PathBuf> {
    let root = &protection.root;
    if !may_have_exceptions(protection, folder) {
        return Vec::new();
    }
    let found = Mutex::new(Vec::new());
    let walked = each(root, &root.join(folder), Show::Everything, |path, kind| {
        if protection.rule(&path.to_string_lossy(), file_kind(kind)).is_some() {
            return WalkState::Continue;
        }
        lock(&found).push(path.to_owned());
        WalkState::Skip
    });
    let mut found = into_inner(found);
    found.sort();
    // What could not be walked stays protected.
    if walked.is_ok() { found } else { Vec::new() }
}

/// Calls `see` with each regular file of a protected path, relative to the root.
pub(super) fn files_of(protection: &Protection, guarded: &Guarded, mut see: impl FnMut(&Path)) {
    if guarded.kind == GuardKind::Link {
        return;
    }
    let path = protection.root.join(&guarded.path);
    for entry in walk::walker(&path, Show::Everything).build().flatten() {
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        let Ok(relative) = entry.path().strip_prefix(&protection.root) else { continue };
        if is_file && !guarded.writable.iter().any(|open| relative.starts_with(open)) {
            see(relative);
        }
    }
}

/// All names below the root of the files with these identities, each with its rule.
pub(super) fn names_of(root: &Path, identities: &HashMap<(u64, u64), String>) -> io::Result<BTreeMap<String, String>> {
    let found = Mutex::new(BTreeMap::new());
    each(root, root, Show::Everything, |path, kind| {
        if kind.is_file()
            && let Ok(metadata) = root.join(path).symlink_metadata()
            && let Some(rule) = identities.get(&(metadata.dev(), metadata.ino()))
            && let Some(text) = path.to_str()
        {
            lock(&found).insert(text.to_owned(), rule.clone());
        }
        pruned(root, path, kind)
    })?;
    Ok(into_inner(found))
}

/// The rule for a path in a git folder that is not named `.git`: a bare repository is one for git as well.
pub(super) fn bare_git_rule(root: &Path, relative: &str, is_folder: bool) -> Option<&'static str> {
    let folded = names::folded(relative);
    let inside: Vec<&str> = folded.split('/').collect();
    let parts: Vec<&str> = relative.split('/').collect();
    (0..parts.len()).filter(|&at| names::is_git_setting(inside[at])).find_map(|at| {
        let rule = names::git_rule(&inside[at..], is_folder)?;
        let folder = parts[..at].iter().fold(root.to_owned(), |folder, part| folder.join(part));
        is_git_folder(&folder).then_some(rule)
    })
}

/// The git folder (relative to the root) that a protected path shows to be a repository of its own.
pub(super) fn git_folder_of(root: &Path, path: &Path) -> Option<String> {
    let (folder, name) = path.to_str()?.rsplit_once('/')?;
    let is_repository = folder.split('/').any(|part| part == ".git") || is_git_folder(&root.join(folder));
    (name == "config" && is_repository).then(|| folder.to_owned())
}

/// What git itself asks of a folder before it takes it for a repository: its own objects and branches, or word of where
/// they are.
fn is_git_folder(folder: &Path) -> bool {
    is_git_layout(|name| folder.join(name).symlink_metadata().is_ok())
}

/// The same of a folder of which `has` tells the names.
pub(super) fn is_git_layout(has: impl Fn(&str) -> bool) -> bool {
    has("HEAD") && (has("commondir") || (has("objects") && has("refs")))
}

/// The rule against a file at `relative` that would make a folder above it a repository; none when that is none, or
/// one already.
pub(super) fn completion_rule(root: &Path, relative: &str) -> Option<&'static str> {
    let parts: Vec<&str> = relative.split('/').collect();
    let marks = ["HEAD", "commondir", "objects", "refs"];
    let is_mark = |name: &str| marks.iter().any(|mark| mark.eq_ignore_ascii_case(name));
    (0..parts.len()).filter(|&at| is_mark(parts[at])).find_map(|at| {
        let (folder, new) = (root.join(parts[..at].join("/")), parts[at]);
        let completes = is_git_layout(|name| name.eq_ignore_ascii_case(new) || folder.join(name).exists());
        (completes && !is_git_folder(&folder)).then_some("it would make its folder a git repository")
    })
}

/// The objects of a repository are many and nothing in them is executed.
pub(super) fn pruned(root: &Path, path: &Path, kind: FileType) -> WalkState {
    let is_objects = kind.is_dir()
        && path.file_name().is_some_and(|name| name == "objects")
        && path.parent().is_some_and(|parent| is_git_folder(&root.join(parent)));
    if is_objects { WalkState::Skip } else { WalkState::Continue }
}

pub(super) fn file_kind(kind: FileType) -> FileKind {
    if kind.is_dir() { FileKind::Folder } else { FileKind::File }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}
