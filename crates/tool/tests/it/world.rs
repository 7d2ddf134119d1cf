//! A small real world: a folder on disk with one protected file, and a shell in it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hames_protocol::port::*;
use hames_protocol::*;
use hames_tool::{Memory, Registry, builtin};
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The file that no tool may change.
pub(crate) const PROTECTED: &str = "tests/test_sum.py";

pub(crate) struct World {
    pub(crate) registry: Registry,
    pub(crate) memory: Memory,
    pub(crate) workspace: Arc<Folder>,
    pub(crate) shell: Arc<Shell>,
    calls: AtomicU32,
    _dir: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with_checks(Checks::default())
    }

    pub(crate) fn with_checks(checks: Checks) -> Self {
        let dir = TempDir::new().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (root, tmp) = (base.join("work"), base.join("tmp"));
        fs::create_dir_all(&root).unwrap();
        fs::create_dir_all(tmp.join("outputs")).unwrap();
        let workspace = Arc::new(Folder {
            root: root.clone(),
            tmp: tmp.clone(),
            known: Mutex::default(),
            intruder: Mutex::default(),
            sealed: Mutex::default(),
        });
        workspace.begin().unwrap();
        let shell = Arc::new(Shell { root, tmp, attempts: Mutex::default() });
        Self::over(dir, workspace, shell, checks)
    }

    fn over(dir: TempDir, workspace: Arc<Folder>, shell: Arc<Shell>, checks: Checks) -> Self {
        let (tools, memory) = builtin(workspace.clone(), shell.clone(), Arc::new(checks));
        let registry = Registry::new(tools).unwrap();
        Self { registry, memory, workspace, shell, calls: AtomicU32::new(0), _dir: dir }
    }

    /// The same disk after a restart: nothing is remembered.
    pub(crate) fn restarted(self) -> Self {
        Self::over(self._dir, self.workspace, self.shell, Checks::default())
    }

    pub(crate) fn put(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.workspace.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub(crate) fn bytes(&self, path: &str) -> Vec<u8> {
        fs::read(self.workspace.root.join(path)).unwrap()
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.workspace.root.join(path).symlink_metadata().is_ok()
    }

    pub(crate) fn call(&self, name: &str, arguments: Value) -> Call {
        let Value::Object(map) = arguments else { panic!("arguments are an object") };
        self.raw_call(name, Arguments::Whole(map))
    }

    pub(crate) fn raw_call(&self, name: &str, arguments: Arguments) -> Call {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let id = CallId::new(format!("call-{number}"));
        Call { wire_id: id.to_string(), id, provider_id: None, name: name.to_owned(), arguments, twin_of: None }
    }

    pub(crate) async fn examine(&self, name: &str, arguments: Value) -> Examination {
        self.registry.examine(&self.call(name, arguments)).await
    }

    /// Examines and, when nothing speaks against it, runs: what the loop does without a policy.
    pub(crate) async fn run(&self, name: &str, arguments: Value) -> ToolResult {
        let call = self.call(name, arguments);
        let examined = self.registry.examine(&call).await;
        if !examined.problems.is_empty() {
            let text: Vec<&str> = examined.problems.iter().map(|problem| problem.text.as_str()).collect();
            return ToolResult::new(Status::Refused, text.join("\n"));
        }
        self.registry.run(&call, &|_| {}).await
    }

    pub(crate) async fn ok(&self, name: &str, arguments: Value) -> ToolResult {
        let result = self.run(name, arguments).await;
        assert_eq!(result.status, Status::Ok, "{}", result.text());
        result
    }

    pub(crate) async fn refused(&self, name: &str, arguments: Value) -> String {
        let result = self.run(name, arguments).await;
        assert_eq!(result.status, Status::Refused, "{}", result.text());
        result.text()
    }

    pub(crate) async fn read(&self, path: &str) -> String {
        self.ok("read_file", json!({ "path": path })).await.text()
    }

    pub(crate) async fn bash(&self, command: &str) -> ToolResult {
        self.run("bash", json!({ "command": command })).await
    }
}

