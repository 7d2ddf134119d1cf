//! What costs money or repeats an effect: streams that break, calls that are malformed, tokens that are counted, and a
//! cancel that must reach the provider. Over real HTTP, with what the provider saw.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::place::{Place, Ran, kill};
use crate::provider::Provider;
use crate::signals::wait_for;

/// A call that leaves a line for each time that it runs.
const EFFECT: &str = "calls: [{tool: bash, args: {command: 'echo x >> log'}, id: toolu_x}]";

/// Runs a script and says what came of it, what the provider was asked, and how often the effect happened.
fn played(yaml: &str, more: &[&str]) -> (Value, Vec<String>, usize) {
    let (place, provider) = (Place::empty(), Provider::of(yaml));
    let ran = provider.run(&place, ["run", "--output-format", "json", "go"].into_iter().chain(more.iter().copied()));
    let effects = std::fs::read_to_string(place.work().join("log")).unwrap_or_default().lines().count();
    (ran.json(), provider.bodies(), effects)
}

#[test]
fn a_call_of_a_stream_that_breaks_before_its_end_never_runs() {
    // Every event but the last: the call is whole, the reply is not.
    let cut = format!("- {{{EFFECT}, fault: {{cut: {{after_events: 8}}}}}}\n");
    let (result, bodies, effects) = played(&format!("{}- text: never\n", cut.repeat(5)), &[]);
    assert_eq!(effects, 0);
    assert_eq!((result["outcome"].as_str(), bodies.len()), (Some("model_failed"), 5), "{result:#}");
    assert!(bodies.iter().all(|body| body == &bodies[0]), "each attempt asks for the same");
    // One event more, and it is a reply.
    let (result, bodies, effects) = played(&format!("{}- text: done\n", cut.replace('8', "9")), &[]);
    assert_eq!((result["outcome"].as_str(), bodies.len(), effects), (Some("answered"), 2, 1), "{result:#}");
}

#[test]
fn an_id_that_repeats_runs_nothing_twice_and_confuses_no_result() {
    let twice = EFFECT.replace("}]", "}, {tool: bash, args: {command: 'echo x >> log'}, id: toolu_x}]");
    let (_, bodies, effects) = played(&format!("- {twice}\n- text: done\n"), &[]);
    assert_eq!((bodies.len(), effects), (2, 1));
    let echo = |word: &str| format!("- calls: [{{tool: bash, args: {{command: 'echo {word}'}}, id: toolu_x}}]\n");
    let (_, bodies, _) = played(&format!("{}{}- text: done\n", echo("one"), echo("two")), &[]);
    let last: Value = serde_json::from_str(&bodies[2]).unwrap();
    let blocks = last["messages"].as_array().unwrap().iter().flat_map(|message| message["content"].as_array().unwrap());
    let blocks: Vec<&Value> = blocks.collect();
    for word in ["one", "two"] {
        let call = blocks.iter().find(|block| block["input"]["command"] == format!("echo {word}")).unwrap();
        let result = blocks.iter().find(|block| block["tool_use_id"] == call["id"]).unwrap();
        assert!(result["content"].to_string().contains(word), "{result:#}");
    }
}

#[test]
fn malformed_calls_end_within_five_requests_and_the_history_stays_valid() {
    for call in [
        "{tool: '', args: {}}",
        "{tool: write_file, raw_args: ''}",
        "{tool: write_file, raw_args: '{\"path\": '}",
        "{tool: no_such_tool, args: {a: 1}}",
        "{tool: write_file, args: {path: 7}}",
    ] {
        let (place, provider) = (Place::empty(), Provider::of(&format!("- calls: [{call}]\n").repeat(20)));
        let ran = provider.run(&place, ["run", "--output-format", "json", "go"]);
        assert_eq!(ran.json()["outcome"], "stuck", "{call}: {}", ran.stdout);
        assert!(provider.bodies().len() <= 5, "{call}: {} requests", provider.bodies().len());
        let again = Provider::of(&format!("{}- text: fine\n", "- text: passed\n".repeat(provider.bodies().len())));
        let ran = again.run(&place, ["run", "--continue", "Something else."]);
        assert_eq!((ran.code, again.bodies().len()), (0, 1), "{call}: {}", ran.stderr);
    }
}

