//! `bash` and `run_tests`.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use hames_protocol::port::*;
use hames_protocol::*;
use serde_json::json;

use crate::world::{Checks, PROTECTED, World};

#[tokio::test]
async fn a_command_is_told_by_its_exit() {
    let world = World::new();
    let result = world.bash("echo hi").await;
    assert_eq!((result.status, result.text().as_str()), (Status::Ok, "hi"));
    let result = world.bash("echo out; echo err >&2; exit 7").await;
    assert_eq!((result.status, result.text().as_str()), (Status::Failed, "out\nerr\n[Exit code 7.]"));
    assert_eq!(result.data["code"], 7);
    assert_eq!(world.bash("true").await.text(), "(no output)");
    assert_eq!(world.bash("kill -9 $$").await.text(), "[Ended by signal 9 (SIGKILL).]");
    let result = world.bash("no-such-program").await;
    assert_eq!(result.data["code"], 127);
    assert_eq!(result.permanent, None);
}

#[tokio::test]
async fn what_a_command_leaves_behind_is_ended_and_counted() {
    let world = World::new();
    let begun = Instant::now();
    let text = world.bash("sleep 300 & sleep 300 & echo done").await.text();
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert!(text.starts_with("done\n[2 background processes were ended with the command."), "{text}");
}

#[tokio::test]
async fn a_timed_out_command_shows_what_it_had_printed() {
    let world = World::new();
    let call = json!({"command": "echo progress; sleep 300", "timeout_ms": 2_000});
    let result = world.run("bash", call).await;
    assert_eq!(result.status, Status::Failed);
    assert!(result.text().starts_with("progress\n[Timed out after 2,000 ms;"), "{}", result.text());
    assert_eq!(result.data["exit"], "timed_out");
}

#[tokio::test]
async fn changes_to_files_are_observed_not_believed() {
    let world = World::new();
    world.put("old", "a");
    world.workspace.observe().unwrap();
    let result = world.bash("rm old; echo b > new").await;
    let changes: Vec<(&str, ChangeKind)> =
        result.changes.iter().map(|change| (change.path.as_str(), change.change)).collect();
    assert_eq!(changes, [("new", ChangeKind::Added), ("old", ChangeKind::Deleted)]);
}

#[tokio::test]
async fn an_attempt_on_a_protected_path_is_a_guard_that_fired() {
    let world = World::new();
    let attempt = Attempt { path: PROTECTED.to_owned(), rule: "a test file".to_owned(), action: "rename".to_owned() };
    world.shell.attempts.lock().unwrap().push(attempt);
    let result = world.bash("true").await;
    assert_eq!(result.fired.len(), 1);
    assert_eq!(result.fired[0].guard, Guard::Protected);
    let text = result.text();
    assert!(
        text.contains("`tests/test_sum.py` is protected (a test file) and was not changed (tried: rename)."),
        "{text}"
    );
    assert!(text.contains("Reach the goal without changing protected paths."), "{text}");
}

#[tokio::test]
async fn the_working_directory_goes_on_and_changes_of_it_are_told() {
    let world = World::new();
    let text = world.bash("mkdir -p t/w && cd t/w").await.text();
    assert_eq!(text, "[The working directory is now `t/w`.]");
    assert!(world.bash("pwd").await.text().ends_with("/t/w"));
    let text = world.bash("cd / && cd /usr").await.text();
    assert!(text.contains("`/usr` is outside the workspace; the next command starts in the workspace root"), "{text}");
    assert!(world.bash("pwd").await.text().ends_with("/work"));
}

#[tokio::test]
async fn a_working_directory_that_vanished_falls_back_to_a_living_parent_and_says_so_once() {
    let world = World::new();
    world.bash("mkdir -p t/w/v && cd t/w/v").await;
    world.bash("rm -rf ../../../t/w").await;
    let text = world.bash("echo alive").await.text();
    let note = "[The working directory `t/w/v` is gone or cannot be entered; this command ran in `t`.]";
    assert_eq!(text, format!("alive\n{note}"));
    assert_eq!(world.bash("echo alive").await.text(), "alive");
    let text = world.bash("cd .. && pwd").await.text();
    assert!(text.contains("[The working directory is now the workspace root.]"), "{text}");
}

#[tokio::test]
async fn the_working_directory_is_known_again_after_a_restart() {
    let world = World::new();
    let data = world.bash("mkdir d && cd d").await.data;
    let world = world.restarted();
    world.memory.recall(&data);
    assert!(world.bash("pwd").await.text().ends_with("/d"));
}

#[tokio::test]
async fn a_workspace_that_is_gone_ends_the_run_with_the_reason() {
    let world = World::new();
    std::fs::remove_dir_all(&world.workspace.root).unwrap();
    let result = world.bash("echo x").await;
    assert_eq!(result.status, Status::Failed);
    assert!(result.permanent.is_some_and(|text| text.contains("is gone or cannot be read")));
}

