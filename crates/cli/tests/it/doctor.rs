//! What `hames doctor` finds.

use std::os::unix::fs::symlink;

use crate::place::{Place, Ran};

fn line<'a>(ran: &'a Ran, name: &str) -> &'a str {
    let found = ran.stdout.lines().find(|line| line[6..].starts_with(&format!("{name}: ")));
    found.unwrap_or_else(|| panic!("{name}: {}", ran.stdout))
}

#[test]
fn all_is_well_where_a_run_would_go() {
    let place = Place::empty();
    let output = place.hames(["doctor"]).env("ANTHROPIC_API_KEY", "canary-77").output().unwrap();
    let ran = Ran::of(output);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.lines().all(|line| line.starts_with("ok    ")), "{}", ran.stdout);
    assert!(line(&ran, "bubblewrap").contains(": bubblewrap "), "{}", ran.stdout);
    assert!(line(&ran, "sandbox").contains("a command ran in it"));
    assert!(!ran.stdout.contains("canary-77") && !ran.stderr.contains("canary-77"));
    assert_eq!(place.listing(), Vec::<String>::new(), "nothing is left behind");
}

#[test]
fn each_failing_line_says_what_to_do() {
    let place = Place::empty();
    let tools = place.work().parent().unwrap().join("bin");
    std::fs::create_dir(&tools).unwrap();
    symlink("/bin/sh", tools.join("sh")).unwrap();
    std::fs::create_dir(place.work().join(".hames")).unwrap();
    std::fs::write(place.work().join(".hames/config.toml"), "max_turn = 1\n").unwrap();
    let output =
        place.hames(["doctor"]).env("PATH", &tools).env("XDG_STATE_HOME", place.work().join("state")).output().unwrap();
    let ran = Ran::of(output);
    assert_eq!(ran.code, 1, "{}", ran.stdout);
    for (name, words) in [
        ("config", "Did you mean `max_turns`?"),
        ("state folder", "XDG_STATE_HOME"),
        ("git", "apt-get install git"),
        ("bubblewrap", "apt-get install bubblewrap"),
        ("user namespaces", "Install it first"),
    ] {
        let line = line(&ran, name);
        assert!(line.starts_with("fail  ") && line.contains(words), "{line}");
    }
    let ran = place.run(["doctor"]);
    assert!(ran.code == 1 && line(&ran, "config").starts_with("fail"), "{}", ran.stdout);
    std::fs::remove_dir_all(place.work().join(".hames")).unwrap();
    let ran = place.run(["doctor"]);
    assert!(line(&ran, "model").starts_with("fail  ") && line(&ran, "model").contains("ANTHROPIC_API_KEY"));
}
