//! Finding sessions again: lists, the latest, and ids as people type them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use hames_protocol::port::Journal;
use hames_protocol::*;
use hames_session::StoreProblem;

use crate::{Place, ended, now, opened, run_ended, run_started, write};

#[test]
fn a_list_shows_what_each_session_was_about_and_how_it_ended() {
    let place = Place::new();
    let done = place.written(6);
    let mut open = place.create();
    open.journal.append(0, opened(&open.id, Path::new("/work/shop"))).unwrap();
    open.journal.append(1, run_started("\n  Port it to \u{1b}[31mRust\nplease")).unwrap();
    let unused = place.create();
    let list = place.store().list(Some(&place.workspace())).unwrap();
    let shown: Vec<_> = list.iter().map(|one| (one.id.clone(), one.title.as_str(), one.outcome)).collect();
    assert_eq!(
        shown,
        [(open.id.clone(), "Port it to \u{1b}[31mRust", None), (done.clone(), "Fix the total.", Some(Outcome::Done))],
        "the last written first; one without a record is not shown"
    );
    assert_eq!(list[1].workspace.as_deref(), Some("/work/shop"));
    assert_eq!(list[1].bytes, place.log(&done).metadata().unwrap().len());
    assert!(list[1].started > 1_600_000_000_000 && list[1].last_activity >= list[1].started);
    drop(unused);
    assert!(place.store().list(Some(Path::new("/elsewhere"))).unwrap().is_empty());
}

#[test]
fn a_session_that_was_opened_again_still_shows_how_its_last_run_ended() {
    let place = Place::new();
    let id = place.written(6);
    let outcome = || place.store().list(None).unwrap()[0].outcome;
    let mut session = place.store().open(&id).unwrap();
    session.journal.append(0, opened(&id, &place.workspace())).unwrap();
    assert_eq!(outcome(), Some(Outcome::Done));
    session.journal.append(0, run_started("Again")).unwrap();
    assert_eq!(outcome(), None, "a new run is under way");
    session.journal.append(0, ended(9, "x".repeat(100_000).into())).unwrap();
    session.journal.append(0, run_ended(Outcome::Limit)).unwrap();
    assert_eq!(outcome(), Some(Outcome::Limit));
}

#[test]
fn a_list_survives_prompts_and_results_larger_than_what_it_reads() {
    let place = Place::new();
    let mut session = place.create();
    session.journal.append(0, opened(&session.id, Path::new("/work/shop"))).unwrap();
    session.journal.append(0, run_started(&format!("Read \"this\":\n{}", "é\n".repeat(100_000)))).unwrap();
    session.journal.append(0, ended(3, "x".repeat(3_000_000).into())).unwrap();
    let [one] = place.store().list(None).unwrap().try_into().unwrap();
    assert_eq!((one.title.as_str(), one.outcome), ("Read \"this\":", None));
}

#[test]
fn a_session_with_a_damaged_first_record_is_still_listed() {
    let place = Place::new();
    let id = place.written(4);
    let mut lines = place.lines(&id);
    lines[0] = lines[0].replace("opened", "closed");
    place.set_lines(&id, &lines);
    let [one] = place.store().list(None).unwrap().try_into().unwrap();
    assert_eq!((one.id, one.workspace, one.title.as_str()), (id, None, "Fix the total."));
}

#[test]
fn three_thousand_sessions_are_listed_without_reading_their_bodies() {
    let place = Place::in_memory();
    let id = place.written(6);
    let (folder, lines) = (place.session_folder(&id), place.lines(&id));
    // The chain does not hold in the copies, which a list does not judge.
    let small = lines.join("\n") + "\n";
    let large = small.replacen(&lines[3], &vec![lines[3].as_str(); 200].join("\n"), 1);
    for number in 0..3_000 {
        let copy = folder.with_file_name(format!("01900000-0000-7000-8000-{number:012x}"));
        fs::create_dir(&copy).unwrap();
        fs::write(copy.join("log.jsonl"), if number % 100 == 0 { &large } else { &small }).unwrap();
    }
    let read_before = bytes_read();
    let list = place.store().list(None).unwrap();
    let read = bytes_read() - read_before;
    assert_eq!(list.len(), 3_001);
    assert!(list.iter().all(|one| one.title == "Fix the total." && one.outcome == Some(Outcome::Done)));
    assert!(read < 50 << 20, "{read} bytes were read");
}

/// Bytes that this thread has read from files so far; see proc_pid_io(5).
fn bytes_read() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/io").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
    line.parse().unwrap()
}

