//! Watching one command from its start until nothing of it is left.
//!
//! One thread of its own starts the command and waits for everything at once (its end, output, reports,
//! cancellation, the clock) with `poll`. The thread must be the starting one: the kernel ends the command when *the
//! thread* that started it ends, and a thread of a pool may end at any time.
//!
//! The main process's end decides, never the end of output: a child that lives on may hold the pipe for hours.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hames_protocol::port::{Attempt, Capture, Exit};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};
use seccompiler::BpfProgram;

use super::birth;
use super::config::ProcessLimits;
use super::feed::Feed;
use super::listener;
use super::network::NetworkSpace;
use super::observation::{Observer, Subject};
use super::output::{Collector, Keeper};
use super::report::Reports;
use super::tree;

/// How often the processes of a command are counted.
const CENSUS: Duration = Duration::from_millis(250);
/// How long a full feed is left before it is looked at again.
const PAUSE: Duration = Duration::from_millis(2);
/// How long processes that nothing holds may still last, and how long the end of a killed namespace is waited for.
const GRACE: Duration = Duration::from_millis(100);
const LAST_WAIT: Duration = Duration::from_secs(10);
/// The pipe for output; fewer and larger reads than with the default of 64 KiB.
const PIPE_BYTES: usize = 256 << 10;

/// A program that is ready to be started.
///
/// Its standard output carries reports (records that end in NUL), its standard error the command's output.
pub(crate) struct Launch {
    /// The program's host path.
    pub(crate) program: PathBuf,
    /// Its arguments.
    pub(crate) arguments: Vec<OsString>,
    /// Its whole environment.
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// Descriptors that it inherits under the same numbers.
    pub(crate) inherited: Vec<OwnedFd>,
    /// What holds its processes together.
    pub(crate) scope: Scope,
    /// The network that it shares; its own, or the host's, without one.
    pub(crate) network: Option<Arc<NetworkSpace>>,
    /// What it may use.
    pub(crate) limits: ProcessLimits,
    /// The longest time it may take.
    pub(crate) timeout: Duration,
    /// How much of its output's head and tail is captured, in bytes each.
    pub(crate) capture_bytes: usize,
    /// Where its whole output goes.
    pub(crate) keeper: Option<Keeper>,
    /// How it is watched.
    pub(crate) watch: Option<Watch>,
}

/// The filter of system calls to be told of, and what is looked for in them.
pub(crate) struct Watch {
    /// Which calls are told of.
    pub(crate) filter: Arc<BpfProgram>,
    /// What they may be about.
    pub(crate) subjects: Vec<Subject>,
}

/// What holds the processes of a command together, so that all of them can be ended.
pub(crate) enum Scope {
    /// A process namespace, whose first process bubblewrap names on this pipe (until that was read).
    Namespace(Option<OwnedFd>),
    /// The started program adopts all orphans among its descendants.
    Descendants,
}

/// How it went.
pub(crate) struct Ended {
    /// How the main process ended.
    pub(crate) exit: Exit,
    /// The output.
    pub(crate) capture: Capture,
    /// Processes that were left and ended.
    pub(crate) strays: u32,
    /// The last working directory.
    pub(crate) cwd: Option<PathBuf>,
    /// What it tried on protected paths.
    pub(crate) attempts: Vec<Attempt>,
    /// How long it ran.
    pub(crate) duration: Duration,
}

/// Why it did not come to run.
pub(crate) enum StartFailure {
    /// The program could not be started.
    Spawn(io::Error),
    /// The working directory cannot be entered; what was said about it.
    Nowhere(String),
    /// It ended before it had set up; what it said.
    Setup(String),
}

impl From<io::Error> for StartFailure {
    fn from(error: io::Error) -> Self {
        Self::Spawn(error)
    }
}

impl From<rustix::io::Errno> for StartFailure {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Spawn(error.into())
    }
}

/// Runs a program to its end on this thread, until it ends by itself, its time is up or `cancel` becomes readable.
///
/// When this returns, no process of it is left.
///
/// # Errors
/// When it did not come to run.
pub(crate) fn supervise(launch: Launch, cancel: &OwnedFd, feed: &Feed) -> Result<Ended, StartFailure> {
    let began = Instant::now();
    let deadline = began.checked_add(launch.timeout);
    let mut supervision = Supervision::start(launch, feed)?;
    let last = supervision.watch(deadline, cancel);
    supervision.finish(last, began)
}

