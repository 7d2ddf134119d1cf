//! Background jobs in whole runs of the binary: nothing of one reaches the verdict, and none is left, however the run
//! ends.

use std::fs;
use std::process::Child;

use serde_json::Value;

use crate::place::{Place, kill};
use crate::signals::wait_for;

/// Processes whose environment holds this word.
fn alive(marker: &str) -> usize {
    let with_marker = |pid: &str| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.windows(marker.len()).any(|part| part == marker.as_bytes())
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.filter(|entry| with_marker(&entry.file_name().to_string_lossy())).count()
}

fn marker(name: &str) -> String {
    format!("hames-job-{name}-{}", std::process::id())
}

/// A turn that starts a job with a daemon in it, then a turn that takes its time.
fn script(marker: &str, then: &str) -> String {
    format!(
        "- calls: [{{tool: bash, args: {{background: true, command: \
         'export MARKER={marker}; (setsid sleep 300 &); sleep 300'}}}}]\n{then}"
    )
}

const SLOW: &str = "- delay_ms: 60000\n  text: never\n";

fn results(place: &Place) -> String {
    place.log().iter().map(Value::to_string).filter(|line| line.contains("\"ended\"")).collect()
}

#[test]
fn a_job_that_rewrites_files_and_listens_has_no_part_in_the_verdict() {
    // While the job lived, the file never stood still and its port was open.
    const CHECK: &str = "(exec 3<>/dev/tcp/127.0.0.1/8080) 2>/dev/null && exit 7; before=$(cat a.txt); \
                         for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.05; [ \"$(cat a.txt)\" = \"$before\" ] || exit 8; done";
    let job = "python3 -m http.server 8080 --bind 127.0.0.1 & while :; do echo $RANDOM$RANDOM > a.txt; done";
    let seen = "sleep 1; (exec 3<>/dev/tcp/127.0.0.1/8080) && echo reached";
    let yaml = format!(
        "- calls: [{{tool: bash, args: {{background: true, command: '{job}'}}}}]\n\
         - calls: [{{tool: bash, args: {{command: '{seen}'}}}}]\n\
         - calls: [{{tool: finish, args: {{summary: done}}}}]\n"
    );
    let place = Place::empty();
    let (code, result) = place.run_json(&place.script(&yaml), &["--verify", CHECK]);
    assert_eq!((code, result["verdict"].as_str()), (0, Some("pass")), "{result:#}");
    assert_eq!(result["files_changed"][0]["path"], "a.txt");
    assert!(results(&place).contains("reached"), "{}", results(&place));
}

#[test]
fn a_refused_finish_says_which_jobs_were_ended() {
    let marker = marker("refused");
    let finish = "- calls: [{tool: finish, args: {summary: done}}]\n";
    let place = Place::empty();
    let model = place.script(&script(&marker, &format!("{finish}- text: I give up.\n- text: I do.\n")));
    let ran = place.run(["run", "--model", &model, "--verify", "false", "go"]);
    assert_eq!((ran.code, alive(&marker)), (4, 0), "{}", ran.stderr);
    assert!(ran.stderr.contains("ended job-1"), "{}", ran.stderr);
    assert_eq!(place.log().iter().filter(|record| record["entry"].get("jobs_ended").is_some()).count(), 1);
}

#[test]
fn no_process_of_a_job_is_left_whatever_ends_the_run() {
    let check = |name: &str, then: &str, more: &[&str], code: i32| {
        let marker = marker(name);
        let place = Place::empty();
        let (ended, result) = place.run_json(&place.script(&script(&marker, then)), more);
        assert_eq!((ended, alive(&marker)), (code, 0), "{name}: {result:#}");
        let log = place.log();
        let kinds: Vec<_> = log.iter().rev().take(3).map(|record| record["entry"].to_string()).collect();
        assert!(kinds[2].contains("\"jobs\":[\"job-1\"]"), "{name}: {kinds:?}");
    };
    check("answer", "- text: done\n", &[], 0);
    check("limit", "- text: more\n", &["--max-turns", "1"], 3);
    check("time", SLOW, &["--max-time", "4s"], 3);
    check("model", "", &[], 6);
}

fn started(place: &Place, model: &str, marker: &str) -> Child {
    let child = place.hames(["run", "--model", model, "go"]).spawn().unwrap();
    // The daemon and the command itself, with what holds them.
    wait_for(|| alive(marker) >= 2 && place.raw_log().contains("\"entry\":{\"ended\""));
    child
}

#[test]
fn an_interrupt_ends_the_jobs_with_the_run() {
    let marker = marker("interrupt");
    let place = Place::empty();
    let model = place.script(&script(&marker, SLOW));
    let mut child = started(&place, &model, &marker);
    kill(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(alive(&marker), 0);
    assert!(place.raw_log().contains("jobs_ended"));
}

#[test]
fn a_killed_hames_leaves_no_job_and_the_resumed_run_says_that_it_is_gone() {
    let marker = marker("killed");
    let place = Place::empty();
    let model = place.script(&script(
        &marker,
        "- delay_ms: 3000\n  calls: [{tool: job_output, args: {job: job-1}}]\n\
         - calls: [{tool: bash, args: {background: true, command: sleep 300}}]\n- text: done\n",
    ));
    let mut child = started(&place, &model, &marker);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for(|| alive(&marker) == 0);
    let ran = place.run(["run", "--model", &model, "--continue", "--output-format", "json"]);
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    let told = results(&place);
    assert!(told.contains("`job-1` has ended. It ended with the Hames process that had started it."), "{told}");
    assert!(told.contains("`job-2` runs on."), "its number is not used again: {told}");
}

#[test]
fn without_a_sandbox_jobs_are_ended_as_well() {
    let marker = marker("off");
    let place = Place::empty();
    let model = place.script(&script(&marker, "- text: done\n"));
    let (code, result) = place.run_json(&model, &["--sandbox", "off"]);
    assert_eq!((code, alive(&marker), result["network"].as_str()), (0, 0, Some("full")), "{result:#}");
}
