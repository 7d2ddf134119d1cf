//! Runs the binary under ptrace and kills it at an exactly named system call, so that a crash is no matter of luck.
//!
//! The threads of the binary are traced, none of the processes that it starts. A call is met twice, before it is done
//! and after; SIGKILL before it leaves it undone. What a call is about is read from /proc, so that no register is named.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// What a system call means to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Mark {
    /// A record is written to the log.
    Append,
    /// A request is sent.
    Request,
    /// The first bytes of a reply are read.
    Reply,
    /// A process is made, for a command or a check.
    Command,
    /// That process has told of itself.
    UnderWay,
    /// A file is put in its place.
    Replace,
}

/// Where in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Nothing of it was done.
    Before,
    /// It was done, and nothing after it.
    After,
    /// Half of what it writes was written.
    Torn,
}

/// The call to die at: the `number`th of its kind, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) mark: Mark,
    pub(crate) number: usize,
    pub(crate) side: Side,
}

/// How a traced run went.
#[derive(Debug)]
pub(crate) struct Traced {
    /// How often each mark was met.
    pub(crate) counts: BTreeMap<Mark, usize>,
    /// The exit code; none when it was killed.
    pub(crate) code: Option<i32>,
}

/// Runs `command` to its end, or to `at`; its standard output goes to `output`.
pub(crate) fn trace(command: &Command, output: File, at: Option<Point>) -> Traced {
    // Only the main thread writes the log and talks to the provider; tracing the others takes several times as long.
    let main_only = at.is_some_and(|at| matches!(at.mark, Mark::Append | Mark::Request | Mark::Reply));
    let threads = if main_only { Options::empty() } else { Options::PTRACE_O_TRACECLONE };
    let pid = start_stopped(command, output, threads);
    let mut tracer =
        Tracer { pid, at, counts: BTreeMap::new(), open: HashMap::new(), threads: HashMap::new(), torn: None };
    let code = tracer.follow();
    if let Some((log, half)) = tracer.torn {
        fs::OpenOptions::new().append(true).open(log).unwrap().write_all(&half).unwrap();
    }
    Traced { counts: tracer.counts, code }
}

/// Starts a command that has stopped itself just before its program begins, and is traced.
fn start_stopped(command: &Command, output: File, threads: Options) -> Pid {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "kill -STOP $$; exec \"$@\"", "sh"]).arg(command.get_program()).args(command.get_args());
    shell.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(command.get_current_dir().unwrap());
    shell.stdin(Stdio::null()).stderr(output.try_clone().unwrap()).stdout(output);
    let pid = Pid::from_raw(shell.spawn().unwrap().id().try_into().unwrap());
    let stopped = waitpid(pid, Some(WaitPidFlag::WUNTRACED)).unwrap();
    assert_eq!(stopped, WaitStatus::Stopped(pid, Signal::SIGSTOP));
    ptrace::seize(pid, Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL | threads).unwrap();
    kill(pid, Signal::SIGCONT).unwrap();
    pid
}

struct Tracer {
    pid: Pid,
    at: Option<Point>,
    counts: BTreeMap<Mark, usize>,
    /// The marked call that each thread is in.
    open: HashMap<Pid, (Mark, usize)>,
    threads: HashMap<Pid, Thread>,
    torn: Option<(PathBuf, Vec<u8>)>,
}

/// What is known of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Thread {
    #[default]
    Other,
    /// It has sent a request and read nothing of the reply.
    Asked,
    /// It has started a process.
    Started,
    /// It waits for what the process has to say.
    Waits,
}

impl Tracer {
    /// Lets all threads go on from stop to stop; returns the exit code.
    fn follow(&mut self) -> Option<i32> {
        // Of this thread's children only: other tests have theirs.
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        loop {
            let (thread, signal) = match waitpid(None, Some(flags)).unwrap() {
                WaitStatus::Exited(pid, code) if pid == self.pid => return Some(code),
                WaitStatus::Signaled(pid, ..) if pid == self.pid => return None,
                WaitStatus::PtraceSyscall(thread) => {
                    self.meet(thread);
                    (thread, None)
                }
                WaitStatus::PtraceEvent(thread, ..) => (thread, None),
                WaitStatus::Stopped(thread, signal) => (thread, Some(signal)),
                _ => continue,
            };
            // Fails when it was killed, of which the next round tells.
            let _ = ptrace::syscall(thread, signal);
        }
    }

