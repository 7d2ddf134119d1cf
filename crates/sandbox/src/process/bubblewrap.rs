//! The sandbox: each command in namespaces of its own, built by bubblewrap.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hames_protocol::BoxFuture;
use hames_protocol::port::{CommandSpec, Finished, Program, Sandbox, SandboxProblem, Tmp, View};
use rustix::fs::MemfdFlags;
use rustix::pipe::PipeFlags;
use seccompiler::BpfProgram;

use super::comparison::{Digests, Snapshot};
use super::config::{Mode, ProcessLimits, SandboxConfig};
use super::etc::{self, Etc};
use super::feed::Feed;
use super::filter;
use super::layout::{self, Layout, Shown};
use super::leftover;
use super::observation::Subject;
use super::outcome::{broken, explain, finished, io_problem, real_root};
use super::output::Keeper;
use super::placeholder::{Held, Placeholders};
use super::refusal;
use super::running::Running;
use super::script::{self, Epilogue};
use super::state::State;
use super::supervision::{self, Launch, Scope, Watch};
use super::variables::{self, Places};
use super::view::Arrangement;
use super::watched;
use crate::repository::Repositories;
use crate::repository::outside::Outside;
use crate::{Guarded, Protection};

/// How long the trial at the start may take.
const TRIAL_MS: u64 = 20_000;

/// Runs commands isolated from the host by bubblewrap.
///
/// A command sees the system's programs and libraries read-only, the workspace at its own path, a private /tmp, an
/// empty home, and nothing else of the host: no other folder, no network, no socket, no process. What is protected in
/// the workspace it can read, not change. When its main process has ended, all of its processes are gone.
///
/// Left open on purpose: a socket that a process of the host has *in the workspace* can be connected to. Not bounded:
/// memory and disk space. The kernel holds root to no number of processes; a watch on the process tree holds everyone.
///
/// There is to be one of these for a session's state folder; it may run several commands at once.
#[derive(Debug)]
pub struct Bubblewrap {
    session: Arc<Session>,
}

impl Bubblewrap {
    /// Sets up the session's private folder, removes what a crash has left in the workspace, and makes sure that a
    /// sandbox can really be had, by running `true` in one. Blocks for some milliseconds.
    ///
    /// # Errors
    /// When no sandbox can be had, with cause and remedy.
    pub fn new(config: SandboxConfig) -> Result<Self, SandboxProblem> {
        let program = layout::find_bubblewrap().ok_or_else(|| {
            SandboxProblem(
                "There is no sandbox, because bubblewrap is not installed. Install it as root: `apt-get install -y \
                 bubblewrap`."
                    .to_owned(),
            )
        })?;
        leftover::end_leftovers();
        let root = real_root(&config.root)?;
        let state = State::prepare(&config.state, &root, config.identity.as_ref())?;
        let shown = config.toolchains.folders.iter().chain(&config.read_only);
        let read_only: Vec<PathBuf> = shown.filter_map(|path| path.canonicalize().ok()).collect();
        // A bubblewrap with rights of its own would lose them: being watched rules out gaining any.
        let set_uid = fs::metadata(&program).is_ok_and(|found| found.mode() & 0o4000 != 0);
        let watch = if set_uid { None } else { Some(Arc::new(watched::filter().map_err(io_problem)?)) };
        let placeholders = Placeholders::open(&root, &state.journal()).map_err(io_problem)?;
        let outside = Outside::of(&root);
        let folders = outside.as_ref().map(Outside::folders).unwrap_or_default();
        let repositories = Repositories::open(Arc::clone(&config.protection), folders, state.repositories());
        let repositories = repositories.map_err(io_problem)?;
        let mut system = layout::system();
        Etc::prepare(state.etc()).map_err(io_problem)?.mount(&mut system);
        let session = Session {
            program,
            root,
            mode: config.mode,
            state,
            watch,
            path: variables::search_path(&read_only),
            read_only,
            variables: config.toolchains.variables,
            limits: config.limits,
            system,
            filters: refusal::filters().map_err(io_problem)?.iter().map(filter::to_bytes).collect(),
            protection: config.protection,
            placeholders: Arc::new(placeholders),
            digests: Digests::default(),
            outside,
            repositories: Arc::new(repositories),
        };
        session.try_out()?;
        Ok(Self { session: Arc::new(session) })
    }
}