#[test]
fn a_connection_lost_after_the_effect_sends_the_same_result_again() {
    let (result, bodies, effects) =
        played(&format!("- {EFFECT}\n- {{text: lost, fault: {{cut: {{after_events: 1}}}}}}\n- text: done\n"), &[]);
    assert_eq!((result["summary"].as_str(), bodies.len(), effects), (Some("done"), 3, 1));
    assert_eq!(bodies[1], bodies[2]);
}

const PRICED: &str = "price: {input: 3, output: 15, cache_read: 0.3, cache_write: 3.75}\nreplies:\n";

#[test]
fn tokens_of_failed_attempts_and_of_resumed_runs_add_up_to_the_cost_by_hand() {
    let usage = "usage: {input: 25, output: 15, cache_read: 100}";
    let lost = "{text: abcdef, usage: {input: 25, output: 15, cache_read: 100}, fault: {cut: {after_events: 4}}}";
    let script = format!("{PRICED}- {lost}\n- {{calls: [{{tool: list_files}}], {usage}}}\n- {{text: done, {usage}}}\n");
    let place = Place::empty();
    let model = place.script(&script);
    let (_, first) = place.run_json(&model, &["--max-turns", "1"]);
    let (_, second) = place.run_json(&model, &["--continue"]);
    let check = |result: &Value, [input, output, cached]: [u64; 3]| {
        let found = &result["usage"];
        let numbers = ["input_tokens", "output_tokens", "cache_read_tokens"].map(|name| found[name].as_u64().unwrap());
        assert_eq!(numbers, [input, output, cached], "{result:#}");
        assert!(found.get("estimated").is_none(), "{result:#}");
        let by_hand = (input as f64 * 3.0 + output as f64 * 15.0 + cached as f64 * 0.3) / 1e6;
        assert!((result["cost_usd"].as_f64().unwrap() - by_hand).abs() < 1e-9, "{result:#}");
    };
    // The lost attempt had reported one token of output, and the whole one reports cumulative numbers.
    check(&first, [50, 16, 200]);
    check(&second, [25, 15, 100]);
}

#[test]
fn a_provider_that_reports_no_tokens_is_bounded_by_an_estimate_that_says_so() {
    let call = |n: usize| format!("- {{calls: [{{tool: bash, args: {{command: 'echo {n}'}}}}], usage: null}}\n");
    let script: String = (0..40).map(call).collect();
    let place = Place::empty();
    let model = place.script(&format!("{PRICED}{script}"));
    let (code, result) = place.run_json(&model, &["--max-tokens", "20000"]);
    assert_eq!((code, result["outcome"].as_str()), (3, Some("limit")), "{result:#}");
    let turns = result["turns"].as_u64().unwrap();
    assert!((2..20).contains(&turns), "{result:#}");
    assert_eq!((&result["usage"]["estimated"], &result["cost_usd"]), (&Value::Bool(true), &Value::Null), "{result:#}");
    let log = place.log();
    let of_replies = log.iter().filter_map(|record| record["entry"]["attempt_ended"]["result"].get("reply"));
    assert!(of_replies.clone().count() > 1 && of_replies.into_iter().all(|reply| reply["usage"]["estimated"] == true));
    // Money is bounded in the same way.
    let (code, result) = place.run_json(&model, &["--max-cost", "0.05"]);
    assert_eq!((code, result["outcome"].as_str()), (3, Some("limit")), "{result:#}");
    let text = place.run(["run", "--model", &place.script("- {text: hi, usage: null}\n"), "go"]).stdout;
    assert!(text.contains("1 turn, about "), "{text}");
}

/// A run that is cancelled as soon as the provider, and what was printed, show that it is where it should be.
fn cancelled(provider: &Provider, place: &Place, at: impl Fn() -> bool) -> (Ran, Duration) {
    let mut command = provider.hames(place, ["run", "--output-format", "json", "go"]);
    let child = command.spawn().unwrap();
    wait_for(at);
    let before = provider.hang_ups();
    let asked = provider.received().len();
    kill(&child, "-INT");
    let start = Instant::now();
    let ran = Ran::of(child.wait_with_output().unwrap());
    if provider.received().iter().any(|request| request.status == Some(200) || request.status.is_none()) {
        wait_for(|| provider.hang_ups() > before);
    }
    let took = start.elapsed();
    assert_eq!((ran.code, ran.json()["outcome"].as_str()), (130, Some("cancelled")), "{}", ran.stderr);
    assert_eq!(provider.received().len(), asked, "no further request");
    (ran, took)
}

