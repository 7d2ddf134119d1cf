//! The files of a workspace for the tools: found, read, replaced and watched, each folder beneath its own descriptor.

use std::ffi::OsString;
use std::fs::Metadata;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hames_protocol::port::{Expected, FileContent, FileKind, Landing, PathProblem, Workspace};
use hames_protocol::{ChangeKind, Digest, FileChange, Survey};
use rustix::fs::Access;
use rustix::io::Errno;

use crate::Protection;
use crate::ignored;
use crate::jail::{self, Refusal, spell};
use crate::manifest::{self, Kept, Manifest};
use crate::replace::{self, Bits, Draft};
use crate::roots::{AddedFolders, Root, Roots};

/// Why the files of a workspace cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceProblem {
    /// A folder cannot be opened.
    #[error("The folder {} cannot be opened: {why}. Name a folder that exists and that you may use.", .folder.display())]
    Folder {
        /// Its path.
        folder: PathBuf,
        /// The system's words.
        why: io::Error,
    },
    /// The kernel cannot confine a path to a folder.
    #[error(
        "Files cannot be confined to the workspace: this system refuses `openat2`. Use Linux 5.6 or newer, and a container that allows this call."
    )]
    NoConfinement,
    /// The protection belongs to another workspace.
    #[error("The protected paths were worked out for {}, not for {}. Work them out for the same folder.", .protected.display(), .root.display())]
    OtherRoot {
        /// The folder that the protection is for.
        protected: PathBuf,
        /// The folder to open.
        root: PathBuf,
    },
}

/// The files of one workspace; see the port for the contract.
#[derive(Debug)]
pub struct WorkspaceFiles {
    root: PathBuf,
    roots: Roots,
    private_tmp: Option<PathBuf>,
    added: Vec<PathBuf>,
    protection: Arc<Protection>,
}

impl WorkspaceFiles {
    /// Opens the workspace at `root`, which may be reached through links; both its names then count as inside.
    /// `private_tmp` is the host folder that tools and commands of the session see as `/tmp`.
    ///
    /// # Errors
    /// When a folder cannot be opened, or the system cannot confine paths to it.
    pub fn open(
        root: &Path,
        private_tmp: Option<PathBuf>,
        protection: Arc<Protection>,
    ) -> Result<Self, WorkspaceProblem> {
        let real = root.canonicalize().map_err(|why| problem(root, why))?;
        if protection.root() != real {
            return Err(WorkspaceProblem::OtherRoot { protected: protection.root().to_owned(), root: real });
        }
        let given = std::path::absolute(root).map_err(|why| problem(root, why))?;
        let mut roots = vec![Root::workspace(given, Arc::clone(&protection)).map_err(|why| problem(root, why))?];
        let private_tmp = private_tmp.map(|folder| folder.canonicalize().unwrap_or(folder));
        if let Some(folder) = &private_tmp {
            roots.push(Root::tmp(folder.clone()).map_err(|why| problem(folder, why))?);
        }
        Ok(Self { root: real, roots: Roots(roots), private_tmp, added: Vec::new(), protection })
    }

    /// Opens further folders, which are then reached by their absolute paths.
    ///
    /// # Errors
    /// When one cannot be opened.
    pub fn with_folders(mut self, folders: &AddedFolders) -> Result<Self, WorkspaceProblem> {
        let to_read =
            folders.read_only.iter().map(|path| Root::added_to_read(path.clone()).map_err(|why| problem(path, why)));
        let to_write = folders
            .writable
            .iter()
            .map(|protection| Root::added(Arc::clone(protection)).map_err(|why| problem(protection.root(), why)));
        let added = to_read.chain(to_write).collect::<Result<Vec<Root>, _>>()?;
        self.added.extend(added.iter().map(|root| root.path.clone()));
        // After the workspace, before what is shown as /tmp: one of them may lie there.
        self.roots.0.splice(1..1, added);
        Ok(self)
    }

