//! The other process: this test binary again, told by a variable what to do.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use hames_protocol::SessionId;
use hames_protocol::port::Journal;
use hames_session::{OpenSession, Store};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{Place, ended, now, opened, repaired};

const ORDER: &str = "HAMES_SESSION_TEST_ORDER";

/// What the other process is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The store's root.
    pub(crate) root: PathBuf,
    /// The session to open; none makes one.
    pub(crate) open: Option<String>,
    /// How many results it appends, each of `bytes` bytes, syncing and saying so after each.
    pub(crate) records: u64,
    pub(crate) bytes: usize,
    /// A file that is removed when an append fails, before the append is tried again.
    pub(crate) room: Option<PathBuf>,
    /// Whether it stays until it is killed.
    pub(crate) stay: bool,
}

impl Order {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root, open: None, records: 0, bytes: 10, room: None, stay: false }
    }
}

/// Does what was ordered; every line for the reader begins with `> `.
fn obey(order: &Order, mut say: impl FnMut(String)) {
    let store = Store::new(order.root.clone());
    let session = match &order.open {
        Some(id) => store.open(&SessionId::new(id.as_str())),
        None => store.create(Path::new("/work/shop")),
    };
    let mut session = match session {
        Ok(session) => session,
        Err(problem) => return say(format!("refused {problem}")),
    };
    say(format!("open {}", session.id));
    let begin = |session: &mut OpenSession| {
        session.journal.append(0, opened(&session.id, Path::new("/work/shop")))?;
        for text in std::mem::take(&mut session.repairs) {
            session.journal.append(0, repaired(&text))?;
        }
        Ok::<_, hames_protocol::port::JournalProblem>(())
    };
    if let Err(problem) = begin(&mut session) {
        return say(format!("failed {problem}"));
    }
    let first = session.records.len() as u64;
    for number in first..first + order.records {
        let entry = || ended(number, json!("x".repeat(order.bytes)));
        let record = match session.journal.append(number, entry()) {
            Ok(record) => record,
            Err(problem) => {
                say(format!("failed {problem}"));
                match &order.room {
                    Some(file) if file.exists() => std::fs::remove_file(file).unwrap(),
                    _ => return,
                }
                session.journal.append(number, entry()).unwrap()
            }
        };
        match now(session.journal.sync()) {
            Ok(()) => say(format!("synced {}", record.seq)),
            Err(problem) => return say(format!("failed {problem}")),
        }
    }
    say("end".to_owned());
    if order.stay {
        std::thread::sleep(Duration::from_secs(600));
    }
}

#[test]
fn the_other_process_does_as_it_is_told() {
    if let Ok(order) = std::env::var(ORDER) {
        let mut stdout = std::io::stdout();
        return obey(&serde_json::from_str(&order).unwrap(), |line| {
            writeln!(stdout, "> {line}").unwrap();
            stdout.flush().unwrap();
        });
    }
    let place = Place::new();
    let mut said = Vec::new();
    obey(&Order { records: 2, ..Order::new(place.root()) }, |line| said.push(line));
    assert_eq!(said[1..], ["synced 2", "synced 3", "end"]);
}

/// A process that obeys an order, killed when it is dropped.
pub(crate) struct Other {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Other {
    pub(crate) fn start(order: &Order) -> Self {
        Self::start_within(order, &[])
    }

    /// Starts it through another program, which gets this binary as its last arguments.
    pub(crate) fn start_within(order: &Order, wrapper: &[&str]) -> Self {
        let this = std::env::current_exe().unwrap();
        let mut words = wrapper.iter().map(std::ffi::OsString::from).collect::<Vec<_>>();
        words.push(this.into());
        let mut process = Command::new(&words[0])
            .args(&words[1..])
            .args(["--exact", "child::the_other_process_does_as_it_is_told", "--nocapture", "--test-threads=1"])
            .env(ORDER, serde_json::to_string(order).unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    /// The next thing it says; none at its end.
    pub(crate) fn says(&mut self) -> Option<String> {
        self.lines.by_ref().map_while(Result::ok).find_map(|line| {
            // The test runner may have printed the test's name on the same line.
            line.split_once("> ").map(|(_, said)| said.to_owned())
        })
    }

    /// The id of the session that it opened.
    pub(crate) fn session(&mut self) -> SessionId {
        let said = self.says().unwrap();
        SessionId::new(said.strip_prefix("open ").unwrap_or_else(|| panic!("{said}")))
    }

    /// Everything that it still says.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.says()).collect()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Ends it as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.kill();
    }
}
