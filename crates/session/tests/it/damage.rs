//! A log that was changed behind the session's back: found, named, and survived.

use std::fs;
use std::sync::OnceLock;

use hames_protocol::port::Journal;
use hames_protocol::*;
use hames_session::{Report, StoreProblem};
use proptest::prelude::*;
use serde_json::Value;

use crate::{Place, ended, now, opened, repaired};

/// Changes the lines of a log of eight records and checks what `verify` then says.
#[track_caller]
fn check(change: impl FnOnce(&mut Vec<String>), first_bad: u64, says: &str) {
    let place = Place::in_memory();
    let id = place.written(8);
    let before = place.store().read(&id).unwrap().map(Result::unwrap).collect::<Vec<_>>();
    let mut lines = place.lines(&id);
    change(&mut lines);
    place.set_lines(&id, &lines);

    let report = place.store().verify(&id).unwrap();
    assert_eq!(report.first_bad(), Some(Seq(first_bad)), "{report}");
    assert!(report.to_string().contains(says), "{report}");

    // Opening tells the same once, keeps only records that were written, and what it tells is known from then on.
    let mut session = place.store().open(&id).unwrap();
    assert!(session.records.iter().all(|record| before.contains(record)), "{:?}", session.records);
    assert!(session.repairs.iter().any(|text| report.findings.iter().any(|finding| finding.text == *text)));
    session.journal.append(0, opened(&id, &place.workspace())).unwrap();
    for text in std::mem::take(&mut session.repairs) {
        session.journal.append(0, repaired(&text)).unwrap();
    }
    now(session.journal.sync()).unwrap();
    let records = session.records.len();
    drop(session);
    let again = place.store().open(&id).unwrap();
    assert_eq!(again.repairs, [""; 0], "told twice");
    assert!(again.records.len() > records);
    let report = place.store().verify(&id).unwrap();
    assert!(report.findings.iter().all(|finding| finding.repaired_by.is_some()), "{report}");
}

#[test]
fn an_edited_body_is_named() {
    let edit = |lines: &mut Vec<String>| lines[3] = lines[3].replace("result 4", "result 5");
    check(edit, 4, "Record 4 (line 4) has a body that does not match its digest.");
}

#[test]
fn an_edited_header_is_named() {
    let edit = |lines: &mut Vec<String>| lines[3] = lines[3].replace("\"tick\":40", "\"tick\":41");
    check(edit, 4, "Record 4 (line 4) has a header that does not match its hash.");
}

#[test]
fn an_edit_that_recomputes_the_record_s_own_hashes_is_named() {
    // A record with good hashes of its own, from a session that wrote other words.
    let forge = |lines: &mut Vec<String>| {
        let forged = Place::in_memory();
        let id = forged.written(6);
        lines[3] = forged.lines(&id)[3].clone();
    };
    check(forge, 4, "Record 4 (line 4) is not the one that record 5 was written after.");
}

#[test]
fn a_deleted_record_is_named() {
    check(|lines| drop(lines.remove(4)), 5, "Record 5 is missing.");
    check(|lines| drop(lines.drain(2..5)), 3, "Records 3 to 5 are missing.");
    check(|lines| drop(lines.remove(0)), 1, "Record 1 is missing.");
}

#[test]
fn reordered_records_are_named() {
    check(|lines| lines.swap(4, 5), 5, "Line 5 holds record 6, which does not belong there.");
}

#[test]
fn a_repeated_record_is_named() {
    check(|lines| lines.insert(6, lines[2].clone()), 3, "Line 7 holds record 3, which does not belong there.");
}

#[test]
fn a_cut_tail_is_named() {
    check(|lines| lines.truncate(5), 6, "Records 6 to 8 are missing although synced");
    check(Vec::clear, 1, "Records 1 to 8 are missing although synced");
}

#[test]
fn a_broken_line_is_named() {
    check(|lines| lines[2].truncate(100), 3, "Record 3 (line 3) is not a whole record.");
    check(|lines| lines[7] = "\0".repeat(40), 8, "Record 8 (line 8) is not a whole record.");
    check(|lines| lines.insert(2, String::new()), 3, "Line 3, before record 3, is not a whole record.");
}

