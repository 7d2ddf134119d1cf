//! The journal through its public seam: real files, real processes, real full disks.
// The functions that tests share are tests as well.
#![allow(clippy::unwrap_used, clippy::panic)]

mod blob;
mod child;
mod damage;
mod disk;
mod journal;
mod list;
mod memory;
mod writers;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use hames_protocol::port::Journal;
use hames_protocol::*;
use hames_session::{OpenSession, Store, boot};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A store in a folder that goes away with it, and a workspace beside it.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self::within(TempDir::new().unwrap())
    }

    /// A place in memory where there is one, for tests that sync thousands of times.
    fn in_memory() -> Self {
        Self::within(TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap())
    }

    fn within(folder: TempDir) -> Self {
        let place = Self { folder };
        std::fs::create_dir(place.workspace()).unwrap();
        place
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("sessions")
    }

    fn workspace(&self) -> PathBuf {
        self.folder.path().join("shop")
    }

    fn store(&self) -> Store {
        Store::new(self.root())
    }

    fn create(&self) -> OpenSession {
        self.store().create(&self.workspace()).unwrap()
    }

    /// A closed, synced session of `length` records: an opening, a run, results, an end.
    fn written(&self, length: u64) -> SessionId {
        let mut session = self.create();
        let id = session.id.clone();
        write(&mut session, length);
        id
    }

    /// The folder of a session, found as a person would.
    fn session_folder(&self, id: &SessionId) -> PathBuf {
        let shelves = std::fs::read_dir(self.root()).unwrap();
        shelves.map(|shelf| shelf.unwrap().path().join(id.as_str())).find(|folder| folder.is_dir()).unwrap()
    }

    fn log(&self, id: &SessionId) -> PathBuf {
        self.session_folder(id).join("log.jsonl")
    }

    fn lines(&self, id: &SessionId) -> Vec<String> {
        std::fs::read_to_string(self.log(id)).unwrap().lines().map(str::to_owned).collect()
    }

    fn set_lines(&self, id: &SessionId, lines: &[String]) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(self.log(id), text).unwrap();
    }
}

/// Runs a future that never waits for anything.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the future waits"),
    }
}

/// Fills a session up to `length` records and syncs it.
fn write(session: &mut OpenSession, length: u64) {
    for number in 1..=length {
        let entry = match number {
            1 => opened(&session.id, Path::new("/work/shop")),
            2 => run_started("Fix the total.\nThe discount is wrong."),
            n if n == length => run_ended(Outcome::Done),
            n => ended(n, json!({"n": n})),
        };
        session.journal.append(number * 10, entry).unwrap();
    }
    now(session.journal.sync()).unwrap();
}

fn opened(id: &SessionId, workspace: &Path) -> Entry {
    Entry::Opened(Opened {
        session: id.clone(),
        format: LOG_FORMAT,
        version: "0.1.0".to_owned(),
        boot: boot(),
        workspace: workspace.display().to_string(),
    })
}

fn run_started(prompt: &str) -> Entry {
    Entry::RunStarted(Box::new(RunStarted {
        run: RunId::new("run-1"),
        prompt: vec![Block::text(prompt)],
        surroundings: "Folder: /work/shop".to_owned(),
        limits: Limits::default(),
        model: ModelInfo {
            provider: "scripted".to_owned(),
            name: "script".to_owned(),
            dialect: Dialect::Anthropic,
            context_tokens: 200_000,
            output_tokens: 8_000,
            price: None,
        },
        checks: vec!["python3 -m unittest".to_owned()],
        protect: Vec::new(),
        unprotect: Vec::new(),
        added: Vec::new(),
        sandbox: "workspace-write".to_owned(),
        network: Network::None,
        head: Digest::of("head"),
    }))
}

fn run_ended(outcome: Outcome) -> Entry {
    Entry::RunEnded(RunEnded { run: RunId::new("run-1"), outcome, reason: "The checks pass.".to_owned() })
}

fn ended(number: u64, data: Value) -> Entry {
    let result = ToolResult { data, ..ToolResult::ok(format!("result {number}")) };
    Entry::Ended(Box::new(Ended { call: CallId::new(format!("call-{number}")), result, ms: 5 }))
}

fn repaired(text: &str) -> Entry {
    Entry::Repaired(Repaired { text: text.to_owned() })
}

/// A reply whose only part is the provider's own JSON `native`.
fn reply(native: &str) -> Entry {
    let part = Part { kind: PartKind::Other, native: Native(serde_json::from_str(native).unwrap()) };
    Entry::AttemptEnded(Box::new(AttemptEnded {
        attempt: AttemptNo(1),
        result: AttemptResult::Reply(Reply {
            dialect: Dialect::Anthropic,
            model: "model".to_owned(),
            provider_id: None,
            parts: vec![part],
            stop: StopReason::EndTurn,
            usage: None,
        }),
        ms: 1,
        jitter: 0,
    }))
}
