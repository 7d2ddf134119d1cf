//! The journal in a file: one `write(2)` for each record, one `fdatasync` for each sync.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hames_protocol::port::{Journal, JournalProblem};
use hames_protocol::{BoxFuture, Entry, Epoch, Record, Seq};

use crate::anchor::Anchor;
use crate::audit::Link;
use crate::disk::{refusal, sync_folder};
use crate::line::{Header, Sha, write_body, write_line};
use crate::lock::{Lock, now_ms};

/// The log of one session on disk. Holds the session's lock until it is dropped.
///
/// An append that fails leaves the log as it was, and the next may succeed: a full disk costs no more than what could
/// not be written. A sync that fails is final: the kernel drops what it could not write and reports it once, so that a
/// later success would prove nothing. Opening the session again finds what really is on disk.
///
/// A process with a file size limit (RLIMIT_FSIZE) must ignore SIGXFSZ, or the kernel ends it before an append can fail.
#[derive(Debug)]
pub struct FileJournal {
    log: File,
    path: PathBuf,
    epoch: Epoch,
    head: Link,
    length: u64,
    /// A failed append could not be taken back: it must be before the next.
    torn: bool,
    line: Vec<u8>,
    shared: Arc<Mutex<Syncer>>,
    _lock: Lock,
}

/// What syncs share, since they run beside appends.
#[derive(Debug)]
struct Syncer {
    log: File,
    path: PathBuf,
    heads: File,
    anchored: Seq,
    /// Folders whose names the first sync makes durable.
    new_folders: Vec<PathBuf>,
    failed: Option<JournalProblem>,
}

/// The open files of a session.
pub(crate) struct Files {
    pub(crate) log: File,
    pub(crate) heads: File,
    pub(crate) lock: Lock,
}

impl FileJournal {
    /// Continues a log after the record `head`.
    pub(crate) fn new(
        files: Files,
        folder: &Path,
        (head, length, epoch): (Link, u64, Epoch),
        new_folders: Vec<PathBuf>,
    ) -> io::Result<Self> {
        let path = folder.join("log.jsonl");
        let Files { log, heads, lock } = files;
        // The first sync overwrites whatever the anchor says: what it named beyond the head is lost, and told of.
        let syncer =
            Syncer { log: log.try_clone()?, path: path.clone(), heads, anchored: Seq(0), new_folders, failed: None };
        let shared = Arc::new(Mutex::new(syncer));
        Ok(Self { log, path, epoch, head, length, torn: false, line: Vec::new(), shared, _lock: lock })
    }

    /// Writes the line whole or not at all.
    fn write(&mut self) -> io::Result<()> {
        if self.torn {
            self.log.set_len(self.length)?;
            self.torn = false;
        }
        // One call but for a short write; then the rest is tried, so that the system says what is wrong.
        if let Err(cause) = self.log.write_all(&self.line) {
            self.torn = self.log.set_len(self.length).is_err();
            return Err(cause);
        }
        self.length += self.line.len() as u64;
        Ok(())
    }
}

impl Journal for FileJournal {
    fn append(&mut self, tick: u64, entry: Entry) -> Result<Record, JournalProblem> {
        let shown = self.path.display();
        let (body, entry) = write_body(entry).map_err(|why| {
            JournalProblem(format!("An entry was not written to `{shown}`: {why}. Make it smaller and try again."))
        })?;
        let header = Header {
            seq: Seq(self.head.seq.0 + 1),
            at: now_ms(),
            tick,
            epoch: self.epoch,
            prev: self.head.hash,
            body_sha: Sha::of(&body),
        };
        let hash = header.hash();
        write_line(&header, hash, &body, &mut self.line);
        self.write().map_err(|cause| JournalProblem(not_saved(&self.path, &cause)))?;
        self.head = Link { seq: header.seq, prev: header.prev, hash };
        Ok(header.record(entry))
    }

    fn sync(&mut self) -> BoxFuture<'static, Result<(), JournalProblem>> {
        let shared = Arc::clone(&self.shared);
        let anchor = Anchor { seq: self.head.seq, hash: self.head.hash };
        Box::pin(async move {
            let sync = move || shared.lock().unwrap_or_else(PoisonError::into_inner).sync(anchor);
            match tokio::runtime::Handle::try_current() {
                Ok(runtime) => runtime.spawn_blocking(sync).await.unwrap_or_else(|cause| {
                    Err(JournalProblem(format!("The session was not saved: its sync did not run ({cause}).")))
                }),
                // Without a runtime there is nobody to be kept waiting.
                Err(_) => sync(),
            }
        })
    }
}

impl Syncer {
    fn sync(&mut self, anchor: Anchor) -> Result<(), JournalProblem> {
        if let Some(problem) = &self.failed {
            return Err(problem.clone());
        }
        if let Err(cause) = self.try_sync(anchor) {
            let problem = JournalProblem(not_saved(&self.path, &cause));
            self.failed = Some(problem.clone());
            return Err(problem);
        }
        Ok(())
    }

    fn try_sync(&mut self, anchor: Anchor) -> io::Result<()> {
        self.log.sync_data()?;
        if self.log.metadata()?.nlink() == 0 {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the log was deleted while it was in use"));
        }
        for folder in self.new_folders.drain(..) {
            sync_folder(&folder)?;
        }
        // Two syncs may end in either order.
        if anchor.seq > self.anchored {
            anchor.write(&self.heads)?;
            self.anchored = anchor.seq;
        }
        Ok(())
    }
}

fn not_saved(path: &Path, cause: &io::Error) -> String {
    format!("The session is no longer saved. {}", refusal("write", path, cause))
}
