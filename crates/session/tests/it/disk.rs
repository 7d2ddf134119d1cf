//! Disks that are full, read-only, or not there.

use std::fs;

use hames_protocol::Seq;
use hames_protocol::port::Journal;

use crate::child::{Order, Other};
use crate::{Place, ended, now, write};

#[test]
fn a_full_disk_fails_the_append_and_saving_goes_on_when_there_is_room() {
    let place = Place::new();
    fs::create_dir(place.root()).unwrap();
    let root = place.root();
    let root = root.to_str().unwrap();
    // A file system of 256 KiB, half of it taken by a file that the writer removes when the disk is full.
    let fill = format!("head -c 131072 /dev/zero >{root}/filler && exec \"$@\"");
    let bwrap = ["bwrap", "--dev-bind", "/", "/", "--size", "262144", "--tmpfs", root, "--", "sh", "-c", &fill, "sh"];
    let room = Some(place.root().join("filler"));
    let mut other = Other::start_within(&Order { records: 60, bytes: 3_000, room, ..Order::new(place.root()) }, &bwrap);
    other.session();
    let said = other.rest();
    let failed = said.iter().position(|line| line.starts_with("failed")).unwrap_or_else(|| panic!("{said:?}"));
    let text = &said[failed];
    assert!(text.contains("The session is no longer saved."), "{text}");
    assert!(text.contains(&format!("on the file system at `{root}` (tmpfs): No space left on device")), "{text}");
    assert!(text.contains("Free some space there."), "{text}");
    // Not one place is skipped: what failed was written after the room was made.
    let synced: Vec<_> = said.iter().filter_map(|line| line.strip_prefix("synced ")).collect();
    let wanted: Vec<_> = (2..=synced.len() + 1).map(|seq| seq.to_string()).collect();
    assert_eq!(synced, wanted);
    assert!(synced.len() > failed, "{said:?}");
}

#[test]
fn a_file_size_limit_cuts_the_line_back_to_the_last_whole_record() {
    let place = Place::new();
    // 64 blocks of 512 bytes in a POSIX shell, where SIGXFSZ (25) is ignored from here on.
    let limited = ["sh", "-c", "trap '' 25; ulimit -f 64; exec \"$@\"", "sh"];
    let order = Order { records: 60, bytes: 3_000, ..Order::new(place.root()) };
    let mut other = Other::start_within(&order, &limited);
    let id = other.session();
    let said = other.rest();
    let text = said.last().unwrap();
    assert!(text.contains("File too large") && text.contains("ulimit -f"), "{said:?}");
    let synced: u64 = said[said.len() - 2].strip_prefix("synced ").unwrap().parse().unwrap();
    let log = fs::read(place.log(&id)).unwrap();
    assert_eq!(log.last(), Some(&b'\n'), "half a line was left");
    let session = place.store().open(&id).unwrap();
    assert_eq!(session.records.last().unwrap().seq, Seq(synced));
    assert_eq!(session.repairs, [""; 0]);
}

#[test]
fn a_read_only_folder_is_refused_with_its_file_system_and_a_remedy() {
    let place = Place::new();
    let id = place.written(3);
    let root = place.root();
    let root = root.to_str().unwrap();
    let bwrap = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", root, root, "--"];
    let orders = [Order::new(place.root()), Order { open: Some(id.as_str().to_owned()), ..Order::new(place.root()) }];
    for order in orders {
        let said = Other::start_within(&order, &bwrap).rest();
        let [text] = said.as_slice() else { panic!("{said:?}") };
        assert!(text.starts_with("refused Hames could not") && text.contains("Read-only file system"), "{text}");
        assert!(text.contains(&format!("on the file system at `{root}`")), "{text}");
        assert!(text.contains("set XDG_STATE_HOME to a folder that can be written"), "{text}");
    }
    assert_eq!(place.store().list(None).unwrap().len(), 1, "the list still works");
}

#[test]
fn a_log_that_is_a_link_to_a_device_is_refused() {
    let place = Place::new();
    let id = place.written(3);
    fs::remove_file(place.log(&id)).unwrap();
    std::os::unix::fs::symlink("/dev/full", place.log(&id)).unwrap();
    for problem in [
        place.store().open(&id).unwrap_err().to_string(),
        place.store().verify(&id).unwrap_err().to_string(),
        place.store().read(&id).unwrap_err().to_string(),
    ] {
        assert!(problem.contains("log.jsonl") && problem.contains("It is a symbolic link"), "{problem}");
    }
    assert!(place.store().list(None).unwrap().is_empty());
}

#[test]
fn a_pipe_in_the_place_of_the_log_does_not_hang_anything() {
    let place = Place::new();
    let id = place.written(3);
    fs::remove_file(place.log(&id)).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, place.log(&id), rustix::fs::Mode::RUSR).unwrap();
    assert!(place.store().verify(&id).unwrap_err().to_string().contains("not a regular file"));
    assert!(place.store().list(None).unwrap().is_empty());
}

#[test]
fn a_missing_root_is_made_and_a_file_in_its_place_is_refused() {
    let place = Place::new();
    assert!(place.store().list(None).unwrap().is_empty(), "no root yet is an empty list");
    fs::write(place.root(), "a file").unwrap();
    let problem = place.store().create(&place.workspace()).unwrap_err().to_string();
    assert!(problem.contains("could not make the folder") && problem.contains("not a folder"), "{problem}");
    fs::remove_file(place.root()).unwrap();
    place.create();
}

#[test]
fn a_log_too_large_to_load_is_refused_before_it_is_read() {
    let place = Place::new();
    let id = place.written(3);
    let log = fs::OpenOptions::new().write(true).open(place.log(&id)).unwrap();
    log.set_len(2 << 30).unwrap();
    let problem = place.store().open(&id).unwrap_err().to_string();
    assert!(problem.contains("has 2147483648 bytes, and at most 402653184 are loaded"), "{problem}");
    assert_eq!(log.metadata().unwrap().len(), 2 << 30, "nothing was cut");
    let [listed] = place.store().list(None).unwrap().try_into().unwrap();
    assert_eq!((listed.bytes, listed.title.as_str()), (2 << 30, "Fix the total."));
}

#[test]
fn a_failed_append_leaves_the_log_ready_for_the_next() {
    let place = Place::new();
    let mut session = place.create();
    write(&mut session, 3);
    let too_large = "x".repeat(33 << 20);
    let problem = session.journal.append(9, ended(4, too_large.into())).unwrap_err().to_string();
    assert!(problem.contains("a record holds at most 33554432"), "{problem}");
    assert_eq!(session.journal.append(9, ended(4, "small".into())).unwrap().seq, Seq(4));
    now(session.journal.sync()).unwrap();
    assert_eq!(place.store().verify(&session.id).unwrap().records, 4);
}
