//! One writer at a time: an exclusive `flock` on a file that names its holder and is never unlinked.
//!
//! The kernel frees the lock when its holder dies, however it dies, so that there is no stale lock to be judged. The
//! descriptor is close-on-exec: no command that the agent starts keeps the session locked.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use hames_protocol::SessionId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::StoreProblem;
use crate::disk::{open_regular, private_file, refused};

/// The process that has a session open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Its id; none when it has not signed the lock.
    pub pid: Option<u32>,
    /// Its command line, shortened.
    pub command: String,
    /// When it took the lock, in milliseconds since 1970.
    pub since: u64,
}

impl Owner {
    fn this_process() -> Self {
        Self { pid: Some(std::process::id()), command: command_line(), since: now_ms() }
    }

    fn unknown() -> Self {
        Self { pid: None, command: String::new(), since: 0 }
    }

    /// Whether the process is still there, as far as that can be told.
    fn is_alive(&self) -> bool {
        self.pid.is_none_or(|pid| Path::new(&format!("/proc/{pid}")).exists())
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(pid) = self.pid else { return f.write_str("another process") };
        write!(f, "process {pid} ({})", self.command)?;
        match i64::try_from(self.since).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()) {
            Some(since) => write!(f, ", since {}", since.strftime("%Y-%m-%d %H:%M:%S UTC")),
            None => Ok(()),
        }
    }
}

/// How long the lock of a process that was killed may outlast it: a child that it had forked and that has not yet called
/// exec, or not yet ended, shares it for a moment.
const LAST_BREATH: Duration = Duration::from_secs(5);

/// Milliseconds since 1970, by the wall clock.
pub(crate) fn now_ms() -> u64 {
    u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0)
}

/// The command line of this process: the program's name and its arguments, at most 80 characters on one line.
fn command_line() -> String {
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let program = words.next().unwrap_or_default();
    let name = Path::new(&program).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or(program);
    let line = std::iter::once(name).chain(words).collect::<Vec<_>>().join(" ");
    let shown: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(80).collect();
    if shown.len() < line.len() { format!("{shown}…") } else { shown }
}

/// The lock, held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock, or says who holds it.
    pub(crate) fn take(path: &Path, id: &SessionId) -> Result<Self, StoreProblem> {
        let file = open_regular(private_file().read(true).write(true).create(true).truncate(false), path)?;
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {
                    let owner = holder(&file);
                    if owner.is_alive() || began.elapsed() > LAST_BREATH {
                        return Err(StoreProblem::Busy { id: id.clone(), owner });
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(TryLockError::Error(cause)) => return Err(refused("lock", path, &cause)),
            }
        }
        let lock = Self { file };
        lock.sign().map_err(|cause| refused("write", path, &cause))?;
        Ok(lock)
    }

    /// Writes the holder's name into the file.
    fn sign(&self) -> io::Result<()> {
        let text = serde_json::to_vec(&Owner::this_process()).map_err(io::Error::from)?;
        self.file.set_len(0)?;
        self.file.write_all_at(&text, 0)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing would do it, but for a child that another thread has forked and that has not yet called exec: it
        // shares the lock for a moment. An error leaves the lock to the end of the process.
        let _ = self.file.unlock();
    }
}

/// Reads who holds the lock; a holder that is just signing gets a moment to finish.
fn holder(file: &File) -> Owner {
    for _ in 0..20 {
        let mut text = [0; 1024];
        let length = file.read_at(&mut text, 0).unwrap_or(0);
        if let Ok(owner) = serde_json::from_slice(&text[..length]) {
            return owner;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Owner::unknown()
}