/// A workspace port over plain file calls. It resolves links, but not safely against a race: the jail does that.
pub(crate) struct Folder {
    pub(crate) root: PathBuf,
    pub(crate) tmp: PathBuf,
    known: Mutex<BTreeMap<String, Digest>>,
    /// What someone else writes to a file just before its next replacement.
    pub(crate) intruder: Mutex<Option<&'static str>>,
    /// Files that take so many more changes and no other, as if someone made them read-only meanwhile.
    pub(crate) sealed: Mutex<BTreeMap<&'static str, u32>>,
}

impl Folder {
    fn host(&self, path: &str) -> Result<PathBuf, PathProblem> {
        let joined = match Path::new(path).strip_prefix("/tmp") {
            Ok(below) if !path.starts_with(self.root.to_str().unwrap()) => self.tmp.join(below),
            _ => self.root.join(path),
        };
        let mut real = PathBuf::new();
        for part in joined.components() {
            match part {
                Component::ParentDir => drop(real.pop()),
                part => real.push(part),
            }
            real = real.canonicalize().unwrap_or(real);
        }
        if real.starts_with(&self.root) || real.starts_with(&self.tmp) {
            Ok(real)
        } else {
            Err(PathProblem::Outside(path.to_owned()))
        }
    }

    fn name(&self, host: &Path) -> String {
        if let Ok(below) = host.strip_prefix(&self.tmp) {
            return format!("/tmp/{}", below.display()).trim_end_matches('/').to_owned();
        }
        let below = host.strip_prefix(&self.root).unwrap().to_str().unwrap();
        if below.is_empty() { ".".to_owned() } else { below.to_owned() }
    }

    /// What every change checks first; gives the file's real path and digest.
    fn admit(&self, path: &str) -> Result<(Landing, PathBuf, Option<Digest>), PathProblem> {
        let landing = self.locate(path)?;
        if let Some(rule) = landing.protected {
            return Err(PathProblem::Protected { path: path.to_owned(), rule });
        }
        match self.sealed.lock().unwrap().get_mut(landing.path.as_str()) {
            Some(0) => return Err(PathProblem::System { path: path.to_owned(), why: "it is read-only".to_owned() }),
            Some(left) => *left -= 1,
            None => {}
        }
        let host = self.host(path)?;
        if let Some(bytes) = self.intruder.lock().unwrap().take() {
            fs::write(&host, bytes).unwrap();
        }
        let before = self.read(path, u64::MAX).ok().map(|content| content.digest);
        Ok((landing, host, before))
    }

    fn list(&self, folder: &Path, found: &mut BTreeMap<String, Digest>) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                self.list(&entry.path(), found)?;
            } else if entry.file_type()?.is_file() {
                found.insert(self.name(&entry.path()), Digest::of(fs::read(entry.path())?));
            }
        }
        Ok(())
    }
}

impl Workspace for Folder {
    fn root(&self) -> &Path {
        &self.root
    }

    fn private_tmp(&self) -> Option<&Path> {
        Some(&self.tmp)
    }

    fn locate(&self, path: &str) -> Result<Landing, PathProblem> {
        let host = self.host(path)?;
        let kind = match fs::metadata(&host) {
            Ok(found) if found.is_dir() => FileKind::Folder,
            Ok(found) if found.is_file() => FileKind::File,
            Ok(_) => FileKind::Special,
            Err(_) if host == self.root => return Err(PathProblem::Missing(path.to_owned())),
            Err(_) => FileKind::Missing,
        };
        let path = self.name(&host);
        let rule = if path.starts_with("/tmp") { Some("file tools only read the session's /tmp") } else { None };
        let rule = rule.or((path == PROTECTED).then_some("a test file"));
        let protected = rule.map(str::to_owned);
        Ok(Landing { path, kind, protected })
    }

    fn read(&self, path: &str, limit: u64) -> Result<FileContent, PathProblem> {
        let host = self.host(path)?;
        let found = fs::metadata(&host).map_err(|_| PathProblem::Missing(path.to_owned()))?;
        if !found.is_file() {
            return Err(PathProblem::NotAFile { path: path.to_owned(), what: "a folder".to_owned() });
        }
        if found.len() > limit {
            return Err(PathProblem::TooLarge { path: path.to_owned(), bytes: found.len(), limit });
        }
        let bytes = fs::read(&host).unwrap();
        let digest = Digest::of(&bytes);
        Ok(FileContent { path: self.name(&host), bytes, digest, mode: found.permissions().mode() })
    }

