//! A folder beside the workspace that commands may change, and what keeps its protected paths from them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hames_protocol::Digest;
use hames_protocol::port::Attempt;

use super::comparison::{Digests, Snapshot};
use super::config::Mode;
use super::layout::{Layout, Shown};
use super::observation::{Naming, Subject};
use super::placeholder::{Held, Placeholders};
use super::state::State;
use super::view::Arrangement;
use crate::Protection;

/// How many digits of a path's digest name the journal of its placeholders.
const NAME_DIGITS: usize = 16;

/// The folder.
#[derive(Debug)]
pub(crate) struct Territory {
    protection: Arc<Protection>,
    placeholders: Arc<Placeholders>,
    digests: Digests,
}

/// The folder while a command may change it.
#[derive(Debug)]
pub(crate) struct Entered<'a> {
    territory: &'a Territory,
    held: Held,
    before: Snapshot,
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
        let journal = state.journal().with_extension(&name[name.len().saturating_sub(NAME_DIGITS)..]);
        let placeholders = Arc::new(Placeholders::open(root, &journal)?);
        Ok(Self { protection: Arc::clone(protection), placeholders, digests: Digests::default() })
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
        let held = self.placeholders.hold(&self.protection)?;
        let before = Snapshot::take(self.root(), &held.existing, &self.digests);
        Ok(Entered { territory: self, held, before })
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

    /// What of the protected changed all the same, told by absolute paths. The command has ended.
    pub(crate) fn leave(self) -> Vec<Attempt> {
        let root = self.territory.root();
        let after = Snapshot::take(root, &self.held.existing, &self.territory.digests);
        let mut attempts = self.before.differences(&after, &self.held.existing);
        for attempt in &mut attempts {
            attempt.path = root.join(&attempt.path).to_string_lossy().into_owned();
        }
        attempts
    }

    fn absent(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.held.absent.iter().map(|absent| absent.path.clone())
    }
}
