//! `ask_user` through the binary: headless the run is suspended and resumed with the answer, at a terminal it is given.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;

use crate::place::{Place, kill};

const SCRIPT: &str = r#"
- text: I need to know something.
  calls:
  - {tool: ask_user, args: {question: "Which port?\n8080 is \e[2Jtaken."}}
- calls:
  - {tool: write_file, args: {path: port.txt, content: '9090'}}
  - {tool: finish, args: {summary: done}}
"#;
const CHECK: [&str; 2] = ["--verify", "grep -q 9090 port.txt"];

/// What the model read as the result of its question.
fn answers(place: &Place) -> Vec<String> {
    let text = |entry: &Value| entry["answered"][1]["said"][0]["text"].as_str().map(str::to_owned);
    place.log().iter().filter_map(|record| text(&record["entry"])).collect()
}

#[test]
fn headless_a_question_suspends_the_run_and_the_answer_ends_it_done() {
    for by_id in [true, false] {
        let place = Place::empty();
        let model = place.script(SCRIPT);
        let (code, suspended) = place.run_json(&model, &CHECK);
        assert_eq!((code, suspended["outcome"].as_str()), (7, Some("needs_approval")), "{suspended:#}");
        let id = suspended["session_id"].as_str().unwrap().to_owned();
        let reason = suspended["reason"].as_str().unwrap();
        assert!(reason.contains("Which port?") && reason.contains(&format!("hames run --resume {id} ")), "{reason}");
        assert!(place.run(["session", "list"]).stdout.contains("needs_approval"));
        let which = if by_id { vec!["--resume", id.as_str()] } else { vec!["--continue"] };
        let arguments = ["run", "--output-format", "json", "--model", &model, "9090"].into_iter().chain(which);
        let resumed = place.run(arguments);
        let result = resumed.json();
        assert_eq!((resumed.code, result["outcome"].as_str()), (0, Some("done")), "{result:#}");
        assert_eq!((result["run_id"].as_str(), result["turns"].as_u64()), (Some("run-1"), Some(2)), "the same run");
        assert_eq!(answers(&place), ["9090"]);
        assert!(place.run(["session", "list"]).stdout.contains("done"));
        assert_eq!(place.run(["session", "verify", &id]).code, 0);
        let exported = place.run(["session", "export", &id]).stdout;
        let (question, answer) =
            ("**Question:**\n\n> Which port?\n> 8080 is \\u{1b}[2Jtaken.", "**Answer:**\n\n> 9090\n");
        assert!(exported.contains(question) && exported.contains(answer), "{exported}");
    }
}

#[test]
fn every_format_shows_the_question_and_how_to_answer_it() {
    let place = Place::empty();
    let model = place.script(SCRIPT);
    let text = place.run(["run", "--model", &model, "go"]);
    for part in ["needs_approval: ", "\n> Which port?\n> 8080 is \\u{1b}[2Jtaken.\n", "hames run --resume "] {
        assert!(text.stdout.contains(part), "{}", text.stdout);
    }
    let again = place.run(["run", "--model", &model, "--continue", "--output-format", "stream-json"]);
    assert_eq!((text.code, again.code), (7, 7), "resumed without an answer it is suspended again");
    let events: Vec<Value> = again.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| events.iter().find_map(|event| event["entry"].get(name)).unwrap().to_string();
    assert!(of("asked").contains("Which port?") && of("run_suspended").contains("hames run --resume"));
    assert_eq!(events.last().unwrap()["outcome"], "needs_approval");
}

#[test]
fn a_run_killed_while_its_question_is_open_asks_again() {
    let place = Place::empty();
    let model = place.script(SCRIPT);
    let mut terminal = Terminal::run(&place, &["run", "--model", &model, "go"]);
    terminal.wait_for("Answer");
    kill(&terminal.child, "-KILL");
    terminal.child.wait().unwrap();
    let mut terminal = Terminal::run(&place, &["run", "--model", &model, "--continue"]);
    terminal.wait_for("Answer");
    terminal.type_in("9090\n");
    assert_eq!(terminal.end(), 0);
    assert_eq!(answers(&place), ["9090"]);
}