    fn replace(&self, path: &str, bytes: &[u8], expected: &Expected) -> Result<FileChange, PathProblem> {
        let (landing, host, before) = self.admit(path)?;
        let fits = match expected {
            Expected::Missing => before.is_none(),
            Expected::Content(digest) => before.as_ref() == Some(digest),
        };
        if !fits {
            return Err(PathProblem::Changed(path.to_owned()));
        }
        fs::create_dir_all(host.parent().unwrap()).unwrap();
        fs::write(&host, bytes).unwrap();
        let after = Digest::of(bytes);
        self.known.lock().unwrap().insert(landing.path.clone(), after.clone());
        Ok(FileChange::between(landing.path, before, Some(after)).unwrap())
    }

    fn create(&self, path: &str, bytes: &[u8], mode: u32) -> Result<FileChange, PathProblem> {
        let change = self.replace(path, bytes, &Expected::Missing)?;
        fs::set_permissions(self.host(path)?, fs::Permissions::from_mode(mode & 0o777)).unwrap();
        Ok(change)
    }

    fn remove(&self, path: &str, expected: &Digest) -> Result<FileChange, PathProblem> {
        let (landing, host, before) = self.admit(path)?;
        if before.as_ref() != Some(expected) {
            return Err(PathProblem::Changed(path.to_owned()));
        }
        fs::remove_file(host).unwrap();
        self.known.lock().unwrap().remove(&landing.path);
        Ok(FileChange::between(landing.path, before, None).unwrap())
    }

    fn begin(&self) -> io::Result<Vec<u8>> {
        self.observe()?;
        Ok(Vec::new())
    }

    fn adopt(&self, _: &[u8], _: &[FileChange]) -> io::Result<()> {
        self.observe().map(drop)
    }

    fn observe(&self) -> io::Result<Vec<FileChange>> {
        let mut now = BTreeMap::new();
        self.list(&self.root, &mut now)?;
        let mut known = self.known.lock().unwrap();
        let paths: std::collections::BTreeSet<&String> = known.keys().chain(now.keys()).collect();
        let change =
            |path: &&String| FileChange::between((*path).clone(), known.get(*path).cloned(), now.get(*path).cloned());
        let changes = paths.iter().filter_map(change).collect();
        *known = now;
        Ok(changes)
    }

    fn survey(&self) -> io::Result<Survey> {
        Ok(Survey { changes: self.observe()?, ..Survey::default() })
    }

    fn protected_files(&self) -> io::Result<Vec<String>> {
        Ok(vec![PROTECTED.to_owned()])
    }
}

/// A sandbox port that isolates nothing but really spawns: the process group is what it ends.
pub(crate) struct Shell {
    root: PathBuf,
    tmp: PathBuf,
    /// What the next command is said to have tried.
    pub(crate) attempts: Mutex<Vec<Attempt>>,
}

struct KillOnDrop(Pid);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process_group(self.0, Signal::KILL);
    }
}

