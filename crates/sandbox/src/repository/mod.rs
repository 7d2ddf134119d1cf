//! Repositories that come into being while commands run, and the part of promise P5 about them.
//!
//! Nothing can protect the hooks and settings of a repository before it exists. So after each command that may write,
//! what is new in the workspace's repositories is looked at, before anything else runs: whatever could make git run a
//! program, or use a repository elsewhere, is set aside under another name beside itself, where it has no effect on
//! the agent's, the checks' or the user's own git, and is told. The rest stays, so that a repository made in good faith
//! works. From the next command on its hooks and settings are protected like all others.
//!
//! What comes between two commands is the user's and stays as it is. So that a crash in between is not taken for
//! that, the state before a command is noted in the session's folder while any command runs.

pub(crate) mod outside;
mod part;
mod settings;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hames_protocol::Appeared;
use hames_protocol::port::FileKind;

use crate::jail::{Jail, spell};
use crate::protection::Survey;
use crate::{Guarded, Protection, Since};
use part::{Kind, Part};

/// The repositories of one workspace.
#[derive(Debug)]
pub(crate) struct Repositories {
    protection: Arc<Protection>,
    jail: Jail,
    /// Repositories outside the workspace that commands may write to.
    outside: Vec<PathBuf>,
    /// Where the known parts are noted while a command runs.
    note: PathBuf,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    /// Repositories and parts of them that are accounted for.
    known: BTreeSet<PathBuf>,
    /// Repositories that were told of.
    told: BTreeSet<PathBuf>,
    /// Commands that run.
    running: usize,
    /// What was found outside of any command, to be told with the next one.
    untold: Vec<Appeared>,
    /// Why something could not be set aside. Until it is, no command begins.
    refusal: Option<String>,
}

/// A command that runs. What it made is looked at in any case, at the latest when this is dropped.
#[derive(Debug)]
pub(crate) struct Watched {
    repositories: Arc<Repositories>,
    is_over: bool,
}

