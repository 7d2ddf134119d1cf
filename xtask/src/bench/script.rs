//! The scripts that are played: so many turns of one kind, then an answer.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

/// What the model does in each turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Nothing: it answers at once.
    Answer,
    /// `read_file`, of the same file in another part of it each time, for a repeated call would end the run.
    Read,
    /// `bash` with `echo`.
    Bash,
    /// `bash` that prints so many bytes.
    Print(usize),
}

impl Action {
    /// The command line of a turn.
    pub(super) fn command(self, turn: usize) -> String {
        match self {
            Self::Print(bytes) => format!("head -c {bytes} /dev/zero"),
            Self::Answer | Self::Read | Self::Bash => format!("echo {turn}"),
        }
    }

    fn call(self, turn: usize) -> String {
        match self {
            Self::Answer => String::new(),
            Self::Read => {
                format!("{{\"tool\":\"read_file\",\"args\":{{\"path\":\"file.txt\",\"limit\":{}}}}}", 40 + turn)
            }
            Self::Bash | Self::Print(_) => {
                format!("{{\"tool\":\"bash\",\"args\":{{\"command\":\"{}\"}}}}", self.command(turn))
            }
        }
    }
}

/// A server that plays a script; it ends with this value.
pub(super) struct Server {
    process: Child,
    /// Host and port.
    pub(super) address: String,
}

impl Server {
    /// Serves a script of `turns` turns.
    pub(super) fn start(hames: &Path, folder: &Path, action: Action, turns: usize) -> anyhow::Result<Self> {
        let path = folder.join("script.json");
        let mut replies: Vec<String> =
            (1..=turns).map(|turn| format!("{{\"calls\":[{}]}}", action.call(turn))).collect();
        replies.push("{\"text\":\"Done.\"}".to_owned());
        fs::write(&path, format!("{{\"context_tokens\":100000000,\"replies\":[{}]}}", replies.join(",\n")))?;
        let mut process = Command::new(hames)
            .args(["script", "serve"])
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().context("no output")?).read_line(&mut line)?;
        let address = line.trim().strip_prefix("http://").context("the server told no address")?.to_owned();
        Ok(Self { process, address })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
