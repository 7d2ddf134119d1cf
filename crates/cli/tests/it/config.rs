//! What a user and a repository may set, and what is told of it.

use std::io::{BufRead, BufReader};

use crate::place::{Place, Ran};

#[test]
fn instructions_that_are_too_large_are_reported_with_their_size() {
    let place = Place::empty();
    std::fs::write(place.work().join("AGENTS.md"), format!("{}END-1", "x".repeat(40_000))).unwrap();
    let model = place.script("- text: '42'\n");
    let ran = place.run(["run", "--model", &model, "go"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("AGENTS.md is left out") && ran.stderr.contains("40005 bytes"), "{}", ran.stderr);
    let log = place.raw_log();
    assert!(log.contains("`AGENTS.md` was left out: it has 40005 bytes") && !log.contains("xxxx"));
}

/// Runs a task with `arguments` on a script that is served under the rules of the provider.
fn run_served(place: &Place, yaml: &str, arguments: &[&str]) -> Ran {
    let model = place.script(yaml);
    let file = model.strip_prefix("scripted:").unwrap();
    let mut server = place.hames(["script", "serve", file]).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
    let output = place
        .hames(["run", "go"].into_iter().chain(arguments.iter().copied()))
        .env("ANTHROPIC_API_KEY", "any")
        .env("ANTHROPIC_BASE_URL", url.trim())
        .output()
        .unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    Ran::of(output)
}

#[test]
fn the_provider_takes_the_effort_and_the_instructions_as_they_are_sent() {
    let place = Place::empty();
    std::fs::write(place.work().join("own.md"), "You answer with one number.").unwrap();
    let flags = ["--effort", "low", "--system-prompt-file", "own.md", "--append-system-prompt", "No words."];
    let ran = run_served(&place, "- text: '42'\n", &flags);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let head = |place: &Place| place.log().iter().find_map(|r| r["entry"]["run_started"].get("head").cloned()).unwrap();
    let changed = head(&place);
    let plain = Place::empty();
    assert_eq!(run_served(&plain, "- text: '42'\n", &[]).code, 0);
    assert_ne!(changed, head(&plain), "what stands before the messages differs");
}

#[test]
fn instructions_that_cannot_be_read_are_a_usage_error() {
    let place = Place::empty();
    let model = place.script("- text: '42'\n");
    std::fs::write(place.work().join("empty.md"), " \n").unwrap();
    for (file, words) in [("missing.md", "cannot be read"), ("empty.md", "is empty")] {
        let ran = place.run(["run", "--model", &model, "--system-prompt-file", file, "go"]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(file) && ran.stderr.contains(words), "{}", ran.stderr);
    }
    assert_eq!(place.run(["run", "--model", &model, "--effort", "huge", "go"]).code, 2);
}
