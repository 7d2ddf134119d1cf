//! Commands without isolation, for who switched the sandbox off by name: the same contract otherwise.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hames_protocol::port::{CommandSpec, Finished, Job, Sandbox, SandboxProblem, Tmp, View};
use hames_protocol::{BoxFuture, Network};

use super::config::{ProcessLimits, SandboxConfig};
use super::job::RunningJob;
use super::layout;
use super::leftover;
use super::outcome::{broken, explain, finished, io_problem, real_root};
use super::output::Keeper;
use super::running::Running;
use super::script::{self, Epilogue};
use super::state::State;
use super::supervision::{self, Launch, Scope};
use super::variables::{self, Places};
use super::view::check;

/// Runs commands with the rights of the user: nothing is hidden from them and nothing protected.
///
/// What stays of the contract: a session of their own, no terminal and no input, an environment from an allow-list,
/// limits, time-outs, captured output, and no process left at the end. Two things cannot be told here: an exit code
/// from 129 to 192 counts as a signal, as shells have it, and no attempt on a protected path is seen.
#[derive(Debug)]
pub struct Unconfined {
    root: PathBuf,
    state: State,
    limits: ProcessLimits,
    home: PathBuf,
    path: OsString,
    views: AtomicU64,
}

impl Unconfined {
    /// Sets up the session's private folder. Blocks for as long as that takes.
    ///
    /// # Errors
    /// When the workspace or the folder cannot be used.
    pub fn new(config: SandboxConfig) -> Result<Self, SandboxProblem> {
        leftover::end_leftovers();
        let root = real_root(&config.root)?;
        let state = State::prepare(&config.state, &root, config.identity.as_ref())?;
        let home = std::env::var_os("HOME").map_or_else(|| state.home(), PathBuf::from);
        let path = std::env::var_os("PATH").unwrap_or_else(|| variables::search_path(&[]));
        Ok(Self { root, state, limits: config.limits, home, path, views: AtomicU64::new(0) })
    }

    fn prepare(&self, command: &CommandSpec) -> Result<Prepared, SandboxProblem> {
        let number = self.views.fetch_add(1, Ordering::Relaxed);
        let scratch = Scratch(self.state.scratch(&format!("{}-{number}", std::process::id())));
        check(&command.view)?;
        let folder = if command.view.originals.is_empty() && command.view.left_out.is_empty() {
            command.view.stand_in.clone().unwrap_or_else(|| self.root.clone())
        } else {
            let folder = scratch.0.join("workspace");
            materialise(&command.view, &self.root, &folder).map_err(io_problem)?;
            folder
        };
        let tmp = match command.tmp {
            Tmp::Session => self.state.tmp(),
            Tmp::Fresh => scratch.0.join("tmp"),
        };
        fs::create_dir_all(&tmp).map_err(io_problem)?;
        let cwd = match command.cwd.strip_prefix(&self.root) {
            Ok(beneath) => folder.join(beneath),
            Err(_) => folder.join(&command.cwd),
        };
        let places = Places { home: &self.home, tmp: &tmp, path: self.path.clone() };
        let mut variables = variables::variables(command, &places);
        variables.extend(script::variable(&command.program, &self.state.bash_env()));
        let launch = Launch {
            program: script::SHELL.into(),
            arguments: script::arguments(Epilogue::Stay, &cwd, &command.program)?,
            variables,
            inherited: Vec::new(),
            scope: Scope::Descendants,
            network: None,
            limits: self.limits,
            timeout: Duration::from_millis(command.timeout_ms),
            capture_bytes: command.capture_bytes,
            keeper: Keeper::for_command(command, &self.state.tmp(), self.limits)?,
            watch: None,
        };
        Ok(Prepared { launch, folder, scratch })
    }
}

impl Sandbox for Unconfined {
    fn mode(&self) -> &str {
        "off"
    }

    fn network(&self) -> Network {
        Network::Full
    }

    fn run<'a>(
        &'a self,
        command: CommandSpec,
        output: &'a (dyn Fn(&[u8]) + Send + Sync),
    ) -> BoxFuture<'a, Result<Finished, SandboxProblem>> {
        Box::pin(async move {
            let Prepared { launch, folder, scratch } = self.prepare(&command)?;
            let root = self.root.clone();
            let work = move |cancel: &_, feed: &_| {
                let ended = supervision::supervise(launch, cancel, feed).map_err(|failure| explain(&failure));
                drop(scratch);
                ended
            };
            let mut running = Running::start(work).map_err(io_problem)?;
            let mut finished = finished(running.result(output).await.unwrap_or_else(|| Err(broken()))?);
            // What ran in a copy ran, to all others, in the workspace.
            if let Some(beneath) = finished.cwd.as_deref().and_then(|cwd| cwd.strip_prefix(&folder).ok()) {
                finished.cwd = Some(root.join(beneath));
            }
            Ok(finished)
        })
    }

    fn start(&self, command: CommandSpec) -> BoxFuture<'_, Result<Box<dyn Job>, SandboxProblem>> {
        Box::pin(async move {
            let Prepared { launch, scratch, .. } = self.prepare(&command)?;
            RunningJob::start(command.capture_bytes, move |cancel, feed| {
                let ended = supervision::supervise(launch, cancel, feed);
                drop(scratch);
                ended.map(finished).map_err(|failure| explain(&failure))
            })
        })
    }
}

struct Prepared {
    launch: Launch,
    folder: PathBuf,
    scratch: Scratch,
}

/// A folder that is removed with what is in it.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // Often it was never made; what cannot be removed goes with the session's folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Copies the workspace as the view shows it to `target`.
fn materialise(view: &View, root: &Path, target: &Path) -> io::Result<()> {
    let source = view.stand_in.as_deref().unwrap_or(root);
    copy(source, target, &|path| {
        let relative = path.strip_prefix(source).ok().and_then(Path::to_str);
        relative.is_some_and(|relative| view.left_out.iter().any(|left_out| left_out == relative))
    })?;
    for (relative, bytes) in &view.originals {
        let mut path = target.to_owned();
        for part in Path::new(relative).parent().into_iter().flat_map(Path::components) {
            path.push(part);
            layout::real_folder(&path)?;
        }
        let path = target.join(relative);
        // It may be anything by now.
        if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            fs::remove_dir_all(&path)?;
        } else {
            let _ = fs::remove_file(&path);
        }
        fs::copy(bytes, &path)?;
    }
    Ok(())
}

/// Copies a file, link or folder; sockets, pipes and devices are left out.
fn copy(source: &Path, target: &Path, leave_out: &dyn Fn(&Path) -> bool) -> io::Result<()> {
    let kind = source.symlink_metadata()?.file_type();
    if leave_out(source) {
        return Ok(());
    }
    if kind.is_dir() {
        fs::create_dir_all(target)?;
        for entry in fs::read_dir(source)? {
            let entry = entry?;
            copy(&entry.path(), &target.join(entry.file_name()), leave_out)?;
        }
    } else if kind.is_symlink() {
        std::os::unix::fs::symlink(fs::read_link(source)?, target)?;
    } else if kind.is_file() {
        fs::copy(source, target)?;
    }
    Ok(())
}
