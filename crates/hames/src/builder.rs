//! Puts an agent together: opens the session, then the jail, the sandbox, the tools, the verifier, the driver.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hames_agent::{Driver, Ports};
use hames_context::SystemPrompt;
use hames_protocol::port::{Approver, Blobs, Model, Observer, Sandbox, Toolbox, Verifier, Workspace};
use hames_protocol::{AddedFolder, Entry, LOG_FORMAT, Limits, Network, Opened, Record, SessionId};
use hames_sandbox::{GitIdentity, Mode, Protection, ProtectionConfig, SandboxConfig, TestFiles, WorkspaceFiles};
use hames_session::{OpenSession, Store};
use hames_tool::Registry;
use hames_verify::{Checks, ChecksConfig};

use crate::added::{self, Folders, Neighbours};
use crate::agent::Agent;
use crate::approver::Nobody;
use crate::clock::SystemClock;
use crate::confinement::{Isolation, sandbox, sandbox_config};
use crate::observer::Silent;

/// Which session to work on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionChoice {
    /// A new one.
    New,
    /// This one.
    Resume(SessionId),
    /// The workspace's last one.
    Latest,
}

/// Why an agent cannot be put together; a sentence that names the thing, the cause and the remedy.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BuildProblem(String);

impl BuildProblem {
    /// Takes over another problem's sentence.
    pub fn new(problem: impl Display) -> Self {
        Self(problem.to_string())
    }
}

/// The longest time one check may take, in milliseconds.
const CHECK_TIMEOUT_MS: u64 = 10 * 60 * 1000;

/// What an agent is made of. Everything but the model has a default.
pub struct Builder {
    model: Arc<dyn Model>,
    workspace: Option<PathBuf>,
    checks: Vec<String>,
    protect: Vec<String>,
    unprotect: Vec<String>,
    added: Vec<AddedFolder>,
    limits: Limits,
    isolation: Option<Isolation>,
    network: Option<Network>,
    identity: Option<GitIdentity>,
    sessions: Option<PathBuf>,
    session: SessionChoice,
    approver: Arc<dyn Approver>,
    observer: Arc<dyn Observer>,
    system_prompt: SystemPrompt,
    standing: Standing,
}

/// What holds in every run, beside what is asked for and beside what a resumed session was started with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Checks that are added.
    pub checks: Vec<String>,
    /// Globs that are protected as well.
    pub protect: Vec<String>,
    /// Globs that are left open as well.
    pub unprotect: Vec<String>,
    /// Folders that are added as well; one that is the workspace or lies in it is left out.
    pub added: Vec<AddedFolder>,
    /// How commands are kept apart when nothing else says so.
    pub isolation: Option<Isolation>,
    /// The network that commands have when nothing else says so.
    pub network: Option<Network>,
}

impl Builder {
    pub(crate) fn new(model: Arc<dyn Model>) -> Self {
        Self {
            model,
            workspace: None,
            checks: Vec::new(),
            protect: Vec::new(),
            unprotect: Vec::new(),
            added: Vec::new(),
            limits: Limits::default(),
            isolation: None,
            network: None,
            identity: None,
            sessions: None,
            session: SessionChoice::New,
            approver: Arc::new(Nobody),
            observer: Arc::new(Silent),
            system_prompt: SystemPrompt::default(),
            standing: Standing::default(),
        }
    }

    /// The folder to work in; by default that of the resumed session, else the current one.
    pub fn workspace(mut self, folder: impl Into<PathBuf>) -> Self {
        self.workspace = Some(folder.into());
        self
    }

    /// Adds a check: a command line that `finish` must see pass.
    pub fn check(mut self, command: impl Into<String>) -> Self {
        self.checks.push(command.into());
        self
    }

    /// Protects paths that match a glob in gitignore syntax.
    pub fn protect(mut self, glob: impl Into<String>) -> Self {
        self.protect.push(glob.into());
        self
    }

