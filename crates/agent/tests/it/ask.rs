//! What only a person can say: who answers, who is not there, and what waits meanwhile.

use hames_protocol::{Answer, Ask, CallId, CancelCause, Command, Entry, Outcome, Part, RunResult, Status};
use serde_json::{Value, json};

use crate::world::{AN_HOUR_MS, Play, World, call, says, text};

fn ask(id: &str, question: &str) -> Part {
    call(id, "ask", json!({"question": question}))
}

fn one_question() -> Vec<Play> {
    vec![says(vec![ask("a", "Which?")]), says(vec![text("ok")])]
}

/// The results that the last request holds, as `[id, status, text]`.
fn last_results(world: &World) -> Vec<Value> {
    let messages = world.requests().pop().unwrap();
    messages.iter().rev().find_map(|message| message["results"].as_array().cloned()).unwrap()
}

fn entries(world: &World) -> Vec<Entry> {
    world.log.0.lock().unwrap().iter().map(|record| record.entry.clone()).collect()
}

fn told(result: &RunResult) -> (Outcome, &str, u32) {
    (result.outcome, result.run_id.as_str(), result.turns)
}

#[tokio::test(start_paused = true)]
async fn the_answer_is_the_result_and_waiting_for_it_takes_none_of_the_time() {
    let world = World::new(one_question()).with_person(&["The second."]);
    let result = world.run("go").await;
    assert_eq!(told(&result), (Outcome::Answered, "run-1", 2));
    assert_eq!(last_results(&world), [json!(["a", "ok", "The second."])]);
    assert_eq!(*world.person.asked.lock().unwrap(), [Ask::Question("Which?".into())]);
    assert!(world.limits.max_time_ms < AN_HOUR_MS && result.duration_ms < 1_000, "{}", result.duration_ms);
    assert_eq!(world.ran(), [""; 0], "the tool itself does not run");
}

#[tokio::test(start_paused = true)]
async fn the_time_that_is_left_is_the_same_after_the_answer() {
    let plays = vec![says(vec![ask("a", "Which?")]), says(vec![call("b", "sh", json!({}))])];
    let mut world = World::new(plays).with_person(&["This."]).slow_tools();
    world.limits.max_time_ms = 10_000;
    let result = world.run("go").await;
    assert_eq!((result.outcome, result.duration_ms), (Outcome::Limit, 10_000));
}

#[tokio::test(start_paused = true)]
async fn with_nobody_there_the_run_is_suspended_and_the_next_prompt_is_the_answer() {
    let world = World::new(one_question());
    let suspended = world.run("go").await;
    assert_eq!(told(&suspended), (Outcome::NeedsApproval, "run-1", 1));
    for part in ["Which?", "hames run --resume s \"ANSWER\""] {
        assert!(suspended.reason.contains(part), "{}", suspended.reason);
    }
    let again = world.run("").await;
    assert_eq!((told(&again), &again.reason), (told(&suspended), &suspended.reason), "asked again, in vain");
    let result = world.run("The second.").await;
    assert_eq!(told(&result), (Outcome::Answered, "run-1", 2), "the same run goes on");
    assert_eq!(last_results(&world), [json!(["a", "ok", "The second."])]);
    assert_eq!(world.person.asked.lock().unwrap().len(), 2, "an answer that is there is not asked for");
}

#[tokio::test(start_paused = true)]
async fn a_suspended_run_goes_on_in_the_process_that_suspended_it() {
    let mut world = World::new(one_question());
    world.limits.max_time_ms = 10_000;
    let mut driver = world.driver();
    let run = async |driver: &mut hames_agent::Driver, prompt: &str| {
        driver.run(world.prompt(prompt), futures_util::stream::pending()).await.unwrap()
    };
    assert_eq!(run(&mut driver, "go").await.outcome, Outcome::NeedsApproval);
    tokio::time::sleep(std::time::Duration::from_millis(AN_HOUR_MS)).await;
    let result = run(&mut driver, "This.").await;
    assert_eq!((told(&result), result.duration_ms < 1_000), ((Outcome::Answered, "run-1", 2), true));
}