#[test]
fn the_latest_session_is_the_one_written_last_in_that_workspace() {
    let place = Place::new();
    let store = place.store();
    assert_eq!(store.latest(&place.workspace()).unwrap(), None);
    let first = place.written(4);
    let second = place.written(4);
    let touch = |id: &SessionId, seconds: u64| {
        let log = fs::OpenOptions::new().write(true).open(place.log(id)).unwrap();
        log.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    };
    touch(&first, 2_000_000_000);
    touch(&second, 1_900_000_000);
    let never_written = place.create();
    assert_eq!(store.latest(&place.workspace()).unwrap(), Some(first.clone()));
    touch(&second, 2_000_000_001);
    assert_eq!(store.latest(&place.workspace()).unwrap(), Some(second));
    drop(never_written);

    let link = place.folder.path().join("link");
    std::os::unix::fs::symlink(place.workspace(), &link).unwrap();
    assert!(store.latest(&link).unwrap().is_some(), "the real path counts");
    let other = place.folder.path().join("other").join("shop");
    fs::create_dir_all(&other).unwrap();
    assert_eq!(store.latest(&other).unwrap(), None, "a workspace of the same name is another one");
}

#[test]
fn ids_are_resolved_from_their_beginning() {
    let place = Place::new();
    let id = place.written(3);
    let store = place.store();
    assert_eq!(store.resolve(id.as_str()).unwrap(), id);
    assert_eq!(store.resolve(&id.as_str()[..8]).unwrap(), id);
    assert_eq!(store.resolve(&format!(" {} ", id.as_str()[..13].to_uppercase())).unwrap(), id);

    let folder = place.session_folder(&id);
    let twin = format!("{}-0000-7000-8000-000000000000", &id.as_str()[..8]);
    fs::create_dir(folder.with_file_name(&twin)).unwrap();
    let problem = store.resolve(&id.as_str()[..8]).unwrap_err();
    assert!(matches!(problem, StoreProblem::Ambiguous { .. }), "{problem}");
    let text = problem.to_string();
    assert!(text.contains(id.as_str()) && text.contains(&twin) && text.contains("Give more characters"), "{text}");

    let unknown = format!("{}ffffffff", &id.as_str()[..6]);
    let text = store.resolve(&unknown).unwrap_err().to_string();
    assert!(text.contains(&format!("There is no session `{unknown}`. The nearest is ")), "{text}");
    assert!(text.contains("`hames session list` shows all"), "{text}");
    assert!(!store.resolve("ffffffff").unwrap_err().to_string().contains("nearest"));
}

#[test]
fn an_id_from_outside_never_becomes_a_path() {
    let place = Place::new();
    let id = place.written(3);
    fs::create_dir_all(place.folder.path().join("sessions/x")).unwrap();
    let shelf = place.session_folder(&id);
    let shelf = shelf.parent().unwrap().file_name().unwrap().to_str().unwrap();
    let bad = ["../x", "..", "", "/", "01900000/../..", "0190000", &"0".repeat(37), shelf, "０１９０００００"];
    for text in bad {
        let problem = place.store().resolve(text).unwrap_err();
        assert!(matches!(problem, StoreProblem::NotAnId(_)), "{text}: {problem}");
    }
    for text in bad.iter().copied().chain(["01900000", "01900000-0000-7000-8000-0000000000-0"]) {
        let problem = place.store().open(&SessionId::new(text)).unwrap_err();
        assert!(matches!(problem, StoreProblem::NotAnId(_)), "{text}: {problem}");
        assert!(place.store().verify(&SessionId::new(text)).is_err(), "{text}");
        assert!(place.store().read(&SessionId::new(text)).is_err(), "{text}");
    }
    let escape = place.store().resolve("\u{1b}[2J..").unwrap_err().to_string();
    assert!(!escape.contains('\u{1b}'), "{escape:?}");
}

#[test]
fn a_session_without_a_record_can_be_opened_again() {
    let place = Place::new();
    let id = place.create().id;
    let mut session = place.store().open(&id).unwrap();
    assert!(session.records.is_empty() && session.repairs.is_empty());
    write(&mut session, 3);
    now(session.journal.sync()).unwrap();
    assert_eq!(place.store().verify(&id).unwrap().records, 3);
}

#[test]
fn a_suspended_session_is_listed_as_such_until_it_is_answered() {
    let place = Place::new();
    let mut session = place.create();
    let id = session.id.clone();
    let outcome = || place.store().list(None).unwrap()[0].outcome;
    let suspended = RunSuspended { run: RunId::new("run-1"), why: "Which?".to_owned() };
    for entry in [opened(&id, &place.workspace()), run_started("Port it"), Entry::RunSuspended(suspended)] {
        session.journal.append(0, entry).unwrap();
    }
    assert_eq!(outcome(), Some(Outcome::NeedsApproval));
    session.journal.append(0, opened(&id, &place.workspace())).unwrap();
    assert_eq!(outcome(), Some(Outcome::NeedsApproval), "opened again, and nothing was said");
    session.journal.append(0, Entry::Answered(CallId::new("call-1"), Answer::said("This."))).unwrap();
    assert_eq!(outcome(), None, "it goes on");
}
