//! The sandbox: each command in namespaces of its own, built by bubblewrap.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hames_protocol::BoxFuture;
use hames_protocol::port::{CommandSpec, Finished, Program, Sandbox, SandboxProblem, Tmp, View};
use rustix::fs::MemfdFlags;
use rustix::pipe::PipeFlags;

use super::config::{Mode, ProcessLimits, SandboxConfig};
use super::feed::Feed;
use super::layout::{self, Layout};
use super::outcome::{broken, explain, finished, io_problem, real_root};
use super::output::Keeper;
use super::running::Running;
use super::script::{self, Epilogue};
use super::state::State;
use super::supervision::{self, Launch, Scope};
use super::variables::{self, Places};

/// How long the trial at the start may take.
const TRIAL_MS: u64 = 20_000;

/// Runs commands isolated from the host by bubblewrap.
///
/// A command sees the system's programs and libraries read-only, the workspace at its own path, a private /tmp, an
/// empty home, and nothing else of the host: no other folder, no network, no socket, no process. When its main
/// process has ended, all of its processes are gone.
///
/// Not bounded: memory and disk space. The number of processes is not held by the kernel for root; a watch on the
/// process tree holds it for everyone.
#[derive(Debug)]
pub struct Bubblewrap {
    program: PathBuf,
    root: PathBuf,
    mode: Mode,
    state: State,
    read_only: Vec<PathBuf>,
    limits: ProcessLimits,
    system: Layout,
    path: OsString,
}

impl Bubblewrap {
    /// Sets up the session's private folder and makes sure that a sandbox can really be had, by running `true` in
    /// one. Blocks for some milliseconds.
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
        let root = real_root(&config.root)?;
        let state = State::prepare(&config.state, config.identity.as_ref())?;
        let read_only: Vec<PathBuf> = config.read_only.iter().filter_map(|path| path.canonicalize().ok()).collect();
        let sandbox = Self {
            program,
            root,
            mode: config.mode,
            state,
            path: variables::search_path(&read_only),
            read_only,
            limits: config.limits,
            system: layout::system(),
        };
        sandbox.try_out()?;
        Ok(sandbox)
    }

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
        let finished = self.prepare(&command)?.run(&never, &feed)?;
        if finished.exit.shell_code() == 0 {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&finished.capture.head).trim().to_owned();
        Err(SandboxProblem(format!("The sandbox does not work: `true` did not run in it ({said}).")))
    }

    /// Works out everything that starting the command needs.
    fn prepare(&self, command: &CommandSpec) -> Result<Prepared, SandboxProblem> {
        let keeper = Keeper::for_command(command, &self.state.tmp(), self.limits)?;
        let program = script::arguments(Epilogue::Count, &self.cwd(command), &command.program)?;
        let layout = self.layout(command)?;
        let places = Places { home: Path::new(layout::HOME), tmp: Path::new("/tmp"), path: self.path.clone() };
        let mut variables = variables::variables(command, &places);
        variables.extend(script::variable(&command.program, script::path_inside()));

        let mut inherited = Vec::new();
        let options = memory_file("options", &layout.to_bytes()).map_err(io_problem)?;
        let (info, info_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(io_problem)?;
        let mut arguments: Vec<OsString> = Vec::new();
        for (option, fd) in [("--args", options), ("--info-fd", info_end)] {
            arguments.extend([option.into(), fd.as_raw_fd().to_string().into()]);
            inherited.push(fd);
        }
        arguments.extend(["--".into(), script::SHELL.into()]);
        arguments.extend(program);
        Ok(Prepared(Launch {
            program: self.program.clone(),
            arguments,
            variables,
            inherited,
            scope: Scope::Namespace(Some(info)),
            limits: self.limits,
            timeout: Duration::from_millis(command.timeout_ms),
            capture_bytes: command.capture_bytes,
            keeper,
        }))
    }

    /// What the command sees.
    fn layout(&self, command: &CommandSpec) -> Result<Layout, SandboxProblem> {
        let mut layout = self.system.clone();
        layout.show(self.state.hosts(), "/etc/hosts");
        layout.show(self.state.bash_env(), layout::BASH_ENV);
        layout.empty(layout::HOME);
        layout.show(self.state.git_config(), Path::new(layout::HOME).join(".gitconfig"));
        let tmp = matches!(command.tmp, Tmp::Session).then(|| self.state.tmp());
        let mut shown: Vec<_> = self.read_only.iter().map(|folder| (folder.as_path(), Mode::ReadOnly)).collect();
        shown.push((&self.root, self.mode));
        layout::private(&mut layout, tmp.as_deref(), &shown).map_err(io_problem)?;
        layout.seal("/");
        Ok(layout)
    }

    /// The working directory as a path inside.
    fn cwd(&self, command: &CommandSpec) -> PathBuf {
        self.root.join(&command.cwd)
    }
}

impl Sandbox for Bubblewrap {
    fn mode(&self) -> &str {
        self.mode.as_str()
    }

    fn run<'a>(
        &'a self,
        command: CommandSpec,
        output: &'a (dyn Fn(&[u8]) + Send + Sync),
    ) -> BoxFuture<'a, Result<Finished, SandboxProblem>> {
        Box::pin(async move {
            let prepared = self.prepare(&command)?;
            let mut running = Running::start(move |cancel, feed| prepared.run(cancel, feed)).map_err(io_problem)?;
            running.result(output).await.unwrap_or_else(|| Err(broken()))
        })
    }
}

/// A command that is ready to run.
struct Prepared(Launch);

impl Prepared {
    fn run(self, cancel: &OwnedFd, feed: &Feed) -> Result<Finished, SandboxProblem> {
        let ended = supervision::supervise(self.0, cancel, feed).map_err(|failure| explain(&failure))?;
        Ok(finished(ended))
    }
}

/// A file in memory that holds `bytes` and is read from its start.
fn memory_file(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0))?;
    Ok(file.into())
}
