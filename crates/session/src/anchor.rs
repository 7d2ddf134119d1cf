//! The anchor: place and hash of the last record known to be on disk, in a file of its own.
//!
//! A chain alone cannot show that its end is missing. The anchor is written after the log's `fdatasync` returned, so
//! that it is never ahead of the log, and is not synced itself: after a power cut it may be behind, which costs only
//! the notice of a cut tail, and saves a second sync in every turn.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use hames_protocol::Seq;

use crate::line::Sha;

/// What the anchor says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Anchor {
    pub(crate) seq: Seq,
    pub(crate) hash: Sha,
}

/// What the anchor's file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchored {
    /// Nothing: no record was ever synced, or the file is lost.
    Nothing,
    /// This.
    At(Anchor),
    /// Something that is not an anchor.
    Damaged,
}

impl Anchored {
    /// Reads the anchor beside a log.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let text = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Self::Nothing),
            Err(cause) => return Err(cause),
        };
        if text.is_empty() {
            return Ok(Self::Nothing);
        }
        Ok(str::from_utf8(&text).ok().and_then(parse).map_or(Self::Damaged, Self::At))
    }

    pub(crate) fn anchor(self) -> Option<Anchor> {
        match self {
            Self::At(anchor) => Some(anchor),
            Self::Nothing | Self::Damaged => None,
        }
    }
}

fn parse(text: &str) -> Option<Anchor> {
    let (seq, hash) = text.strip_suffix('\n')?.split_once(' ')?;
    Some(Anchor { seq: Seq(seq.parse().ok()?), hash: Sha::parse(hash)? })
}

impl Anchor {
    /// Overwrites the file: always 86 bytes at its start in one write, so that a kill leaves the old or the new.
    pub(crate) fn write(&self, file: &File) -> io::Result<()> {
        file.write_all_at(format!("{:020} {}\n", self.seq.0, self.hash).as_bytes(), 0)
    }
}