#[test]
fn a_terminal_answers() {
    let place = Place::empty();
    let model = place.script(SCRIPT);
    let mut terminal = Terminal::run(&place, &["run", "--model", &model, "go"]);
    terminal.wait_for("  ? Which port?\r\n  | 8080 is \\u{1b}[2Jtaken.\r\n  Answer");
    terminal.type_in("  \n");
    terminal.wait_for("\r\n  Answer");
    terminal.type_in("9090,\nplease\n");
    terminal.wait_for("ask_user Which port?: answered");
    assert_eq!(terminal.end(), 0);
    assert_eq!(answers(&place), ["9090,\nplease"], "nothing said is asked again, and what is pasted is one answer");
    assert_eq!(place.read("port.txt"), "9090");
}

#[test]
fn what_was_typed_before_the_question_does_not_answer_it() {
    let place = Place::empty();
    let wait = "- calls: [{tool: bash, args: {command: 'until [ -e typed ]; do sleep 0.02; done'}}]";
    let model = place.script(&format!("{wait}{SCRIPT}"));
    let mut terminal = Terminal::run(&place, &["run", "--model", &model, "go"]);
    terminal.type_in("too early\n");
    terminal.wait_for("too early");
    std::fs::write(place.work().join("typed"), "").unwrap();
    terminal.wait_for("Answer");
    terminal.type_in("9090\n");
    assert_eq!(terminal.end(), 0);
    assert_eq!(answers(&place), ["9090"]);
}

#[test]
fn ctrl_c_at_a_question_cancels_the_run_and_ctrl_d_leaves_it_for_later() {
    for (key, code, outcome) in [("par\u{3}", 130, "cancelled"), ("\u{4}", 7, "needs_approval")] {
        let place = Place::empty();
        let model = place.script(SCRIPT);
        let mut terminal = Terminal::run(&place, &["run", "--model", &model, "go"]);
        terminal.wait_for("Answer");
        terminal.type_in(key);
        assert_eq!(terminal.end(), code, "{outcome}");
        assert!(place.run(["session", "list"]).stdout.contains(outcome));
    }
}

#[test]
fn json_at_a_terminal_asks_nobody() {
    let place = Place::empty();
    let model = place.script(SCRIPT);
    let terminal = Terminal::run(&place, &["run", "--model", &model, "--output-format", "json", "go"]);
    assert_eq!(terminal.end(), 7);
}

/// The binary in a session of its own, at a terminal that is its standard input and standard error.
struct Terminal {
    child: Child,
    keys: File,
    screen: Receiver<Vec<u8>>,
    shown: String,
}

impl Terminal {
    fn run(place: &Place, arguments: &[&str]) -> Self {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap().into_string().unwrap();
        let end = || OwnedFd::from(File::options().read(true).write(true).open(&name).unwrap());
        let hames = place.hames(arguments.iter().copied());
        // `setsid --ctty` makes the terminal that of the process, so that Ctrl-C becomes a signal.
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(hames.get_program()).args(hames.get_args()).current_dir(place.work()).env_clear();
        command.envs(hames.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let child = command.stdin(end()).stderr(end()).stdout(std::process::Stdio::null()).spawn().unwrap();
        drop(command);
        let keys = File::from(keyboard);
        let mut output = keys.try_clone().unwrap();
        let (tell, screen) = mpsc::channel();
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            // The read fails when the last process at the terminal is gone.
            while let Ok(read @ 1..) = output.read(&mut piece) {
                let _ = tell.send(piece[..read].to_vec());
            }
        });
        Self { child, keys, screen, shown: String::new() }
    }

    /// Waits until the screen shows this beyond what was waited for before.
    fn wait_for(&mut self, text: &str) {
        let end = loop {
            if let Some(at) = self.shown.find(text) {
                break at + text.len();
            }
            match self.screen.recv_timeout(Duration::from_secs(60)) {
                Ok(bytes) => self.shown.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("no {text:?} in {:?}", self.shown),
            }
        };
        self.shown.drain(..end);
    }

    fn type_in(&mut self, text: &str) {
        self.keys.write_all(text.as_bytes()).unwrap();
    }

    fn end(mut self) -> i32 {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap();
            }
            assert!(start.elapsed() < Duration::from_secs(60), "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
