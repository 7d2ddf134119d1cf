//! The sandbox: each command in namespaces of its own, built by bubblewrap.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hames_protocol::port::{AddedView, CommandSpec, Finished, Job, Peers, Program, Sandbox, SandboxProblem, Tmp, View};
use hames_protocol::{BoxFuture, Network};
use rustix::fs::MemfdFlags;
use rustix::pipe::PipeFlags;
use seccompiler::BpfProgram;

use super::comparison::{Digests, Snapshot};
use super::config::{Mode, ProcessLimits, SandboxConfig};
use super::etc::{self, Etc};
use super::feed::Feed;
use super::filter;
use super::job::RunningJob;
use super::layout::{self, Layout, Shown};
use super::leftover;
use super::network::NetworkSpace;
use super::observation::Subject;
use super::outcome::{broken, explain, finished, io_problem, real_root};
use super::output::Keeper;
use super::placeholder::{Held, Placeholders};
use super::refusal;
use super::running::Running;
use super::script::{self, Epilogue};
use super::state::State;
use super::supervision::{self, Launch, Scope, Watch};
use super::territory::{Entered, Territory};
use super::variables::{self, Places};
use super::view::Arrangement;
use super::watched;
use crate::Protection;
use crate::repository::outside::Outside;
use crate::repository::{Repositories, Watched};

/// How long the trial at the start may take.
const TRIAL_MS: u64 = 20_000;

/// Runs commands isolated from the host by bubblewrap.
///
/// A command sees the system's programs and libraries read-only, the workspace at its own path, a private /tmp, an
/// empty home, and nothing else of the host: no other folder, no network, no socket, no process. What is protected in
/// the workspace it can read, not change. When its main process has ended, all of its processes are gone. From the first
/// job on, commands that may meet the session's jobs share a network of 127.0.0.1 alone.
///
/// With [`Network::Full`] commands use the host's network, and with that whatever of the host listens on 127.0.0.1 or
/// on an abstract socket.
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
        let toolchains = config.toolchains.folders.iter().filter_map(|path| path.canonicalize().ok());
        let mut read_only: Vec<PathBuf> = toolchains.collect();
        let path = variables::search_path(&read_only);
        read_only.extend(config.added.read_only);
        let territories = config.added.writable.iter().map(|protection| Territory::open(protection, &state));
        let territories = territories.collect::<io::Result<_>>().map_err(io_problem)?;
        // A bubblewrap with rights of its own would lose them: being watched rules out gaining any.
        let set_uid = fs::metadata(&program).is_ok_and(|found| found.mode() & 0o4000 != 0);
        let watch = if set_uid { None } else { Some(Arc::new(watched::filter().map_err(io_problem)?)) };
        let placeholders = Placeholders::open(&root, &state.journal()).map_err(io_problem)?;
        let outside = Outside::of(&root);
        let folders = outside.as_ref().map(Outside::folders).unwrap_or_default();
        let repositories = Repositories::open(Arc::clone(&config.protection), folders, state.repositories());
        let repositories = repositories.map_err(io_problem)?;
        let mut system = layout::system();
        Etc::prepare(state.etc(), config.network).map_err(io_problem)?.mount(&mut system);
        let session = Session {
            program,
            root,
            mode: config.mode,
            network: config.network,
            shared: Mutex::new(None),
            state,
            watch,
            path,
            read_only,
            territories,
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

    fn network(&self) -> Network {
        self.session.network
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

    fn start(&self, command: CommandSpec) -> BoxFuture<'_, Result<Box<dyn Job>, SandboxProblem>> {
        Box::pin(async move {
            // Before the job begins, so that every command that begins after it can reach it.
            let session = Arc::clone(&self.session);
            let mut sharing = Running::start(move |_, _| session.share_network()).map_err(io_problem)?;
            sharing.result(&|_| {}).await.unwrap_or_else(|| Err(broken()))?;
            let session = Arc::clone(&self.session);
            RunningJob::start(command.capture_bytes, move |cancel, feed| session.run(&command, cancel, feed))
        })
    }
}

/// What keeps the workspace's protected paths from a command that runs.
struct Guarding {
    held: Held,
    before: Snapshot,
    watched: Watched,
}