    fn read_once(&self, path: &str, limit: u64) -> Result<Result<FileContent, PathProblem>, Refusal> {
        let (root, spot) = self.roots.resolve(Path::new(path))?;
        if let Some(problem) = not_a_file(path, spot.kind()) {
            return Ok(Err(problem));
        }
        let [name] = spot.rest.as_slice() else { return Err(Refusal::System(Errno::NOENT)) };
        if spot.metadata.is_none() {
            return Err(Refusal::System(Errno::NOENT));
        }
        let (file, metadata) = jail::open_file(&spot.folder, name)?;
        let too_large = |bytes| Ok(Err(PathProblem::TooLarge { path: path.to_owned(), bytes, limit }));
        if metadata.len() > limit {
            return too_large(metadata.len());
        }
        let mut bytes = Vec::new();
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(jail::system)?;
        let read = bytes.len() as u64;
        if read > limit {
            return too_large(read);
        }
        let landing = root.landing(&spot)?;
        let digest = Digest::of(&bytes);
        Ok(Ok(FileContent { path: landing.path, bytes, digest, mode: metadata.mode() & 0o7777 }))
    }

    /// One attempt of `replace` or `create`; a refusal that names moved is worth another. `new` are the bits of a file
    /// that was not there.
    fn replace_once(
        &self,
        path: &str,
        bytes: &[u8],
        expected: &Expected,
        new: Bits<'_>,
    ) -> Result<Result<FileChange, PathProblem>, Refusal> {
        let (root, spot) = self.roots.resolve(Path::new(path))?;
        let landing = root.landing(&spot)?;
        if let Some(rule) = landing.protected {
            return Ok(Err(PathProblem::Protected { path: path.to_owned(), rule }));
        }
        let names_a_folder = landing.kind == FileKind::Missing && path.ends_with('/');
        if let Some(problem) = not_a_file(path, if names_a_folder { FileKind::Folder } else { landing.kind }) {
            return Ok(Err(problem));
        }
        let Some((name, folders)) = spot.rest.split_last() else { return Err(Refusal::Moved) };
        let old = match (&spot.metadata, expected) {
            (None, Expected::Missing) => None,
            (Some(_), Expected::Content(digest)) => match old_file(path, &spot.folder, name, digest)? {
                Ok(old) => Some(old),
                Err(problem) => return Ok(Err(problem)),
            },
            _ => return Ok(Err(PathProblem::Changed(path.to_owned()))),
        };
        let mut folder = spot.folder;
        for missing in folders {
            folder = jail::make_folder(&folder, missing)?;
        }
        let draft = Draft::write(&folder, bytes, old.as_ref().map_or(new, Bits::Of))?;

        // The folder may have moved since it was opened: what counts is where it lies now.
        let lands = spell(&root.jail.path_of(&folder, std::slice::from_ref(name))?);
        let completes = || root.completion_rule(&lands).filter(|_| old.is_none());
        if let Some(rule) = root.rule(&lands, FileKind::File).or_else(completes) {
            return Ok(Err(PathProblem::Protected { path: path.to_owned(), rule: rule.to_owned() }));
        }
        let mut manifest = root.manifest();
        let published = match &old {
            None => draft.publish_new(name),
            Some(old) => match jail::entry(&folder, name) {
                Ok((_, now)) if same_file(old, &now) => draft.publish_over(name),
                Ok(_) | Err(Refusal::System(Errno::NOENT)) => Err(Refusal::System(Errno::EXIST)),
                Err(refusal) => Err(refusal),
            },
        };
        let metadata = match published {
            Err(Refusal::System(Errno::EXIST)) => return Ok(Err(PathProblem::Changed(path.to_owned()))),
            published => published?,
        };
        let before = match (expected, &old) {
            (Expected::Content(digest), Some(old)) => Some(manifest::state_of_file(digest, old)),
            _ => None,
        };
        let after = manifest::state_of_file(&Digest::of(bytes), &metadata);
        let kind = if before.is_some() { ChangeKind::Modified } else { ChangeKind::Added };
        let change = FileChange { path: lands, change: kind, before, after: Some(after) };
        manifest.record(&change);
        Ok(Ok(root.told(change)))
    }

