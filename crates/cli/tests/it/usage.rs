//! Arguments, exit codes, and what is printed where.

use std::io::Write;
use std::process::Stdio;

use crate::place::{Place, Ran};

const ANSWER: &str = "- text: '42'\n";

fn check_refused(place: &Place, arguments: &[&str], words: &[&str]) {
    let ran = place.run(arguments.iter().copied());
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{arguments:?}: {}", ran.stderr);
    for word in words {
        assert!(ran.stderr.contains(word), "{word}: {}", ran.stderr);
    }
}

#[test]
fn bad_usage_is_told_and_exits_with_2() {
    let place = Place::empty();
    let model = place.script(ANSWER);
    check_refused(&place, &["run", "--model", &model], &["No prompt"]);
    check_refused(&place, &["run", "--model", &model, "  "], &["prompt is empty"]);
    check_refused(&place, &["run", "go"], &["ANTHROPIC_API_KEY"]);
    check_refused(&place, &["run", "--model", "nosuch/x", "go"], &["nosuch", "anthropic/NAME"]);
    check_refused(&place, &["run", "--model", "scripted:/nowhere.yaml", "go"], &["/nowhere.yaml"]);
    check_refused(&place, &["run", "--model", &model, "--max-turns", "0", "go"], &["--max-turns"]);
    check_refused(&place, &["run", "--model", &model, "--max-time", "5", "go"], &["90s"]);
    check_refused(&place, &["run", "--model", &model, "--max-cost", "1", "go"], &["price"]);
    check_refused(&place, &["run", "--model", &model, "-C", "/nowhere", "go"], &["/nowhere"]);
    check_refused(&place, &["run", "--model", &model, "--protect", "[", "go"], &["["]);
    check_refused(&place, &["run", "--model", &model, "--resume", "../x", "go"], &["../x"]);
    check_refused(&place, &["run", "--model", &model, "--continue"], &["no session"]);
}

