//! A command's output: a bounded capture for results, and the whole of it in a file of the session's /tmp.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use hames_protocol::port::{Capture, CommandSpec, SandboxProblem};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::config::ProcessLimits;

/// Collects the head and the tail of a stream.
#[derive(Debug)]
pub(crate) struct Collector {
    head: Vec<u8>,
    tail: Vec<u8>,
    limit: usize,
    total: u64,
}

impl Collector {
    /// Keeps `limit` bytes at either end.
    pub(crate) fn new(limit: usize) -> Self {
        Self { head: Vec::new(), tail: Vec::new(), limit, total: 0 }
    }

    /// Takes the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(bytes.len() as u64);
        let to_head = bytes.len().min(self.limit - self.head.len());
        self.head.extend_from_slice(&bytes[..to_head]);
        let rest = &bytes[to_head..];
        self.tail.extend_from_slice(&rest[rest.len().saturating_sub(self.limit)..]);
        // Cut only when twice the limit is there, so that each byte moves about once.
        if self.tail.len() > self.limit.saturating_mul(2) {
            self.tail.drain(..self.tail.len() - self.limit);
        }
    }

    /// Whether anything was collected.
    pub(crate) fn has_any(&self) -> bool {
        self.total > 0
    }

    /// What was collected.
    pub(crate) fn finish(mut self) -> Capture {
        self.tail.drain(..self.tail.len().saturating_sub(self.limit));
        let left_out = self.total - self.head.len() as u64 - self.tail.len() as u64;
        if left_out == 0 {
            self.head.append(&mut self.tail);
        }
        Capture { head: self.head, tail: self.tail, left_out }
    }
}

/// The file that keeps a command's whole output, made when the first byte comes.
///
/// It lies in a folder that commands may write to, so no link on the way to it is followed.
#[derive(Debug)]
pub(crate) struct Keeper {
    tmp: PathBuf,
    relative: PathBuf,
    file: Option<File>,
    room: u64,
}

impl Keeper {
    /// Keeps what the command wants kept, in the session's /tmp, which is `tmp` on the host.
    ///
    /// # Errors
    /// When it wants it at anything but a plain path beneath /tmp.
    pub(crate) fn for_command(
        command: &CommandSpec,
        tmp: &Path,
        limits: ProcessLimits,
    ) -> Result<Option<Self>, SandboxProblem> {
        let Some(path) = &command.keep_output else { return Ok(None) };
        let keeper = Self::new(tmp, path, limits.kept_output_bytes).map_err(|_| {
            SandboxProblem(format!("Output cannot be kept at `{path}`: it is not a plain path beneath /tmp."))
        })?;
        Ok(Some(keeper))
    }

    fn new(tmp: &Path, path: &str, limit: u64) -> io::Result<Self> {
        let relative = Path::new(path).strip_prefix("/tmp").map_err(|_| io::ErrorKind::InvalidInput)?;
        let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
        if !plain || relative.file_name().is_none() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Self { tmp: tmp.to_owned(), relative: relative.to_owned(), file: None, room: limit })
    }

    /// Writes the next bytes. After a failure, a full disk say, nothing more is kept.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(usize::try_from(self.room).unwrap_or(usize::MAX))];
        if bytes.is_empty() {
            return;
        }
        self.room -= bytes.len() as u64;
        if self.write(bytes).is_err() {
            self.room = 0;
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            let (folder, name) = open_folder_of(&self.tmp, &self.relative)?;
            remove(&folder, name);
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            self.file = Some(File::from(rustix::fs::openat(&folder, name, flags, Mode::from_raw_mode(0o600))?));
        }
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(bytes))
    }
}

/// Opens the folder that is to hold `relative` beneath `base`, making what is missing, and the last component.
///
/// Whatever stands in the way of a folder, a link above all, is removed.
pub(crate) fn open_folder_of<'a>(base: &Path, relative: &'a Path) -> io::Result<(OwnedFd, &'a std::ffi::OsStr)> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut folder = rustix::fs::open(base, flags, Mode::empty())?;
    for part in relative.parent().into_iter().flat_map(Path::components) {
        let name = part.as_os_str();
        folder = match rustix::fs::openat(&folder, name, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                remove(&folder, name);
                rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o700))?;
                rustix::fs::openat(&folder, name, flags, Mode::empty())?
            }
            opened => opened?,
        };
    }
    let name = relative.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok((folder, name))
}

fn remove(folder: &OwnedFd, name: &std::ffi::OsStr) {
    // Usually there is nothing to remove; what cannot be removed shows when the name is made.
    let _ = rustix::fs::unlinkat(folder, name, AtFlags::empty());
}
