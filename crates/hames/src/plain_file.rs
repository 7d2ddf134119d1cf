//! Reads a plain file beneath a folder, where the folder's content is not trusted.
//!
//! A repository may hold a link that leads out of it, a pipe that never ends, or a file larger than memory under any
//! name that is looked for.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// What a path beneath a folder turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlainFile {
    /// There is nothing.
    Absent,
    /// A plain file.
    Read {
        /// All of it.
        bytes: Vec<u8>,
        /// Device and inode: the same file under two names has them in common.
        identity: (u64, u64),
    },
    /// A plain file of more than the limit; this is its size in bytes.
    TooLarge(u64),
    /// Something that is not read, for this reason: a clause without a full stop.
    Refused(String),
}

/// Reads the plain file at `path` beneath `folder`, of at most `limit` bytes.
///
/// Links are followed as long as they stay beneath the folder; what is no plain file is never waited for.
pub fn read_beneath(folder: &Path, path: &Path, limit: usize) -> PlainFile {
    let root = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let opened = rustix::fs::open(folder, root, Mode::empty())
        .and_then(|root| rustix::fs::openat2(root, path, flags, Mode::empty(), beneath));
    match opened {
        Ok(descriptor) => read(File::from(descriptor), limit)
            .unwrap_or_else(|error| PlainFile::Refused(format!("it cannot be read ({error})"))),
        Err(Errno::NOENT | Errno::NOTDIR) => PlainFile::Absent,
        Err(Errno::XDEV) => PlainFile::Refused("it is a link that leads out of the repository".to_owned()),
        Err(Errno::LOOP) => PlainFile::Refused("it is a link that leads to itself".to_owned()),
        // What open(2) says of a socket.
        Err(Errno::NXIO) => PlainFile::Refused("it is no plain file".to_owned()),
        Err(error) => PlainFile::Refused(format!("it cannot be opened ({error})")),
    }
}

fn read(file: File, limit: usize) -> std::io::Result<PlainFile> {
    use std::os::unix::fs::MetadataExt;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(PlainFile::Refused("it is no plain file".to_owned()));
    }
    let limit = limit as u64;
    let mut bytes = Vec::new();
    // One byte more shows that the file grew since its size was asked for.
    (&file).take(limit + 1).read_to_end(&mut bytes)?;
    if metadata.len() > limit || bytes.len() as u64 > limit {
        return Ok(PlainFile::TooLarge(metadata.len().max(bytes.len() as u64)));
    }
    Ok(PlainFile::Read { bytes, identity: (metadata.dev(), metadata.ino()) })
}
