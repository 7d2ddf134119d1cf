//! A standard output that takes no more: what runs is stopped, a closed pipe is told nobody, a full disk is.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::Command;

use crate::place::{Place, Ran};
use crate::usage::is_running;

const ANSWER: &str = "- text: '42'\n";

/// Reads one line of what the command prints, as `| head -1` does, and waits for its end.
fn read_one_line(mut command: Command) -> Ran {
    let mut child = command.spawn().unwrap();
    BufReader::with_capacity(16, child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    Ran::of(child.wait_with_output().unwrap())
}

#[test]
fn a_reader_that_has_seen_enough_is_told_nothing() {
    let place = Place::empty();
    let model = place.script(ANSWER);
    let mut child = place.hames(["run", "--model", &model, "--output-format", "json", "go"]).spawn().unwrap();
    drop(child.stdout.take());
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stderr.lines().count()), (141, 1), "the line of the model alone: {}", ran.stderr);
    let id = place.sessions()[0].file_name().unwrap().to_str().unwrap().to_owned();
    let shown = read_one_line(place.hames(["session", "show", &id]));
    assert!(shown.stderr.is_empty(), "{}", shown.stderr);
}

#[test]
fn a_sandboxed_command_whose_reader_went_away_ends_with_its_whole_tree() {
    let place = Place::empty();
    let flood = "sleep 141421 & while echo y; do :; done";
    let ran = read_one_line(place.hames(["sandbox", "--timeout", "30s", "--", "sh", "-c", flood]));
    assert_eq!((ran.code, ran.stderr.as_str()), (141, ""));
    assert!(!is_running("141421"));
}

#[test]
fn a_run_whose_events_nobody_reads_is_cancelled_and_saved() {
    let place = Place::empty();
    let model = place.script(
        "- calls: [{tool: bash, args: {command: 'sleep 173205 & while echo y; do sleep 0.1; done'}}]\n- text: ok\n",
    );
    let arguments = ["run", "--model", &model, "--output-format", "stream-json", "--max-time", "30s", "go"];
    let ran = read_one_line(place.hames(arguments));
    assert_eq!((ran.code, ran.stderr.as_str()), (141, ""));
    assert!(!is_running("173205"));
    assert_eq!(place.log().last().unwrap()["entry"]["run_ended"]["outcome"], "cancelled");
}

#[test]
fn a_full_disk_is_told_and_exits_with_1() {
    let place = Place::empty();
    let model = place.script(ANSWER);
    let arguments: [&[&str]; 4] = [
        &["--help"],
        &["sandbox", "--", "echo", "lost"],
        &["run", "--model", &model, "go"],
        &["run", "--model", &model, "--output-format", "stream-json", "go"],
    ];
    for arguments in arguments {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ran = Ran::of(place.hames(arguments.iter().copied()).stdout(full).output().unwrap());
        assert_eq!(ran.code, 1, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("Standard output cannot be written"), "{arguments:?}: {}", ran.stderr);
    }
}