    /// One attempt of `remove`.
    fn remove_once(&self, path: &str, expected: &Digest) -> Result<Result<FileChange, PathProblem>, Refusal> {
        let (root, spot) = self.roots.resolve(Path::new(path))?;
        let landing = root.landing(&spot)?;
        let protected = |rule| Ok(Err(PathProblem::Protected { path: path.to_owned(), rule }));
        if let Some(rule) = landing.protected {
            return protected(rule);
        }
        if let Some(problem) = not_a_file(path, landing.kind) {
            return Ok(Err(problem));
        }
        if spot.metadata.is_none() {
            return Err(Refusal::System(Errno::NOENT));
        }
        let [name] = spot.rest.as_slice() else { return Err(Refusal::Moved) };
        let old = match old_file(path, &spot.folder, name, expected)? {
            Ok(old) => old,
            Err(problem) => return Ok(Err(problem)),
        };

        // The folder may have moved since it was opened: what counts is where it lies now.
        let lands = spell(&root.jail.path_of(&spot.folder, std::slice::from_ref(name))?);
        if let Some(rule) = root.rule(&lands, FileKind::File) {
            return protected(rule.to_owned());
        }
        let mut manifest = root.manifest();
        match jail::entry(&spot.folder, name) {
            Ok((_, now)) if same_file(&old, &now) => replace::unlink(&spot.folder, name)?,
            Ok(_) | Err(Refusal::System(Errno::NOENT)) => return Ok(Err(PathProblem::Changed(path.to_owned()))),
            Err(refusal) => return Err(refusal),
        }
        let before = manifest::state_of_file(expected, &old);
        let change = FileChange { path: lands, change: ChangeKind::Deleted, before: Some(before), after: None };
        manifest.record(&change);
        Ok(Ok(root.told(change)))
    }
}

impl Workspace for WorkspaceFiles {
    fn root(&self) -> &Path {
        &self.root
    }

    fn private_tmp(&self) -> Option<&Path> {
        self.private_tmp.as_deref()
    }

    fn added(&self) -> &[PathBuf] {
        &self.added
    }

    fn locate(&self, path: &str) -> Result<Landing, PathProblem> {
        jail::check_text(path)?;
        let located = jail::retry(|| {
            let (root, spot) = self.roots.resolve(Path::new(path))?;
            Ok((root, root.landing(&spot)?))
        });
        let (root, landing) = located.map_err(|refusal: Refusal| refusal.problem(path))?;
        // Through its descriptor a folder that was removed or moved away still looks like one.
        if landing.path == root.name() && !root.jail.stands_at(&root.path) {
            return Err(PathProblem::Missing(path.to_owned()));
        }
        Ok(landing)
    }

    fn read(&self, path: &str, limit: u64) -> Result<FileContent, PathProblem> {
        jail::check_text(path)?;
        jail::retry(|| self.read_once(path, limit)).map_err(|refusal| refusal.problem(path))?
    }

    fn replace(&self, path: &str, bytes: &[u8], expected: &Expected) -> Result<FileChange, PathProblem> {
        jail::check_text(path)?;
        let attempt = || self.replace_once(path, bytes, expected, Bits::Usual);
        jail::retry(attempt).map_err(|refusal| refusal.problem(path))?
    }

    fn create(&self, path: &str, bytes: &[u8], mode: u32) -> Result<FileChange, PathProblem> {
        jail::check_text(path)?;
        let attempt = || self.replace_once(path, bytes, &Expected::Missing, Bits::Given(mode));
        jail::retry(attempt).map_err(|refusal| refusal.problem(path))?
    }

    fn remove(&self, path: &str, expected: &Digest) -> Result<FileChange, PathProblem> {
        jail::check_text(path)?;
        jail::retry(|| self.remove_once(path, expected)).map_err(|refusal| refusal.problem(path))?
    }

    fn begin(&self) -> io::Result<Vec<u8>> {
        let mut kept = Kept::default();
        for root in self.roots.observed() {
            let manifest = Manifest::begin(&root.path, &root.jail)?;
            kept.put(root.name(), &manifest);
            *root.manifest() = manifest;
        }
        kept.encode()
    }

