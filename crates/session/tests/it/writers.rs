//! Several processes, some of them killed.

use std::sync::atomic::{AtomicBool, Ordering};

use hames_protocol::port::Journal;
use hames_protocol::*;
use hames_session::StoreProblem;

use crate::child::{Order, Other};
use crate::{Place, ended, now, opened, repaired, write};

#[test]
fn a_session_that_another_process_has_open_is_refused_naming_that_process() {
    let place = Place::new();
    let mut other = Other::start(&Order { stay: true, ..Order::new(place.root()) });
    let id = other.session();
    assert_eq!(other.says().as_deref(), Some("end"));
    let problem = place.store().open(&id).unwrap_err();
    let StoreProblem::Busy { owner, .. } = &problem else { panic!("{problem}") };
    assert_eq!(owner.pid, Some(other.pid()));
    let text = problem.to_string();
    assert!(text.contains(&format!("is open in process {} (", other.pid())), "{text}");
    assert!(text.contains("the_other_process") && text.contains(", since 20") && text.contains(" UTC"), "{text}");

    other.kill();
    assert_eq!(place.store().open(&id).unwrap().epoch, Epoch(2), "the lock of a killed process is free at once");
}

#[test]
fn a_session_is_open_once_within_a_process_too() {
    let place = Place::new();
    let session = place.create();
    let id = session.id.clone();
    assert!(matches!(place.store().open(&id), Err(StoreProblem::Busy { .. })));
    drop(session);
    assert!(place.store().open(&id).is_ok());
}

#[test]
fn a_lock_held_by_a_program_that_does_not_sign_it_is_respected() {
    let place = Place::new();
    let id = place.written(3);
    let lock = place.session_folder(&id).join("lock");
    std::fs::write(&lock, "").unwrap();
    let mut holder = std::process::Command::new("flock")
        .args([lock.as_os_str(), "sh".as_ref(), "-c".as_ref(), "echo held; read _".as_ref()])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut held = [0; 4];
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut held).unwrap();
    let problem = place.store().open(&id).unwrap_err().to_string();
    assert!(problem.contains("is open in another process"), "{problem}");
    drop(holder.stdin.take());
    holder.wait().unwrap();
}

