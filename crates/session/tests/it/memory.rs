//! The journal and the blobs in memory.

use hames_protocol::port::{Blobs, Journal};
use hames_protocol::*;
use hames_session::{Loss, Memory, MemoryBlobs};
use serde_json::Value;

use crate::{ended, now, reply};

#[test]
fn records_are_numbered_as_on_disk_and_clones_look_on() {
    let mut journal = Memory::new();
    let watched = journal.clone();
    let first = journal.append(7, ended(1, Value::Null)).unwrap();
    let second = journal.append(8, reply("{ \"a\":\n1 }")).unwrap();
    assert_eq!((first.seq, first.tick, first.epoch), (Seq(1), 7, Epoch(1)));
    assert_eq!(watched.records(), [first, second.clone()]);
    assert!(serde_json::to_string(&second).unwrap().contains("{ \"a\": 1 }"), "written as the log would");
    assert_eq!(watched.synced(), Seq(0));
    now(journal.sync()).unwrap();
    assert_eq!(watched.synced(), Seq(2));
}

#[test]
fn a_fault_falls_on_the_append_and_the_sync_it_was_ordered_for_and_passes() {
    let mut journal = Memory::new();
    journal.fail_append(2);
    journal.fail_sync(1);
    journal.append(0, ended(1, Value::Null)).unwrap();
    assert!(journal.append(0, ended(2, Value::Null)).is_err());
    assert!(now(journal.sync()).is_err());
    assert_eq!(journal.synced(), Seq(0));
    assert_eq!(journal.append(0, ended(2, Value::Null)).unwrap().seq, Seq(2));
    now(journal.sync()).unwrap();
    assert_eq!((journal.records().len(), journal.synced()), (2, Seq(2)));
}

#[test]
fn a_reopened_log_has_lost_what_the_crash_took() {
    let mut journal = Memory::new();
    journal.append(0, ended(1, Value::Null)).unwrap();
    now(journal.sync()).unwrap();
    journal.append(0, ended(2, Value::Null)).unwrap();
    let (mut killed, records) = journal.reopened(Loss::Nothing);
    assert_eq!(records.len(), 2);
    let record = killed.append(0, ended(3, Value::Null)).unwrap();
    assert_eq!((record.seq, record.epoch), (Seq(3), Epoch(2)));
    let (mut cut, records) = journal.reopened(Loss::Unsynced);
    assert_eq!(records.len(), 1);
    assert_eq!(cut.append(0, ended(2, Value::Null)).unwrap().seq, Seq(2));
    assert_eq!(journal.records().len(), 2, "the first goes on undisturbed");
}

#[test]
fn blobs_in_memory_are_found_by_their_digest() {
    let blobs = MemoryBlobs::new();
    let digest = blobs.put(b"bytes").unwrap();
    assert_eq!(blobs.clone().get(&digest).unwrap(), b"bytes");
    assert!(blobs.get(&Digest::of("missing")).is_err());
    assert!(blobs.path(&digest).unwrap_err().to_string().contains("no path"));
}
