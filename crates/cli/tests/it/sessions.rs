//! Sessions on disk: listing, showing, verifying, continuing, and one writer at a time.

use std::fs;

use crate::place::{Place, Ran};
use crate::signals::wait_for;

#[test]
fn a_session_is_listed_shown_and_verified() {
    let place = Place::empty();
    let (_, result) = place.run_json(&place.script("- text: '42'\n"), &[]);
    let id = result["session_id"].as_str().unwrap();
    let list = place.run(["session", "list"]);
    assert!(
        list.stdout.contains(id) && list.stdout.contains("answered") && list.stdout.contains("go"),
        "{}",
        list.stdout
    );
    assert!(place.log().first().unwrap()["entry"].get("opened").is_some());
    let verified = place.run(["session", "verify", &id[..13]]);
    assert!(verified.code == 0 && !verified.stdout.contains("\n\n"), "{}", verified.stdout);
    let folder = place.sessions().pop().unwrap();
    let log = fs::read_to_string(folder.join("log.jsonl")).unwrap();
    fs::write(folder.join("log.jsonl"), log.replace("\"42\"", "\"43\"").replace("'42'", "'43'")).unwrap();
    assert_eq!(place.run(["session", "show", id]).code, 1, "what cannot be shown is no success");
    let verified = place.run(["session", "verify", id]);
    assert_eq!(verified.code, 1, "{}", verified.stdout);
}

#[test]
fn the_sessions_of_a_folder_are_listed_even_when_it_is_gone() {
    let place = Place::empty();
    let (_, result) = place.run_json(&place.script("- text: '42'\n"), &[]);
    let listed = |folder: &str| place.run(["session", "list", "-C", folder]);
    let other = listed("/");
    assert!(other.stdout.is_empty() && other.stderr.contains("No sessions of /."), "{}", other.stderr);
    let work = place.work().canonicalize().unwrap();
    fs::rename(&work, work.with_extension("gone")).unwrap();
    let mut list = place.hames(["session", "list", "-C", work.to_str().unwrap()]);
    let list = Ran::of(list.current_dir("/").output().unwrap());
    assert!(list.stdout.contains(result["session_id"].as_str().unwrap()), "{}", list.stderr);
}

#[test]
fn a_session_is_exported_as_a_transcript_that_nothing_in_it_can_break() {
    let place = Place::empty();
    fs::write(place.work().join("a.txt"), "```\n# forged\n\u{1b}[2J\n").unwrap();
    let model = place.script(
        "- text: \"Look:\\n```\"\n  calls: [{tool: read_file, args: {path: a.txt}}]\n\
         - calls: [{tool: read_file, args: {path: ../b}}]\n\
         - calls: [{tool: finish, args: {summary: all done}}]\n",
    );
    let (code, result) = place.run_json(&model, &["--verify", "echo checked"]);
    assert_eq!(code, 0, "{result:#}");
    let ran = place.run(["session", "export", result["session_id"].as_str().unwrap()]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let order = [
        "# Session ",
        "**Prompt:**\n\n> go\n",
        "**Reply:**\n\n> Look:\n> ```\n",
        "**Call:** `read_file`\n\n```json\n",
        "**Result** (ok): `read_file`\n\n````\n",
        "**Refused** (jail): `read_file`",
        "**Call:** `finish`",
        "**Verdict: pass**",
        "- `echo checked`: pass",
        "**Ended: done.**",
    ];
    let mut rest = ran.stdout.as_str();
    for part in order {
        let at = rest.find(part).unwrap_or_else(|| panic!("{part} is not, or not in order, in:\n{}", ran.stdout));
        rest = &rest[at..];
    }
    assert!(!ran.stdout.contains('\u{1b}') && ran.stdout.contains("\\u{1b}[2J"), "{}", ran.stdout);
}

#[test]
fn a_session_goes_on_with_a_new_prompt_in_the_same_log() {
    let place = Place::empty();
    let model = place.script("- text: one\n- text: two\n- text: three\n");
    let (_, first) = place.run_json(&model, &[]);
    let id = first["session_id"].as_str().unwrap();
    let (_, second) = place.run_json(&model, &["--resume", id]);
    assert_eq!((second["summary"].as_str(), second["session_id"].as_str()), (Some("two"), Some(id)));
    let (_, third) = place.run_json(&model, &["--continue"]);
    assert_eq!((third["summary"].as_str(), third["run_id"].as_str()), (Some("three"), Some("run-3")));
    let nothing = place.run(["run", "--model", &model, "--resume", id]);
    assert_eq!(nothing.code, 2);
    assert!(nothing.stderr.contains("nothing to continue"), "{}", nothing.stderr);
}

#[test]
fn a_session_that_is_open_elsewhere_is_refused_naming_the_process() {
    let place = Place::empty();
    let model = place.script("- calls: [{tool: bash, args: {command: touch begun; sleep 60}}]\n- text: ok\n");
    let mut child = place.hames(["run", "--model", &model, "go"]).spawn().unwrap();
    wait_for(|| place.work().join("begun").exists());
    let refused = place.run(["run", "--model", &model, "--continue", "go"]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains(&child.id().to_string()), "{}", refused.stderr);
}

#[test]
fn what_a_session_was_started_with_holds_when_it_is_resumed() {
    let place = Place::empty();
    let model = place.script("- text: one\n- text: two\n- text: three\n- calls: [{tool: write_file, args: {path: keep.txt, content: x}}]\n- text: a\n- text: b\n");
    let (code, first) = place.run_json(&model, &["--verify", "false", "--protect", "keep.txt"]);
    assert_eq!((code, first["outcome"].as_str()), (4, Some("unverified")));
    let (_, second) = place.run_json(&model, &["--continue"]);
    assert_eq!(second["outcome"], "unverified", "the checks hold");
    assert_eq!(second["guards"][0]["guard"], "protected", "and so does the protection: {second:#}");
}