    /// Leaves paths open that would be protected.
    pub fn unprotect(mut self, glob: impl Into<String>) -> Self {
        self.unprotect.push(glob.into());
        self
    }

    /// Adds a folder beside the workspace that file tools and commands reach at its own path.
    pub fn add_folder(mut self, folder: AddedFolder) -> Self {
        self.added.push(folder);
        self
    }

    /// The bounds of each run.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How commands are kept apart from the machine.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = Some(isolation);
        self
    }

    /// The network that commands have, those of the model and the checks alike; by default none.
    pub fn network(mut self, network: Network) -> Self {
        self.network = Some(network);
        self
    }

    /// Who commits inside the sandbox are made by.
    pub fn identity(mut self, identity: Option<GitIdentity>) -> Self {
        self.identity = identity;
        self
    }

    /// The folder in which sessions are kept; by default [`sessions_folder`].
    pub fn sessions(mut self, folder: impl Into<PathBuf>) -> Self {
        self.sessions = Some(folder.into());
        self
    }

    /// Which session to work on; by default a new one.
    pub fn session(mut self, session: SessionChoice) -> Self {
        self.session = session;
        self
    }

    /// Replaces the instructions that Hames gives the model, or adds to them.
    pub fn system_prompt(mut self, prompt: SystemPrompt) -> Self {
        self.system_prompt = prompt;
        self
    }

    /// What holds beside all that is asked for, such as what configuration files say.
    pub fn standing(mut self, standing: Standing) -> Self {
        self.standing = standing;
        self
    }

    /// Who answers what only a person can; by default [`Nobody`].
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = approver;
        self
    }

    /// Who watches.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// Opens the session and wires the ports. Blocks while it opens files and tries the sandbox.
    ///
    /// # Errors
    /// When the session, the workspace or the sandbox cannot be had.
    pub fn build(mut self) -> Result<Agent, BuildProblem> {
        if self.limits.max_cost_usd.is_some() && self.model.info().price.is_none() {
            return Err(BuildProblem(format!(
                "A limit on cost needs a price, and none is known for `{}`. Leave out `--max-cost`, or use a model with a known price.",
                self.model.info().name
            )));
        }
        let (session, root) = self.open_session()?;
        let (folder, is_new) = (session.folder.clone(), session.records.is_empty());
        self.take_over(&session.records);
        self.add_standing(&root);
        self.wire(session, root).inspect_err(|_| {
            // A session that never began is nothing that anybody should find in a list.
            if is_new {
                let _ = std::fs::remove_dir_all(folder);
            }
        })
    }

    fn wire(self, session: OpenSession, root: PathBuf) -> Result<Agent, BuildProblem> {
        self.refuse_empty_checks()?;
        let tests = if self.checks.is_empty() { TestFiles::Open } else { TestFiles::Guarded };
        let protect = self.protect.iter().cloned().chain(check_scripts(&root, &self.checks)).collect();
        let config = ProtectionConfig { tests, protect, unprotect: self.unprotect.clone() };
        let protection = Arc::new(Protection::new(&root, config).map_err(BuildProblem::new)?);
        let sessions = self.sessions.clone().or_else(sessions_folder);
        let added = Neighbours::of(&root, sessions.as_deref()).admit(&self.added)?;
        let opened_folders = added::opened(&added)?;
        let isolation = self.isolation.unwrap_or(Isolation::WorkspaceWrite);
        let config = sandbox_config(isolation, &root, &session.private, &protection, &opened_folders);
        let (network, identity) = (self.network.unwrap_or_default(), self.identity.clone());
        let sandbox = sandbox(isolation, SandboxConfig { network, identity, ..config })?;
        let (tmp, untouched) = (session.private.join("tmp"), session.private.join("untouched"));
        let files = WorkspaceFiles::open(&root, Some(tmp), protection).map_err(BuildProblem::new)?;
        let workspace: Arc<dyn Workspace> = Arc::new(files.with_folders(&opened_folders).map_err(BuildProblem::new)?);
        let blobs: Arc<dyn Blobs> = Arc::new(session.blobs);
        let verifier: Arc<dyn Verifier> = Arc::new(Checks::new(
            ChecksConfig { commands: self.checks.clone(), copy: untouched.clone(), timeout_ms: CHECK_TIMEOUT_MS },
            Arc::clone(&workspace),
            Arc::clone(&sandbox),
            Arc::clone(&blobs),
        ));
        let (mode, network) = (sandbox.mode().to_owned(), sandbox.network());
        let tools = tools(Arc::clone(&workspace), sandbox, Arc::clone(&verifier), &session.records)?;
        let head = hames_context::head(&self.system_prompt, tools.specs());
        let ports = Ports {
            model: self.model,
            tools,
            workspace,
            verifier,
            approver: self.approver,
            journal: Box::new(session.journal),
            blobs,
            clock: Arc::new(SystemClock::start()),
            observer: self.observer,
            jitter: || fastrand::u16(0..1000),
        };
        let opened = opened(&session.id, &root);
        let driver =
            Driver::open(ports, &head, &session.records, opened, session.repairs).map_err(BuildProblem::new)?;
        Ok(Agent {
            driver,
            session: session.id,
            root,
            untouched,
            checks: self.checks,
            protect: self.protect,
            unprotect: self.unprotect,
            added,
            limits: self.limits,
            sandbox: mode,
            network,
        })
    }

    /// What a resumed session was started with holds on unless something else is asked for; switching the sandbox off
    /// and the full network must be asked for each time.
    fn take_over(&mut self, records: &[Record]) {
        let last = records.iter().rev().find_map(|record| match &record.entry {
            Entry::RunStarted(started) => Some(started),
            _ => None,
        });
        let Some(last) = last else { return };
        let inherit = |mine: &mut Vec<String>, theirs: &[String]| {
            if mine.is_empty() {
                *mine = theirs.to_vec();
            }
        };
        inherit(&mut self.checks, &last.checks);
        inherit(&mut self.protect, &last.protect);
        inherit(&mut self.unprotect, &last.unprotect);
        if self.added.is_empty() {
            self.added.clone_from(&last.added);
        }
        if self.isolation.is_none() && last.sandbox == Mode::ReadOnly.as_str() {
            self.isolation = Some(Isolation::ReadOnly);
        }
        if self.network.is_none() && last.network == Network::None {
            self.network = Some(Network::None);
        }
    }

    /// An empty command line succeeds, so as a check it would prove anything.
    fn refuse_empty_checks(&self) -> Result<(), BuildProblem> {
        let is_empty = |check: &String| check.trim().is_empty() || check.contains('\0');
        match self.checks.iter().any(is_empty) {
            true => Err(BuildProblem(
                "A check (`--verify`) is empty or holds a NUL. Give a command, or leave it out.".into(),
            )),
            false => Ok(()),
        }
    }

    fn add_standing(&mut self, root: &Path) {
        let standing = std::mem::take(&mut self.standing);
        let folders = Folders { asked: std::mem::take(&mut self.added), standing: standing.added };
        self.added = Neighbours::of(root, None).joined(folders);
        let add = |mine: &mut Vec<String>, more: Vec<String>| {
            for one in more {
                if !mine.contains(&one) {
                    mine.push(one);
                }
            }
        };
        add(&mut self.checks, standing.checks);
        add(&mut self.protect, standing.protect);
        add(&mut self.unprotect, standing.unprotect);
        self.isolation = self.isolation.or(standing.isolation);
        self.network = self.network.or(standing.network);
    }

    fn open_session(&self) -> Result<(OpenSession, PathBuf), BuildProblem> {
        let folder = self.sessions.clone().or_else(sessions_folder).ok_or_else(|| {
            BuildProblem("No folder for sessions: neither XDG_STATE_HOME nor HOME is set. Set one of them.".into())
        })?;
        let store = Store::new(folder);
        let id = match &self.session {
            SessionChoice::New => None,
            SessionChoice::Resume(id) => Some(id.clone()),
            SessionChoice::Latest => {
                let root = real(self.workspace.as_deref().unwrap_or(Path::new(".")))?;
                let latest = store.latest(&root).map_err(BuildProblem::new)?;
                Some(latest.ok_or_else(|| {
                    BuildProblem(format!(
                        "There is no session for {} to continue. Start one with a prompt.",
                        root.display()
                    ))
                })?)
            }
        };
        match id {
            None => {
                let root = real(self.workspace.as_deref().unwrap_or(Path::new(".")))?;
                Ok((store.create(&root).map_err(BuildProblem::new)?, root))
            }
            Some(id) => {
                let session = store.open(&id).map_err(BuildProblem::new)?;
                let folder = self.workspace.clone().or_else(|| session.workspace().map(Path::to_owned));
                let root = real(folder.as_deref().unwrap_or(Path::new(".")))?;
                Ok((session, root))
            }
        }
    }
}