impl Sandbox for Bubblewrap {
    fn mode(&self) -> &str {
        self.session.mode.as_str()
    }

    fn run<'a>(
        &'a self,
        command: CommandSpec,
        output: &'a (dyn Fn(&[u8]) + Send + Sync),
    ) -> BoxFuture<'a, Result<Finished, SandboxProblem>> {
        Box::pin(async move {
            let session = Arc::clone(&self.session);
            let work = move |cancel: &_, feed: &_| session.run(&command, cancel, feed);
            let mut running = Running::start(work).map_err(io_problem)?;
            running.result(output).await.unwrap_or_else(|| Err(broken()))
        })
    }
}

/// What all commands of a session share.
#[derive(Debug)]
struct Session {
    program: PathBuf,
    root: PathBuf,
    mode: Mode,
    state: State,
    read_only: Vec<PathBuf>,
    variables: Vec<(String, OsString)>,
    limits: ProcessLimits,
    system: Layout,
    /// Filters of system calls, in the kernel's form.
    filters: Vec<Vec<u8>>,
    /// The filter by which commands are watched.
    watch: Option<Arc<BpfProgram>>,
    path: OsString,
    protection: Arc<Protection>,
    placeholders: Arc<Placeholders>,
    digests: Digests,
    /// The repository of a workspace that keeps it elsewhere.
    outside: Option<Outside>,
    repositories: Arc<Repositories>,
}