#[tokio::test]
async fn long_output_shows_head_and_tail_and_where_the_whole_is() {
    let world = World::new();
    let result = world.bash("seq 1 100000; exit 3").await;
    let text = result.text();
    assert!(text.len() <= 30_000, "{}", text.len());
    assert!(text.starts_with("1\n2\n3\n") && text.ends_with("99999\n100000\n[Exit code 3.]"));
    let left_out = result.data["left_out"].as_u64().unwrap();
    let shown: usize = text.lines().filter(|line| !line.starts_with('[')).map(|line| line.len() + 1).sum();
    // Lines cut at the gap have no line end of their own there, and the last one has been trimmed.
    assert!((588_895 - left_out).abs_diff(shown as u64) <= 2, "{left_out} left out, {shown} shown");
    assert!(text.contains("bytes left out; the whole output is in /tmp/outputs/call-1.txt …]"), "{text}");
    let whole = world.ok("search", json!({"pattern": "^54321$", "path": "/tmp/outputs/call-1.txt"})).await;
    assert_eq!(whole.text(), "/tmp/outputs/call-1.txt:54321:54321");
}

#[tokio::test]
async fn odd_bytes_become_plain_text_and_are_told() {
    let world = World::new();
    let table = [
        (r#"printf 'a\0b'"#, "ab\n[Control characters were left out.]"),
        (r#"printf 'caf\xe9'"#, "caf\u{fffd}\n[Bytes that are not UTF-8 are shown as \u{fffd}.]"),
        (r#"printf '\033]52;c;AAAA\007\033[31mred\033[0m'"#, "red"),
        (r#"for i in $(seq 10000); do printf '\r%d' $i; done; echo"#, "10000"),
    ];
    for (command, expected) in table {
        assert_eq!(world.bash(command).await.text(), expected, "{command}");
    }
    let text = world.bash("head -c 65536 /dev/urandom").await.text();
    assert!(text.len() <= 30_000);
    assert!(text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
}

#[tokio::test]
async fn a_cut_never_splits_a_character() {
    let world = World::new();
    for shift in 0..8 {
        let command = format!("printf 'x%.0s' $(seq 1 {shift}); yes 😀😀😀😀😀😀😀😀😀😀 | head -n 8000 | tr -d '\\n'");
        let text = world.bash(&command).await.text();
        assert!(text.len() <= 30_000 && text.contains("bytes left out"), "shift {shift}: {}", text.len());
        assert!(!text.contains('\u{fffd}'), "shift {shift}");
    }
}

#[tokio::test]
async fn output_is_heard_while_it_comes_without_control_sequences() {
    let world = World::new();
    let heard = Mutex::new(String::new());
    let call = world.call("bash", json!({"command": "printf '\\033[31mhello'"}));
    world.registry.run(&call, &|text| heard.lock().unwrap().push_str(text)).await;
    assert_eq!(heard.into_inner().unwrap(), "hello");
}

#[tokio::test]
async fn a_command_in_doubt_is_answered_with_what_changed() {
    let world = World::new();
    let call = world.call("bash", json!({"command": "echo x >> log"}));
    let examined = world.registry.examine(&call).await;
    assert_eq!((examined.class, examined.reach), (EffectClass::Once, Reach::Workspace));
    let Probe::Settled(result) = world.registry.probe(&call, &examined).await else { panic!("nobody can tell") };
    assert_eq!(result.status, Status::InDoubt);
    let text = result.text();
    assert!(text.contains("No file of the workspace has changed since it began."), "{text}");
    world.put("log", "x\n");
    let Probe::Settled(result) = world.registry.probe(&call, &examined).await else { panic!("nobody can tell") };
    let text = result.text();
    assert!(text.contains("changed: `log`."), "{text}");
}

fn evidence(verdict: Verdict, output: &str) -> CheckEvidence {
    CheckEvidence {
        command: "python3 -m unittest".to_owned(),
        verdict,
        kind: CheckKind::Tests { runner: "unittest".to_owned(), ran: 2, untouched: None },
        exit_code: 1,
        reason: "1 of 2 tests failed.".to_owned(),
        output: output.to_owned(),
    }
}

#[tokio::test]
async fn the_checks_report_what_they_showed() {
    let judgement = |verdict, output: &str| Judgement {
        verdict,
        evidence: vec![evidence(verdict, output)],
        set_aside: vec!["`conftest.py` was set aside.".to_owned()],
    };
    let world = World::with_checks(Checks { rehearsal: Some(Ok(judgement(Verdict::Fail, "FAIL: test_sum\n"))) });
    let result = world.run("run_tests", json!({})).await;
    assert_eq!(result.status, Status::Failed);
    let expected = "`python3 -m unittest` failed (unittest, 2 ran). 1 of 2 tests failed.\nFAIL: test_sum\n\n\
                    Set aside: `conftest.py` was set aside.";
    assert_eq!(result.text(), expected);
    assert_eq!(result.data["verdict"], "fail");
    let long = judgement(Verdict::Pass, &"\u{1b}[32mok\u{1b}[0m\n".repeat(20_000));
    let world = World::with_checks(Checks { rehearsal: Some(Ok(long)) });
    let result = world.ok("run_tests", json!({})).await;
    assert!(result.text().len() <= 30_000 && result.text().contains("bytes left out"));
    assert!(!result.text().contains('\u{1b}'));
}

#[tokio::test]
async fn a_check_whose_program_is_missing_ends_the_run() {
    let problem =
        VerifyProblem::MissingProgram { command: "pytest".to_owned(), why: "`pytest` is not there".to_owned() };
    let world = World::with_checks(Checks { rehearsal: Some(Err(problem.clone())) });
    let result = world.run("run_tests", json!({})).await;
    assert_eq!((result.status, result.permanent), (Status::Failed, Some(problem.to_string())));
    let world = World::with_checks(Checks { rehearsal: Some(Err(VerifyProblem::System("No sandbox.".to_owned()))) });
    assert_eq!(world.run("run_tests", json!({})).await.permanent, None);
}
