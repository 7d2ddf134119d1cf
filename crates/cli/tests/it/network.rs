//! `--network`: what commands of the model and checks can reach, and that it must be asked for each time.

use std::fs;
use std::net::TcpListener;

use serde_json::Value;

use crate::place::Place;

/// A command that succeeds when it reaches a listener of the host.
fn reaches(listener: &TcpListener) -> String {
    format!("(exec 3<>/dev/tcp/127.0.0.1/{}) 2>/dev/null", listener.local_addr().unwrap().port())
}

#[test]
fn a_lone_command_has_the_network_that_was_asked_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let line = reaches(&listener);
    let place = Place::empty();
    let code = |more: &[&str]| {
        let command = ["--", "bash", "-c", &line];
        place.run(["sandbox"].iter().chain(more).chain(&command).copied()).code
    };
    assert_ne!(code(&[]), 0);
    assert_ne!(code(&["--network", "none"]), 0);
    assert_eq!(code(&["--network", "full"]), 0);
}

#[test]
fn with_the_full_network_commands_and_checks_reach_it_and_a_resumed_run_must_ask_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let line = reaches(&listener);
    let call = format!("- calls: [{{tool: bash, args: {{command: '{line}'}}}}]\n");
    let finish = "- calls: [{tool: finish, args: {summary: done}}]\n";
    let place = Place::empty();
    let model = place.script(&format!("{call}{finish}{call}- text: over\n- text: over\n"));
    let (code, result) = place.run_json(&model, &["--network", "full", "--verify", &line]);
    assert_eq!((code, result["network"].as_str(), result["verdict"].as_str()), (0, Some("full"), Some("pass")));
    let (_, result) = place.run_json(&model, &["--continue"]);
    assert_eq!(result["network"], "none", "{result:#}");
    let of_bash = |record: &Value| {
        let result = &record["entry"]["ended"]["result"];
        result["data"].get("strays").is_some().then(|| result["status"].as_str().unwrap().to_owned())
    };
    assert_eq!(place.log().iter().filter_map(of_bash).collect::<Vec<_>>(), ["ok", "failed"]);
}

#[test]
fn a_run_without_network_stays_without_it_until_a_flag_says_otherwise() {
    let place = Place::empty();
    let model = place.script("- text: one\n- text: two\n- text: three\n");
    let network = |more: &[&str]| place.run_json(&model, more).1["network"].clone();
    assert_eq!(network(&[]), "none");
    let home = place.work().join("../home/.config/hames");
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("config.toml"), "network = \"full\"\n").unwrap();
    assert_eq!(network(&["--continue"]), "none", "as strict as it was started");
    assert_eq!(network(&["--continue", "--network", "full"]), "full");
    assert_eq!(network(&[]), "full", "a new session takes the user's own setting");
}

#[test]
fn a_workspace_cannot_open_the_network() {
    let place = Place::empty();
    fs::create_dir(place.work().join(".hames")).unwrap();
    fs::write(place.work().join(".hames/config.toml"), "network = \"full\"\n").unwrap();
    let shown = place.run(["config"]);
    assert!(shown.stdout.lines().any(|line| line.starts_with("network = \"none\"")), "{}", shown.stdout);
    assert!(shown.stderr.contains("line 1: `network` is ignored: it would open the network"), "{}", shown.stderr);
}
