//! SIGKILL from another process, at each stage of a run; then `--resume`, and a look at the end state, the log, and how
//! often each effect happened.

use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::place::Place;
use crate::signals::wait_for;

/// Slow enough at each stage to be met there. `bash` leaves a line for each time that it ran.
const SCRIPT: &str = "
- text: I will write a file and run a command.
  calls:
  - {tool: write_file, args: {path: a.txt, content: 'hello'}}
  - {tool: bash, args: {command: 'echo ran >> effects.txt; sleep 0.7; echo over >> effects.txt'}}
  delta_delay_ms: 40
- delay_ms: 400
  calls:
  - {tool: read_file, args: {path: a.txt}}
  - {tool: finish, args: {summary: done}}
";
const CHECK: &str = "sleep 0.6; grep -q hello a.txt";

fn has(log: &str, entry: &str) -> bool {
    log.contains(&format!("\"entry\":{{\"{entry}\""))
}

/// Whether the log says this of a call; `call-2` is `bash`, `call-4` is `finish`.
fn reached(log: &str, entry: &str, id: &str) -> bool {
    log.contains(&format!("\"entry\":{{\"{entry}\":\"{id}\""))
}

fn ended(log: &str, id: &str) -> bool {
    log.contains(&format!("\"entry\":{{\"ended\":{{\"call\":\"{id}\""))
}

/// Starts a run and kills it as soon as the log shows that it is where it should be.
fn killed_when(place: &Place, model: &str, at: impl Fn(&str) -> bool) -> String {
    let mut child: Child = place.hames(["run", "--model", model, "--verify", CHECK, "go"]).spawn().unwrap();
    let start = Instant::now();
    while !at(&place.raw_log()) {
        assert!(start.elapsed() < Duration::from_secs(60), "never got there: {}", place.raw_log());
        assert!(child.try_wait().unwrap().is_none(), "the run ended first: {}", place.raw_log());
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    place.raw_log()
}

fn resumed(place: &Place, model: &str) -> Value {
    let ran = place.run(["run", "--model", model, "--continue", "--output-format", "json"]);
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    let result = ran.json();
    assert_eq!((result["outcome"].as_str(), result["verdict"].as_str()), (Some("done"), Some("pass")), "{result:#}");
    assert_eq!((result["turns"].as_u64(), result["tool_calls"].as_u64()), (Some(2), Some(4)), "{result:#}");
    let id = result["session_id"].as_str().unwrap();
    let verified = place.run(["session", "verify", id]);
    assert_eq!(verified.code, 0, "{}", verified.stdout);
    assert_eq!(place.sessions().len(), 1);
    result
}

/// Kills at a stage, resumes, and returns how often `bash` began and the statuses of its results.
fn check_killed(at: impl Fn(&str) -> bool) -> (usize, Vec<String>, Value) {
    let place = Place::empty();
    let model = place.script(SCRIPT);
    killed_when(&place, &model, at);
    let result = resumed(&place, &model);
    assert_eq!(place.read("a.txt"), "hello");
    let log = place.log();
    let bash =
        log.iter().find_map(|r| r["entry"].get("proposed").filter(|c| c["name"] == "bash")).unwrap()["id"].clone();
    let of_bash = |record: &&Value| {
        let entry = &record["entry"];
        entry["ended"]["call"] == bash || entry["probed"][0] == bash
    };
    let status = |record: &Value| {
        let entry = &record["entry"];
        let status = entry["ended"]["result"]["status"].as_str();
        status.or(entry["probed"][1]["settled"]["status"].as_str()).unwrap().to_owned()
    };
    let statuses = log.iter().filter(of_bash).map(status).collect();
    let began = place.read("effects.txt").lines().filter(|line| *line == "ran").count();
    (began, statuses, result)
}

#[test]
fn killed_at_the_start() {
    let (began, statuses, _) = check_killed(|log| has(log, "run_started"));
    assert_eq!((began, statuses), (1, vec!["ok".to_owned()]));
}

#[test]
fn killed_during_a_reply() {
    let (began, statuses, result) =
        check_killed(|log| has(log, "attempt_started") && has(log, "baselined") && !has(log, "attempt_ended"));
    assert_eq!((began, statuses), (1, vec!["ok".to_owned()]));
    assert!(result["cost_usd"].is_null());
}

#[test]
fn killed_between_intent_and_effect() {
    // The window is as long as a sync of the disk; where it was missed, another session is tried.
    for _ in 0..200 {
        let place = Place::empty();
        let model = place.script(SCRIPT);
        let log = killed_when(&place, &model, |log| reached(log, "intended", "call-2"));
        if reached(&log, "started", "call-2") {
            continue;
        }
        assert!(!place.work().join("effects.txt").exists());
        resumed(&place, &model);
        assert_eq!(place.read("effects.txt"), "ran\nover\n", "it never ran, so it runs now, once");
        return;
    }
    panic!("never met between intent and effect");
}

#[test]
fn killed_during_an_effect() {
    let place = Place::empty();
    let model = place.script(SCRIPT);
    killed_when(&place, &model, |_| place.work().join("effects.txt").exists());
    // What stood in for protected paths that do not exist goes away although Hames was killed.
    wait_for(|| place.listing() == ["a.txt", "effects.txt"]);
    let result = resumed(&place, &model);
    assert_eq!(
        place.read("effects.txt"),
        "ran\n",
        "what is in doubt is never repeated, and its process died with Hames"
    );
    let log = place.log();
    let probed = log.iter().find_map(|record| record["entry"].get("probed")).expect("a probe").to_string();
    assert!(probed.contains("in_doubt") && probed.contains("IN DOUBT") && probed.contains("effects.txt"), "{probed}");
    let changed: Vec<_> = result["files_changed"].as_array().unwrap().iter().map(|file| file["path"].clone()).collect();
    assert_eq!(changed, ["a.txt", "effects.txt"]);
}

#[test]
fn killed_after_an_effect() {
    let (began, statuses, _) = check_killed(|log| ended(log, "call-2"));
    assert_eq!((began, statuses), (1, vec!["ok".to_owned()]));
}

#[test]
fn killed_during_verification() {
    let (began, statuses, _) = check_killed(|log| reached(log, "started", "call-4"));
    assert_eq!((began, statuses), (1, vec!["ok".to_owned()]));
}