    fn meet(&mut self, thread: Pid) {
        if let Some((mark, number)) = self.open.remove(&thread) {
            return self.die_if(mark, number, &[Side::After]);
        }
        let is_entry = ptrace::syscall_info(thread).is_ok_and(|info| info.op == libc::PTRACE_SYSCALL_INFO_ENTRY);
        let Some(call) = is_entry.then(|| Call::read(self.pid, thread)).flatten() else { return };
        let Some(mark) = self.mark(thread, &call) else { return };
        let count = self.counts.entry(mark).or_default();
        *count += 1;
        let number = *count;
        self.open.insert(thread, (mark, number));
        if self.at == Some(Point { mark, number, side: Side::Torn }) {
            let bytes = call.written(self.pid);
            self.torn = Some((call.file(self.pid, 0).unwrap(), bytes[..bytes.len() / 2].to_owned()));
        }
        self.die_if(mark, number, &[Side::Before, Side::Torn]);
    }

    fn die_if(&self, mark: Mark, number: usize, sides: &[Side]) {
        if self.at.is_some_and(|at| at.mark == mark && at.number == number && sides.contains(&at.side)) {
            kill(self.pid, Signal::SIGKILL).unwrap();
        }
    }

    fn mark(&mut self, thread: Pid, call: &Call) -> Option<Mark> {
        let file = || call.file(self.pid, 0).unwrap_or_default();
        let is_kind = |kind: &str| file().to_string_lossy().starts_with(kind);
        let known = self.threads.entry(thread).or_default();
        match call.number {
            libc::SYS_write if file().ends_with("log.jsonl") => Some(Mark::Append),
            libc::SYS_sendto | libc::SYS_writev | libc::SYS_sendmsg if is_kind("socket:") => {
                *known = Thread::Asked;
                Some(Mark::Request)
            }
            libc::SYS_recvfrom if *known == Thread::Asked && is_kind("socket:") => {
                *known = Thread::Other;
                Some(Mark::Reply)
            }
            libc::SYS_clone if call.arguments[0] & libc::CLONE_THREAD as u64 == 0 => {
                *known = Thread::Started;
                Some(Mark::Command)
            }
            call if WAITS.contains(&call) && *known == Thread::Started => {
                *known = Thread::Waits;
                None
            }
            libc::SYS_read if *known == Thread::Waits && is_kind("pipe:") => {
                *known = Thread::Other;
                Some(Mark::UnderWay)
            }
            call if REPLACES.contains(&call) => Some(Mark::Replace),
            _ => None,
        }
    }
}

#[cfg(target_arch = "x86_64")]
const REPLACES: [i64; 4] = [libc::SYS_rename, libc::SYS_renameat, libc::SYS_renameat2, libc::SYS_linkat];
#[cfg(not(target_arch = "x86_64"))]
const REPLACES: [i64; 3] = [libc::SYS_renameat, libc::SYS_renameat2, libc::SYS_linkat];

#[cfg(target_arch = "x86_64")]
const WAITS: [i64; 2] = [libc::SYS_poll, libc::SYS_ppoll];
#[cfg(not(target_arch = "x86_64"))]
const WAITS: [i64; 1] = [libc::SYS_ppoll];

/// A system call that a thread has stopped in; see proc_pid_syscall(5).
struct Call {
    number: i64,
    arguments: [u64; 6],
}

impl Call {
    fn read(pid: Pid, thread: Pid) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/syscall")).ok()?;
        let mut words = text.split_ascii_whitespace();
        let number = words.next()?.parse().ok()?;
        let mut arguments = [0; 6];
        for argument in &mut arguments {
            *argument = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
        }
        Some(Self { number, arguments })
    }

    /// What the descriptor in an argument is.
    fn file(&self, pid: Pid, argument: usize) -> Option<PathBuf> {
        fs::read_link(format!("/proc/{pid}/fd/{}", self.arguments[argument])).ok()
    }

    /// What `write` is about to write.
    fn written(&self, pid: Pid) -> Vec<u8> {
        let mut memory = File::open(format!("/proc/{pid}/mem")).unwrap();
        memory.seek(SeekFrom::Start(self.arguments[1])).unwrap();
        let mut bytes = vec![0; self.arguments[2].try_into().unwrap()];
        memory.read_exact(&mut bytes).unwrap();
        bytes
    }
}
