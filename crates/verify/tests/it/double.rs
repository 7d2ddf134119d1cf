//! The ports, played by a temporary folder: a sandbox that builds the view as a copy and runs bash in it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hames_protocol::port::{
    Blobs, Capture, CommandSpec, Exit, Expected, FileContent, Finished, Landing, PathProblem, Program, Sandbox,
    SandboxProblem, Tmp, Verifier, VerifyProblem, Workspace,
};
use hames_protocol::{Baseline, BoxFuture, Digest, FileChange, Judgement, Survey, UntouchedCounts};
use hames_verify::{Checks, ChecksConfig};
use tempfile::TempDir;

/// A workspace of files beneath a temporary folder; `tests/test_*.py`, `tests/*.rs` and `protected/` are protected.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Workspace for Folder {
    fn root(&self) -> &Path {
        &self.0
    }

    fn locate(&self, path: &str) -> Result<Landing, PathProblem> {
        Err(PathProblem::Missing(path.to_owned()))
    }

    fn read(&self, path: &str, limit: u64) -> Result<FileContent, PathProblem> {
        let full = self.0.join(path);
        let Ok(real) = full.canonicalize() else { return Err(PathProblem::Missing(path.to_owned())) };
        let Ok(inside) = real.strip_prefix(&self.0) else { return Err(PathProblem::Outside(path.to_owned())) };
        let found = fs::metadata(&real).unwrap();
        if !found.is_file() {
            return Err(PathProblem::NotAFile { path: path.to_owned(), what: "a folder".to_owned() });
        }
        if found.len() > limit {
            return Err(PathProblem::TooLarge { path: path.to_owned(), bytes: found.len(), limit });
        }
        let bytes = fs::read(&real).unwrap();
        let digest = Digest::of(&bytes);
        let path = inside.to_str().unwrap().to_owned();
        Ok(FileContent { path, bytes, digest, mode: found.permissions().mode() & 0o7777 })
    }

    fn replace(&self, path: &str, _: &[u8], _: &Expected) -> Result<FileChange, PathProblem> {
        Err(PathProblem::Missing(path.to_owned()))
    }

    fn create(&self, path: &str, _: &[u8], _: u32) -> Result<FileChange, PathProblem> {
        Err(PathProblem::Missing(path.to_owned()))
    }

    fn remove(&self, path: &str, _: &Digest) -> Result<FileChange, PathProblem> {
        Err(PathProblem::Missing(path.to_owned()))
    }

    fn begin(&self) -> io::Result<Vec<u8>> {
        Ok(b"manifest".to_vec())
    }

    fn adopt(&self, _: &[u8], _: &[FileChange]) -> io::Result<()> {
        Ok(())
    }

    fn observe(&self) -> io::Result<Vec<FileChange>> {
        Ok(Vec::new())
    }

    fn survey(&self) -> io::Result<Survey> {
        Ok(Survey { changes: self.observe()?, ..Survey::default() })
    }

    fn protected_files(&self) -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        for folder in ["tests", "protected"] {
            let Ok(entries) = fs::read_dir(self.0.join(folder)) else { continue };
            for entry in entries {
                let name = entry?.file_name().into_string().unwrap();
                if folder == "protected" || name.starts_with("test_") || name.ends_with(".rs") {
                    found.push(format!("{folder}/{name}"));
                }
            }
        }
        Ok(found)
    }
}

/// Blobs as files named by their digest.
pub(crate) struct Store(pub(crate) PathBuf);

impl Blobs for Store {
    fn put(&self, bytes: &[u8]) -> io::Result<Digest> {
        let digest = Digest::of(bytes);
        fs::write(self.0.join(digest.as_str()), bytes)?;
        Ok(digest)
    }

    fn get(&self, digest: &Digest) -> io::Result<Vec<u8>> {
        fs::read(self.0.join(digest.as_str()))
    }

    fn path(&self, digest: &Digest) -> io::Result<PathBuf> {
        Ok(self.0.join(digest.as_str()))
    }
}

/// Runs each command in a copy of the workspace to which the view was applied.
///
/// What the command writes goes away with the copy, except in the session's view of the workspace itself.
pub(crate) struct Bash {
    root: PathBuf,
    pub(crate) commands: Mutex<Vec<CommandSpec>>,
}

impl Bash {
    fn materialise(&self, spec: &CommandSpec, place: &Path) -> PathBuf {
        let work = place.join("work");
        let source = spec.view.stand_in.as_deref().unwrap_or(&self.root);
        let status = std::process::Command::new("cp").arg("-a").arg(source).arg(&work).status().unwrap();
        assert!(status.success());
        for (path, bytes) in &spec.view.originals {
            let target = work.join(path);
            let mut above = target.parent().unwrap().to_owned();
            while above != work {
                if above.is_symlink() {
                    fs::remove_file(&above).unwrap();
                }
                above.pop();
            }
            let _ = fs::remove_file(&target);
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            let status = std::process::Command::new("cp").arg("-a").arg(bytes).arg(&target).status().unwrap();
            assert!(status.success());
        }
        for path in &spec.view.left_out {
            fs::remove_file(work.join(path)).unwrap();
        }
        work
    }
}