#[tokio::test(start_paused = true)]
async fn the_bounds_of_a_suspended_run_are_counted_on() {
    let plays = (0..9).map(|n| says(vec![ask(&format!("a{n}"), &format!("Which {n}?"))])).collect();
    let mut world = World::new(plays);
    world.limits.max_turns = 3;
    assert_eq!(told(&world.run("go").await), (Outcome::NeedsApproval, "run-1", 1));
    world.limits.max_turns = 50;
    assert_eq!(told(&world.run("one").await), (Outcome::NeedsApproval, "run-1", 2));
    assert_eq!(told(&world.run("two").await), (Outcome::NeedsApproval, "run-1", 3));
    let result = world.run("three").await;
    assert_eq!((told(&result), result.usage.total()), ((Outcome::Limit, "run-1", 3), 330));
}

/// The calls of the reply around an ask: those that change nothing go first, all others wait for the answer.
#[tokio::test(start_paused = true)]
async fn an_ask_holds_what_changes_something_and_several_are_asked_in_order() {
    let calls = vec![
        call("a", "look", json!({"n": 1})),
        ask("b", "First?"),
        call("c", "look", json!({"n": 2})),
        ask("d", "Second?"),
        call("e", "put", json!({})),
        call("f", "look", json!({"n": 3})),
        call("g", "finish", json!({})),
    ];
    let world = World::new(vec![says(calls)]);
    assert_eq!(world.run("go").await.outcome, Outcome::NeedsApproval);
    let looks = ["look {\"n\":1}", "look {\"n\":2}", "look ended", "look ended"];
    assert_eq!(world.ran(), looks);
    let second = world.run("1").await;
    assert!(second.outcome == Outcome::NeedsApproval && second.reason.contains("Second?"), "{}", second.reason);
    assert_eq!(world.ran(), looks, "the second ask holds as the first did");
    assert_eq!(world.run("2").await.outcome, Outcome::Answered);
    assert_eq!(world.ran()[4..], ["put {}", "put ended", "look {\"n\":3}", "look ended"]);
    let settled = entries(&world).into_iter().filter_map(|entry| match entry {
        Entry::Answered(id, answer) => Some((id.to_string(), answer)),
        _ => None,
    });
    let answers = [("call-2".to_owned(), Answer::said("1")), ("call-4".to_owned(), Answer::said("2"))];
    assert_eq!(settled.collect::<Vec<_>>(), answers);
}

/// Something wakes the driver when the time of the run would be up if waiting counted, and nothing has happened.
#[tokio::test(start_paused = true)]
async fn no_time_is_up_while_a_person_is_asked() {
    let world = World::new(one_question()).with_person(&["This."]);
    let late = std::time::Duration::from_millis(world.limits.max_time_ms + 60_000);
    let ends_late = futures_util::stream::unfold((), move |()| async move {
        tokio::time::sleep(late).await;
        None::<(Command, ())>
    });
    let result = world.run_with("go", ends_late).await.unwrap();
    assert_eq!(result.outcome, Outcome::Answered, "{}", result.reason);
    assert_eq!(last_results(&world), [json!(["a", "ok", "This."])]);
}

fn from_outside(call: &str) -> Command {
    Command::Answer { call: CallId::new(call), answer: Answer::said("from outside") }
}

