//! What a user and a repository may set, and what is told of it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Child;

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

/// A script that is served under the rules of the provider, as long as this lives.
struct Served {
    server: Child,
    url: String,
}

impl Served {
    fn of(place: &Place, yaml: &str) -> Self {
        let model = place.script(yaml);
        let file = model.strip_prefix("scripted:").unwrap();
        let mut server = place.hames(["script", "serve", file]).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
        Self { server, url: url.trim().to_owned() }
    }

    fn run(&self, place: &Place, arguments: &[&str]) -> Ran {
        let mut command = place.hames(["run", "go"].into_iter().chain(arguments.iter().copied()));
        let output = command.env("ANTHROPIC_API_KEY", "any").env("ANTHROPIC_BASE_URL", &self.url).output().unwrap();
        Ran::of(output)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

#[test]
fn the_provider_takes_the_effort_and_the_instructions_as_they_are_sent() {
    let place = Place::empty();
    std::fs::write(place.work().join("own.md"), "You answer with one number.").unwrap();
    let flags = ["--effort", "low", "--system-prompt-file", "own.md", "--append-system-prompt", "No words."];
    let ran = Served::of(&place, "- text: '42'\n").run(&place, &flags);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let head = |place: &Place| place.log().iter().find_map(|r| r["entry"]["run_started"].get("head").cloned()).unwrap();
    let changed = head(&place);
    let plain = Place::empty();
    assert_eq!(Served::of(&plain, "- text: '42'\n").run(&plain, &[]).code, 0);
    assert_ne!(changed, head(&plain), "what stands before the messages differs");
}

#[test]
fn instructions_that_cannot_be_read_are_a_usage_error() {
    let place = Place::empty();
    let model = place.script("- text: '42'\n");
    std::fs::write(place.work().join("empty.md"), " \n").unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, place.work().join("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    for (file, words) in [
        ("missing.md", "No such file"),
        ("empty.md", "is empty"),
        ("pipe", "it is no plain file"),
        ("/dev/zero", "it is no plain file"),
    ] {
        let ran = place.run(["run", "--model", &model, "--system-prompt-file", file, "go"]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(file) && ran.stderr.contains(words), "{}", ran.stderr);
    }
    assert_eq!(place.run(["run", "--model", &model, "--effort", "huge", "go"]).code, 2);
}

fn write(path: impl AsRef<Path>, text: &str) {
    std::fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn user_file(place: &Place) -> PathBuf {
    place.work().parent().unwrap().join("home/.config/hames/config.toml")
}

#[test]
fn a_faulty_file_stops_every_command_that_reads_it_before_anything_runs() {
    for (in_workspace, text, words) in [
        (false, "max_turn = 3\n", "line 1: `max_turn` is not a setting. Did you mean `max_turns`?"),
        (true, "\nprotct = [\"x\"]\n", "line 2: `protct` is not a setting. Did you mean `protect`?"),
        (false, "<<<<<<< HEAD\n", "line 1, column"),
    ] {
        let place = Place::empty();
        let model = place.script("- calls: [{tool: bash, args: {command: touch ran}}]\n");
        let file = if in_workspace { place.work().join(".hames/config.toml") } else { user_file(&place) };
        write(&file, text);
        for arguments in [&["run", "--model", &model, "go"][..], &["sandbox", "--", "touch", "ran"]] {
            let ran = place.run(arguments.iter().copied());
            assert_eq!(ran.code, 2, "{}", ran.stderr);
            assert!(ran.stderr.contains(words) && ran.stderr.contains("config.toml"), "{}", ran.stderr);
        }
        assert!(!place.work().join("ran").exists() && place.sessions().is_empty());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "the file is left as it is");
    }
}

#[test]
fn the_users_file_says_what_a_flag_would_say() {
    let place = Place::empty();
    let model = place.script("- calls: [{tool: list_files}]\n- calls: [{tool: list_files}]\n- text: done\n");
    let text = format!("model = \"{model}\"\nmax_turns = 1\noutput_format = \"json\"\nsandbox = \"read-only\"\n");
    write(user_file(&place), &text);
    let ran = place.run(["run", "go"]);
    let result = ran.json();
    assert_eq!((ran.code, result["outcome"].as_str()), (3, Some("limit")), "{}", ran.stderr);
    assert_eq!(result["sandbox"], "read-only");
    let ran = place.run(["run", "--max-turns", "3", "--sandbox", "workspace-write", "go"]);
    assert_eq!((ran.code, ran.json()["sandbox"].as_str()), (0, Some("workspace-write")), "{}", ran.stderr);
}

#[test]
fn a_repository_can_only_tighten_and_runs_nothing_of_its_own() {
    let place = Place::empty();
    let canary = place.work().join("canary");
    let text = format!(
        "base_url = \"http://127.0.0.1:9\"\nmodel = \"evil/x\"\nsandbox = \"off\"\nmax_turns = 400\nunprotect = [\"/**\"]\n\
         protect = [\"keep.txt\"]\n[providers.evil]\nkey_command = \"touch {}\"\n",
        canary.display()
    );
    write(place.work().join(".hames/config.toml"), &text);
    let model = place.script(
        "- calls: [{tool: write_file, args: {path: keep.txt, content: x}}, {tool: write_file, args: {path: .hames/config.toml, content: x}}]\n- text: done\n",
    );
    let ran = place.run(["run", "--model", &model, "--output-format", "json", "go"]);
    let result = ran.json();
    assert_eq!((ran.code, result["sandbox"].as_str()), (0, Some("workspace-write")), "{}", ran.stderr);
    assert_eq!(result["guards"].as_array().unwrap().len(), 2, "{result:#}");
    for key in ["base_url", "model", "sandbox", "max_turns", "unprotect", "providers"] {
        let told = format!("`{key}` is ignored");
        assert_eq!(ran.stderr.matches(&told).count(), 1, "{told}: {}", ran.stderr);
    }
    let no_key = place.run(["run", "go"]);
    assert!(no_key.code == 2 && no_key.stderr.contains("ANTHROPIC_API_KEY"), "{}", no_key.stderr);
    assert!(!canary.exists());
}

#[test]
fn what_files_add_and_what_a_session_was_started_with_hold_together() {
    let place = Place::empty();
    write(place.work().join(".hames/config.toml"), "protect = [\"a.txt\"]\n");
    let writes = "- calls: [{tool: write_file, args: {path: a.txt, content: x}}, {tool: write_file, args: {path: b.txt, content: x}}]\n";
    let model = place.script(&format!("- text: one\n{writes}- text: two\n"));
    place.run_json(&model, &["--protect", "b.txt"]);
    let (_, second) = place.run_json(&model, &["--continue"]);
    assert_eq!(second["guards"].as_array().unwrap().len(), 2, "{second:#}");
}

#[test]
fn the_users_file_cannot_be_changed_by_the_model_where_the_workspace_holds_it() {
    let place = Place::empty();
    let dot_files = place.work().parent().unwrap().join("home/.config");
    write(user_file(&place), "# mine\n");
    let model = place.script("- calls: [{tool: write_file, args: {path: hames/config.toml, content: x}}, {tool: bash, args: {command: 'echo x > hames/config.toml'}}]\n- text: done\n");
    let ran = place.run(["run", "-C", dot_files.to_str().unwrap(), "--model", &model, "--output-format", "json", "go"]);
    assert_eq!(ran.json()["guards"].as_array().unwrap().len(), 2, "{}", ran.stdout);
    assert_eq!(std::fs::read_to_string(user_file(&place)).unwrap(), "# mine\n");
}

#[test]
fn a_provider_of_the_users_own_is_reached_with_its_key_headers_and_prices() {
    let place = Place::empty();
    let served = Served::of(&place, "- text: '42'\n");
    let text = format!(
        "model = \"proxy/big\"\n[providers.proxy]\ndialect = \"anthropic\"\nbase_url = \"{}\"\n\
         key_command = \"echo key-$((1300 + 37))\"\nheaders = {{ x-team = \"blue\" }}\n[providers.proxy.models.big]\n\
         price = {{ input = 1, output = 5, cache_read = 0.1, cache_write = 1.25 }}\n",
        served.url
    );
    write(user_file(&place), &text);
    let ran = place.run(["run", "--output-format", "json", "go"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.json()["cost_usd"].as_f64().is_some_and(|usd| usd > 0.0), "{}", ran.stdout);
    assert!(ran.stderr.is_empty() || !ran.stderr.contains("key-1337"), "{}", ran.stderr);
    assert!(!place.raw_log().contains("key-1337"));
    write(user_file(&place), &text.replace("echo key-$((1300 + 37))", "false"));
    let ran = place.run(["run", "go"]);
    assert!(ran.code == 2 && ran.stderr.contains("key_command of the provider `proxy` failed"), "{}", ran.stderr);
}

#[test]
fn each_setting_is_shown_with_where_it_came_from_and_no_secret() {
    let place = Place::empty();
    let user = "max_turns = 9\nprotect = [\"a\"]\n[providers.proxy]\ndialect = \"anthropic\"\n\
                base_url = \"https://me:canary-1@host/\"\nkey_command = \"echo canary-2\"\nheaders = { x-auth = \"canary-3\" }\n";
    write(user_file(&place), user);
    write(place.work().join(".hames/config.toml"), "max_turns = 4\nprotect = [\"b\"]\n");
    let mut command = place.hames(["config", "--max-time", "90s"]);
    let output = command
        .env("ANTHROPIC_API_KEY", "canary-4")
        .env("ANTHROPIC_BASE_URL", "https://me:canary-5@host")
        .output()
        .unwrap();
    let ran = Ran::of(output);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let check = |start: &str, origin: &str| {
        let line =
            ran.stdout.lines().find(|line| line.trim_start().starts_with(start)).unwrap_or_else(|| panic!("{start}"));
        assert!(line.ends_with(origin), "{line}");
    };
    check("max_turns = 4", "# .hames/config.toml");
    check("max_time = \"1m30s\"", "# flag");
    check("max_tokens = 2000000", "# default");
    check("base_url = \"https://…@host\"", "# ANTHROPIC_BASE_URL");
    check("\"a\"", "hames/config.toml");
    check("\"b\"", "# .hames/config.toml");
    check("[providers.\"proxy\"]", "home/.config/hames/config.toml");
    check("# ANTHROPIC_API_KEY", "is set");
    assert!(!ran.stdout.contains("canary"), "{}", ran.stdout);
    assert!(toml::from_str::<toml::Table>(&ran.stdout).is_ok(), "{}", ran.stdout);
}
