//! Promises P1, P2 and P4 in the loop: one result for each call, three gates before any effect, done is a verdict.

use hames_protocol::port::VerifyProblem;
use hames_protocol::{Guard, Outcome, StopReason, Verdict};
use serde_json::json;

use crate::world::{Play, World, call, reply_with, says, text};

fn guards(result: &hames_protocol::RunResult) -> Vec<Guard> {
    result.guards.iter().map(|fired| fired.guard).collect()
}

#[tokio::test(start_paused = true)]
async fn every_call_gets_its_result_in_call_order_although_they_end_in_another() {
    let calls = vec![call("a", "look", json!({"ms": 50})), call("b", "look", json!({"ms": 1}))];
    let world = World::new(vec![says(calls), says(vec![text("ok")])]);
    let result = world.run("go").await;
    assert_eq!(result.outcome, Outcome::Answered);
    assert_eq!((result.turns, result.tool_calls), (2, 2));
    let last = &world.requests()[1];
    assert_eq!(last[2]["results"][0][0], "a");
    assert_eq!(last[2]["results"][1][0], "b");
    assert_eq!(world.ran()[..2], [r#"look {"ms":50}"#, r#"look {"ms":1}"#], "pure calls run beside each other");
}

#[tokio::test(start_paused = true)]
async fn calls_that_change_something_run_one_after_another() {
    let calls = vec![call("a", "sh", json!({"n": 1})), call("b", "put", json!({})), call("c", "look", json!({}))];
    let world = World::new(vec![says(calls), says(vec![text("ok")])]);
    world.run("go").await;
    let order: Vec<String> = world.ran().iter().map(|line| line.split(" {").next().unwrap().to_owned()).collect();
    assert_eq!(order, ["sh", "sh ended", "put", "put ended", "look", "look ended"]);
}

#[tokio::test(start_paused = true)]
async fn no_call_of_a_reply_cut_at_the_output_limit_runs() {
    let calls = vec![call("a", "sh", json!({"whole": true})), call("b", "put", json!({"content": "half"}))];
    let cut = Play::Reply(reply_with(StopReason::OutputLimit, calls));
    let world = World::new(vec![cut, says(vec![text("ok")])]);
    let result = world.run("go").await;
    assert!(world.ran().is_empty());
    assert_eq!(guards(&result), [Guard::Complete, Guard::Complete]);
    assert!(world.requests()[1][2]["results"][1][2].as_str().unwrap().contains("output limit"));
}

#[tokio::test(start_paused = true)]
async fn no_call_of_a_reply_with_broken_arguments_runs() {
    let calls = vec![call("a", "sh", json!({"whole": true})), call("b", "put", json!("{\"con"))];
    let world = World::new(vec![says(calls), says(vec![text("ok")])]);
    let result = world.run("go").await;
    assert!(world.ran().is_empty());
    assert_eq!(guards(&result), [Guard::Complete, Guard::Complete]);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_call_is_refused_and_the_others_run() {
    let calls = vec![call("a", "nosuch", json!({})), call("b", "sh", json!({}))];
    let world = World::new(vec![says(calls), says(vec![text("ok")])]);
    let result = world.run("go").await;
    assert_eq!(world.starts(), 1);
    assert_eq!(guards(&result), [Guard::Valid]);
    assert_eq!((result.guards[0].tool.as_str(), result.guards[0].call_id.as_str()), ("nosuch", "a"));
}

#[tokio::test(start_paused = true)]
async fn an_identical_twin_runs_once_and_both_get_the_result() {
    let calls = vec![call("a", "sh", json!({"x": 1})), call("a", "sh", json!({"x": 1}))];
    let world = World::new(vec![says(calls), says(vec![text("ok")])]);
    world.run("go").await;
    assert_eq!(world.starts(), 1);
    let results = &world.requests()[1][2]["results"];
    assert_eq!(results.as_array().unwrap().len(), 2);
    assert_ne!(results[0][0], results[1][0], "the repeated id is replaced");
    assert_eq!(results[0][2], results[1][2]);
}

#[tokio::test(start_paused = true)]
async fn an_id_that_repeats_or_is_not_valid_is_replaced() {
    let world = World::new(vec![
        says(vec![call("a", "sh", json!({"x": 1}))]),
        says(vec![call("a", "sh", json!({"x": 2}))]),
        says(vec![call("no good!", "sh", json!({"x": 3}))]),
        says(vec![text("ok")]),
    ]);
    world.run("go").await;
    let last = world.requests().pop().unwrap();
    assert_eq!([&last[1]["calls"][0], &last[3]["calls"][0], &last[5]["calls"][0]], ["a", "call-2", "call-3"]);
}

#[tokio::test(start_paused = true)]
async fn finish_runs_last_and_is_done_only_when_the_verifier_says_so() {
    let calls = vec![call("a", "finish", json!({"summary": "fixed"})), call("b", "put", json!({}))];
    let world = World::new(vec![says(calls)]).verified_by(vec![Ok(Verdict::Pass)]);
    let result = world.run("go").await;
    assert_eq!(result.outcome, Outcome::Done);
    assert_eq!((result.verdict, result.summary.as_str()), (Some(Verdict::Pass), "fixed"));
    assert_eq!(world.starts(), 1, "the other call ran before");
}

#[tokio::test(start_paused = true)]
async fn a_finish_that_fails_is_a_guard_that_fired_and_the_run_goes_on() {
    let finish = |id: &str| says(vec![call(id, "finish", json!({"summary": "s"}))]);
    let world =
        World::new(vec![finish("a"), finish("b")]).verified_by(vec![Ok(Verdict::Unverifiable), Ok(Verdict::Pass)]);
    let result = world.run("go").await;
    assert_eq!(result.outcome, Outcome::Done);
    assert_eq!(guards(&result), [Guard::Finish]);
    assert_eq!(world.requests()[1][2]["results"][0][1], "refused");
}

#[tokio::test(start_paused = true)]
async fn stopping_without_finish_gets_one_reminder_and_is_then_unverified() {
    let world = World::new(vec![says(vec![text("done!")]), says(vec![text("really")])]).verified_by(vec![]);
    let result = world.run("go").await;
    assert_eq!(result.outcome, Outcome::Unverified);
    assert_eq!(result.verdict, None);
    assert!(world.requests()[1].last().unwrap()["user"][0].as_str().unwrap().contains("call finish"));
}

#[tokio::test(start_paused = true)]
async fn without_checks_an_answer_or_finish_is_answered() {
    let answer = World::new(vec![says(vec![text("42")])]).run("?").await;
    assert_eq!((answer.outcome, answer.summary.as_str()), (Outcome::Answered, "42"));
    let world = World::new(vec![says(vec![call("a", "finish", json!({"summary": "43"}))])]);
    let finish = world.run("?").await;
    assert_eq!((finish.outcome, finish.summary.as_str()), (Outcome::Answered, "43"));
}

#[tokio::test(start_paused = true)]
async fn a_check_that_cannot_run_ends_the_run_as_tool_failed() {
    let missing = VerifyProblem::MissingProgram { command: "nope".into(), why: "`nope` is not installed".into() };
    let finish = says(vec![call("a", "finish", json!({"summary": "s"}))]);
    let result = World::new(vec![finish]).verified_by(vec![Err(missing)]).run("go").await;
    assert_eq!(result.outcome, Outcome::ToolFailed);
    assert!(result.reason.contains("`nope` is not installed"), "{}", result.reason);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_failed_for_good_ends_the_run_with_every_call_answered() {
    let calls = vec![call("a", "sh", json!({"permanent": "The disk is gone."})), call("b", "sh", json!({}))];
    let world = World::new(vec![says(calls), says(vec![text("later")])]);
    let result = world.run("go").await;
    assert_eq!((result.outcome, result.reason.as_str()), (Outcome::ToolFailed, "The disk is gone."));
    assert_eq!(world.starts(), 1);
    assert_eq!(world.run("again").await.outcome, Outcome::Answered);
}

/// A provider that breaks its reply off, or has no room left, may have cut it anywhere.
#[tokio::test(start_paused = true)]
async fn no_call_of_a_reply_that_the_provider_broke_off_runs() {
    for (stop, outcome) in [(StopReason::Refusal, Outcome::ModelFailed), (StopReason::ContextWindow, Outcome::Limit)] {
        let calls = vec![call("a", "sh", json!({})), call("b", "look", json!({}))];
        let broken = Play::Reply(reply_with(stop.clone(), calls));
        let world = World::new(vec![broken, says(vec![text("ok")])]);
        let result = world.run("go").await;
        assert!(world.ran().is_empty(), "{stop:?}");
        assert_eq!((result.outcome, world.requests().len()), (outcome, 1), "asking again cannot help");
        assert_eq!(guards(&result), [Guard::Complete, Guard::Complete]);
        assert_eq!(world.run("go on").await.outcome, Outcome::Answered, "the conversation is whole");
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_context_window_is_named_even_when_the_reply_is_empty() {
    let world = World::new(vec![Play::Reply(reply_with(StopReason::ContextWindow, Vec::new()))]);
    let result = world.run("go").await;
    assert_eq!((result.outcome, world.requests().len()), (Outcome::Limit, 1));
}

#[tokio::test(start_paused = true)]
async fn a_second_finish_does_not_replace_the_summary_of_the_accepted_one() {
    let finish = |id: &str, summary: &str| call(id, "finish", json!({"summary": summary}));
    let world = World::new(vec![says(vec![finish("a", "first"), finish("b", "second")])]);
    let world = world.verified_by(vec![Ok(Verdict::Pass)]);
    let result = world.run("go").await;
    assert_eq!((result.outcome, result.summary.as_str()), (Outcome::Done, "first"));
}
