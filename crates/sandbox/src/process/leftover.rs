//! Processes that outlived the Hames that started them.
//!
//! The kernel ends a command with its supervisor, but for bubblewrap's first moments: between its fork and its own
//! request to be ended too, a kill of Hames leaves a process that waits for ever. Each command therefore carries its
//! owner's name in its environment, and the next start ends those whose owner is gone.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use rustix::process::{Pid, Signal};

/// The variable with the owner's name.
pub(crate) const OWNER: &str = "HAMES_OWNER";

/// This process's name: its process namespace, its number there, and when it started, for numbers are used again.
pub(crate) fn own_name() -> OsString {
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let mut name = namespace();
    name.push(format!(",{pid},{}", started(pid).unwrap_or_default()));
    name
}

/// Ends processes whose owner was in this process namespace and is gone.
pub(crate) fn end_leftovers() {
    let here = namespace();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        // Those of other users cannot be read, and are not ours.
        let Ok(environ) = fs::read(entry.path().join("environ")) else { continue };
        let names = environ.split(|&byte| byte == 0).map(OsStr::from_bytes);
        let owner = names.filter_map(OsStr::to_str).find_map(|name| name.strip_prefix(OWNER)?.strip_prefix('='));
        let mut parts = owner.unwrap_or_default().split(',');
        let (Some(space), Some(owner), Some(start)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let (Ok(owner), Some(pid)) = (owner.parse(), Pid::from_raw(pid)) else { continue };
        if here == space && started(owner).is_none_or(|now| now.to_string() != start) {
            // It may end by itself at this moment, which is as well.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

/// The name of this process's process namespace.
fn namespace() -> OsString {
    fs::read_link("/proc/self/ns/pid").unwrap_or_default().into_os_string()
}

/// When a process started, in the kernel's ticks since boot; none when there is none.
fn started(pid: i32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end_of_name = stat.iter().rposition(|&byte| byte == b')')?;
    // Field 22 of proc_pid_stat(5); the one after the name is the third.
    std::str::from_utf8(&stat[end_of_name + 1..]).ok()?.split_ascii_whitespace().nth(19)?.parse().ok()
}