impl Sandbox for Bash {
    fn mode(&self) -> &str {
        "off"
    }

    fn run<'a>(
        &'a self,
        spec: CommandSpec,
        _: &'a (dyn Fn(&[u8]) + Send + Sync),
    ) -> BoxFuture<'a, Result<Finished, SandboxProblem>> {
        Box::pin(async move {
            self.commands.lock().unwrap().push(spec.clone());
            let place = tempfile::tempdir().unwrap();
            let work = if spec.tmp == Tmp::Fresh { self.materialise(&spec, place.path()) } else { self.root.clone() };
            let Program::Shell(line) = &spec.program else { panic!("checks are command lines for bash") };
            let began = Instant::now();
            let mut command = tokio::process::Command::new("bash");
            let log = place.path().join("log");
            let file = fs::File::create(&log).unwrap();
            command.arg("-c").arg(line).current_dir(work.join(&spec.cwd)).kill_on_drop(true).stdin(Stdio::null());
            command.stdout(file.try_clone().unwrap()).stderr(file);
            command.env("PATH", format!("/usr/local/bin:/usr/bin:/bin:{}", std::env::var("PATH").unwrap_or_default()));
            command.env("TMPDIR", place.path()).envs(spec.env.iter().cloned());
            let mut child = command.spawn().unwrap();
            let exit = match tokio::time::timeout(Duration::from_millis(spec.timeout_ms), child.wait()).await {
                Ok(status) => Exit::Code(status.unwrap().code().unwrap_or(137)),
                Err(_) => Exit::TimedOut,
            };
            drop(child);
            let capture = Capture { head: fs::read(&log).unwrap(), tail: Vec::new(), left_out: 0 };
            let ms = u64::try_from(began.elapsed().as_millis()).unwrap();
            Ok(Finished { exit, capture, strays: 0, cwd: None, attempts: Vec::new(), ms })
        })
    }
}

/// Everything that a test needs, in one temporary folder.
pub(crate) struct Trial {
    pub(crate) host: TempDir,
    pub(crate) root: PathBuf,
    pub(crate) sandbox: Arc<Bash>,
    pub(crate) checks: Checks,
}

/// The checkout example in small: one of two tests fails until the discount is a percentage.
pub(crate) const PRICING: &str = "def apply_discount(total, percent):\n    return total - percent\n";
pub(crate) const FIXED: &str = "def apply_discount(total, percent):\n    return total * (100 - percent) / 100\n";
pub(crate) const TESTS: &str = "import unittest

from pricing import apply_discount


class TestDiscount(unittest.TestCase):
    def test_no_discount(self):
        self.assertEqual(apply_discount(50, 0), 50)

    def test_ten_percent(self):
        self.assertEqual(apply_discount(50, 10), 45)
";
pub(crate) const UNITTEST: &str = "python3 -m unittest discover -s tests -t .";

impl Trial {
    /// The checkout example with these checks.
    pub(crate) fn checkout(commands: &[&str]) -> Self {
        let trial = Self::empty(commands, 60_000);
        trial.write("pricing.py", PRICING);
        trial.write("tests/__init__.py", "");
        trial.write("tests/test_pricing.py", TESTS);
        trial
    }

    /// An empty workspace with these checks.
    pub(crate) fn empty(commands: &[&str], timeout_ms: u64) -> Self {
        let host = tempfile::tempdir().unwrap();
        let real = host.path().canonicalize().unwrap();
        let root = real.join("work");
        fs::create_dir(&root).unwrap();
        fs::create_dir(real.join("blobs")).unwrap();
        let sandbox = Arc::new(Bash { root: root.clone(), commands: Mutex::default() });
        let commands = commands.iter().map(|one| (*one).to_owned()).collect();
        let checks = Checks::new(
            ChecksConfig { commands, copy: real.join("copy"), timeout_ms },
            Arc::new(Folder(root.clone())),
            Arc::<Bash>::clone(&sandbox),
            Arc::new(Store(real.join("blobs"))),
        );
        Self { host, root, sandbox, checks }
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Baseline and count on the workspace as it is now.
    pub(crate) async fn begin(&self) -> (Baseline, UntouchedCounts) {
        let baseline = self.checks.baseline().await.unwrap();
        let counts = self.checks.count().await;
        (baseline, counts)
    }

    /// Begins, lets `work` change the workspace, judges.
    pub(crate) async fn judged(&self, work: impl FnOnce(&Self)) -> Result<Judgement, VerifyProblem> {
        let (baseline, counts) = self.begin().await;
        work(self);
        self.checks.judge(&baseline, &counts).await
    }

    /// Every file below the root with its bytes.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut open = vec![self.root.clone()];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                } else {
                    found.insert(path.clone(), fs::read(&path).unwrap());
                }
            }
        }
        found
    }
}
