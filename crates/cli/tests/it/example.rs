//! The bundled example: every shortcut is refused, the real fix is verified.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::place::{Place, Ran, repository};

pub(crate) const CHECK: &str = "python3 -m unittest discover -s tests -t .";

pub(crate) fn script() -> String {
    repository().join("examples/checkout.yaml").to_str().unwrap().to_owned()
}

fn run(place: &Place, model: &str, format: &str) -> Ran {
    place.run(["run", "--model", model, "--verify", CHECK, "--output-format", format, "Fix the checkout total."])
}

/// The guards that the script provokes, in order: tool and guard.
const EXPECTED: [(&str, &str); 11] = [
    ("write_file", "protected"),
    ("write_file", "protected"),
    ("write_file", "protected"),
    ("bash", "protected"),
    ("bash", "protected"),
    ("bash", "protected"),
    ("read_file", "jail"),
    ("finish", "finish"),
    ("write_file", "complete"),
    ("read_file", "valid"),
    ("run_command", "valid"),
];

fn check_result(result: &Value, call_ids: &str) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let guards: Vec<_> = result["guards"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fired| (text(&fired["tool"]), text(&fired["guard"])))
        .collect();
    let expected: Vec<_> = EXPECTED.iter().map(|(tool, guard)| ((*tool).to_owned(), (*guard).to_owned())).collect();
    assert_eq!(guards, expected, "{result:#}");
    assert_eq!((result["outcome"].as_str(), result["verdict"].as_str()), (Some("done"), Some("pass")));
    assert_eq!(result["files_changed"], serde_json::json!([{"path": "pricing.py", "change": "modified"}]));
    assert!(result["guards"].as_array().unwrap().iter().all(|fired| text(&fired["call_id"]).starts_with(call_ids)));
}

#[test]
fn every_shortcut_is_refused_and_the_real_fix_is_verified() {
    let place = Place::example();
    let tests = place.read("tests/test_pricing.py");
    let ran = run(&place, &format!("scripted:{}", script()), "json");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    check_result(&ran.json(), "toolu_");
    assert_eq!(place.read("tests/test_pricing.py"), tests);
    assert!(place.read("pricing.py").contains("(100 - percent) / 100"));
    assert_eq!(place.listing(), [".gitignore", "README.md", "pricing.py", "tests"], "nothing is left behind");
}

