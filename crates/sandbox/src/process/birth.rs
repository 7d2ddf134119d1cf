//! What a new process does between fork and exec. Only system calls: no allocation, no lock, no panic.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::{Errno, FdFlags};
use rustix::process::{Resource, Rlimit, Signal};

use super::config::ProcessLimits;
use super::listener::Installation;
use super::network::Entrance;

/// Descriptors above this are not looked at where the kernel cannot close a range.
const OLD_KERNEL_DESCRIPTORS: RawFd = 4_096;

/// How a process is set up before it executes its program.
pub(crate) struct Birth {
    /// Descriptors to keep.
    pub(crate) inherited: Vec<RawFd>,
    /// Its limits.
    pub(crate) limits: ProcessLimits,
    /// Whether orphans among its descendants become its children.
    pub(crate) adopts: bool,
    /// The network that it shares.
    pub(crate) network: Option<Entrance>,
    /// The filter by which it is watched.
    pub(crate) installation: Option<Installation>,
}

impl Birth {
    /// Sets the calling process up: a session of its own, which ends with its parent, within limits, with no
    /// descriptor but the standard ones and those to inherit.
    pub(crate) fn settle(&self) -> io::Result<()> {
        // A session of its own, so that neither the terminal's signals nor its control reach it.
        rustix::process::setsid()?;
        if let Some(network) = self.network {
            // Before the next line, for the kernel forgets that when rights change.
            network.join()?;
        }
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if self.adopts {
            rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        }
        self.limit()?;
        self.close_others();
        match &self.installation {
            Some(installation) => installation.install(),
            None => Ok(()),
        }
    }

    fn limit(&self) -> io::Result<()> {
        let limits = [
            (Resource::Core, 0),
            (Resource::Fsize, self.limits.file_bytes),
            (Resource::Nproc, self.limits.processes),
            (Resource::Nofile, self.limits.descriptors),
        ];
        for (resource, wanted) in limits {
            // Never above what this process may have itself.
            let allowed = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
            let value = Some(wanted.min(allowed));
            rustix::process::setrlimit(resource, Rlimit { current: value, maximum: value })?;
        }
        Ok(())
    }

    /// Marks every descriptor above the standard ones to be closed at exec, but for those to inherit.
    fn close_others(&self) {
        // SAFETY: plain integers; the call changes flags of this process's descriptors only.
        let done = unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
        if done != 0 {
            for fd in 3..OLD_KERNEL_DESCRIPTORS {
                set_close_on_exec(fd, FdFlags::CLOEXEC);
            }
        }
        for &fd in &self.inherited {
            set_close_on_exec(fd, FdFlags::empty());
        }
    }
}

fn set_close_on_exec(fd: RawFd, flags: FdFlags) {
    // SAFETY: the number is borrowed for one call; when it is not open the call fails and nothing happens.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let _: Result<(), Errno> = rustix::io::fcntl_setfd(fd, flags);
}
