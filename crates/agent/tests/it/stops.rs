//! Cancelling, crashing and resuming: the log is complete, every call is answered, nothing is repeated blindly.

use hames_protocol::{CancelCause, Command, Entry, Event, FINISH, Outcome, Verdict};
use serde_json::json;

use crate::world::{Play, World, call, says, text};

fn cancel_after(ms: u64) -> impl futures_core::Stream<Item = Command> + Send {
    futures_util::stream::unfold(Some(ms), |wait| async move {
        match wait {
            Some(ms) => {
                tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
                Some((Command::Cancel { cause: CancelCause::Interrupt }, None))
            }
            None => std::future::pending().await,
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_cancel_stops_running_calls_and_answers_every_open_one() {
    let calls = vec![call("a", "sh", json!({})), call("b", "sh", json!({"n": 2})), call("c", "look", json!({}))];
    let world = World::new(vec![says(calls), says(vec![text("ok")])]).slow_tools();
    let result = world.run_with("go", cancel_after(100)).await.unwrap();
    assert_eq!(result.outcome, Outcome::Cancelled);
    assert_eq!(world.ran(), ["sh {}"], "it never ended, and no other began");
    assert_eq!(world.run("again").await.outcome, Outcome::Answered, "the conversation is whole");
    let last = world.requests().pop().unwrap();
    assert_eq!(last[2]["results"].as_array().unwrap().iter().filter(|r| r[1] == "cancelled").count(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_a_stopped_call_changed_is_told() {
    let run = async |name: &str| {
        let mut world = World::new(vec![says(vec![call("a", name, json!({}))])]).slow_tools();
        world.limits.max_time_ms = 1_000;
        world.run("go").await.files_changed
    };
    let changed = run("sh").await;
    assert_eq!(changed.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["left-behind"]);
    assert_eq!(run("look").await, [], "a pure call changed nothing");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_while_the_model_writes_ends_the_attempt() {
    let world = World::new(vec![Play::Hang, says(vec![text("ok")])]);
    let result = world.run_with("go", cancel_after(100)).await.unwrap();
    assert_eq!((result.outcome, result.turns, result.cost_usd), (Outcome::Cancelled, 0, None));
    assert_eq!(result.usage.total(), 101, "what was reported until then is counted");
    assert_eq!(world.run("again").await.outcome, Outcome::Answered);
}

#[tokio::test(start_paused = true)]
async fn what_is_told_as_committed_is_everything_in_the_order_of_the_log() {
    let world = World::new(vec![says(vec![call("a", "sh", json!({}))]), says(vec![text("ok")])]);
    world.run("go").await;
    let told = world.events().into_iter().filter_map(|event| match event {
        Event::Committed(record) => Some(record),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), *world.log.0.lock().unwrap());
}

/// Runs the same script, loses the process after each record in turn, resumes, and looks at the end.
#[tokio::test(start_paused = true)]
async fn a_crash_after_any_record_is_resumed_to_the_same_end() {
    let plays = || {
        vec![
            says(vec![call("a", "look", json!({})), call("b", "sh", json!({"n": 1}))]),
            says(vec![call("c", "put", json!({})), call("d", "finish", json!({"summary": "s"}))]),
        ]
    };
    let whole = World::new(plays()).verified_by(vec![Ok(hames_protocol::Verdict::Pass)]);
    assert_eq!(whole.run("go").await.outcome, Outcome::Done);
    let records = whole.log.0.lock().unwrap().clone();
    for cut in 2..records.len() {
        let kept = records[..cut].to_vec();
        let replies = kept.iter().filter(|r| matches!(r.entry, Entry::AttemptEnded(_))).count();
        let rest = plays().into_iter().skip(replies).collect();
        let resumed = World::new(rest).verified_by(vec![Ok(hames_protocol::Verdict::Pass)]);
        *resumed.log.0.lock().unwrap() = kept.clone();
        let result = resumed.run("").await;
        assert_eq!(result.outcome, Outcome::Done, "after {cut}: {:?}", kept.last());
        assert_eq!((result.turns, result.tool_calls, result.summary.as_str()), (2, 4, "s"));
        let began = |name: &str| kept.iter().any(|r| matches!(&r.entry, Entry::Started(id) if id.as_str() == name));
        let reran = resumed.ran().iter().any(|line| line.starts_with("sh {"));
        assert!(!(began("call-2") && reran), "a call that began is not repeated blindly (after {cut})");
    }
}

#[tokio::test(start_paused = true)]
async fn a_finished_session_has_nothing_to_continue() {
    let world = World::new(vec![says(vec![text("42")])]);
    world.run("?").await;
    let problem = world.run_with("", futures_util::stream::pending()).await.unwrap_err();
    assert!(problem.to_string().contains("nothing to continue"), "{problem}");
}

#[tokio::test(start_paused = true)]
async fn a_limited_run_is_continued_without_a_prompt() {
    let calls = |id: &str, n: u32| says(vec![call(id, "put", json!({"n": n}))]);
    let mut world = World::new(vec![calls("a", 1), says(vec![text("ok")])]);
    world.limits.max_turns = 1;
    assert_eq!(world.run("go").await.outcome, Outcome::Limit);
    let result = world.run("").await;
    assert_eq!((result.outcome, result.run_id.as_str()), (Outcome::Answered, "run-2"));
}

/// The first answer comes before the workspace was listed; the user may change it before the next prompt.
#[tokio::test(start_paused = true)]
async fn an_effect_of_one_run_is_not_taken_for_one_of_the_next() {
    let world =
        World::new(vec![says(vec![text("42")]), says(vec![call("a", "put", json!({}))]), says(vec![text("ok")])]);
    let mut driver = world.driver();
    for prompt in ["?", "go"] {
        let ended = driver.run(world.prompt(prompt), futures_util::stream::pending()).await.unwrap();
        assert_eq!(ended.outcome, Outcome::Answered);
    }
    assert_eq!(*world.verifier.baselines.lock().unwrap(), 2, "each run keeps what it found at its start");
}

fn job(name: &str) -> Play {
    says(vec![call("a", "sh", json!({"job": name}))])
}

fn finish(id: &str) -> Play {
    says(vec![call(id, FINISH, json!({"summary": "s"}))])
}

/// The place of the first entry of this kind in the log.
fn place(world: &World, wanted: fn(&Entry) -> bool) -> usize {
    world.log.0.lock().unwrap().iter().position(|record| wanted(&record.entry)).expect("it is in the log")
}

#[tokio::test(start_paused = true)]
async fn jobs_are_ended_before_the_verifier_judges_and_the_refusal_names_them() {
    let world = World::new(vec![job("job-1"), finish("b"), finish("c")]);
    let world = world.verified_by(vec![Ok(Verdict::Fail), Ok(Verdict::Pass)]);
    let result = world.run("go").await;
    assert_eq!(result.outcome, Outcome::Done);
    assert!(place(&world, |e| matches!(e, Entry::JobsEnded(_))) < place(&world, |e| matches!(e, Entry::Judged(..))));
    let last = world.requests().pop().unwrap();
    let refusal = last[4]["results"][0][2].as_str().unwrap();
    assert!(refusal.contains("Ended before the checks: job-1."), "{refusal}");
    assert_eq!(result.files_changed.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["by-job"]);
    assert_eq!(result.guards[0].reason, "It tried.");
    let ended = world.log.0.lock().unwrap().iter().filter(|r| matches!(r.entry, Entry::JobsEnded(_))).count();
    assert_eq!(ended, 1, "none was left for the second one");
}

#[tokio::test(start_paused = true)]
async fn no_job_outlives_its_run_however_that_ends() {
    let check = async |world: World, ms: Option<u64>, outcome: Outcome| {
        let commands = ms.map_or_else(|| cancel_after(u64::MAX / 4), cancel_after);
        assert_eq!(world.run_with("go", commands).await.unwrap().outcome, outcome);
        assert_eq!(*world.tools.jobs.lock().unwrap(), Vec::<String>::new(), "{outcome:?}");
        let records = world.log.0.lock().unwrap();
        let ends: Vec<&Entry> = records[records.len() - 3..].iter().map(|record| &record.entry).collect();
        assert!(
            matches!(ends[..], [Entry::JobsEnded(_), Entry::Surveyed(_), Entry::RunEnded(_)]),
            "{outcome:?}: {ends:?}"
        );
    };
    check(World::new(vec![job("job-1"), says(vec![text("ok")])]), None, Outcome::Answered).await;
    check(World::new(vec![job("job-1"), finish("b")]), None, Outcome::Answered).await;
    check(World::new(vec![job("job-1"), Play::Hang]), Some(1_000), Outcome::Cancelled).await;
    check(World::new(vec![job("job-1")]), None, Outcome::ModelFailed).await;
    let mut short = World::new(vec![job("job-1"), Play::Hang]);
    short.limits.max_time_ms = 1_000;
    check(short, None, Outcome::Limit).await;
    let mut few = World::new(vec![job("job-1")]);
    few.limits.max_turns = 1;
    check(few, None, Outcome::Limit).await;
}

#[tokio::test(start_paused = true)]
async fn a_prompt_after_a_crash_first_tells_what_the_lost_jobs_had_changed() {
    let world = World::new(vec![job("job-1"), Play::Hang, says(vec![text("ok")])]);
    let crash = tokio::time::timeout(std::time::Duration::from_secs(1), world.run("go"));
    assert!(crash.await.is_err());
    assert_eq!(world.run("again").await.outcome, Outcome::Answered);
    let (ended, over) =
        (place(&world, |e| matches!(e, Entry::JobsEnded(_))), place(&world, |e| matches!(e, Entry::RunEnded(_))));
    // The workspace is looked at once more between the two.
    assert_eq!(ended + 2, over);
}