impl Repositories {
    /// Looks at what a command left that was under way when an earlier process ended.
    ///
    /// # Errors
    /// When the workspace or the note cannot be read.
    pub(crate) fn open(protection: Arc<Protection>, outside: Vec<PathBuf>, note: PathBuf) -> io::Result<Self> {
        let jail = Jail::open(protection.root(), Vec::new())?;
        let repositories = Self { protection, jail, outside, note, book: Mutex::default() };
        match fs::read(&repositories.note) {
            Ok(bytes) => {
                let mut book = repositories.book();
                let names = bytes.split(|&byte| byte == 0).filter(|name| !name.is_empty());
                book.known = names.map(|name| PathBuf::from(OsStr::from_bytes(name))).collect();
                book.told = book.known.clone();
                book.untold = repositories.look(&mut book)?;
                fs::remove_file(&repositories.note)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(repositories)
    }

    /// Notes what there is before a command runs, as `survey` found it.
    ///
    /// # Errors
    /// When it cannot be noted, and when something of an earlier command that should be set aside cannot be.
    pub(crate) fn begin(self: &Arc<Self>, survey: &Survey) -> io::Result<Watched> {
        let mut book = self.book();
        if book.refusal.is_some() {
            let found = self.look(&mut book)?;
            book.untold.extend(found);
            if let Some(text) = &book.refusal {
                return Err(io::Error::other(text.clone()));
            }
        }
        // What came while another command ran may be that one's.
        if book.running == 0 {
            book.known = self.folders(survey).chain(self.parts(survey).into_iter().map(|part| part.path)).collect();
            book.told = book.known.clone();
            let names: Vec<u8> =
                book.known.iter().flat_map(|path| [path.as_os_str().as_bytes(), &[0]].concat()).collect();
            fs::write(&self.note, names)?;
        }
        book.running += 1;
        Ok(Watched { repositories: Arc::clone(self), is_over: false })
    }

    /// Sets aside what is new and dangerous, and takes the rest for known.
    fn look(&self, book: &mut Book) -> io::Result<Vec<Appeared>> {
        let survey = self.protection.survey()?;
        book.refusal = None;
        let root = self.protection.root();
        let real: Vec<PathBuf> =
            survey.repositories.iter().filter_map(|path| root.join(path).canonicalize().ok()).collect();
        let mut found: Vec<Appeared> = Vec::new();
        for folder in self.folders(&survey).filter(|folder| !book.told.contains(folder)) {
            let is_pointer = survey.pointers.contains(&folder);
            if !is_pointer {
                found.push(Appeared { path: spell(&folder), is_new: true, set_aside: Vec::new() });
            }
        }
        for part in self.parts(&survey) {
            if book.known.contains(&part.path) {
                continue;
            }
            let open = |folder: &Path| self.folder(folder);
            let set_aside = match part::settle(open, root, &part, &real) {
                Ok(Some(set_aside)) => set_aside,
                Ok(None) => continue,
                Err(error) => {
                    let path = part.path.display();
                    let why = "is new, git would obey it, and it could not be set aside";
                    book.refusal = Some(format!("`{path}` {why} ({error}). Remove it, and go on"));
                    continue;
                }
            };
            let home = self.folders(&survey).filter(|folder| part.path.starts_with(folder)).last();
            let path = spell(&home.unwrap_or_else(|| part.path.clone()));
            match found.iter_mut().find(|one| one.path == path) {
                Some(one) => one.set_aside.push(set_aside),
                None => found.push(Appeared { path, is_new: false, set_aside: vec![set_aside] }),
            }
        }
        let now: BTreeSet<PathBuf> = self.folders(&survey).collect();
        book.told.extend(now.iter().cloned());
        // While another command runs, that one may still be at work on what is new.
        if book.running == 0 && book.refusal.is_none() {
            book.known = now.into_iter().chain(self.parts(&survey).into_iter().map(|part| part.path)).collect();
        }
        Ok(found)
    }

    /// Everything that is a repository, or says where one is.
    fn folders<'a>(&'a self, survey: &'a Survey) -> impl Iterator<Item = PathBuf> + 'a {
        survey.repositories.iter().chain(&survey.pointers).chain(&self.outside).cloned()
    }

    /// The parts of all repositories that are protected; who leaves one open wants it as it is.
    fn parts(&self, survey: &Survey) -> Vec<Part> {
        let folders = survey.repositories.iter().chain(&self.outside);
        let pointers = survey.pointers.iter().map(|path| Part { path: path.clone(), kind: Kind::Pointer });
        let mut parts: Vec<Part> = folders.flat_map(|folder| part::of(self.protection.root(), folder)).collect();
        parts.extend(pointers);
        let is_open = |path: &Path| {
            let text = path.to_string_lossy();
            path.is_relative() && self.protection.rule(&text, FileKind::File).is_none()
        };
        parts.retain(|part| !is_open(&part.path));
        parts
    }

    /// Opens a folder of the workspace, or one in a repository outside.
    fn folder(&self, path: &Path) -> io::Result<OwnedFd> {
        let outside = self.outside.iter().find_map(|outside| Some((outside, path.strip_prefix(outside).ok()?)));
        let names = |path: &Path| -> Vec<OsString> { path.iter().map(OsStr::to_owned).collect() };
        Ok(match outside {
            Some((outside, beneath)) => Jail::open(outside, Vec::new())?.folder(&names(beneath))?,
            None => self.jail.folder(&names(path))?,
        })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // The book is never left half-written.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    /// Looks at what came into being, now that the command is over. `changed` are protected paths of which it is known
    /// that they changed meanwhile.
    pub(crate) fn end(mut self, existing: &[Guarded], changed: &[String]) -> Vec<Appeared> {
        let later = existing.iter().filter(|guarded| guarded.since == Since::Later);
        let changed = later.filter(|guarded| changed.iter().any(|path| Path::new(path).starts_with(&guarded.path)));
        self.finish(&changed.map(|guarded| guarded.path.clone()).collect::<Vec<_>>())
    }

    /// A failure is no failure of the command, which has run: it keeps the next one from beginning.
    fn finish(&mut self, changed: &[PathBuf]) -> Vec<Appeared> {
        self.is_over = true;
        let repositories = Arc::clone(&self.repositories);
        let mut book = repositories.book();
        book.running -= 1;
        book.known.retain(|path| !changed.iter().any(|changed| path.starts_with(changed)));
        let found = repositories.look(&mut book).unwrap_or_else(|error| {
            book.refusal = Some(format!("the workspace cannot be looked at: {error}"));
            Vec::new()
        });
        if book.running == 0 && book.refusal.is_none() {
            // If it stays, the next process looks at more than it would have to.
            let _ = fs::remove_file(&repositories.note);
        }
        let mut all = std::mem::take(&mut book.untold);
        all.extend(found);
        all
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.is_over {
            // Whoever began the command has a problem to tell first.
            let found = self.finish(&[]);
            self.repositories.book().untold.extend(found);
        }
    }
}