    fn adopt(&self, manifest: &[u8], changes: &[FileChange]) -> io::Result<()> {
        let mut kept = Kept::decode(manifest)?;
        for root in self.roots.observed() {
            let changes: Vec<FileChange> = changes.iter().filter_map(|change| root.own(change)).collect();
            let manifest = match kept.take(&root.name(), &changes) {
                Some(manifest) => manifest,
                // It was added since.
                None => Manifest::begin(&root.path, &root.jail)?,
            };
            for draft in manifest::drafts(&root.path)? {
                // One that cannot be removed is never reported as a change, and does no harm.
                let _ = root.jail.remove_plain(&draft);
            }
            *root.manifest() = manifest;
        }
        Ok(())
    }

    fn observe(&self) -> io::Result<Vec<FileChange>> {
        let mut changes = Vec::new();
        for root in self.roots.observed() {
            let seen = root.manifest().look(&root.path, &root.jail)?;
            changes.extend(seen.into_iter().map(|change| root.told(change)));
        }
        Ok(changes)
    }

    fn survey(&self) -> io::Result<Survey> {
        let mut survey = Survey { changes: self.observe()?, ..Survey::default() };
        let mut found = Vec::new();
        for root in self.roots.observed() {
            let manifest = root.manifest();
            let Some(began_ns) = manifest.began_ns() else { continue };
            let changed = ignored::changed_since(&root.path, began_ns, &|path| manifest.knows(path))?;
            found.extend(changed.into_iter().map(|file| root.told_of(file)));
        }
        survey.not_listed = found.len().saturating_sub(Survey::LISTED) as u64;
        found.truncate(Survey::LISTED);
        survey.ignored = found;
        Ok(survey)
    }

    fn protected_files(&self) -> io::Result<Vec<String>> {
        self.protection.files()
    }
}

/// The problem with opening a folder.
fn problem(folder: &Path, why: io::Error) -> WorkspaceProblem {
    match Errno::from_io_error(&why) {
        Some(Errno::NOSYS | Errno::PERM) => WorkspaceProblem::NoConfinement,
        _ => WorkspaceProblem::Folder { folder: folder.to_owned(), why },
    }
}

/// The problem with a path that should be a file, or nothing yet.
fn not_a_file(path: &str, kind: FileKind) -> Option<PathProblem> {
    let what = match kind {
        FileKind::Missing | FileKind::File => return None,
        FileKind::Folder => "a folder",
        FileKind::Special => "a device, socket or pipe",
    };
    Some(PathProblem::NotAFile { path: path.to_owned(), what: what.to_owned() })
}

/// What the file to replace or remove is, checked against what is expected of it.
fn old_file(
    path: &str,
    folder: &OwnedFd,
    name: &OsString,
    expected: &Digest,
) -> Result<Result<Metadata, PathProblem>, Refusal> {
    let (file, metadata) = jail::open_file(folder, name)?;
    let refuse = |why: String| Ok(Err(PathProblem::System { path: path.to_owned(), why }));
    if metadata.nlink() > 1 {
        let names = metadata.nlink();
        return refuse(format!(
            "it is one file with {names} names (hard links), and only one of them would change. Change it with `bash`, \
             or make it a file of its own first"
        ));
    }
    let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
    let writable = metadata.mode() & 0o222 != 0 && rustix::fs::access(itself, Access::WRITE_OK).is_ok();
    if !writable {
        let mode = metadata.mode() & 0o777;
        return refuse(format!("it is read-only (mode {mode:04o}). If it is to be changed, make it writable first"));
    }
    if Digest::of_reader(file).map_err(jail::system)? != *expected {
        return Ok(Err(PathProblem::Changed(path.to_owned())));
    }
    Ok(Ok(metadata))
}

/// Whether this is still the file that was read.
fn same_file(old: &Metadata, now: &Metadata) -> bool {
    let identity = |metadata: &Metadata| {
        (
            metadata.dev(),
            metadata.ino(),
            metadata.size(),
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ctime(),
            metadata.ctime_nsec(),
        )
    };
    identity(old) == identity(now)
}
