//! SIGINT and SIGTERM: running calls end with their whole tree, the log is complete, the code says which it was.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::place::{Place, Ran, kill};
use crate::usage::is_running;

fn interrupted(signal: &str, marker: &str) -> (Place, Ran) {
    let place = Place::empty();
    let command = format!("touch begun; trap '' INT TERM; sleep {marker} & sleep {marker}");
    let model = place.script(&format!(
        "- calls:\n  - {{tool: bash, args: {{command: \"{command}\"}}}}\n  - {{tool: bash, args: {{command: touch never}}}}\n- text: ok\n"
    ));
    let child = place.hames(["run", "--model", &model, "--output-format", "json", "go"]).spawn().unwrap();
    wait_for(|| place.work().join("begun").exists());
    kill(&child, signal);
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert!(!is_running(marker), "the tree is gone");
    assert!(!place.work().join("never").exists());
    assert_eq!(ran.json()["files_changed"][0]["path"], "begun", "what it did until then is told");
    (place, ran)
}

pub(crate) fn wait_for(mut ready: impl FnMut() -> bool) {
    let start = Instant::now();
    while !ready() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited a minute");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_interrupt_cancels_the_run_and_the_log_is_complete() {
    let (place, ran) = interrupted("-INT", "271828");
    assert_eq!((ran.code, ran.json()["outcome"].as_str()), (130, Some("cancelled")), "{}", ran.stderr);
    let log = place.log();
    let cancelled = log.iter().filter(|record| record["entry"]["ended"]["result"]["status"] == "cancelled");
    assert_eq!(cancelled.count(), 2, "every open call has a result");
    assert!(log.last().unwrap()["entry"].get("run_ended").is_some());
    let id = ran.json()["session_id"].as_str().unwrap().to_owned();
    assert_eq!(place.run(["session", "verify", &id]).code, 0);
    let model = place.script("- fault: empty\n- text: resumed\n");
    let resumed = place.run(["run", "--model", &model, "--resume", &id, "--output-format", "json", "go on"]);
    assert_eq!(resumed.json()["summary"], "resumed", "{}", resumed.stderr);
}

#[test]
fn a_termination_exits_with_143() {
    let (_, ran) = interrupted("-TERM", "161803");
    assert_eq!((ran.code, ran.json()["outcome"].as_str()), (143, Some("cancelled")));
}

/// A reader that stops reading holds the thread up that writes, but not whoever wants the process to end.
#[test]
fn a_second_interrupt_ends_a_process_whose_reader_has_stopped_reading() {
    let place = Place::empty();
    let model = place.script("- text: ok\n");
    let (_reader, mut writer) = std::io::pipe().unwrap();
    let mut command = place.hames(["run", "--model", &model, "--output-format", "stream-json", "go"]);
    command.stdout(writer.try_clone().unwrap());
    // Fills the pipe and stays blocked, so that no line of the run fits.
    std::thread::spawn(move || writer.write_all(&[b'x'; 1 << 22]));
    let mut child = command.spawn().unwrap();
    wait_for(|| place.sessions().first().is_some_and(|folder| folder.join("log.jsonl").exists()));
    kill(&child, "-INT");
    std::thread::sleep(Duration::from_millis(100));
    assert!(child.try_wait().unwrap().is_none(), "the first one waits for a clean end");
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < Duration::from_secs(10), "it cannot be ended");
        kill(&child, "-INT");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
