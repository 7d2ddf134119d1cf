//! The files of a workspace for the tools: found, read, replaced and watched, all beneath one folder descriptor.

use std::ffi::OsString;
use std::fs::Metadata;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hames_protocol::port::{Expected, FileContent, FileKind, Landing, PathProblem, Workspace};
use hames_protocol::{ChangeKind, Digest, FileChange};
use rustix::fs::Access;
use rustix::io::Errno;

use crate::Protection;
use crate::jail::{self, Jail, Refusal, Spot, spell};
use crate::manifest::{self, Manifest};
use crate::replace::{self, Bits, Draft};

/// Where the session's private folder lies for tools and commands.
const TMP: &str = "/tmp";
const TMP_RULE: &str = "file tools only read the session's /tmp; `bash` can write there";

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
    jail: Jail,
    tmp: Option<Jail>,
    private_tmp: Option<PathBuf>,
    protection: Arc<Protection>,
    manifest: Mutex<Manifest>,
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
        let problem = |folder: &Path, why: io::Error| match Errno::from_io_error(&why) {
            Some(Errno::NOSYS | Errno::PERM) => WorkspaceProblem::NoConfinement,
            _ => WorkspaceProblem::Folder { folder: folder.to_owned(), why },
        };
        let real = root.canonicalize().map_err(|why| problem(root, why))?;
        if protection.root() != real {
            return Err(WorkspaceProblem::OtherRoot { protected: protection.root().to_owned(), root: real });
        }
        let given = std::path::absolute(root).map_err(|why| problem(root, why))?;
        let jail = Jail::open(&real, vec![real.clone(), given]).map_err(|why| problem(root, why))?;
        let private_tmp = private_tmp.map(|folder| folder.canonicalize().unwrap_or(folder));
        let open_tmp = |folder: PathBuf| Jail::open(&folder, vec![TMP.into()]).map_err(|why| problem(&folder, why));
        let tmp = private_tmp.clone().map(open_tmp).transpose()?;
        Ok(Self { root: real, jail, tmp, private_tmp, protection, manifest: Mutex::default() })
    }

    /// The jail that a path as written belongs to, with where it leads there.
    fn spot(&self, path: &str) -> Result<(&Jail, Spot), Refusal> {
        let as_path = Path::new(path);
        let jail = match &self.tmp {
            Some(tmp) if self.jail.beneath(as_path).is_none() => tmp,
            _ => &self.jail,
        };
        jail.resolve(as_path).map(|spot| (jail, spot))
    }

    fn landing(&self, jail: &Jail, spot: &Spot) -> Result<Landing, Refusal> {
        let path = jail.path_of(&spot.folder, &spot.rest)?;
        let kind = spot.kind();
        if !std::ptr::eq(jail, &self.jail) {
            let path: PathBuf = [Path::new(TMP), &path].iter().filter(|part| !part.as_os_str().is_empty()).collect();
            let path = spell(&path);
            return Ok(Landing { path, kind, protected: Some(TMP_RULE.to_owned()) });
        }
        let path = if path.as_os_str().is_empty() { ".".to_owned() } else { spell(&path) };
        let by_inode = || {
            let metadata = spot.metadata.as_ref().filter(|metadata| metadata.is_file() && metadata.nlink() > 1)?;
            self.protection.rule_of_inode(metadata.dev(), metadata.ino())
        };
        let protected = self.protection.rule(&path, kind).or_else(by_inode).map(str::to_owned);
        Ok(Landing { path, kind, protected })
    }

    fn read_once(&self, path: &str, limit: u64) -> Result<Result<FileContent, PathProblem>, Refusal> {
        let (jail, spot) = self.spot(path)?;
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
        let landing = self.landing(jail, &spot)?;
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
        let (jail, spot) = self.spot(path)?;
        let landing = self.landing(jail, &spot)?;
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
        let lands = spell(&jail.path_of(&folder, std::slice::from_ref(name))?);
        if let Some(rule) = self.protection.rule(&lands, FileKind::File) {
            return Ok(Err(PathProblem::Protected { path: path.to_owned(), rule: rule.to_owned() }));
        }
        let mut manifest = self.manifest();
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
        Ok(Ok(change))
    }

    /// One attempt of `remove`.
    fn remove_once(&self, path: &str, expected: &Digest) -> Result<Result<FileChange, PathProblem>, Refusal> {
        let (jail, spot) = self.spot(path)?;
        let landing = self.landing(jail, &spot)?;
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
        let lands = spell(&jail.path_of(&spot.folder, std::slice::from_ref(name))?);
        if let Some(rule) = self.protection.rule(&lands, FileKind::File) {
            return protected(rule.to_owned());
        }
        let mut manifest = self.manifest();
        match jail::entry(&spot.folder, name) {
            Ok((_, now)) if same_file(&old, &now) => replace::unlink(&spot.folder, name)?,
            Ok(_) | Err(Refusal::System(Errno::NOENT)) => return Ok(Err(PathProblem::Changed(path.to_owned()))),
            Err(refusal) => return Err(refusal),
        }
        let before = manifest::state_of_file(expected, &old);
        let change = FileChange { path: lands, change: ChangeKind::Deleted, before: Some(before), after: None };
        manifest.record(&change);
        Ok(Ok(change))
    }

    fn manifest(&self) -> MutexGuard<'_, Manifest> {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Workspace for WorkspaceFiles {
    fn root(&self) -> &Path {
        &self.root
    }

    fn private_tmp(&self) -> Option<&Path> {
        self.private_tmp.as_deref()
    }

    fn locate(&self, path: &str) -> Result<Landing, PathProblem> {
        jail::check_text(path)?;
        let located = jail::retry(|| self.spot(path).and_then(|(jail, spot)| self.landing(jail, &spot)));
        let landing = located.map_err(|refusal| refusal.problem(path))?;
        // Through its descriptor a root that was removed or moved away still looks like a folder.
        if landing.path == "." && !self.jail.stands_at(&self.root) {
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
        let manifest = Manifest::begin(&self.root, &self.jail)?;
        let bytes = manifest.encode()?;
        *self.manifest() = manifest;
        Ok(bytes)
    }

    fn adopt(&self, manifest: &[u8], changes: &[FileChange]) -> io::Result<()> {
        let manifest = Manifest::decode(manifest, changes)?;
        for draft in manifest::drafts(&self.root)? {
            // One that cannot be removed is never reported as a change, and does no harm.
            let _ = self.jail.remove_plain(&draft);
        }
        *self.manifest() = manifest;
        Ok(())
    }

    fn observe(&self) -> io::Result<Vec<FileChange>> {
        self.manifest().look(&self.root, &self.jail)
    }

    fn protected_files(&self) -> io::Result<Vec<String>> {
        self.protection.files()
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
