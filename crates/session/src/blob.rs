//! Large bytes beside the log, by their digest.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use hames_protocol::Digest;
use hames_protocol::port::Blobs;
use uuid::Uuid;

use crate::disk::{private_file, sync_folder};

/// Blobs as files: `ab/abcd…` beneath a folder, each written beside its place and renamed into it.
///
/// Bytes that are there already are not written again, so that disk use grows with what happened. May be used by
/// several threads and processes at once.
#[derive(Debug, Clone)]
pub struct FolderBlobs {
    folder: PathBuf,
}

impl FolderBlobs {
    /// Keeps blobs in `folder`, which is made with the first of them.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Where the bytes of a digest lie. A digest may come from a damaged log: only a well-formed one becomes a path.
    fn place(&self, digest: &Digest) -> io::Result<PathBuf> {
        let text = digest.as_str();
        let well_formed = text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        match text.get(..2) {
            Some(first) if well_formed => Ok(self.folder.join(first).join(text)),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "The name of a blob is not a SHA-256 digest.")),
        }
    }
}

impl Blobs for FolderBlobs {
    fn put(&self, bytes: &[u8]) -> io::Result<Digest> {
        let digest = Digest::of(bytes);
        let place = self.place(&digest)?;
        if fs::read(&place).is_ok_and(|there| there == bytes) {
            return Ok(digest);
        }
        let folder = place.parent().unwrap_or(&self.folder);
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let beside = folder.join(format!("new-{}", Uuid::now_v7()));
        let written = write(&beside, bytes).and_then(|file| fs::rename(&beside, &place).map(|()| file));
        let file = written.inspect_err(|_| {
            // Nothing names the file beside; one that cannot be removed only takes up room.
            let _ = fs::remove_file(&beside);
        })?;
        // Synced after the rename, so that the file system can put all of it into one transaction: the two folders then
        // cost next to nothing. A power cut before that may leave the name without its bytes; `get` never gives those
        // out, and the next `put` heals them.
        file.sync_all()?;
        sync_folder(folder)?;
        sync_folder(&self.folder)?;
        Ok(digest)
    }

    fn get(&self, digest: &Digest) -> io::Result<Vec<u8>> {
        let place = self.path(digest)?;
        let bytes = fs::read(&place)?;
        if Digest::of(&bytes) != *digest {
            let text = format!("`{}` is damaged: its bytes are not those that were kept.", place.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(bytes)
    }

    fn path(&self, digest: &Digest) -> io::Result<PathBuf> {
        let place = self.place(digest)?;
        match fs::symlink_metadata(&place) {
            Ok(metadata) if metadata.is_file() => Ok(place),
            Ok(_) => {
                Err(io::Error::new(io::ErrorKind::InvalidData, format!("`{}` is not a regular file.", place.display())))
            }
            Err(cause) => Err(cause),
        }
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let mut file = private_file().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    Ok(file)
}