#[test]
fn an_old_copy_of_the_log_is_named() {
    let place = Place::in_memory();
    let id = place.written(4);
    let old = fs::read(place.log(&id)).unwrap();
    let mut session = place.store().open(&id).unwrap();
    session.journal.append(0, ended(5, Value::Null)).unwrap();
    now(session.journal.sync()).unwrap();
    drop(session);
    fs::write(place.log(&id), old).unwrap();
    let report = place.store().verify(&id).unwrap();
    assert_eq!(report.first_bad(), Some(Seq(5)));
    assert!(report.to_string().contains("or the log is an old copy"), "{report}");
}

#[test]
fn new_damage_is_named_before_damage_that_the_log_tells_of() {
    let place = Place::in_memory();
    let id = place.written(8);
    let damage = |place: &Place, line: usize| {
        let mut lines = place.lines(&id);
        lines[line - 1] = lines[line - 1].replace("\"tick\":", "\"tick\":1");
        place.set_lines(&id, &lines);
    };
    damage(&place, 3);
    let mut session = place.store().open(&id).unwrap();
    assert_eq!(session.repairs.len(), 1);
    let text = session.repairs[0].clone();
    session.journal.append(0, repaired(&text)).unwrap();
    now(session.journal.sync()).unwrap();
    drop(session);
    assert_eq!(place.store().verify(&id).unwrap().first_bad(), Some(Seq(3)));
    damage(&place, 6);
    let report = place.store().verify(&id).unwrap();
    assert_eq!(report.first_bad(), Some(Seq(6)), "{report}");
    assert!(report.to_string().contains(&format!("{text} Record 9 tells of it.")), "{report}");
}

#[test]
fn a_bad_line_in_the_middle_stays_where_it_is_and_the_rest_is_loaded() {
    let place = Place::in_memory();
    let id = place.written(8);
    let mut lines = place.lines(&id);
    lines[4] = lines[4].replace("result", "RESULT");
    place.set_lines(&id, &lines);
    let session = place.store().open(&id).unwrap();
    let places: Vec<_> = session.records.iter().map(|record| record.seq.0).collect();
    assert_eq!(places, [1, 2, 3, 4, 6, 7, 8]);
    assert_eq!(place.lines(&id), lines, "nothing was rewritten");
    let bad: Vec<_> = place.store().read(&id).unwrap().filter_map(Result::err).map(|bad| bad.to_string()).collect();
    assert_eq!(bad, ["Line 5 has a body that does not match its digest."]);
}

#[test]
fn an_erased_body_leaves_the_chain_whole() {
    let place = Place::in_memory();
    let id = place.written(6);
    let mut lines = place.lines(&id);
    let (header, _) = lines[3].split_once("\"entry\":").unwrap();
    lines[3] = format!("{header}\"entry\":null}}");
    place.set_lines(&id, &lines);
    let report = place.store().verify(&id).unwrap();
    assert_eq!((report.first_bad(), &report.erased), (None, &vec![Seq(4)]));
    assert!(report.to_string().contains("The body of record 4 was erased."), "{report}");
    let session = place.store().open(&id).unwrap();
    assert_eq!((session.records.len(), session.repairs.len()), (5, 0));
}

#[test]
fn another_session_s_log_is_refused_and_left_alone() {
    let place = Place::in_memory();
    let (id, other) = (place.written(4), place.written(5));
    fs::copy(place.log(&other), place.log(&id)).unwrap();
    let problem = place.store().open(&id).unwrap_err();
    assert!(matches!(problem, StoreProblem::Foreign { .. }), "{problem}");
    assert!(problem.to_string().contains("copied from another session"), "{problem}");
    assert_eq!(place.store().verify(&id).unwrap().first_bad(), Some(Seq(1)));
    assert_eq!(place.lines(&id), place.lines(&other));
}

#[test]
fn a_log_of_a_newer_format_is_refused_and_left_alone() {
    let place = Place::in_memory();
    let mut session = place.create();
    let id = session.id.clone();
    let Entry::Opened(now_opened) = opened(&id, &place.workspace()) else { unreachable!() };
    let later = Opened { format: LOG_FORMAT + 1, version: "9.0.0".to_owned(), ..now_opened };
    session.journal.append(0, Entry::Opened(later)).unwrap();
    drop(session);
    let problem = place.store().open(&id).unwrap_err().to_string();
    assert!(problem.contains("format 2, written by version 9.0.0") && problem.contains("or a newer one"), "{problem}");
    assert_eq!(place.lines(&id).len(), 1);
}

