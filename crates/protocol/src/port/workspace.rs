//! The port to files: where a path lands, what may be written there, what changed.

use std::io;
use std::path::{Path, PathBuf};

use crate::{Access, Digest, FileChange, Survey, Touch};

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Nothing yet; its folder may be missing as well.
    Missing,
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A device, socket or pipe.
    Special,
}

/// Where a path really lands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Landing {
    /// Relative to the workspace root with `/`, `.` for the root itself; absolute in a folder that was added, and beneath
    /// `/tmp` for the session's private folder.
    pub path: String,
    /// What is there.
    pub kind: FileKind,
    /// The protection rule that covers it, in words.
    pub protected: Option<String>,
}

impl Landing {
    /// The touch that a call makes here.
    pub fn touch(&self, written: &str, access: Access) -> Touch {
        Touch { path: written.to_owned(), lands: self.path.clone(), access, protected: self.protected.clone() }
    }
}

/// A file's bytes with what identifies them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileContent {
    /// Where it really lies; see [`Landing::path`].
    pub path: String,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Their digest.
    pub digest: Digest,
    /// The permission bits.
    pub mode: u32,
}

/// What must be at a path for a write to go through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// Nothing.
    Missing,
    /// A file with this digest.
    Content(Digest),
}

/// Why a path cannot be used; each text is a sentence for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathProblem {
    /// It lands outside the workspace. The text never tells whether anything is there.
    #[error("`{0}` is outside the workspace. Use a path inside it.")]
    Outside(String),
    /// There is nothing.
    #[error("`{0}` does not exist.")]
    Missing(String),
    /// It is protected against changes.
    #[error("`{path}` is protected ({rule}) and was not changed. Reach the goal without changing it.")]
    Protected {
        /// The path as written.
        path: String,
        /// The rule.
        rule: String,
    },
    /// It is not a regular file.
    #[error("`{path}` is {what}, not a regular file.")]
    NotAFile {
        /// The path as written.
        path: String,
        /// For example `a folder`.
        what: String,
    },
    /// The file is not what the write expected.
    #[error("`{0}` has changed since it was read. Read it again, then repeat the edit.")]
    Changed(String),
    /// It is larger than the tools handle.
    #[error(
        "`{path}` has {bytes} bytes, more than the {limit} that this tool handles. Use `bash` to look at a part of it."
    )]
    TooLarge {
        /// The path as written.
        path: String,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The path itself cannot be used (a NUL byte, too long, a loop of links).
    #[error("`{path}` cannot be used as a path: {why}.")]
    Invalid {
        /// The path as written, shortened.
        path: String,
        /// Why.
        why: String,
    },
    /// The system refused.
    #[error("`{path}`: {why}.")]
    System {
        /// The path as written.
        path: String,
        /// The system's words.
        why: String,
    },
}

/// The files of the workspace and of the folders added to it, each reached beneath a folder descriptor so that no link
/// leads out of all of them.
///
/// All methods block for as long as the file system does; call them off the async thread. Every method resolves
/// again, so that a link planted between two calls changes nothing. Paths may be relative to the root, absolute
/// beneath it or an added folder, or absolute beneath `/tmp` (the session's private folder, read only through this port).
pub trait Workspace: Send + Sync {
    /// The real path of the root.
    fn root(&self) -> &Path;

    /// The host path of the session's private folder, shown as `/tmp`; none when it can only be read by file name.
    fn private_tmp(&self) -> Option<&Path> {
        None
    }

    /// The real paths of the folders that were added to the workspace; paths in them are absolute.
    fn added(&self) -> &[PathBuf] {
        &[]
    }

    /// Finds where a path lands.
    ///
    /// # Errors
    /// When it cannot be used, [`PathProblem::Outside`] first of all.
    fn locate(&self, path: &str) -> Result<Landing, PathProblem>;

    /// Reads a whole file, at most `limit` bytes of it being allowed.
    ///
    /// # Errors
    /// As `locate`, and when it is no regular file or too large.
    fn read(&self, path: &str, limit: u64) -> Result<FileContent, PathProblem>;

    /// Replaces or creates a file atomically: the path holds the old bytes or the new, whatever happens. Mode bits of
    /// an existing file are kept; missing folders are made; a link inside the workspace is followed, not replaced.
    ///
    /// # Errors
    /// As `locate`, and when the path is protected or not as `expected`.
    fn replace(&self, path: &str, bytes: &[u8], expected: &Expected) -> Result<FileChange, PathProblem>;

    /// Creates a file where there is none, whole or not at all, with the permission bits `mode`: how a file that is
    /// moved or put back keeps its own. Missing folders are made.
    ///
    /// # Errors
    /// As `replace`, and when something is there already.
    fn create(&self, path: &str, bytes: &[u8], mode: u32) -> Result<FileChange, PathProblem>;

    /// Removes a file; a link inside the workspace is followed, and stays.
    ///
    /// # Errors
    /// As `locate`, and when the path is protected, or is no regular file with the digest `expected`.
    fn remove(&self, path: &str, expected: &Digest) -> Result<FileChange, PathProblem>;

    /// Lists the workspace for the first time and returns the manifest to keep with the session.
    ///
    /// # Errors
    /// When the root cannot be read.
    fn begin(&self) -> io::Result<Vec<u8>>;

    /// Takes up a manifest from `begin` and the changes logged since, after a restart.
    ///
    /// # Errors
    /// When the manifest cannot be read.
    fn adopt(&self, manifest: &[u8], changes: &[FileChange]) -> io::Result<()>;

    /// What changed since the last `begin`, `adopt`, `replace`, `create`, `remove` or `observe`; ignored files are left out.
    ///
    /// # Errors
    /// When the root cannot be read.
    fn observe(&self) -> io::Result<Vec<FileChange>>;

    /// Looks for the last time in a run: as `observe`, and which ignored files were created or changed since `begin`.
    ///
    /// # Errors
    /// When the root cannot be read.
    fn survey(&self) -> io::Result<Survey>;

    /// The protected regular files that exist now, relative to the root.
    ///
    /// # Errors
    /// When the root cannot be read.
    fn protected_files(&self) -> io::Result<Vec<String>>;
}