#[test]
fn a_cancel_reaches_the_provider_in_every_phase_and_the_next_prompt_is_not_delayed() {
    for (phase, reply) in [
        ("before the head", "fault: hang"),
        ("after the head", "{text: never, fault: {hang: {after_events: 0}}}"),
        ("after the first event", "{text: never, fault: {hang: {after_events: 1}}}"),
        ("in the text", "{text: some words and more, delta_delay_ms: 5, fault: {hang: {after_events: 4}}}"),
        ("in the arguments", "{calls: [{tool: bash, args: {command: touch ran}}], fault: {hang: {after_events: 5}}}"),
        ("while it streams", "{text: 'one two three four five six seven eight', delta_delay_ms: 2000}"),
        ("in a wait", "fault: {status: 529, headers: {retry-after: 60}}"),
    ] {
        let place = Place::empty();
        let provider = Provider::of(&format!("- {reply}\n- text: fine\n- text: fine\n"));
        let log_has = |words: &str| place.raw_log().contains(words);
        let (ran, took) = cancelled(&provider, &place, || match phase {
            "before the head" => provider.received().len() == 1,
            "in a wait" => log_has("\"attempt_ended\""),
            // The head is noted when it is about to be sent; what follows it comes at once.
            _ => provider.received().first().is_some_and(|request| request.status.is_some()),
        });
        assert!(took < Duration::from_secs(5), "{phase}: {took:?}");
        assert!(!place.work().join("ran").exists(), "{phase}");
        // Nothing was in flight in a wait; anywhere else nobody knows what the provider will count.
        assert_eq!(ran.json()["cost_usd"].is_null(), phase != "in a wait", "{phase}");
        let start = Instant::now();
        let ran = provider.run(&place, ["run", "--continue", "--output-format", "json", "again"]);
        assert_eq!((ran.code, ran.json()["summary"].as_str()), (0, Some("fine")), "{phase}: {}", ran.stderr);
        assert!(start.elapsed() < Duration::from_secs(10), "{phase}");
        assert_eq!(provider.bodies().len(), 2, "{phase}");
    }
}

#[test]
fn a_run_whose_time_is_up_hangs_up_on_the_provider() {
    let (place, provider) = (Place::empty(), Provider::of("- {text: never, fault: {hang: {after_events: 4}}}\n"));
    let ran = provider.run(&place, ["run", "--max-time", "1s", "go"]);
    assert_eq!((ran.code, provider.bodies().len()), (3, 1), "{}", ran.stderr);
    wait_for(|| provider.hang_ups() == 1);
}

#[test]
fn words_that_came_before_a_cancel_are_kept_and_marked() {
    let yaml = "- {text: 'These words came first, and these did not.', usage: {input: 25, output: 15, cache_read: 100}, \
                fault: {hang: {after_events: 4}}}\n- text: fine\n";
    let (place, provider) = (Place::empty(), Provider::of(yaml));
    let mut command = provider.hames(&place, ["run", "--output-format", "stream-json", "go"]);
    let mut child = command.spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let seen = |line: &std::io::Result<String>| line.as_ref().unwrap().contains("text_delta");
    assert!(lines.by_ref().any(|line| seen(&line)));
    kill(&child, "-INT");
    let result: Value = serde_json::from_str(&lines.map(Result::unwrap).last().unwrap()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let summary = result["summary"].as_str().unwrap();
    assert!(summary.starts_with("These words") && summary.ends_with("… (stopped here)"), "{summary}");
    let usage = &result["usage"];
    let counts = ["input_tokens", "cache_read_tokens"].map(|name| usage[name].as_u64().unwrap());
    assert_eq!((counts, usage["estimated"].as_bool()), ([25, 100], Some(true)), "{usage}");
    assert!((1..15).contains(&usage["output_tokens"].as_u64().unwrap()), "what had come, not what would have: {usage}");
}
