//! The journal: where a session's entries become durable, and where they are found again.
//!
//! Licence of this crate: the trust boundary of promise P8. Nothing acknowledged is lost: not by `kill -9` at any
//! instant, a torn last line, a full disk, or two processes on one session; and what was changed behind its back shows.
//!
//! # Where things lie
//!
//! ```text
//! <root>/                          given to Store::new; $XDG_STATE_HOME/hames/sessions in the binary
//!   <workspace key>/               the folder's name and a digest of its real path: `shop-1f3a9c0b7d2e`
//!     <session id>/                a UUID version 7
//!       log.jsonl                  the log: one record a line, appended only
//!       heads                      the anchor: place and hash of the last record known to be on disk
//!       lock                       held (flock) by the one writer, and names it; never unlinked
//!       blobs/ab/abcd…             large bytes by their SHA-256, written once
//!       quarantine/                torn tails that were cut from the log
//!       private/                   the sandbox's private folders; this crate only makes it
//! ```
//!
//! Folders have mode 0700, files 0600.
//!
//! # The log
//!
//! A line is one JSON object without a line feed inside; its fields, in this order:
//!
//! | field | meaning |
//! |---|---|
//! | `seq` | the record's place, from 1, without gaps |
//! | `at` | wall-clock time, milliseconds since 1970 |
//! | `tick` | active time of the session, milliseconds |
//! | `epoch` | how often the session had been opened for writing |
//! | `prev` | `hash` of the record before in file order; for the first, SHA-256 of `hames-log-1`, LF, the session's id, LF |
//! | `body_sha` | SHA-256 of the bytes of `entry` as they stand in the line |
//! | `hash` | SHA-256 of `hames-record-1` and of `seq`, `at`, `tick`, `epoch` (decimal), `prev` and `body_sha` (hexadecimal), each followed by LF |
//! | `entry` | the entry; `null` when its body was erased |
//!
//! The hash covers the body only by its digest, so that a body can be erased and the chain still holds. The first
//! record is an `opened` entry with the format's number and the session's id.
//!
//! # What is done about damage
//!
//! Opening a log never rewrites a record. What follows the last good record is cut, and kept in `quarantine/`. A bad
//! line before a good one stays where it is and is skipped, now and by every later reader. Either way the opener gets a
//! sentence to write as a `repaired` entry, so that `verify` can tell damage that the session already knows from damage
//! that is new. Nobody holds a key, so someone who can write the folder can forge a whole new history; what the chain
//! and the anchor show is an edit, a lost, moved or repeated record, a cut tail, and an old copy of the log.

mod anchor;
mod audit;
mod blob;
mod boot;
mod disk;
mod journal;
mod line;
mod load;
mod lock;
mod memory;
mod problem;
mod reader;
mod store;
mod summary;
mod verify;

pub use blob::FolderBlobs;
pub use boot::boot;
pub use journal::FileJournal;
pub use lock::Owner;
pub use memory::{Loss, Memory, MemoryBlobs};
pub use problem::StoreProblem;
pub use reader::{BadLine, Records};
pub use store::{OpenSession, Store};
pub use summary::Summary;
pub use verify::{Finding, Report};