#[test]
fn a_lost_or_broken_anchor_is_told() {
    let place = Place::in_memory();
    let id = place.written(4);
    let heads = place.session_folder(&id).join("heads");
    fs::write(&heads, "not an anchor").unwrap();
    let report = place.store().verify(&id).unwrap();
    assert!(report.to_string().contains("The anchor `heads` is damaged"), "{report}");
    fs::remove_file(&heads).unwrap();
    let report = place.store().verify(&id).unwrap();
    assert!(report.to_string().contains("There is no anchor, so that a cut end would not show."), "{report}");
    assert_eq!(report.first_bad(), None);
}

#[test]
fn a_log_cut_at_any_byte_opens_with_the_records_before_the_cut() {
    let place = Place::in_memory();
    let id = place.written(3);
    let whole = fs::read(place.log(&id)).unwrap();
    let records: Vec<_> = place.store().read(&id).unwrap().map(Result::unwrap).collect();
    for cut in 0..whole.len() {
        fs::write(place.log(&id), &whole[..cut]).unwrap();
        let kept = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
        let report = place.store().verify(&id).unwrap();
        assert_eq!(report.first_bad(), Some(Seq(kept as u64 + 1)), "cut at {cut}: {report}");
        let mut session = place.store().open(&id).unwrap();
        assert_eq!(session.records, records[..kept], "cut at {cut}");
        assert!(session.repairs.iter().any(|text| text.contains("missing although synced")), "cut at {cut}");
        let next = session.journal.append(0, ended(9, Value::Null)).unwrap();
        assert_eq!(next.seq, Seq(kept as u64 + 1));
        let _ = fs::remove_dir_all(session.folder.join("quarantine"));
    }
}

/// A good log of twelve records, made once.
fn good() -> &'static (Place, SessionId, Vec<u8>, Vec<Record>) {
    static GOOD: OnceLock<(Place, SessionId, Vec<u8>, Vec<Record>)> = OnceLock::new();
    GOOD.get_or_init(|| {
        let place = Place::in_memory();
        let id = place.written(12);
        let log = fs::read(place.log(&id)).unwrap();
        let records = place.store().read(&id).unwrap().map(Result::unwrap).collect();
        (place, id, log, records)
    })
}

/// A copy of the good log's session, with other bytes in its log.
fn with_log(bytes: &[u8]) -> (Place, SessionId) {
    let (good, id, _, _) = good();
    let place = Place::in_memory();
    let from = good.session_folder(id);
    let to = place.root().join("shop-0").join(id.as_str());
    fs::create_dir_all(&to).unwrap();
    fs::copy(from.join("heads"), to.join("heads")).unwrap();
    fs::write(to.join("log.jsonl"), bytes).unwrap();
    (place, id.clone())
}

fn verified(place: &Place, id: &SessionId) -> Report {
    let report = place.store().verify(id).unwrap();
    assert!(!report.to_string().is_empty());
    report
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_bytes_never_pass_for_a_record(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let (_, _, log, records) = good();
        let mut bytes = log.clone();
        for (index, byte) in changes {
            *index.get_mut(&mut bytes) = byte;
        }
        let (place, id) = with_log(&bytes);
        let report = verified(&place, &id);
        prop_assert!(bytes == *log || report.first_bad().is_some() || report.unfinished_bytes > 0);
        for record in place.store().read(&id).unwrap().flatten() {
            prop_assert!(records.contains(&record));
        }
        match place.store().open(&id) {
            Ok(session) => prop_assert!(session.records.iter().all(|record| records.contains(record))),
            Err(problem) => prop_assert!(false, "{problem}"),
        }
        place.store().list(None).unwrap();
    }

    #[test]
    fn moved_dropped_and_repeated_lines_are_always_found(picks in prop::collection::vec(0_usize..12, 0..16)) {
        let (_, _, log, records) = good();
        let lines: Vec<&[u8]> = log.split_inclusive(|byte| *byte == b'\n').collect();
        let bytes: Vec<u8> = picks.iter().flat_map(|pick| lines[*pick]).copied().collect();
        let (place, id) = with_log(&bytes);
        prop_assert_eq!(verified(&place, &id).first_bad().is_none(), bytes == *log);
        let session = place.store().open(&id).unwrap();
        prop_assert!(session.records.is_sorted_by(|a, b| a.seq < b.seq));
        prop_assert!(session.records.iter().all(|record| records.contains(record)));
    }

    #[test]
    fn any_bytes_at_all_can_be_opened(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let (place, id) = with_log(&bytes);
        verified(&place, &id);
        let session = place.store().open(&id).unwrap();
        prop_assert!(session.records.is_empty());
        place.store().list(None).unwrap();
    }
}
