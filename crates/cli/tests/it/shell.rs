//! Commands through the whole binary: odd output meets a strict provider and a terminal, and a workspace vanishes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::place::{Place, Ran};
use crate::signals::wait_for;

/// What the model is shown of a result, at most; in bytes.
const LIMIT: usize = 30_000;

/// The texts of the results of all calls, in the order in which the calls were made.
fn results(place: &Place) -> Vec<String> {
    let ended = |record: &Value| record["entry"].get("ended").map(|ended| ended["result"]["blocks"][0]["text"].clone());
    place.log().iter().filter_map(ended).map(|text| text.as_str().unwrap().to_owned()).collect()
}

#[test]
fn odd_output_makes_no_request_invalid_and_never_reaches_the_terminal_raw() {
    let emoji = |shift: usize| format!("head -c {shift} /dev/zero | tr '\\0' x; yes '\"😀😀\"' | head -c 200000");
    let mut commands = vec![
        r"printf 'a\0b'".to_owned(),
        "head -c 65536 /dev/urandom".to_owned(),
        r"printf '\xED\xA0\xBD'".to_owned(),
        r"printf 'caf\xe9'".to_owned(),
        r"printf '\033]52;c;AAAA\007\033]0;title\007\033[31mred\033[0m'".to_owned(),
        r"for i in $(seq 10000); do printf '\r%d' $i; done; echo".to_owned(),
    ];
    let plain = commands.len();
    commands.extend((0..8).map(emoji));
    let calls: Vec<Value> =
        commands.iter().map(|command| json!({"tool": "bash", "args": {"command": command}})).collect();
    let place = Place::empty();
    let script = place.script(&json!([{"calls": calls}, {"text": "Seen."}]).to_string());
    let mut server = place.hames(["script", "serve", script.strip_prefix("scripted:").unwrap()]);
    let mut server = server.stderr(Stdio::null()).spawn().unwrap();
    let mut address = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let mut run = place.hames(["run", "Print."]);
    let ran = Ran::of(run.env("ANTHROPIC_API_KEY", "any").env("ANTHROPIC_BASE_URL", address.trim()).output().unwrap());
    server.kill().unwrap();
    server.wait().unwrap();
    // The server reads a request as strictly as the provider: what is not JSON in UTF-8 is answered with 400.
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for printed in [&ran.stdout, &ran.stderr] {
        assert!(printed.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'), "{printed:?}");
    }
    let results = results(&place);
    assert_eq!(results.len(), commands.len());
    for (command, text) in commands.iter().zip(&results) {
        assert!(text.len() <= LIMIT, "{command}: {}", text.len());
        assert!(text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'), "{command}: {text:?}");
    }
    let replaced = "[Bytes that are not UTF-8 are shown as \u{fffd}.]";
    assert_eq!(results[0], "ab\n[Control characters were left out.]");
    assert!(results[1].contains(replaced) && results[1].contains("bytes left out"), "{}", results[1]);
    assert_eq!(results[2], format!("\u{fffd}\u{fffd}\u{fffd}\n{replaced}"));
    assert_eq!(results[3], format!("caf\u{fffd}\n{replaced}"));
    assert_eq!(results[4], "red");
    assert_eq!(results[5], "10000");
    for (shift, text) in results[plain..].iter().enumerate() {
        assert!(text.contains("bytes left out") && text.contains("/tmp/outputs/"), "shift {shift}: {text}");
        // `head` cuts the last character in some; the cut of Hames never does.
        let (before, after) = text.split_once("bytes left out").unwrap();
        assert!(!before.contains('\u{fffd}') && after.matches('\u{fffd}').count() <= 4, "shift {shift}");
    }
}

#[test]
fn a_run_whose_workspace_vanishes_says_so_and_is_resumed_elsewhere() {
    let place = Place::empty();
    let wait = "touch begun; while [ ! -e go ]; do sleep 0.05; done";
    let model = place.script(
        &json!([
            {"calls": [{"tool": "bash", "args": {"command": wait}}, {"tool": "bash", "args": {"command": "echo alive"}}]},
            {"text": "Here I go on."},
        ])
        .to_string(),
    );
    let child = place.hames(["run", "--model", &model, "--output-format", "json", "go"]).spawn().unwrap();
    wait_for(|| place.work().join("begun").exists());
    let (moved, elsewhere) = (place.work().with_file_name("moved"), place.work().with_file_name("elsewhere"));
    fs::rename(place.work(), &moved).unwrap();
    fs::write(moved.join("go"), "").unwrap();
    let ran = Ran::of(child.wait_with_output().unwrap());
    let result = ran.json();
    assert_eq!((ran.code, result["outcome"].as_str()), (5, Some("tool_failed")), "{result:#}\n{}", ran.stderr);
    let reason = result["reason"].as_str().unwrap();
    assert!(reason.contains(place.work().to_str().unwrap()) && reason.contains("is gone"), "{reason}");
    fs::create_dir(&elsewhere).unwrap();
    let id = result["session_id"].as_str().unwrap();
    let folder = elsewhere.to_str().unwrap();
    let mut resume =
        place.hames(["run", "--resume", id, "-C", folder, "--model", &model, "--output-format", "json", "Go on."]);
    let ran = Ran::of(resume.current_dir(&elsewhere).output().unwrap());
    assert_eq!((ran.code, ran.json()["outcome"].as_str()), (0, Some("answered")), "{}", ran.stderr);
    let verified = Ran::of(place.hames(["session", "verify", id]).current_dir(&elsewhere).output().unwrap());
    assert_eq!(verified.code, 0, "{}", verified.stdout);
}
