//! Empty folders that stand, while a command runs, where a protected path does not exist yet.
//!
//! A mount needs something to be mounted on. An empty folder serves, also where a file would be: bound read-only it
//! can be neither written, moved, replaced nor removed from inside, and removing it afterwards with `rmdir` fails
//! safely when somebody on the host has put something in it.
//!
//! None is to stay on the host, whatever happens: each is noted in a journal before it is made and carries a mode
//! that nobody chooses. By these a [`Steward`] finds those that a crash has left, and after a power cut the next start.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::FlockOperation;

use super::steward::Steward;
use crate::{Absent, Guarded, Protection};

/// The mode of a placeholder: that of any folder, and the sticky bit, which marks it.
const MARKED: u32 = 0o1755;
/// The mode that remains when somebody has filled it.
const UNMARKED: u32 = 0o755;

/// The placeholders of one workspace.
#[derive(Debug)]
pub(crate) struct Placeholders {
    root: PathBuf,
    journal: File,
    journal_path: PathBuf,
    held: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    /// How many commands hold each, relative to the root.
    held: BTreeMap<PathBuf, usize>,
    /// Those that the journal names.
    noted: BTreeSet<PathBuf>,
    /// Engaged with the first placeholder.
    steward: Option<Steward>,
}

/// What is protected while this lives: the placeholders among it go when the last one that holds them is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    placeholders: Arc<Placeholders>,
    taken: Vec<PathBuf>,
    /// What exists.
    pub(crate) existing: Vec<Guarded>,
    /// What does not, and has a placeholder now.
    pub(crate) absent: Vec<Absent>,
}