/// What all commands of a session share.
#[derive(Debug)]
struct Session {
    program: PathBuf,
    root: PathBuf,
    mode: Mode,
    network: Network,
    /// The network that commands with peers share, from the first job on.
    shared: Mutex<Option<Arc<NetworkSpace>>>,
    state: State,
    read_only: Vec<PathBuf>,
    /// Folders beside the workspace that commands may change.
    territories: Vec<Territory>,
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
            peers: Peers::Session,
            keep_output: None,
            capture_bytes: 4096,
        };
        let (feed, _) = super::feed::feed();
        let never = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).map_err(io_problem)?;
        let ended =
            supervision::supervise(self.launch(&command, None, &[])?, &never, &feed).map_err(|why| explain(&why))?;
        if ended.exit.shell_code() == 0 {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ended.capture.head).trim().to_owned();
        Err(SandboxProblem(format!("The sandbox does not work: `true` did not run in it ({said}).")))
    }

    /// Makes the network that commands with peers share, where there is none yet, and tries it out.
    fn share_network(&self) -> Result<(), SandboxProblem> {
        if self.network == Network::Full {
            return Ok(());
        }
        {
            let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
            if shared.is_some() {
                return Ok(());
            }
            let space = NetworkSpace::make(&self.program).map_err(|error| no_jobs(&error.to_string()))?;
            *shared = Some(Arc::new(space));
        }
        self.try_out().map_err(|problem| {
            // Commands without jobs still work.
            *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = None;
            no_jobs(&problem.0)
        })
    }

    /// The shared network, for a command that is to have it.
    fn shared_network(&self, peers: Peers) -> Option<Arc<NetworkSpace>> {
        let shared = || self.shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (peers == Peers::Session).then(shared).flatten()
    }

    /// Runs a command to its end, on this thread.
    fn run(&self, command: &CommandSpec, cancel: &OwnedFd, feed: &Feed) -> Result<Finished, SandboxProblem> {
        // What stands in for the workspace is nobody's work, and in a read-only one nothing can change.
        let guards = self.mode == Mode::WorkspaceWrite && command.view.stand_in.is_none();
        let changes_added = self.mode == Mode::WorkspaceWrite && command.view.added == AddedView::AsAdded;
        let territories: &[Territory] = if changes_added { &self.territories } else { &[] };
        let entered = territories.iter().map(Territory::enter).collect::<io::Result<Vec<_>>>().map_err(io_problem)?;
        let guarding = if guards { Some(self.guard().map_err(io_problem)?) } else { None };
        let launch = self.launch(command, guarding.as_ref().map(|guarding| &guarding.held), &entered)?;
        let mut finished = finished(supervision::supervise(launch, cancel, feed).map_err(|failure| explain(&failure))?);
        // Nothing of the command is left, so what kept it from making protected paths may go.
        if let Some(guarding) = guarding {
            self.release(guarding, &mut finished);
        }
        entered.into_iter().for_each(|entered| entered.leave(&mut finished));
        Ok(finished)
    }

    /// Finds what is protected now and holds it for a command. Walks the workspace.
    fn guard(&self) -> io::Result<Guarding> {
        let (held, watched) = self.placeholders.hold(&self.protection, || {
            let survey = self.protection.survey()?;
            let watched = self.repositories.begin(&survey)?;
            Ok((survey.guarded, watched))
        })?;
        let before = Snapshot::take(&self.root, &held.existing, &self.digests);
        Ok(Guarding { held, before, watched })
    }

    /// Tells what of the protected changed all the same, and what repositories came into being.
    fn release(&self, guarding: Guarding, finished: &mut Finished) {
        let Guarding { held, before, watched } = guarding;
        let after = Snapshot::take(&self.root, &held.existing, &self.digests);
        let changes = before.differences(&after, &held.existing);
        let changed: Vec<String> = changes.iter().map(|attempt| attempt.path.clone()).collect();
        finished.attempts.extend(changes);
        let existing = held.existing.clone();
        drop(held);
        finished.appeared.extend(watched.end(&existing, &changed));
    }

    /// Works out everything that starting the command needs.
    fn launch(
        &self,
        command: &CommandSpec,
        held: Option<&Held>,
        entered: &[Entered<'_>],
    ) -> Result<Launch, SandboxProblem> {
        let keeper = Keeper::for_command(command, &self.state.tmp(), self.limits)?;
        // Absolute when the command's is.
        let cwd = self.root.join(&command.cwd);
        let program = script::arguments(Epilogue::Count, &cwd, &command.program)?;
        let git_config = File::open(self.state.git_config()).map_err(io_problem)?.into();
        let network = self.shared_network(command.peers);
        let mut layout = self.layout(command, held, entered, &git_config)?;
        if self.network == Network::None && network.is_none() {
            layout.push("--unshare-net", [""; 0]);
        }
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
        let mut subjects = vec![self.subject(command, held)];
        subjects.extend(entered.iter().map(Entered::subject));
        Ok(Launch {
            program: self.program.clone(),
            arguments,
            variables,
            inherited,
            scope: Scope::Namespace(Some(info)),
            network,
            limits: self.limits,
            timeout: Duration::from_millis(command.timeout_ms),
            capture_bytes: command.capture_bytes,
            keeper,
            watch: self.watch.clone().map(|filter| Watch { filter, subjects }),
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
        entered: &[Entered<'_>],
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
        let added_mode = if entered.is_empty() { Mode::ReadOnly } else { Mode::WorkspaceWrite };
        folders.extend(self.territories.iter().map(|territory| territory.shown(added_mode)));
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
        entered.iter().for_each(|entered| entered.mount(&mut layout));
        layout.seal("/");
        Ok(layout)
    }
}

/// Why no job can be started, which says nothing against commands that end.
fn no_jobs(why: &str) -> SandboxProblem {
    let why = why.trim_end_matches('.');
    SandboxProblem(format!(
        "Background jobs cannot be had: the network that they share cannot be made ({why}). Start what is needed and stop it within one command."
    ))
}

/// A file in memory that holds `bytes` and is read from its start.
fn memory_file(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0))?;
    Ok(file.into())
}
