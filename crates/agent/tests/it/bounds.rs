//! Promise P7: bounds in turns, time, tokens and money, and in lack of progress; retries are bounded as well.

use hames_protocol::{FailureKind, Limits, ModelFailure, Outcome, StopReason, Verdict};
use serde_json::json;

use crate::world::{Play, World, call, failure, reply_with, says, text};

fn repeating(count: usize, make: impl Fn(usize) -> Vec<hames_protocol::Part>) -> Vec<Play> {
    (0..count).map(|index| says(make(index))).collect()
}

fn bounded(plays: Vec<Play>, limits: Limits) -> World {
    let mut world = World::new(plays);
    world.limits = limits;
    world
}

#[tokio::test(start_paused = true)]
async fn turns_are_bounded() {
    let plays = repeating(9, |index| vec![call(&format!("c{index}"), "put", json!({"n": index}))]);
    let world = bounded(plays, Limits { max_turns: 3, ..Limits::default() });
    let result = world.run("go").await;
    assert_eq!((result.outcome, result.turns, world.starts()), (Outcome::Limit, 3, 3));
    assert_eq!(result.files_changed.len(), 3, "a bounded run still tells what it did");
}

#[tokio::test(start_paused = true)]
async fn tokens_are_bounded_and_one_reply_may_overshoot() {
    let plays = repeating(9, |index| vec![call(&format!("c{index}"), "put", json!({"n": index}))]);
    let result = bounded(plays, Limits { max_tokens: 200, ..Limits::default() }).run("go").await;
    assert_eq!((result.outcome, result.turns, result.usage.total()), (Outcome::Limit, 2, 220));
}

#[tokio::test(start_paused = true)]
async fn money_is_bounded() {
    let plays = repeating(9, |index| vec![call(&format!("c{index}"), "put", json!({"n": index}))]);
    let result = bounded(plays, Limits { max_cost_usd: Some(0.0003), ..Limits::default() }).run("go").await;
    assert_eq!((result.outcome, result.turns), (Outcome::Limit, 2));
    assert!((result.cost_usd.unwrap() - 0.0004).abs() < 1e-9);
}

#[tokio::test(start_paused = true)]
async fn time_is_bounded_also_within_a_call() {
    let plays = vec![says(vec![call("a", "sh", json!({})), call("b", "sh", json!({"n": 2}))])];
    let mut world = World::new(plays).slow_tools();
    world.limits.max_time_ms = 1_000;
    let result = world.run("go").await;
    assert_eq!((result.outcome, result.duration_ms), (Outcome::Limit, 1_000));
    assert_eq!(world.ran().len(), 1, "the running call was stopped and the other never began");
}

#[tokio::test(start_paused = true)]
async fn time_is_bounded_while_the_model_is_silent() {
    let mut world = World::new(vec![Play::Hang]);
    world.limits.max_time_ms = 1_000;
    assert_eq!(world.run("go").await.outcome, Outcome::Limit);
}