fn after(ms: u64, command: Command) -> impl futures_core::Stream<Item = Command> + Send {
    futures_util::stream::unfold(Some(command), move |command| async move {
        match command {
            Some(command) => {
                tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
                Some((command, None))
            }
            None => std::future::pending().await,
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_cancel_while_a_person_is_asked_withdraws_the_question() {
    let calls = vec![ask("a", "Which?"), call("b", "sh", json!({}))];
    let world = World::new(vec![says(calls), says(vec![text("ok")])]).with_person(&["too late"]);
    let result = world.run_with("go", after(100, Command::Cancel { cause: CancelCause::Interrupt })).await.unwrap();
    assert_eq!((result.outcome, world.starts()), (Outcome::Cancelled, 0));
    assert_eq!(told(&world.run("again").await), (Outcome::Answered, "run-2", 1), "a new prompt is no answer any more");
    let statuses = last_results(&world).iter().map(|result| result[1].clone()).collect::<Vec<_>>();
    assert_eq!(statuses, ["cancelled", "cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_may_come_from_outside() {
    let world = World::new(one_question()).with_person(&["at the terminal"]);
    let result = world.run_with("go", after(100, from_outside("call-1"))).await.unwrap();
    assert_eq!((result.outcome, &last_results(&world)[0][2]), (Outcome::Answered, &json!("from outside")));
}

/// It comes when the time of the run would be up if waiting counted, and before its question is asked.
#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_waits_for_changes_nothing() {
    let plays = vec![says(vec![ask("a", "First?"), ask("b", "Second?")]), says(vec![text("ok")])];
    let world = World::new(plays).with_person(&["1", "2"]);
    let late = world.limits.max_time_ms + 60_000;
    assert!(late < AN_HOUR_MS);
    let result = world.run_with("go", after(late, from_outside("call-2"))).await.unwrap();
    assert_eq!(result.outcome, Outcome::Answered, "{}", result.reason);
    assert_eq!(last_results(&world), [json!(["a", "ok", "1"]), json!(["b", "ok", "2"])]);
}

#[tokio::test(start_paused = true)]
async fn a_crash_while_a_person_is_asked_asks_again_or_takes_the_prompt_for_the_answer() {
    let whole = World::new(one_question()).with_person(&["yes"]);
    whole.run("go").await;
    let records = whole.log.0.lock().unwrap().clone();
    let asked = records.iter().position(|record| matches!(record.entry, Entry::Asked(..))).unwrap();
    for (prompt, times) in [("", 1), ("yes", 0)] {
        let resumed = World::new(one_question().split_off(1)).with_person(&["yes"]);
        *resumed.log.0.lock().unwrap() = records[..=asked].to_vec();
        assert_eq!(told(&resumed.run(prompt).await), (Outcome::Answered, "run-1", 2));
        assert_eq!(last_results(&resumed), [json!(["a", "ok", "yes"])]);
        assert_eq!(resumed.person.asked.lock().unwrap().len(), times, "{prompt:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_given_survives_a_crash_before_it_was_taken() {
    let world = World::new(one_question());
    world.run("go").await;
    world.run("yes").await;
    let records = world.log.0.lock().unwrap().clone();
    let given = records.iter().position(|record| matches!(record.entry, Entry::Commanded(_))).unwrap();
    let resumed = World::new(one_question().split_off(1));
    *resumed.log.0.lock().unwrap() = records[..=given].to_vec();
    assert_eq!(told(&resumed.run("").await), (Outcome::Answered, "run-1", 2));
    assert_eq!(resumed.person.asked.lock().unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_changed_while_a_person_was_asked_is_not_told_as_the_agents() {
    let world = World::new(one_question()).with_person(&["I changed it myself."]);
    let result = world.run("go").await;
    assert_eq!(result.files_changed, []);
    assert_eq!(*world.workspace.observed.lock().unwrap(), 1, "it was looked at, and let go");
}

#[tokio::test(start_paused = true)]
async fn the_same_question_with_the_same_answer_is_a_repetition() {
    let plays = (0..9).map(|n| says(vec![ask(&format!("a{n}"), "Which?")])).collect();
    let world = World::new(plays).with_person(&["This."; 9]);
    let result = world.run("go").await;
    assert_eq!((result.outcome, result.turns), (Outcome::Stuck, 5));
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_not_valid_is_asked_nobody() {
    let invalid = call("a", "ask", json!({"question": "Which?", "invalid": "no"}));
    let world = World::new(vec![says(vec![invalid]), says(vec![text("ok")])]).with_person(&["This."]);
    let result = world.run("go").await;
    assert_eq!((result.outcome, result.guards.len()), (Outcome::Answered, 1));
    assert_eq!(last_results(&world)[0][1], json!(Status::Refused));
    assert!(world.person.asked.lock().unwrap().is_empty());
}