#[test]
fn a_refused_start_leaves_no_session_behind() {
    let place = Place::empty();
    let model = place.script(ANSWER);
    place.run(["run", "--model", &model, "--max-cost", "1", "go"]);
    place.run(["run", "--model", &model, "--protect", "[", "go"]);
    assert_eq!(place.sessions(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn an_answer_without_checks_is_answered() {
    let place = Place::empty();
    let (code, result) = place.run_json(&place.script(ANSWER), &[]);
    assert_eq!((code, result["outcome"].as_str(), result["summary"].as_str()), (0, Some("answered"), Some("42")));
    assert!(result["verdict"].is_null() && result["cost_usd"].is_null());
    assert_eq!((result["turns"].as_u64(), result["sandbox"].as_str()), (Some(1), Some("workspace-write")));
}

#[test]
fn the_prompt_may_be_piped_and_a_given_one_leaves_standard_input_alone() {
    let place = Place::empty();
    let model = place.script(ANSWER);
    let mut child = place.hames(["run", "--model", &model]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"What is it?").unwrap();
    assert_eq!(Ran::of(child.wait_with_output().unwrap()).code, 0);
    let mut child = place.hames(["-p", "--model", &model, "What is it?"]).stdin(Stdio::piped()).spawn().unwrap();
    let held_open = child.stdin.take();
    assert_eq!(Ran::of(child.wait_with_output().unwrap()).code, 0);
    drop(held_open);
}

#[test]
fn the_plan_is_shown_to_the_user() {
    let place = Place::empty();
    let items = "[{text: Look, status: done}, {text: Fix it, status: in_progress}, {text: Test, status: pending}]";
    let model = place.script(&format!("- calls: [{{tool: plan, args: {{items: {items}}}}}]\n{ANSWER}"));
    let ran = place.run(["run", "--model", &model, "go"]);
    assert!(ran.stderr.contains("  plan: ok\n    [x] Look\n    [>] Fix it\n    [ ] Test\n"), "{}", ran.stderr);
}

#[test]
fn a_patch_is_told_by_the_files_that_it_names() {
    let place = Place::empty();
    let patch = "*** Begin Patch\\n*** Add File: a.txt\\n+a\\n*** Add File: d/b.txt\\n+b\\n*** End Patch";
    let model = place.script(&format!("- calls: [{{tool: apply_patch, args: {{patch: \"{patch}\"}}}}]\n{ANSWER}"));
    let ran = place.run(["run", "--model", &model, "go"]);
    assert!(ran.stderr.contains("  apply_patch a.txt, d/b.txt: ok\n"), "{}", ran.stderr);
    assert!(ran.stdout.contains("  added a.txt\n  added d/b.txt\n"), "{}", ran.stdout);
    assert_eq!(place.read("d/b.txt"), "b\n");
}

#[test]
fn outcomes_have_their_exit_codes() {
    let place = Place::empty();
    let outcome = |yaml: &str, more: &[&str]| {
        let (code, result) = place.run_json(&place.script(yaml), more);
        (code, result["outcome"].as_str().unwrap().to_owned())
    };
    let look = "- calls: [{tool: list_files}]\n";
    assert_eq!(outcome(&look.repeat(9), &[]), (3, "stuck".into()));
    assert_eq!(outcome(&look.repeat(3), &["--max-turns", "2"]), (3, "limit".into()));
    assert_eq!(outcome(&ANSWER.repeat(2), &["--verify", "true"]), (4, "unverified".into()));
    let finish = "- calls: [{tool: finish, args: {summary: s}}]\n";
    assert_eq!(outcome(finish, &["--verify", "no-such-program --check"]), (5, "tool_failed".into()));
    assert_eq!(outcome("- fault: {status: 401}\n", &[]), (6, "model_failed".into()));
    assert_eq!(outcome(&finish.repeat(3), &["--verify", "false"]), (3, "stuck".into()));
    assert_eq!(outcome(finish, &["--verify", "true"]), (0, "done".into()));
}

#[test]
fn a_time_limit_ends_a_running_command_with_its_whole_tree() {
    let place = Place::empty();
    let model = place.script("- calls: [{tool: bash, args: {command: 'sleep 314159 & sleep 314159'}}]\n");
    let (code, result) = place.run_json(&model, &["--max-time", "1s"]);
    assert_eq!((code, result["outcome"].as_str()), (3, Some("limit")));
    assert!(result["duration_ms"].as_u64().unwrap() < 5_000, "{result}");
    assert!(!is_running("314159"));
}

pub(crate) fn is_running(needle: &str) -> bool {
    let folders = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    folders.filter_map(|folder| std::fs::read(folder.path().join("cmdline")).ok()).any(|line| {
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.starts_with("sleep ") && line.contains(needle)
    })
}

#[test]
fn a_sandboxed_command_exits_as_it_did() {
    let place = Place::empty();
    assert_eq!(place.run(["sandbox", "--", "sh", "-c", "echo out; exit 7"]).code, 7);
    assert_eq!(place.run(["sandbox", "--", "sh", "-c", "kill -TERM $$"]).code, 143);
    let hidden = place.run(["sandbox", "--", "ls", place.work().parent().unwrap().join("home").to_str().unwrap()]);
    assert_ne!(hidden.code, 0);
    let write = place.run(["sandbox", "--sandbox", "read-only", "--", "touch", "x"]);
    assert_ne!(write.code, 0);
    assert!(!place.work().join("x").exists());
}

#[test]
fn a_closed_standard_output_is_no_panic() {
    let place = Place::empty();
    let model = place.script(ANSWER);
    let mut child = place.hames(["run", "--model", &model, "--output-format", "json", "go"]).spawn().unwrap();
    drop(child.stdout.take());
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("Standard output was closed") && !ran.stderr.contains("panicked"), "{}", ran.stderr);
}

#[test]
fn no_secret_of_the_environment_reaches_a_command() {
    let place = Place::empty();
    let model = place.script("- calls: [{tool: bash, args: {command: 'env; cat /proc/1/environ'}}]\n- text: ok\n");
    let output = place
        .hames(["run", "--model", &model, "--output-format", "stream-json", "go"])
        .env("ANTHROPIC_API_KEY", "canary-4711")
        .output()
        .unwrap();
    let ran = Ran::of(output);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(!ran.stdout.contains("canary-4711"));
    assert!(!place.raw_log().contains("canary-4711"));
}