#[tokio::test(start_paused = true)]
async fn the_same_turn_is_told_after_three_and_ends_the_run_after_five() {
    let plays = repeating(9, |index| vec![text(&format!("try {index}")), call(&format!("c{index}"), "sh", json!({}))]);
    let world = World::new(plays);
    let result = world.run("go").await;
    assert_eq!((result.outcome, result.turns), (Outcome::Stuck, 5));
    let told = |messages: &Vec<serde_json::Value>| {
        messages.iter().filter(|m| m["user"][0].as_str().is_some_and(|t| t.contains("same calls"))).count()
    };
    assert_eq!(world.requests().iter().map(told).collect::<Vec<_>>(), [0, 0, 0, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_cycle_of_four_turns_is_a_repetition_and_five_is_not() {
    let cycle = |length: usize| {
        let plays = repeating(30, |index| vec![call(&format!("c{index}"), "sh", json!({"n": index % length}))]);
        World::new(plays)
    };
    let four = cycle(4).run("go").await;
    assert_eq!((four.outcome, four.turns), (Outcome::Stuck, 20));
    assert_eq!(cycle(5).run("go").await.outcome, Outcome::ModelFailed, "the script is over first");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_workspace_is_progress() {
    let plays = repeating(12, |index| vec![call(&format!("c{index}"), "put", json!({}))]);
    assert_eq!(World::new(plays).run("go").await.turns, 12);
}

#[tokio::test(start_paused = true)]
async fn an_edit_that_fails_the_same_way_three_times_ends_the_run() {
    let edit = |index: usize| vec![call(&format!("c{index}"), "put", json!({"invalid": "no match", "path": "f"}))];
    let plays = repeating(9, |index| {
        let mut parts = edit(index);
        parts.push(call(&format!("d{index}"), "sh", json!({"n": index})));
        parts
    });
    let result = World::new(plays).run("go").await;
    assert_eq!((result.outcome, result.turns), (Outcome::Stuck, 3));
}

#[tokio::test(start_paused = true)]
async fn three_failed_finishes_without_a_change_end_the_run() {
    let plays = repeating(9, |index| {
        vec![call(&format!("d{index}"), "sh", json!({"n": index})), call(&format!("c{index}"), "finish", json!({}))]
    });
    let world = World::new(plays).verified_by(vec![Ok(Verdict::Fail); 9]);
    let result = world.run("go").await;
    assert_eq!((result.outcome, result.turns), (Outcome::Stuck, 3));
    assert_eq!(result.verdict, Some(Verdict::Fail));
}

#[tokio::test(start_paused = true)]
async fn three_cut_replies_in_a_row_end_the_run() {
    let cut = |index: usize| Play::Reply(reply_with(StopReason::OutputLimit, vec![text(&format!("part {index}"))]));
    let result = World::new((0..9).map(cut).collect()).run("go").await;
    assert_eq!((result.outcome, result.turns), (Outcome::Stuck, 3));
}

#[tokio::test(start_paused = true)]
async fn a_cut_text_is_continued_and_never_taken_for_an_answer() {
    let cut = Play::Reply(reply_with(StopReason::OutputLimit, vec![text("The answer is")]));
    let world = World::new(vec![cut, says(vec![text("42.")])]);
    assert_eq!(world.run("?").await.outcome, Outcome::Answered);
    let second = &world.requests()[1];
    assert_eq!(second[1]["text"], "The answer is");
    assert!(second[2]["user"][0].as_str().unwrap().contains("Continue exactly"));
}

#[tokio::test(start_paused = true)]
async fn an_empty_reply_is_asked_for_again_once() {
    let blank = || says(vec![text("  \n")]);
    assert_eq!(World::new(vec![blank(), says(vec![text("42")])]).run("?").await.outcome, Outcome::Answered);
    let twice = World::new(vec![blank(), blank(), says(vec![text("42")])]).run("?").await;
    assert_eq!((twice.outcome, twice.turns), (Outcome::ModelFailed, 2));
}

#[tokio::test(start_paused = true)]
async fn a_passing_failure_is_tried_five_times_with_the_same_request() {
    let fail = || Play::Failure(failure(FailureKind::Transient, "Overloaded."));
    let world = World::new(vec![fail(), fail(), fail(), fail(), says(vec![text("ok")])]);
    assert_eq!(world.run("go").await.outcome, Outcome::Answered);
    assert!(world.requests().windows(2).all(|pair| pair[0] == pair[1]));
    let world = World::new((0..9).map(|_| fail()).collect());
    assert_eq!(world.run("go").await.outcome, Outcome::ModelFailed);
    assert_eq!(world.requests().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_final_failure_is_not_tried_again() {
    let world = World::new(vec![Play::Failure(failure(FailureKind::Credential, "The key is wrong."))]);
    let result = world.run("go").await;
    assert_eq!((result.outcome, result.reason.as_str()), (Outcome::ModelFailed, "The key is wrong."));
    assert_eq!(world.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_told_and_a_wait_of_hours_ends_the_run() {
    let wait = |ms| ModelFailure { retry_after_ms: Some(ms), ..failure(FailureKind::Transient, "Slow down.") };
    let world = World::new(vec![Play::Failure(wait(12_000)), says(vec![text("ok")])]);
    let result = world.run("go").await;
    assert!(result.duration_ms >= 12_000 && result.duration_ms < 15_100, "{}", result.duration_ms);
    assert!(world.events().iter().any(|event| matches!(event, hames_protocol::Event::Waiting { .. })));
    let world = World::new(vec![Play::Failure(wait(86_400_000)), says(vec![text("ok")])]);
    let result = world.run("go").await;
    assert_eq!(result.outcome, Outcome::ModelFailed);
    assert!(result.duration_ms < 1_000 && result.reason.contains("24h"), "{}", result.reason);
}

#[tokio::test(start_paused = true)]
async fn a_twin_does_not_count_as_another_failure() {
    let finishes = || (0..3).map(|index| call(&format!("c{index}"), "finish", json!({}))).collect();
    let edits = || {
        let edit = json!({"invalid": "no match", "path": "f"});
        (0..3).map(|index| call(&format!("d{index}"), "put", edit.clone())).collect()
    };
    let world = World::new(vec![says(finishes()), says(edits()), says(vec![call("e", "finish", json!({}))])]);
    let result = world.verified_by(vec![Ok(Verdict::Fail), Ok(Verdict::Pass)]).run("go").await;
    assert_eq!((result.outcome, result.turns), (Outcome::Done, 3), "{}", result.reason);
}

#[tokio::test(start_paused = true)]
async fn every_repetition_is_told_before_it_ends_the_run() {
    let plays = repeating(8, |index| vec![call(&format!("c{index}"), "sh", json!({"n": index / 4}))]);
    let world = World::new(plays);
    world.run("go").await;
    let told = |messages: &Vec<serde_json::Value>| {
        messages.iter().filter(|m| m["user"][0].as_str().is_some_and(|t| t.contains("same calls"))).count()
    };
    assert_eq!(world.requests().last().map(told), Some(2));
}
