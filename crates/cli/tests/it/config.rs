//! What a user and a repository may set, and what is told of it.

use crate::place::Place;

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
