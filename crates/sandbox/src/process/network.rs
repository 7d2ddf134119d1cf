//! The network that a session's commands share once there is a job: a loopback device and nothing else.
//!
//! Each command has a network namespace of its own until then, for joining one costs a little more than making one
//! (3 to 5 ms were measured). The shared one is held by descriptors, so that it goes with this process, however that ends.
//! A network namespace can only be joined from the user namespace that owns it; an ordinary user may join that, being
//! its maker. Bubblewrap then makes the command's own user namespace within, and drops every right in it.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::pipe::PipeFlags;
use rustix::thread::LinkNameSpaceType;

use super::birth::Birth;
use super::config::ProcessLimits;

/// A network namespace, and the user namespace that owns it.
#[derive(Debug)]
pub(crate) struct NetworkSpace {
    user: OwnedFd,
    network: OwnedFd,
}

impl NetworkSpace {
    /// Makes one. Blocks for some milliseconds.
    ///
    /// # Errors
    /// When the system refuses, or bubblewrap does, with what it said.
    pub(crate) fn make(bubblewrap: &Path) -> io::Result<Self> {
        let (info, info_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let mut command = Command::new(bubblewrap);
        // Bubblewrap brings the loopback device up before it starts the program, which lives until both are opened.
        command
            .args(["--unshare-user", "--unshare-net", "--die-with-parent", "--ro-bind", "/", "/", "--info-fd"])
            .arg(info_end.as_raw_fd().to_string())
            .args(["--", "cat"])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let inherited = vec![info_end.as_raw_fd()];
        let limits = ProcessLimits::default();
        let birth = Birth { inherited, limits, adopts: false, network: None, installation: None };
        // SAFETY: `settle` makes system calls only; it neither allocates nor takes a lock.
        unsafe { command.pre_exec(move || birth.settle()) };
        let mut child = command.spawn()?;
        drop((command, info_end));
        let opened = Self::open(&mut child, File::from(info));
        if opened.is_err() {
            let _ = child.kill();
        }
        // The end of its input ends it.
        let ended = child.wait_with_output()?;
        opened.map_err(|error| {
            let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
            if said.is_empty() { error } else { io::Error::other(said) }
        })
    }

    fn open(child: &mut Child, mut info: File) -> io::Result<Self> {
        let mut byte = [b'.'];
        if let Some(input) = &mut child.stdin {
            input.write_all(&byte)?;
        }
        if let Some(output) = &mut child.stdout {
            output.read_exact(&mut byte)?;
        }
        let mut text = String::new();
        info.read_to_string(&mut text)?;
        let info: serde_json::Value = serde_json::from_str(&text)?;
        let pid = info["child-pid"].as_i64().ok_or(io::ErrorKind::InvalidData)?;
        let open = |name: &str| File::open(format!("/proc/{pid}/ns/{name}")).map(OwnedFd::from);
        Ok(Self { user: open("user")?, network: open("net")? })
    }

    /// What a process needs to join it.
    pub(crate) fn entrance(&self) -> Entrance {
        Entrance { user: self.user.as_raw_fd(), network: self.network.as_raw_fd() }
    }
}

/// The descriptors by which a [`NetworkSpace`], which must outlive this, is joined.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entrance {
    user: RawFd,
    network: RawFd,
}

impl Entrance {
    /// Moves the calling process, which must have one thread, into the namespaces. Only system calls, for use between
    /// fork and exec.
    pub(crate) fn join(self) -> io::Result<()> {
        let both = [(self.user, LinkNameSpaceType::User), (self.network, LinkNameSpaceType::Network)];
        for (fd, kind) in both {
            // SAFETY: the numbers are those of open descriptors, which whoever spawns keeps until this process runs its
            // program; they are borrowed for one call.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            rustix::thread::move_into_link_name_space(fd, Some(kind))?;
        }
        Ok(())
    }
}