#[test]
fn what_is_left_of_a_killed_owner_is_waited_for() {
    let place = Place::new();
    let id = place.written(3);
    let lock = place.session_folder(&id).join("lock");
    // No process has this number; a child of that owner still shares the lock.
    std::fs::write(&lock, r#"{"pid":2147483647,"command":"hames run","since":0}"#).unwrap();
    let mut left = std::process::Command::new("flock")
        .args([lock.as_os_str(), "sh".as_ref(), "-c".as_ref(), "echo held; sleep 0.3".as_ref()])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut held = [0; 4];
    std::io::Read::read_exact(left.stdout.as_mut().unwrap(), &mut held).unwrap();
    assert!(place.store().open(&id).is_ok());
    left.wait().unwrap();
}

#[test]
fn a_command_started_by_the_owner_does_not_keep_the_session_locked() {
    let place = Place::new();
    let session = place.create();
    let id = session.id.clone();
    let mut command = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    drop(session);
    let again = place.store().open(&id);
    command.kill().unwrap();
    command.wait().unwrap();
    assert!(again.is_ok());
}

#[test]
fn what_a_killed_writer_had_synced_is_there_wherever_it_was_killed() {
    let place = Place::new();
    let mut id: Option<SessionId> = None;
    let mut synced = 0;
    for round in 0..6 {
        let open = id.as_ref().map(|id| id.as_str().to_owned());
        let order = Order { open, records: 1_000_000, bytes: 3_000, ..Order::new(place.root()) };
        let mut other = Other::start(&order);
        let session = other.session();
        for _ in 0..round * 3 + 1 {
            let said = other.says().unwrap();
            synced = said.strip_prefix("synced ").unwrap_or_else(|| panic!("{said}")).parse().unwrap();
        }
        // What the writer said after that was never read: the kill falls at an instant that nobody chose.
        other.kill();
        let report = place.store().verify(&session).unwrap();
        assert_eq!(report.first_bad(), None, "{report}");
        assert!(report.records >= synced, "{} records, {synced} synced", report.records);
        id = Some(session);
    }
    let session = place.store().open(&id.unwrap()).unwrap();
    assert_eq!(session.epoch, Epoch(7));
    let places: Vec<u64> = session.records.iter().map(|record| record.seq.0).collect();
    assert_eq!(places, (1..=places.len() as u64).collect::<Vec<_>>());
}

#[test]
fn eight_processes_share_a_store_while_two_are_killed_and_two_want_the_same_session() {
    let place = Place::new();
    let contended = place.written(3);
    let order = |records| Order { records, ..Order::new(place.root()) };
    let mut others: Vec<Other> = (0..6).map(|_| Other::start(&order(50))).collect();
    let same = Order { open: Some(contended.as_str().to_owned()), stay: true, ..order(50) };
    let mut rivals = [Other::start(&same), Other::start(&same)];
    let ids: Vec<SessionId> = others.iter_mut().map(Other::session).collect();

    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // A reader looks on all the while, and never sees half of anything.
        let reader = scope.spawn(|| {
            let mut looks = 0;
            while !done.load(Ordering::Relaxed) || looks == 0 {
                for summary in place.store().list(None).unwrap() {
                    assert!(summary.workspace.is_some() && summary.started > 0, "{summary:?}");
                    for record in place.store().read(&summary.id).unwrap() {
                        record.unwrap();
                    }
                }
                looks += 1;
            }
        });
        others[0].kill();
        assert_eq!(others[1].says().as_deref(), Some("synced 2"));
        others[1].kill();
        for other in &mut others[2..] {
            let said = other.rest();
            assert_eq!((said.len(), said.last().unwrap().as_str()), (51, "end"));
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });

    let said = [rivals[0].says().unwrap(), rivals[1].says().unwrap()];
    let (winner, loser) = if said[0].starts_with("open") { (0, 1) } else { (1, 0) };
    assert!(said[winner].starts_with("open "), "{said:?}");
    assert!(said[loser].contains(&format!("is open in process {}", rivals[winner].pid())), "{said:?}");
    while rivals[winner].says().is_some_and(|said| said != "end") {}
    assert_eq!(place.store().verify(&contended).unwrap().records, 3 + 1 + 50, "each record exists once");
    for id in &ids[2..] {
        let report = place.store().verify(id).unwrap();
        assert_eq!((report.first_bad(), report.records), (None, 51));
    }
}

#[test]
fn a_torn_line_of_a_killed_writer_is_cut_kept_and_told_once() {
    let place = Place::new();
    let id = place.written(4);
    let log = std::fs::read(place.log(&id)).unwrap();
    let torn = [&log[..], br#"{"seq":5,"at":17"#].concat();
    std::fs::write(place.log(&id), &torn).unwrap();
    let report = place.store().verify(&id).unwrap();
    assert_eq!((report.first_bad(), report.unfinished_bytes), (None, 16));
    assert!(report.to_string().contains("16 bytes at the end are an unfinished line"), "{report}");

    // The first opener dies before it can write the repair; the next one tells of it all the same.
    let text = "The end of the log was not whole; it was cut and is kept in `quarantine/after-4-1`.";
    assert_eq!(place.store().open(&id).unwrap().repairs, [text]);
    let mut session = place.store().open(&id).unwrap();
    assert_eq!(session.repairs, [text]);
    assert_eq!(std::fs::read(place.session_folder(&id).join("quarantine/after-4-1")).unwrap(), &torn[log.len()..]);
    session.journal.append(0, opened(&id, &place.workspace())).unwrap();
    session.journal.append(0, repaired(&session.repairs[0])).unwrap();
    now(session.journal.sync()).unwrap();
    drop(session);
    assert_eq!(place.store().open(&id).unwrap().repairs, [""; 0]);
    let report = place.store().verify(&id).unwrap();
    assert_eq!((report.first_bad(), report.repairs), (None, vec![(Seq(6), text.to_owned())]));
}

#[test]
fn a_reader_needs_no_lock_and_sees_what_is_written_meanwhile() {
    let place = Place::new();
    let mut session = place.create();
    write(&mut session, 3);
    let mut records = place.store().read(&session.id).unwrap();
    assert_eq!(records.next().unwrap().unwrap().seq, Seq(1));
    session.journal.append(9, ended(4, "late".into())).unwrap();
    assert_eq!(records.last().unwrap().unwrap().seq, Seq(4));
}