impl Shell {
    async fn spawn(&self, command: CommandSpec) -> Result<Finished, SandboxProblem> {
        let Program::Shell(line) = &command.program else { panic!("only bash is run here") };
        let output = self.tmp.join(command.keep_output.as_deref().unwrap().strip_prefix("/tmp/").unwrap());
        let cwd_file = self.tmp.join("cwd");
        let _ = fs::remove_file(&cwd_file);
        let cwd = match command.cwd.strip_prefix("/tmp") {
            Ok(below) if !command.cwd.starts_with(&self.root) => self.tmp.join(below),
            _ => self.root.join(&command.cwd),
        };
        let file = fs::File::create(&output).unwrap();
        let started = Instant::now();
        let mut child = tokio::process::Command::new("bash")
            .arg("-c")
            .arg(format!("trap 'pwd -P > {}' EXIT\n{line}", cwd_file.display()))
            .current_dir(cwd)
            .process_group(0)
            .stdin(Stdio::null())
            .stderr(file.try_clone().unwrap())
            .stdout(file)
            .spawn()
            .map_err(|error| SandboxProblem(format!("The command could not be started: {error}.")))?;
        let group = Pid::from_raw(child.id().unwrap() as i32).unwrap();
        let kill = KillOnDrop(group);
        let ended = tokio::time::timeout(Duration::from_millis(command.timeout_ms), child.wait()).await;
        let strays = members(group);
        drop(kill);
        let exit = match ended {
            Err(_) => {
                child.wait().await.unwrap();
                Exit::TimedOut
            }
            Ok(status) => {
                let status = status.unwrap();
                use std::os::unix::process::ExitStatusExt;
                status.code().map(Exit::Code).unwrap_or_else(|| Exit::Signal(status.signal().unwrap()))
            }
        };
        let raw = fs::read(&output).unwrap();
        let strays = if exit == Exit::TimedOut { 0 } else { strays };
        let cwd = fs::read_to_string(&cwd_file).ok().filter(|text| !text.is_empty());
        let cwd = cwd.map(|text| PathBuf::from(text.trim_end()));
        let cwd =
            cwd.map(|path| path.strip_prefix(&self.tmp).map(|below| Path::new("/tmp").join(below)).unwrap_or(path));
        let attempts = std::mem::take(&mut *self.attempts.lock().unwrap());
        let ms = started.elapsed().as_millis() as u64;
        Ok(Finished {
            exit,
            capture: capture(&raw, command.capture_bytes),
            strays,
            cwd,
            attempts,
            appeared: Vec::new(),
            ms,
        })
    }
}

fn capture(raw: &[u8], each: usize) -> Capture {
    if raw.len() <= 2 * each {
        return Capture { head: raw.to_vec(), tail: Vec::new(), left_out: 0 };
    }
    let left_out = (raw.len() - 2 * each) as u64;
    Capture { head: raw[..each].to_vec(), tail: raw[raw.len() - each..].to_vec(), left_out }
}

/// How many living processes a process group has.
fn members(group: Pid) -> u32 {
    let stats =
        fs::read_dir("/proc").unwrap().filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("stat")).ok());
    let fields = stats
        .filter_map(|stat| Some(stat.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect::<Vec<_>>()));
    let pgrp = group.as_raw_nonzero().to_string();
    fields.filter(|fields| fields[0] != "Z" && fields[2] == pgrp).count() as u32
}

impl Sandbox for Shell {
    fn mode(&self) -> &str {
        "off"
    }

    fn network(&self) -> Network {
        Network::Full
    }

    fn start(&self, _: CommandSpec) -> BoxFuture<'_, Result<Box<dyn Job>, SandboxProblem>> {
        Box::pin(async { Err(SandboxProblem("There are no jobs here.".to_owned())) })
    }

    fn run<'a>(
        &'a self,
        command: CommandSpec,
        output: &'a (dyn Fn(&[u8]) + Send + Sync),
    ) -> BoxFuture<'a, Result<Finished, SandboxProblem>> {
        Box::pin(async move {
            let finished = self.spawn(command).await?;
            output(&finished.capture.head);
            Ok(finished)
        })
    }
}

/// A verifier port that says what it is told to say.
#[derive(Default)]
pub(crate) struct Checks {
    pub(crate) rehearsal: Option<Result<Judgement, VerifyProblem>>,
}

impl Verifier for Checks {
    fn checks(&self) -> Vec<String> {
        self.rehearsal.iter().map(|_| "python3 -m unittest".to_owned()).collect()
    }

    fn baseline(&self) -> BoxFuture<'_, Result<Baseline, VerifyProblem>> {
        Box::pin(std::future::ready(Ok(Baseline::default())))
    }

    fn count(&self) -> BoxFuture<'_, UntouchedCounts> {
        Box::pin(std::future::ready(UntouchedCounts::default()))
    }

    fn judge<'a>(&'a self, _: &'a Baseline, _: &'a UntouchedCounts) -> BoxFuture<'a, Result<Judgement, VerifyProblem>> {
        self.rehearse()
    }

    fn rehearse(&self) -> BoxFuture<'_, Result<Judgement, VerifyProblem>> {
        Box::pin(std::future::ready(self.rehearsal.clone().unwrap()))
    }
}
