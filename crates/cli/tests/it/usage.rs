//! Arguments, exit codes, and what is printed where.

use std::io::{BufRead, Write};
use std::process::Stdio;

use serde_json::{Value, json};

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
    check_refused(&place, &["run", "--model", "anthropic/", "go"], &["half a model", "anthropic/NAME"]);
    check_refused(&place, &["run", "--model", "scripted:", "go"], &["half a model", "scripted:FILE"]);
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
fn images_go_to_the_model_before_the_prompt() {
    let place = Place::empty();
    let model = place.script(ANSWER);
    std::fs::write(place.work().join("logo"), b"GIF89a\x03\0\x02\0\0\0\0;").unwrap();
    let ran = place.run(["run", "--model", &model, "--output-format", "stream-json", "--image", "logo", "What is it?"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let lines = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let prompt =
        lines.map(|line| line["entry"]["run_started"]["prompt"].clone()).find(|prompt| !prompt.is_null()).unwrap();
    let image = json!({"image": {"media_type": "image/gif", "data": "R0lGODlhAwACAAAAADs="}});
    assert_eq!(prompt, json!([{"text": "logo:"}, image, {"text": "What is it?"}]));
    check_refused(&place, &["run", "--model", &model, "--image", "none.png", "go"], &["none.png", "cannot be read"]);
    check_refused(&place, &["run", "--model", &model, "--image", ".", "go"], &["cannot be read"]);
    std::fs::write(place.work().join("page.pdf"), "%PDF-1.7").unwrap();
    check_refused(&place, &["run", "--model", &model, "--image", "page.pdf", "go"], &["page.pdf", "no PNG, JPEG"]);
    check_refused(&place, &["run", "--model", &model, "--image", "logo"], &["No prompt"]);
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

/// Whoever parses standard output gets one object with the same fields, whatever went wrong.
#[test]
fn the_one_object_is_printed_also_when_no_run_begins() {
    let place = Place::empty();
    let model = place.script(ANSWER);
    let (_, ordinary) = place.run_json(&model, &[]);
    let fields = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let refused: [&[&str]; 4] = [
        &["--model", "nosuch/x", "go"],
        &["--model", &model, "-C", "/nowhere", "go"],
        &["--model", &model, "--max-cost", "1", "go"],
        &["--model", &model, "--continue"],
    ];
    for arguments in refused {
        let ran = place.run(["run", "--output-format", "json"].into_iter().chain(arguments.iter().copied()));
        let result = ran.json();
        assert_eq!((ran.code, fields(&result)), (2, fields(&ordinary)), "{arguments:?}");
        assert!(result["outcome"].is_null() && result["run_id"].is_null(), "{result}");
        assert!(ran.stderr.contains(result["reason"].as_str().unwrap()), "{}", ran.stderr);
        let ran = place.run(["run", "--output-format", "stream-json"].into_iter().chain(arguments.iter().copied()));
        assert_eq!((ran.json()["type"].as_str(), &ran.json()["reason"]), (Some("result"), &result["reason"]));
    }
}

#[test]
fn a_log_that_cannot_be_written_any_more_is_the_reason_in_the_result() {
    let place = Place::empty();
    let model = place.script("- calls: [{tool: bash, args: {command: touch one}}]\n- text: ok\n");
    let (_, whole) = place.run_json(&model, &[]);
    let size = place.raw_log().len();
    // In steps of half a block of `ulimit -f`, from a log that holds nothing to one that holds all but its end.
    for blocks in 1..size.div_ceil(512) {
        let hames = place.hames(["run", "--output-format", "json", "--model", &model, "go"]);
        let (program, arguments) = (hames.get_program().to_owned(), hames.get_args().map(ToOwned::to_owned));
        let arguments: Vec<_> = arguments.collect();
        let mut limited = std::process::Command::new("sh");
        limited.args(["-c", &format!("ulimit -f {blocks}; exec \"$0\" \"$@\"")]).arg(program).args(arguments);
        limited.current_dir(place.work()).env_clear().envs(hames.get_envs().filter_map(|(k, v)| Some((k, v?))));
        let ran = Ran::of(limited.output().unwrap());
        let result = ran.json();
        if ran.code == 0 {
            assert_eq!(result["outcome"], whole["outcome"]);
            continue;
        }
        assert!(ran.stderr.contains(result["reason"].as_str().unwrap()), "{blocks}: {result} {}", ran.stderr);
        assert_ne!(result["reason"], "The run has not ended.");
    }
}

#[test]
fn a_prompt_that_no_model_takes_is_a_usage_error_and_a_large_one_is_not() {
    let place = Place::empty();
    let model = place.script(ANSWER);
    let run = |bytes: Vec<u8>| {
        let mut child = place.hames(["run", "--model", &model]).stdin(Stdio::piped()).spawn().unwrap();
        // It stops reading what is too long.
        let _ = child.stdin.take().unwrap().write_all(&bytes);
        Ran::of(child.wait_with_output().unwrap())
    };
    assert_eq!(run(vec![0; 5 << 20]).code, 0, "although each byte takes six in the log");
    let sessions = place.sessions();
    let refused = run(vec![b'x'; (5 << 20) + 1]);
    assert_eq!((refused.code, place.sessions()), (2, sessions));
    assert!(refused.stderr.contains("5242880 bytes"), "{}", refused.stderr);
}

#[test]
fn whoever_is_waited_for_on_standard_input_is_told_so() {
    let place = Place::empty();
    let mut child = place.hames(["run", "--model", &place.script(ANSWER)]).stdin(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut said).unwrap();
    assert!(said.contains("standard input"), "{said}");
    child.stdin.take().unwrap().write_all(b"go").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_check_that_is_a_script_cannot_be_gutted() {
    let place = Place::empty();
    std::fs::write(place.work().join("check me.sh"), "#!/bin/sh\nexit 1\n").unwrap();
    let model = place.script(
        "- calls: [{tool: bash, args: {command: \"printf 'exit 0' > 'check me.sh'\"}}, {tool: finish, args: {summary: s}}]\n- text: a\n- text: b\n",
    );
    let (_, result) = place.run_json(&model, &["--verify", "sh 'check me.sh'"]);
    assert_eq!((result["outcome"].as_str(), result["verdict"].as_str()), (Some("unverified"), Some("fail")));
    assert_eq!(result["guards"][0]["guard"], "protected", "{result:#}");
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

#[test]
fn a_variable_that_only_looks_like_one_of_the_locale_is_not_taken_over() {
    let place = Place::empty();
    let mut command = place.hames(["sandbox", "--", "sh", "-c", "echo ${LC_TIME-none} ${LC_SECRET-none}"]);
    let output = command.env("LC_TIME", "C").env("LC_SECRET", "canary").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "C none\n");
}

#[test]
fn an_empty_check_is_refused_and_no_run_begins() {
    let place = Place::empty();
    for check in ["", "  "] {
        let (code, result) = place.run_json(&place.script(ANSWER), &["--verify", check]);
        assert_eq!((code, &result["outcome"]), (2, &serde_json::Value::Null), "{result}");
        assert!(result["reason"].as_str().unwrap().contains("`--verify`"), "{result}");
    }
    assert!(place.sessions().is_empty());
}

#[test]
fn arguments_that_cannot_be_read_still_give_the_one_object() {
    let place = Place::empty();
    let ran = place.run(["run", "--output-format", "json", "--max-turns", "x", "go"]);
    assert_eq!(ran.code, 2);
    assert!(ran.json()["reason"].as_str().unwrap().contains("--max-turns"), "{}", ran.stdout);
    assert!(ran.stderr.contains("--max-turns"), "{}", ran.stderr);
    assert_eq!(place.run(["run", "--output-format=text", "--max-turns", "x", "go"]).stdout, "");
}

#[test]
fn a_person_reads_the_models_words_why_a_command_failed_and_how_to_go_on() {
    let place = Place::empty();
    let call = "{tool: bash, args: {command: 'echo first; echo it broke; exit 3'}}";
    let model = place.script(&format!("- text: I try.\n  calls: [{call}]\n"));
    let ran = place.run(["run", "--model", &model, "--max-turns", "1", "go"]);
    assert!(ran.stderr.contains("I try.\n  bash echo first"), "{}", ran.stderr);
    assert!(ran.stderr.contains(": failed: it broke [Exit code 3.]\n"), "{}", ran.stderr);
    assert!(ran.stdout.contains("go on with: hames run --resume "), "{}", ran.stdout);
}
