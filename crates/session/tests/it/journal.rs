//! Appending, syncing, and finding the same records again.

use std::os::unix::fs::PermissionsExt;

use hames_protocol::port::Journal;
use hames_protocol::*;
use serde_json::{Value, json};

use crate::{Place, ended, now, opened, reply, write};

#[test]
fn what_was_appended_is_found_again_as_it_was_returned() {
    let place = Place::new();
    let mut session = place.create();
    let entries = [
        opened(&session.id, &place.workspace()),
        reply(r#"{"type":"thinking",  "signature":"a\/b\u00e9+=","n":1.0e5}"#),
        ended(3, json!({"third": 1.0 / 3.0, "tiny": 2.225_073_858_507_201e-308, "text": "a\nb\u{2028}\0"})),
    ];
    let appended: Vec<_> =
        (1..).zip(entries).map(|(tick, entry)| session.journal.append(tick, entry).unwrap()).collect();
    let id = session.id.clone();
    drop(session);

    let again = place.store().open(&id).unwrap();
    assert_eq!(again.records, appended);
    assert_eq!(again.repairs, [""; 0]);
    assert_eq!(again.workspace(), Some(place.workspace().as_path()));
    let streamed: Vec<_> = place.store().read(&id).unwrap().map(Result::unwrap).collect();
    assert_eq!(streamed, appended);
    assert_eq!(appended.iter().map(|record| (record.seq.0, record.tick)).collect::<Vec<_>>(), [(1, 1), (2, 2), (3, 3)]);
}

#[test]
fn a_provider_s_json_with_line_feeds_stays_on_one_line() {
    let place = Place::new();
    let mut session = place.create();
    session.journal.append(1, opened(&session.id, &place.workspace())).unwrap();
    let returned = session.journal.append(2, reply("{\n  \"type\":\r\n \"x\\ny\"\n}")).unwrap();
    let id = session.id.clone();
    drop(session);

    assert_eq!(place.lines(&id).len(), 2);
    let again = place.store().open(&id).unwrap();
    assert_eq!(again.records[1], returned);
    assert!(place.lines(&id)[1].contains("{   \"type\":\r  \"x\\ny\" }"), "{}", place.lines(&id)[1]);
}

#[test]
fn arguments_as_deep_as_a_parser_allows_are_read_back() {
    let place = Place::new();
    let mut session = place.create();
    session.journal.append(1, opened(&session.id, &place.workspace())).unwrap();
    // serde_json reads 127 levels; the record adds its own.
    let deep = (0..126).fold(Value::Null, |inner, _| json!([inner]));
    let returned = session.journal.append(2, ended(2, deep)).unwrap();
    let id = session.id.clone();
    drop(session);
    assert_eq!(place.store().open(&id).unwrap().records[1], returned);
}

#[test]
fn an_entry_that_could_not_be_read_back_is_refused_and_leaves_no_trace() {
    let place = Place::new();
    let mut session = place.create();
    session.journal.append(1, opened(&session.id, &place.workspace())).unwrap();
    let deep = (0..400).fold(Value::Null, |inner, _| json!([inner]));
    let problem = session.journal.append(2, ended(2, deep)).unwrap_err().to_string();
    assert!(problem.contains("log.jsonl") && problem.contains("nests deeper"), "{problem}");
    assert_eq!(session.journal.append(2, ended(2, Value::Null)).unwrap().seq, Seq(2));
    let id = session.id.clone();
    drop(session);
    assert_eq!(place.store().verify(&id).unwrap().first_bad(), None);
}

#[test]
fn each_opening_begins_an_epoch_and_continues_the_chain() {
    let place = Place::new();
    let id = place.written(4);
    for epoch in 2..=4 {
        let mut session = place.store().open(&id).unwrap();
        assert_eq!(session.epoch, Epoch(epoch));
        let record = session.journal.append(0, opened(&id, &place.workspace())).unwrap();
        assert_eq!((record.epoch, record.seq), (Epoch(epoch), Seq(u64::from(epoch) + 3)));
        now(session.journal.sync()).unwrap();
    }
    let report = place.store().verify(&id).unwrap();
    assert_eq!((report.first_bad(), report.records, report.anchored), (None, 7, Some(Seq(7))));
    assert!(report.to_string().contains("is intact: 7 records"), "{report}");
}

#[test]
fn folders_and_files_are_private_whatever_the_umask_says() {
    let place = Place::new();
    let id = place.written(3);
    let folder = place.session_folder(&id);
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place.root()), 0o700);
    for name in ["", "blobs", "private"] {
        assert_eq!(mode(&folder.join(name)), 0o700, "{name}");
    }
    for name in ["log.jsonl", "heads", "lock"] {
        assert_eq!(mode(&folder.join(name)), 0o600, "{name}");
    }
}

#[test]
fn the_anchor_stands_at_the_last_sync_whichever_sync_ends_last() {
    let place = Place::new();
    let mut session = place.create();
    let id = session.id.clone();
    session.journal.append(1, opened(&id, &place.workspace())).unwrap();
    let first = session.journal.sync();
    session.journal.append(2, ended(2, Value::Null)).unwrap();
    let second = session.journal.sync();
    session.journal.append(3, ended(3, Value::Null)).unwrap();
    now(second).unwrap();
    now(first).unwrap();
    assert_eq!(place.store().verify(&id).unwrap().anchored, Some(Seq(2)));
}

#[test]
fn a_sync_runs_beside_the_async_thread_where_there_is_one() {
    let place = Place::new();
    let mut session = place.create();
    write(&mut session, 3);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    session.journal.append(9, ended(4, Value::Null)).unwrap();
    let sync = session.journal.sync();
    runtime.block_on(async {
        let (mut sync, mut polls) = (sync, 0);
        std::future::poll_fn(|context| {
            polls += 1;
            sync.as_mut().poll(context)
        })
        .await
        .unwrap();
        assert!(polls > 1, "the sync was done on the async thread");
    });
    assert_eq!(place.store().verify(&session.id).unwrap().anchored, Some(Seq(4)));
}

#[test]
fn a_log_that_is_deleted_in_use_fails_the_next_sync() {
    let place = Place::new();
    let mut session = place.create();
    write(&mut session, 3);
    std::fs::remove_file(place.log(&session.id)).unwrap();
    session.journal.append(9, ended(4, Value::Null)).unwrap();
    let problem = now(session.journal.sync()).unwrap_err().to_string();
    assert!(problem.contains("no longer saved") && problem.contains("deleted"), "{problem}");
}

#[test]
fn a_failed_sync_is_final_until_the_session_is_opened_again() {
    let place = Place::new();
    let mut session = place.create();
    let id = session.id.clone();
    session.journal.append(1, opened(&id, &place.workspace())).unwrap();
    // The first sync makes the new folders durable, and does not find them.
    let away = place.folder.path().join("away");
    std::fs::rename(place.root(), &away).unwrap();
    let problem = now(session.journal.sync()).unwrap_err();
    std::fs::rename(&away, place.root()).unwrap();
    assert_eq!(now(session.journal.sync()).unwrap_err(), problem, "a later success would prove nothing");
    drop(session);
    let mut session = place.store().open(&id).unwrap();
    assert_eq!(session.records.len(), 1);
    now(session.journal.sync()).unwrap();
}

#[test]
fn the_boot_has_one_name() {
    let once = hames_session::boot();
    assert_eq!(once, hames_session::boot());
    assert!(!once.as_str().is_empty());
}