/// Why watching stopped.
enum Last {
    Ended,
    TimedOut,
    Cancelled,
    Crowded,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Child,
    Cancel,
    Report,
    Output,
    Info,
    Call,
}

struct Supervision<'a> {
    child: Child,
    child_fd: OwnedFd,
    scope: Scope,
    /// The first process of the namespace.
    init: Option<(Pid, OwnedFd)>,
    output: Option<File>,
    report: Option<File>,
    reports: Reports,
    observer: Option<Observer>,
    collector: Collector,
    keeper: Option<Keeper>,
    feed: &'a Feed,
    limits: ProcessLimits,
    buffer: Vec<u8>,
}

impl<'a> Supervision<'a> {
    fn start(launch: Launch, feed: &'a Feed) -> Result<Self, StartFailure> {
        let (output, output_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (report, report_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        // Only a matter of speed.
        let _ = rustix::pipe::fcntl_setpipe_size(&output, PIPE_BYTES);
        for fd in [&output, &report] {
            rustix::fs::fcntl_setfl(fd, OFlags::NONBLOCK)?;
        }
        let mut command = Command::new(&launch.program);
        command.args(&launch.arguments).env_clear().envs(launch.variables);
        command.stdin(Stdio::null()).stdout(report_end).stderr(output_end).current_dir("/");
        let inherited = launch.inherited.iter().map(|fd| fd.as_raw_fd()).collect();
        let adopts = matches!(launch.scope, Scope::Descendants);
        let (installation, watch) = match launch.watch {
            Some(watch) => {
                let (installation, arrival) = listener::prepare(&watch.filter)?;
                (Some(installation), Some((arrival, watch.subjects)))
            }
            None => (None, None),
        };
        let network = launch.network.as_ref().map(|space| space.entrance());
        let birth = birth::Birth { inherited, limits: launch.limits, adopts, network, installation };
        // SAFETY: `settle` makes system calls only; it neither allocates nor takes a lock.
        unsafe { command.pre_exec(move || birth.settle()) };
        let child = command.spawn()?;
        // Ends of pipes that are now the child's alone.
        drop((command, launch.inherited));
        let observer = watch.and_then(|(arrival, subjects)| Some(Observer::new(arrival.listener()?, subjects)));
        let pid = Pid::from_child(&child);
        let child_fd = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => fd,
            Err(error) => {
                let mut child = child;
                let _ = child.kill();
                let _ = child.wait();
                return Err(error.into());
            }
        };
        Ok(Self {
            child,
            child_fd,
            scope: launch.scope,
            init: None,
            output: Some(output.into()),
            report: Some(report.into()),
            reports: Reports::default(),
            observer,
            collector: Collector::new(launch.capture_bytes),
            keeper: launch.keeper,
            feed,
            limits: launch.limits,
            buffer: vec![0; 64 << 10],
        })
    }

    /// Serves every source until one of them says that this is over.
    fn watch(&mut self, deadline: Option<Instant>, cancel: &OwnedFd) -> Last {
        let mut census = Instant::now() + CENSUS;
        loop {
            let full = self.feed.is_full();
            let wake = [Some(census), deadline, full.then(|| Instant::now() + PAUSE)].into_iter().flatten().min();
            let readable = self.wait(wake, cancel, full);
            let has = |source| readable.contains(&source);
            if has(Source::Report) {
                self.read_reports();
            }
            if has(Source::Call) {
                self.serve_calls();
            }
            if has(Source::Info) {
                self.read_info();
            }
            if has(Source::Output) {
                self.read_output();
            }
            if has(Source::Child) || self.reported_end().is_some() {
                return Last::Ended;
            }
            // Until its first process is known a namespace cannot be ended safely; that takes a few milliseconds.
            if matches!(self.scope, Scope::Namespace(Some(_))) {
                continue;
            }
            if has(Source::Cancel) {
                return Last::Cancelled;
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Last::TimedOut;
            }
            if now >= census {
                if self.root().is_some_and(|root| tree::descendants(root, self.limits.tree).len() >= self.limits.tree) {
                    return Last::Crowded;
                }
                census = now + CENSUS;
            }
        }
    }

    /// Waits until something is readable or `wake` comes.
    fn wait(&self, wake: Option<Instant>, cancel: &OwnedFd, full: bool) -> Vec<Source> {
        let info = match &self.scope {
            Scope::Namespace(info) => info.as_ref().map(|info| info.as_fd()),
            Scope::Descendants => None,
        };
        let sources = [
            (Source::Child, Some(self.child_fd.as_fd())),
            (Source::Cancel, Some(cancel.as_fd())),
            (Source::Report, self.report.as_ref().map(|file| file.as_fd())),
            (Source::Output, self.output.as_ref().filter(|_| !full).map(|file| file.as_fd())),
            (Source::Info, info),
            (Source::Call, self.observer.as_ref().map(Observer::descriptor)),
        ];
        let sources: Vec<_> = sources.into_iter().filter_map(|(source, fd)| Some((source, fd?))).collect();
        let mut fds: Vec<_> = sources.iter().map(|(_, fd)| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        let rest = wake.map(|wake| wake.saturating_duration_since(Instant::now()));
        let timeout = rest.and_then(|rest| Timespec::try_from(rest).ok());
        // A signal that interrupts is a round without news.
        if rustix::event::poll(&mut fds, timeout.as_ref()).is_err() {
            return Vec::new();
        }
        // A listener that only hangs up has no call to take, and taking one would wait for it.
        let is_news = |source: Source, fd: &PollFd<'_>| match source {
            Source::Call => fd.revents().contains(PollFlags::IN),
            _ => !fd.revents().is_empty(),
        };
        let readable = sources.iter().zip(&fds).filter(|((source, _), fd)| is_news(*source, fd));
        readable.map(|((source, _), _)| *source).collect()
    }

    fn read_output(&mut self) {
        let Some(output) = &mut self.output else { return };
        match output.read(&mut self.buffer) {
            Ok(0) => self.output = None,
            Ok(count) => {
                let bytes = &self.buffer[..count];
                self.collector.push(bytes);
                if let Some(keeper) = &mut self.keeper {
                    keeper.push(bytes);
                }
                self.feed.push(bytes);
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => self.output = None,
        }
    }

    fn read_reports(&mut self) {
        let Some(report) = &mut self.report else { return };
        match report.read(&mut self.buffer) {
            Ok(0) => self.report = None,
            Ok(count) => self.reports.push(&self.buffer[..count]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => self.report = None,
        }
    }

    /// Answers the calls that wait.
    fn serve_calls(&mut self) {
        let Some(observer) = &mut self.observer else { return };
        let Some(notification) = observer.next() else { return };
        if !self.reports.ready {
            // The command's own calls come after this report, bubblewrap's before.
            self.read_reports();
        }
        let Some(observer) = &mut self.observer else { return };
        if !self.reports.ready {
            return observer.pass(&notification);
        }
        let known = observer.attempts().len();
        observer.look(&notification);
        self.feed.attempted(&observer.attempts()[known..]);
    }

    /// Learns the first process of the namespace, once bubblewrap names it.
    fn read_info(&mut self) {
        let Scope::Namespace(info) = &mut self.scope else { return };
        let Some(info) = info.take() else { return };
        let mut text = String::new();
        // Bubblewrap writes it at once and closes its end.
        let _ = File::from(info).read_to_string(&mut text);
        let pid = serde_json::from_str::<serde_json::Value>(&text).ok().and_then(|info| info["child-pid"].as_i64());
        let pid = pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        if let Some(pid) = pid
            && let Ok(fd) = rustix::process::pidfd_open(pid, PidfdFlags::empty())
        {
            self.init = Some((pid, fd));
        }
    }

    /// The process from which all others of the command descend.
    fn root(&self) -> Option<Pid> {
        match self.scope {
            Scope::Namespace(_) => self.init.as_ref().map(|(pid, _)| *pid),
            Scope::Descendants => Some(Pid::from_child(&self.child)),
        }
    }

    /// The code with which a shell that stays says that the command ended. In a namespace no shell does, and the
    /// command could only forge it.
    fn reported_end(&self) -> Option<i32> {
        self.reports.ended.filter(|_| matches!(self.scope, Scope::Descendants))
    }

    /// Ends all processes, takes the last output, and sums up.
    fn finish(mut self, last: Last, began: Instant) -> Result<Ended, StartFailure> {
        let strays = self.count_strays();
        let duration = began.elapsed();
        let status = self.end_all()?;
        // Not before: a call that nobody answers any more fails, and the command would go on with that.
        let observed = self.observer.take().map(Observer::finish).unwrap_or_default();
        while self.report.is_some() && self.reads(Source::Report) {
            self.read_reports();
        }
        // Nobody writes any more, so this ends; the bound is for a descriptor that was passed out of the tree.
        for _ in 0..2 * PIPE_BYTES / self.buffer.len() + 64 {
            if self.output.is_none() || !self.reads(Source::Output) {
                break;
            }
            self.read_output();
        }
        if matches!(last, Last::Crowded) {
            let limit = self.limits.tree;
            let note = format!("\nHames ended this command: it had {limit} processes, more than one may have.\n");
            self.collector.push(note.as_bytes());
        }
        let reported = self.reported_end();
        let capture = self.collector.finish();
        let said = || String::from_utf8_lossy(&capture.head).trim().to_owned();
        if self.reports.nowhere && matches!(last, Last::Ended) {
            return Err(StartFailure::Nowhere(said()));
        }
        if !self.reports.ready && matches!(last, Last::Ended) {
            return Err(StartFailure::Setup(said()));
        }
        let exit = match last {
            Last::TimedOut => Exit::TimedOut,
            Last::Cancelled | Last::Crowded => Exit::Signal(Signal::KILL.as_raw()),
            Last::Ended => match reported.map_or_else(|| exit_of(status), shell_exit) {
                Exit::Signal(signal) if observed.exits.contains(&(128 + signal)) => Exit::Code(128 + signal),
                exit => exit,
            },
        };
        Ok(Ended {
            attempts: observed.attempts,
            exit,
            capture,
            strays: self.reports.strays.unwrap_or(strays),
            cwd: self.reports.cwd,
            duration,
        })
    }

    /// Counts what is left behind when nothing inside can: after a little while in which it may end by itself.
    fn count_strays(&self) -> u32 {
        if self.reported_end().is_none() {
            return 0;
        }
        let root = Pid::from_child(&self.child);
        let until = Instant::now() + GRACE;
        loop {
            let count = tree::descendants(root, usize::MAX).len();
            if count == 0 || Instant::now() >= until {
                return u32::try_from(count).unwrap_or(u32::MAX);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends every process of the command and waits until they are gone.
    fn end_all(&mut self) -> io::Result<ExitStatus> {
        match self.scope {
            Scope::Namespace(_) => {
                self.read_info();
                if let Some((_, init)) = &self.init {
                    // With its first process a namespace ends; the descriptor is readable once all of it is gone.
                    let _ = rustix::process::pidfd_send_signal(init, Signal::KILL);
                    let mut fds = [PollFd::new(init, PollFlags::IN)];
                    let timeout = Timespec::try_from(LAST_WAIT).ok();
                    while rustix::event::poll(&mut fds, timeout.as_ref()) == Err(rustix::io::Errno::INTR) {}
                }
            }
            Scope::Descendants => tree::end_descendants(Pid::from_child(&self.child)),
        }
        self.child.kill()?;
        let status = self.child.wait();
        if let Some((_, init)) = &self.init {
            // It is ours to reap where no other process adopts orphans, in a container say.
            let _ = rustix::process::waitid(WaitId::PidFd(init.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
        status
    }

    fn reads(&self, source: Source) -> bool {
        let file = if source == Source::Report { &self.report } else { &self.output };
        let Some(file) = file else { return false };
        let mut fds = [PollFd::new(file, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&now)).is_ok_and(|count| count > 0)
    }
}

/// The exit that a status stands for.
fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => shell_exit(code),
        (None, signal) => Exit::Signal(signal.unwrap_or(Signal::KILL.as_raw())),
    }
}

/// The exit that a shell's code stands for: 128 and the number for a signal.
fn shell_exit(code: i32) -> Exit {
    if (129..=192).contains(&code) { Exit::Signal(code - 128) } else { Exit::Code(code) }
}
