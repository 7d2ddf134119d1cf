//! A folder with a home, a workspace and scripts, and the binary run in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    /// An empty workspace.
    pub(crate) fn empty() -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("home")).unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        Self { folder }
    }

    /// A copy of the bundled example.
    pub(crate) fn example() -> Self {
        let place = Self::empty();
        copy(&repository().join("examples/checkout"), &place.work());
        place
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// A path beside the workspace, real.
    pub(crate) fn beside(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.work().join(path)).unwrap()
    }

    /// The names in the workspace, sorted.
    pub(crate) fn listing(&self) -> Vec<String> {
        let names = fs::read_dir(self.work()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// Writes a script beside the workspace; returns the value for `--model`.
    pub(crate) fn script(&self, yaml: &str) -> String {
        let path = self.folder.path().join("script.yaml");
        fs::write(&path, yaml).unwrap();
        format!("scripted:{}", path.display())
    }

    /// The binary with nothing of this process's environment but what it needs.
    pub(crate) fn hames<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hames"));
        command
            .args(arguments)
            .current_dir(self.work())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.folder.path().join("home"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn run<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Ran {
        Ran::of(self.hames(arguments).output().unwrap())
    }

    /// Runs a task on a script and returns the one JSON result.
    pub(crate) fn run_json(&self, model: &str, more: &[&str]) -> (i32, Value) {
        let arguments = ["run", "--output-format", "json", "--model", model, "go"];
        let ran = self.run(arguments.into_iter().chain(more.iter().copied()));
        (ran.code, ran.json())
    }

    /// The folders of all sessions.
    pub(crate) fn sessions(&self) -> Vec<PathBuf> {
        let root = self.folder.path().join("home/.local/state/hames/sessions");
        let entries = |folder: &Path| -> Vec<PathBuf> {
            fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
        };
        entries(&root).iter().flat_map(|shelf| entries(shelf)).collect()
    }

    /// The entries of the only session, as `session show` prints them.
    pub(crate) fn log(&self) -> Vec<Value> {
        let folder = self.sessions().pop().expect("a session");
        let id = folder.file_name().unwrap().to_str().unwrap();
        let shown = self.run(["session", "show", id]);
        shown.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The log's bytes as they are now; empty when there is none yet.
    pub(crate) fn raw_log(&self) -> String {
        self.sessions().first().and_then(|folder| fs::read_to_string(folder.join("log.jsonl")).ok()).unwrap_or_default()
    }
}

pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        use std::os::unix::process::ExitStatusExt;
        let code = output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap());
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code, stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|_| panic!("{}\n{}", self.stdout, self.stderr))
    }
}

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub(crate) fn kill(child: &Child, signal: &str) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target)
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