/// Globs for the scripts of the workspace that the checks run by their path: who rewrites them decides what passes.
fn check_scripts(root: &Path, checks: &[String]) -> Vec<String> {
    let named = checks.iter().flat_map(|check| hames_verify::named_scripts(check));
    let of_workspace = named.filter_map(|script| {
        let path = root.join(&script).canonicalize().ok()?;
        let begins_as_script = std::fs::read(&path).is_ok_and(|bytes| bytes.starts_with(b"#!"));
        let is_script = begins_as_script || path.extension().is_some_and(|extension| extension == "sh");
        let relative = path.strip_prefix(root).ok().filter(|_| is_script)?.to_str()?.to_owned();
        let special = |c: char| matches!(c, '*' | '?' | '[' | ']' | '\\' | '!' | '#' | ' ');
        let escaped = relative.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c]));
        Some(std::iter::once('/').chain(escaped).collect())
    });
    of_workspace.collect()
}

/// The registry, with what earlier processes of the session had read.
fn tools(
    workspace: Arc<dyn Workspace>,
    sandbox: Arc<dyn Sandbox>,
    verifier: Arc<dyn Verifier>,
    records: &[Record],
) -> Result<Arc<dyn Toolbox>, BuildProblem> {
    let (tools, memory) = hames_tool::builtin(workspace, sandbox, verifier);
    for record in records {
        if let Entry::Ended(ended) = &record.entry {
            memory.recall(&ended.result.data);
        }
    }
    Ok(Arc::new(Registry::new(tools).map_err(BuildProblem::new)?))
}

fn opened(session: &SessionId, root: &Path) -> Opened {
    Opened {
        session: session.clone(),
        format: LOG_FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        boot: hames_session::boot(),
        workspace: root.to_string_lossy().into_owned(),
    }
}

/// The real path of a folder that can be a workspace.
///
/// # Errors
/// When it cannot be opened, or is no folder to work in.
pub(crate) fn real(folder: &Path) -> Result<PathBuf, BuildProblem> {
    let real = folder.canonicalize().map_err(|error| {
        BuildProblem(format!(
            "The workspace {} cannot be opened: {error}. Name a folder that exists.",
            folder.display()
        ))
    })?;
    if real == Path::new("/") {
        return Err(BuildProblem(
            "The workspace cannot be the root folder of the system. Name a project's folder.".into(),
        ));
    }
    if !real.is_dir() {
        return Err(BuildProblem(format!("The workspace {} is not a folder. Name a folder.", folder.display())));
    }
    Ok(real)
}

/// Where sessions are kept by default: `$XDG_STATE_HOME/hames/sessions`, else `~/.local/state/hames/sessions`.
pub fn sessions_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("hames/sessions"))
}
