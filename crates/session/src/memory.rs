//! A journal and blobs in memory, with faults to order: for tests, simulators and embedders.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hames_protocol::port::{Blobs, Journal, JournalProblem};
use hames_protocol::{BoxFuture, Digest, Entry, Epoch, Record, Seq};

use crate::line::write_body;
use crate::lock::now_ms;

/// A journal that keeps its records in memory, numbered as on disk.
///
/// Clones share the log, so that a test can keep one and look on. An entry goes through the same writing as on disk:
/// what cannot be written there cannot be appended here.
///
/// ```
/// use hames_protocol::port::Journal;
/// use hames_protocol::{Entry, Repaired};
/// use hames_session::{Loss, Memory};
///
/// let mut journal = Memory::new();
/// let watched = journal.clone();
/// journal.fail_append(2);
/// let entry = || Entry::Repaired(Repaired { text: "Example.".to_owned() });
/// assert!(journal.append(0, entry()).is_ok());
/// assert!(journal.append(1, entry()).is_err(), "the second append fails, as ordered");
/// assert!(journal.append(1, entry()).is_ok(), "the disk has room again");
/// assert_eq!(watched.records().len(), 2);
///
/// let (_next, records) = watched.reopened(Loss::Unsynced);
/// assert!(records.is_empty(), "nothing was synced before the power cut");
/// ```
#[derive(Debug, Clone)]
pub struct Memory {
    epoch: Epoch,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    records: Vec<Record>,
    synced: usize,
    fail_append: Option<u64>,
    fail_sync: Option<u64>,
}

/// What the end of a process takes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Nothing: the process died, the machine did not.
    Nothing,
    /// Everything that was not synced: a power cut.
    Unsynced,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// An empty log in its first epoch.
    pub fn new() -> Self {
        Self { epoch: Epoch(1), state: Arc::default() }
    }

    /// Everything appended so far.
    pub fn records(&self) -> Vec<Record> {
        self.state().records.clone()
    }

    /// The last record that was synced; 0 before the first sync.
    pub fn synced(&self) -> Seq {
        Seq(self.state().synced as u64)
    }

    /// Lets the `nth` append from now on (1 is the next) fail once, leaving the log as it is.
    pub fn fail_append(&self, nth: u64) {
        self.state().fail_append = Some(nth);
    }

    /// Lets the `nth` sync from now on (1 is the next) fail once.
    pub fn fail_sync(&self, nth: u64) {
        self.state().fail_sync = Some(nth);
    }

    /// Opens a copy of the log as the next process would find it; this one goes on undisturbed, as a killed one would
    /// not.
    pub fn reopened(&self, loss: Loss) -> (Self, Vec<Record>) {
        let state = self.state();
        let kept = match loss {
            Loss::Nothing => state.records.len(),
            Loss::Unsynced => state.synced,
        };
        let records: Vec<Record> = state.records.iter().take(kept).cloned().collect();
        let next = State { records: records.clone(), synced: kept, ..State::default() };
        (Self { epoch: Epoch(self.epoch.0 + 1), state: Arc::new(Mutex::new(next)) }, records)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a fault down; says whether it is due now.
fn due(fault: &mut Option<u64>) -> bool {
    match fault {
        Some(0 | 1) => {
            *fault = None;
            true
        }
        Some(left) => {
            *left -= 1;
            false
        }
        None => false,
    }
}

impl Journal for Memory {
    fn append(&mut self, tick: u64, entry: Entry) -> Result<Record, JournalProblem> {
        let mut state = self.state();
        if due(&mut state.fail_append) {
            return Err(JournalProblem("The session is no longer saved. The append was made to fail.".to_owned()));
        }
        let (_, entry) =
            write_body(entry).map_err(|why| JournalProblem(format!("An entry was not appended: {why}.")))?;
        let seq = Seq(state.records.len() as u64 + 1);
        let record = Record { seq, at: now_ms(), tick, epoch: self.epoch, entry };
        state.records.push(record.clone());
        Ok(record)
    }

    fn sync(&mut self) -> BoxFuture<'static, Result<(), JournalProblem>> {
        let shared = Arc::clone(&self.state);
        let upto = self.state().records.len();
        Box::pin(async move {
            let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
            if due(&mut state.fail_sync) {
                return Err(JournalProblem("The session is no longer saved. The sync was made to fail.".to_owned()));
            }
            state.synced = state.synced.max(upto);
            Ok(())
        })
    }
}

/// Blobs in memory. They have no path on the host, so that `path` always fails.
#[derive(Debug, Clone, Default)]
pub struct MemoryBlobs {
    blobs: Arc<Mutex<HashMap<Digest, Vec<u8>>>>,
}

impl MemoryBlobs {
    /// No blobs yet.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Blobs for MemoryBlobs {
    fn put(&self, bytes: &[u8]) -> io::Result<Digest> {
        let digest = Digest::of(bytes);
        let mut blobs = self.blobs.lock().unwrap_or_else(PoisonError::into_inner);
        blobs.entry(digest.clone()).or_insert_with(|| bytes.to_vec());
        Ok(digest)
    }

    fn get(&self, digest: &Digest) -> io::Result<Vec<u8>> {
        let blobs = self.blobs.lock().unwrap_or_else(PoisonError::into_inner);
        blobs.get(digest).cloned().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("No blob {digest}.")))
    }

    fn path(&self, _: &Digest) -> io::Result<PathBuf> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "Blobs in memory have no path; keep them in a folder instead."))
    }
}
