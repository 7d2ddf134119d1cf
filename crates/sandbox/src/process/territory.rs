//! A folder beside the workspace that commands may change, and what keeps its protected paths from them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hames_protocol::Digest;
use hames_protocol::port::{Attempt, Finished};

use super::comparison::{Digests, Snapshot};
use super::config::Mode;
use super::layout::{Layout, Shown};
use super::observation::{Naming, Subject};
use super::placeholder::{Held, Placeholders};
use super::state::State;
use super::view::Arrangement;
use crate::Protection;
use crate::repository::{Repositories, Watched};

/// How many digits of a path's digest name the journal of its placeholders.
const NAME_DIGITS: usize = 16;

/// The folder.
#[derive(Debug)]
pub(crate) struct Territory {
    protection: Arc<Protection>,
    placeholders: Arc<Placeholders>,
    repositories: Arc<Repositories>,
    digests: Digests,
}

/// The folder while a command may change it.
#[derive(Debug)]
pub(crate) struct Entered<'a> {
    territory: &'a Territory,
    held: Held,
    before: Snapshot,
    watched: Watched,
}

impl Territory {
    /// Takes up a folder, after removing what a crash has left in it.
    ///
    /// # Errors
    /// When the journal of its placeholders cannot be read or written.
    pub(crate) fn open(protection: &Arc<Protection>, state: &State) -> io::Result<Self> {
        let root = protection.root();
        let digest = Digest::of(root.as_os_str().as_encoded_bytes());
        let name: String = digest.as_str().chars().filter(char::is_ascii_alphanumeric).collect();
        let name = &name[name.len().saturating_sub(NAME_DIGITS)..];
        let placeholders = Arc::new(Placeholders::open(root, &state.journal().with_extension(name))?);
        let note = state.repositories().with_extension(name);
        let repositories = Arc::new(Repositories::open(Arc::clone(protection), Vec::new(), note)?);
        Ok(Self { protection: Arc::clone(protection), placeholders, repositories, digests: Digests::default() })
    }

    /// Its path, inside as outside.
    pub(crate) fn root(&self) -> &Path {
        self.protection.root()
    }

    /// How it is shown to a command.
    pub(crate) fn shown(&self, mode: Mode) -> Shown<'_> {
        Shown { source: self.root(), target: self.root(), mode }
    }

    /// Finds what is protected now and holds it for a command. Walks the folder.
    ///
    /// # Errors
    /// When it cannot be read, or a placeholder not be written.
    pub(crate) fn enter(&self) -> io::Result<Entered<'_>> {
        let (held, watched) = self.placeholders.hold(&self.protection, || {
            let survey = self.protection.survey()?;
            let watched = self.repositories.begin(&survey)?;
            Ok((survey.guarded, watched))
        })?;
        let before = Snapshot::take(self.root(), &held.existing, &self.digests);
        Ok(Entered { territory: self, held, before, watched })
    }
}

impl Entered<'_> {
    /// What the command is watched for here.
    pub(crate) fn subject(&self) -> Subject {
        let protection = Some(Arc::clone(&self.territory.protection));
        let (root, absent) = (self.territory.root(), self.absent().collect());
        let mut subject = Subject::new(root, Mode::WorkspaceWrite, protection, &self.held.existing, absent);
        subject.naming = Naming::Absolute;
        subject
    }

    /// Adds the mounts over what is protected.
    pub(crate) fn mount(&self, layout: &mut Layout) {
        let mut arrangement = Arrangement::new(self.territory.root(), Mode::WorkspaceWrite);
        arrangement.guard(&self.held.existing, self.absent());
        arrangement.mount(layout, self.territory.root());
    }

    /// Tells what of the protected changed all the same, and what repositories came into being, by absolute paths. The
    /// command has ended.
    pub(crate) fn leave(self, finished: &mut Finished) {
        let Self { territory, held, before, watched } = self;
        let root = territory.root();
        let after = Snapshot::take(root, &held.existing, &territory.digests);
        let attempts = before.differences(&after, &held.existing);
        let changed: Vec<String> = attempts.iter().map(|attempt| attempt.path.clone()).collect();
        let existing = held.existing.clone();
        drop(held);
        let told = |path: &str| root.join(path).to_string_lossy().into_owned();
        finished.attempts.extend(attempts.into_iter().map(|one| Attempt { path: told(&one.path), ..one }));
        for mut repository in watched.end(&existing, &changed) {
            repository.path = told(&repository.path);
            for part in &mut repository.set_aside {
                (part.path, part.kept) = (told(&part.path), told(&part.kept));
            }
            finished.appeared.push(repository);
        }
    }

    fn absent(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.held.absent.iter().map(|absent| absent.path.clone())
    }
}