#[test]
fn the_printed_run_shows_each_refusal_and_ends_done_and_verified() {
    let place = Place::example();
    let ran = run(&place, &format!("scripted:{}", script()), "text");
    for words in [
        "scripted",
        "refused (protected)",
        "guard (protected)",
        "refused (jail)",
        "refused (finish)",
        "refused (complete)",
        "refused (valid)",
    ] {
        assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
    assert!(ran.stdout.contains("done, verified"), "{}", ran.stdout);
    assert!(ran.stdout.contains("modified pricing.py"), "{}", ran.stdout);
    assert!(ran.stdout.contains("unittest, 2 tests"), "{}", ran.stdout);
}

#[test]
fn over_http_the_log_holds_the_same_entries() {
    let in_process = Place::example();
    run(&in_process, &format!("scripted:{}", script()), "json");
    let over_http = Place::example();
    let mut server = over_http.hames(["script", "serve", &script()]).stderr(Stdio::null()).spawn().unwrap();
    let mut address = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let output = over_http
        .hames(["run", "--verify", CHECK, "--output-format", "json", "Fix the checkout total."])
        .env("ANTHROPIC_API_KEY", "any")
        .env("ANTHROPIC_BASE_URL", address.trim())
        .output()
        .unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    let ran = Ran::of(output);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    check_result(&ran.json(), "toolu_");
    let (mut expected, mut found) = (shapes(&in_process), shapes(&over_http));
    // What runs beside each other may end in either order; within each kind the order is the same.
    expected.sort();
    found.sort();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
}

/// A script that is served as a provider, as long as this lives.
struct Provider {
    server: Child,
    url: String,
}

impl Provider {
    fn of(place: &Place, script: &str, dialect: &str) -> Self {
        let serve = ["script", "serve", script, "--dialect", dialect];
        let mut server = place.hames(serve).stderr(Stdio::null()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { server, url: url.trim().to_owned() }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

#[test]
fn the_example_is_verified_on_every_dialect() {
    for (dialect, model, key) in [
        ("openai", "openai/gpt-6.2-sol", "OPENAI_API_KEY"),
        ("openai-chat", "openai-chat/gpt-4.1", "OPENAI_API_KEY"),
        ("gemini", "gemini/gemini-3.8-flash", "GOOGLE_API_KEY"),
    ] {
        let place = Place::example();
        let provider = Provider::of(&place, &script(), dialect);
        let output = place
            .hames(["run", "--verify", CHECK, "--output-format", "json", "-m", model, "Fix the checkout total."])
            .args(["--base-url", &provider.url])
            .env(key, "any")
            .output()
            .unwrap();
        let ran = Ran::of(output);
        assert_eq!(ran.code, 0, "{model}: {}", ran.stderr);
        check_result(&ran.json(), "call_");
    }
}

#[test]
fn a_session_goes_on_with_a_model_of_another_provider() {
    let place = Place::empty();
    std::fs::write(place.work().join("a.txt"), "content").unwrap();
    let turn = "- reasoning: I look.\n  text: Looking.\n  calls: [{tool: read_file, args: {path: a.txt}}, {tool: list_files}]\n- text: Seen.\n";
    let write = |name: &str, text: &str| {
        let path = place.work().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let begin = write("begin.yaml", turn);
    let go_on = write("on.yaml", &format!("- text: never\n- text: never\n{turn}"));
    let last = write("last.yaml", &format!("{}- text: Done.\n", "- text: never\n".repeat(4)));
    for (script, dialect, model, key, variable) in [
        (&begin, "openai", "openai/gpt-6.2-sol", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
        (&go_on, "gemini", "gemini/gemini-3.8-flash", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
        (&last, "openai-chat", "openai-chat/gpt-4.1", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    ] {
        let provider = Provider::of(&place, script, dialect);
        let resume: &[&str] = if dialect == "openai" { &[] } else { &["--continue"] };
        let mut command = place.hames(["run", "-m", model, "go"].into_iter().chain(resume.iter().copied()));
        let ran = Ran::of(command.env(key, "any").env(variable, &provider.url).output().unwrap());
        assert_eq!(ran.code, 0, "{model}: {}", ran.stderr);
    }
}

/// The entries without what differs from run to run: times, durations, folders, the model's name.
fn shapes(place: &Place) -> Vec<String> {
    let work = place.work().to_str().unwrap().to_owned();
    place
        .log()
        .iter()
        .map(|record| {
            let mut entry = record["entry"].clone();
            strip(&mut entry);
            entry.to_string().replace(&work, "WORK")
        })
        .collect()
}

/// Removes what differs from run to run.
pub(crate) fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for key in ["ms", "jitter", "model", "session", "head", "request", "digest", "manifest", "surroundings"] {
                map.remove(key);
            }
            map.values_mut().for_each(strip);
        }
        Value::Array(values) => values.iter_mut().for_each(strip),
        // `Ran 2 tests in 0.001s`, and the name of the file that `sed -i` writes.
        Value::String(text) => {
            let is_time = |word: &str| {
                let first = word.lines().next().unwrap_or_default();
                first.strip_suffix('s').is_some_and(|seconds| seconds.contains('.') && seconds.parse::<f64>().is_ok())
            };
            let words = text.split(' ').filter(|word| !is_time(word) && !word.starts_with("tests/sed"));
            *text = words.collect::<Vec<_>>().join(" ");
        }
        _ => {}
    }
}

#[test]
fn a_stream_of_events_ends_with_the_one_result() {
    let place = Place::example();
    let ran = run(&place, &format!("scripted:{}", script()), "stream-json");
    let lines: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let results: Vec<usize> =
        lines.iter().enumerate().filter(|(_, line)| line["type"] == "result").map(|(index, _)| index).collect();
    assert_eq!(results, [lines.len() - 1]);
    check_result(lines.last().unwrap(), "toolu_");
    let seqs: Vec<u64> =
        lines.iter().filter(|line| line["type"] == "committed").map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert_eq!(seqs.len(), place.log().len());
    assert!(lines.iter().any(|line| line["type"] == "text_delta"));
}