impl Placeholders {
    /// Opens the journal, after removing what a crash has left.
    ///
    /// # Errors
    /// When the journal cannot be read or written.
    pub(crate) fn open(root: &Path, journal: &Path) -> io::Result<Self> {
        let noted: BTreeSet<PathBuf> = match fs::read(journal) {
            Ok(bytes) => bytes.split(|&byte| byte == 0).filter(|name| !name.is_empty()).map(path_of).collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
            Err(error) => return Err(error),
        };
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(journal)?;
        // Another sandbox of this session may hold some of them right now.
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // What lies in a folder comes after it, so it goes first.
            noted.iter().rev().for_each(|path| remove(&root.join(path)));
            rustix::fs::flock(&file, FlockOperation::Unlock)?;
        }
        let book = Book { noted, ..Book::default() };
        let journal_path = journal.to_owned();
        Ok(Self { journal_path, root: root.to_owned(), journal: file, held: Mutex::new(book) })
    }

    /// Puts placeholders where something protected is absent. What is there, `look` says, with whatever else it found.
    ///
    /// # Errors
    /// When the workspace cannot be read, or the journal or a placeholder not be written.
    pub(crate) fn hold<T>(
        self: &Arc<Self>,
        protection: &Protection,
        look: impl FnOnce() -> io::Result<(Vec<Guarded>, T)>,
    ) -> io::Result<(Held, T)> {
        // Dropped after the book, which dropping it needs.
        let mut held =
            Held { placeholders: Arc::clone(self), taken: Vec::new(), existing: Vec::new(), absent: Vec::new() };
        let mut book = self.book();
        if book.held.is_empty() {
            // Waits until nobody clears up any more: a crashed owner's steward would take what is found or made here.
            rustix::fs::flock(&self.journal, FlockOperation::LockShared)?;
        }
        let (existing, found) = look()?;
        // A placeholder that another command holds looks as if it existed.
        let (placed, existing): (Vec<_>, Vec<_>) =
            existing.into_iter().partition(|guarded| book.held.contains_key(&guarded.path));
        let placed = placed.into_iter().map(|guarded| Absent { path: guarded.path, rule: guarded.rule });
        let wanted: Vec<Absent> = protection.absent().into_iter().chain(placed).collect();
        held.existing = existing;
        let chains: Vec<_> = wanted.into_iter().map(|absent| (self.missing(&book, &absent.path), absent)).collect();
        let new = chains.iter().flat_map(|(chain, _)| chain).filter(|path| !book.noted.contains(*path)).cloned();
        let new: BTreeSet<PathBuf> = new.collect();
        if !new.is_empty() {
            let names: Vec<u8> = new.iter().flat_map(|path| [path.as_os_str().as_bytes(), &[0]].concat()).collect();
            (&self.journal).write_all(&names)?;
            // Once in a session for each, so that not even a power cut forgets one.
            self.journal.sync_data()?;
            book.noted.extend(new);
        }
        let any = chains.iter().any(|(chain, _)| !chain.is_empty());
        if any && book.steward.is_none() {
            book.steward = Some(Steward::engage(&self.root, &self.journal_path, MARKED)?);
        }
        let outcome = chains.into_iter().try_for_each(|(chain, absent)| {
            if take(&self.root, &mut book, &chain, &mut held.taken)? {
                held.absent.push(absent);
            }
            Ok(())
        });
        drop(book);
        outcome.map(|()| (held, found))
    }

    /// The folders to make, or held by others, down to `path`; empty when a link or a file is in the way.
    fn missing(&self, book: &Book, path: &Path) -> Vec<PathBuf> {
        let mut chain = Vec::new();
        let mut at = PathBuf::new();
        for part in path.components() {
            at.push(part);
            if book.held.contains_key(&at) {
                chain.push(at.clone());
                continue;
            }
            match self.root.join(&at).symlink_metadata() {
                Ok(found) if found.is_dir() => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => chain.push(at.clone()),
                Ok(_) | Err(_) => return Vec::new(),
            }
        }
        chain
    }

    fn release(&self, taken: &[PathBuf]) {
        let mut book = self.book();
        for path in taken.iter().rev() {
            let Some(count) = book.held.get_mut(path) else { continue };
            *count -= 1;
            if *count == 0 {
                book.held.remove(path);
                remove(&self.root.join(path));
            }
        }
        if book.held.is_empty() {
            // The lock only keeps others from clearing up too early.
            let _ = rustix::fs::flock(&self.journal, FlockOperation::Unlock);
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // The book is never left half-written.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.placeholders.release(&self.taken);
    }
}

/// Makes or joins each placeholder of a chain. False when nobody could make one, a command neither.
fn take(root: &Path, book: &mut Book, chain: &[PathBuf], taken: &mut Vec<PathBuf>) -> io::Result<bool> {
    for path in chain {
        if !book.held.contains_key(path) {
            match fs::DirBuilder::new().mode(MARKED).create(root.join(path)) {
                Ok(()) => fs::set_permissions(root.join(path), PermissionsExt::from_mode(MARKED))?,
                Err(error) => {
                    let refused = [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem];
                    // It has come into being meanwhile, or cannot.
                    let fine = error.kind() == io::ErrorKind::AlreadyExists || refused.contains(&error.kind());
                    return if fine { Ok(false) } else { Err(error) };
                }
            }
        }
        *book.held.entry(path.clone()).or_insert(0) += 1;
        taken.push(path.clone());
    }
    Ok(!chain.is_empty())
}

/// Removes a placeholder, or makes it an ordinary folder when somebody has filled it.
fn remove(path: &Path) {
    let marked = |found: &fs::Metadata| found.is_dir() && found.permissions().mode() & 0o7777 == MARKED;
    if !path.symlink_metadata().is_ok_and(|found| marked(&found)) {
        return;
    }
    if fs::remove_dir(path).is_err() {
        // Nothing depends on it: it is the user's folder by now.
        let _ = fs::set_permissions(path, PermissionsExt::from_mode(UNMARKED));
    }
}

fn path_of(name: &[u8]) -> PathBuf {
    OsStr::from_bytes(name).into()
}