impl Session {
    /// Runs `true` once.
    fn try_out(&self) -> Result<(), SandboxProblem> {
        let command = CommandSpec {
            program: Program::Direct(vec!["true".to_owned()]),
            cwd: PathBuf::from("/"),
            env: Vec::new(),
            timeout_ms: TRIAL_MS,
            tmp: Tmp::Fresh,
            view: View::default(),
            keep_output: None,
            capture_bytes: 4096,
        };
        let (feed, _) = super::feed::feed();
        let never = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).map_err(io_problem)?;
        let ended = supervision::supervise(self.launch(&command, None)?, &never, &feed).map_err(|why| explain(&why))?;
        if ended.exit.shell_code() == 0 {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ended.capture.head).trim().to_owned();
        Err(SandboxProblem(format!("The sandbox does not work: `true` did not run in it ({said}).")))
    }

    /// Runs a command to its end, on this thread.
    fn run(&self, command: &CommandSpec, cancel: &OwnedFd, feed: &Feed) -> Result<Finished, SandboxProblem> {
        // What stands in for the workspace is nobody's work, and in a read-only one nothing can change.
        let guards = self.mode == Mode::WorkspaceWrite && command.view.stand_in.is_none();
        if !guards {
            let launch = self.launch(command, None)?;
            return Ok(finished(supervision::supervise(launch, cancel, feed).map_err(|failure| explain(&failure))?));
        }
        let survey = self.protection.survey().map_err(io_problem)?;
        let watched = self.repositories.begin(&survey).map_err(io_problem)?;
        let held = self.placeholders.hold(&self.protection, survey.guarded).map_err(io_problem)?;
        let look = |existing: &[Guarded]| Snapshot::take(&self.root, existing, &self.digests);
        let before = look(&held.existing);
        let launch = self.launch(command, Some(&held))?;
        let mut finished = finished(supervision::supervise(launch, cancel, feed).map_err(|failure| explain(&failure))?);
        let changes = before.differences(&look(&held.existing), &held.existing);
        let changed: Vec<String> = changes.iter().map(|attempt| attempt.path.clone()).collect();
        finished.attempts.extend(changes);
        let existing = held.existing.clone();
        // Nothing of the command is left, so what kept it from making these paths may go.
        drop(held);
        finished.appeared = watched.end(&existing, &changed);
        Ok(finished)
    }

    /// Works out everything that starting the command needs.
    fn launch(&self, command: &CommandSpec, held: Option<&Held>) -> Result<Launch, SandboxProblem> {
        let keeper = Keeper::for_command(command, &self.state.tmp(), self.limits)?;
        // Absolute when the command's is.
        let cwd = self.root.join(&command.cwd);
        let program = script::arguments(Epilogue::Count, &cwd, &command.program)?;
        let git_config = File::open(self.state.git_config()).map_err(io_problem)?.into();
        let layout = self.layout(command, held, &git_config)?;
        let places = Places { home: Path::new(layout::HOME), tmp: Path::new("/tmp"), path: self.path.clone() };
        let mut variables = variables::variables(command, &places);
        variables.extend(self.variables.iter().map(|(name, value)| (name.into(), value.clone())));
        variables.extend(script::variable(&command.program, Path::new(etc::BASH_ENV)));

        let mut inherited = vec![git_config];
        let options = memory_file("options", &layout.to_bytes()).map_err(io_problem)?;
        let (info, info_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(io_problem)?;
        let mut arguments: Vec<OsString> = Vec::new();
        let mut descriptors = vec![("--args", options), ("--info-fd", info_end)];
        for filter in &self.filters {
            descriptors.push(("--add-seccomp-fd", memory_file("filter", filter).map_err(io_problem)?));
        }
        for (option, fd) in descriptors {
            arguments.extend([option.into(), fd.as_raw_fd().to_string().into()]);
            inherited.push(fd);
        }
        arguments.extend(["--".into(), script::SHELL.into()]);
        arguments.extend(program);
        Ok(Launch {
            program: self.program.clone(),
            arguments,
            variables,
            inherited,
            scope: Scope::Namespace(Some(info)),
            limits: self.limits,
            timeout: Duration::from_millis(command.timeout_ms),
            capture_bytes: command.capture_bytes,
            keeper,
            watch: self.watch.clone().map(|filter| Watch { filter, subject: self.subject(command, held) }),
        })
    }

    /// What the command is watched for.
    fn subject(&self, command: &CommandSpec, held: Option<&Held>) -> Subject {
        let protection = command.view.stand_in.is_none().then(|| Arc::clone(&self.protection));
        let absent = held.map_or_else(Vec::new, |held| held.absent.iter().map(|absent| absent.path.clone()).collect());
        Subject::new(&self.root, self.mode, protection, held.map_or(&[], |held| &held.existing), absent)
    }

    /// What the command sees; `git_config` is a descriptor of the text that its home holds.
    fn layout(
        &self,
        command: &CommandSpec,
        held: Option<&Held>,
        git_config: &OwnedFd,
    ) -> Result<Layout, SandboxProblem> {
        let mut layout = self.system.clone();
        layout.empty(layout::HOME);
        layout.copy(git_config, Path::new(layout::HOME).join(".gitconfig"));
        let tmp = matches!(command.tmp, Tmp::Session).then(|| self.state.tmp());
        let base = command.view.stand_in.as_deref().unwrap_or(&self.root);
        let shown = |path| Shown { source: path, target: path, mode: Mode::ReadOnly };
        let mut folders: Vec<_> = self.read_only.iter().map(|path| shown(path.as_path())).collect();
        folders.push(Shown { source: base, target: &self.root, mode: self.mode });
        // What stands in for the workspace has no part in its repository.
        let mode = if command.view.stand_in.is_some() { Mode::ReadOnly } else { self.mode };
        let outside = self.outside.as_ref().map(|outside| outside.shown(mode)).unwrap_or_default();
        folders.extend(outside.iter().map(|(path, mode)| Shown { source: path, target: path, mode: *mode }));
        layout::private(&mut layout, tmp.as_deref(), folders).map_err(io_problem)?;

        let mut arrangement = Arrangement::new(base, self.mode);
        if let Some(held) = held {
            arrangement.guard(&held.existing, held.absent.iter().map(|absent| absent.path.clone()));
        }
        arrangement.apply(&command.view, &self.state.empty())?;
        arrangement.mount(&mut layout, &self.root);
        layout.seal("/");
        Ok(layout)
    }
}

/// A file in memory that holds `bytes` and is read from its start.
fn memory_file(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0))?;
    Ok(file.into())
}
