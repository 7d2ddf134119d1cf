//! The floor: a bare loop that does what cannot be left out, and nothing else.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use nix::sys::resource::UsageWho;

use super::measure::{Cost, cpu_s};
use super::script::{Action, Server};

/// What a run of Hames sent and wrote, to be done again without it.
pub(super) struct Work {
    pub(super) action: Action,
    pub(super) turns: usize,
    pub(super) requests: Vec<Vec<u8>>,
    pub(super) log: Vec<u8>,
    pub(super) workspace: PathBuf,
}

impl Work {
    /// Posts, acts, writes and syncs.
    pub(super) fn replay(&self, hames: &Path, folder: &Path) -> anyhow::Result<Cost> {
        ensure!(self.requests.len() == self.turns + 1, "{} requests for {} turns", self.requests.len(), self.turns);
        let server = Server::start(hames, folder, self.action, self.turns)?;
        let records = self.records();
        let path = folder.join("floor.jsonl");
        let mut log = File::create(&path)?;
        let cpu = || anyhow::Ok(cpu_s(UsageWho::RUSAGE_SELF)? + cpu_s(UsageWho::RUSAGE_CHILDREN)?);
        let (began, cpu_before) = (Instant::now(), cpu()?);
        let mut wire = Wire::connect(&server.address)?;
        for (turn, request) in self.requests.iter().enumerate() {
            let mut records = records.get(turn).map(Vec::as_slice).unwrap_or_default().iter();
            log.sync_data()?;
            wire.post(request)?;
            if turn == self.turns {
                records.by_ref().try_for_each(|record| log.write_all(record))?;
                break;
            }
            // The intent is on disk before anything that changes something; reading changes nothing.
            let before = records.len() / 2;
            records.by_ref().take(before).try_for_each(|record| log.write_all(record))?;
            match self.action {
                Action::Answer => {}
                Action::Read => drop(fs::read(self.workspace.join("file.txt"))?),
                Action::Bash | Action::Print(_) => {
                    log.sync_data()?;
                    let line = self.action.command(turn + 1);
                    Command::new("bash").args(["-c", &line]).stdin(Stdio::null()).output()?;
                }
            }
            records.try_for_each(|record| log.write_all(record))?;
        }
        log.sync_data()?;
        let cost = Cost { wall_ms: began.elapsed().as_secs_f64() * 1e3, cpu_s: cpu()? - cpu_before, peak_mib: 0.0 };
        fs::remove_file(path)?;
        Ok(cost)
    }

    /// The records of each turn: each begins with a request.
    fn records(&self) -> Vec<Vec<&[u8]>> {
        let mut turns: Vec<Vec<&[u8]>> = Vec::new();
        let begins = |line: &[u8]| line.windows(17).any(|part| part == b"\"attempt_started\"");
        for line in self.log.split_inclusive(|&byte| byte == b'\n') {
            match turns.last_mut() {
                Some(turn) if !begins(line) => turn.push(line),
                _ => turns.push(vec![line]),
            }
        }
        // What comes before the first request belongs to the start.
        if turns.len() > self.requests.len() {
            turns.remove(0);
        }
        turns
    }
}

/// A connection that is kept.
struct Wire(BufReader<TcpStream>);

impl Wire {
    fn connect(address: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends a request and reads its reply, which comes in chunks, to the end.
    fn post(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.0.get_mut().write_all(request)?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        ensure!(line.contains(" 200 "), "The server refused the floor's request: {line}");
        while line != "\r\n" {
            line.clear();
            self.0.read_line(&mut line)?;
        }
        loop {
            line.clear();
            self.0.read_line(&mut line)?;
            let length = usize::from_str_radix(line.trim(), 16).context("a chunk has no length")?;
            let mut chunk = vec![0; length + 2];
            self.0.read_exact(&mut chunk)?;
            if length == 0 {
                return Ok(());
            }
        }
    }
}

/// The least that a program can do before its first request: starts, connects, sends.
pub(crate) fn post(address: &str, request: &Path) -> anyhow::Result<()> {
    Wire::connect(address)?.post(&fs::read(request)?)
}
