//! A process that outlives this one by a moment, to remove the placeholders that a crash would leave.
//!
//! It waits for the end of a pipe that only this process holds. That comes when the placeholders are dropped, and
//! also when this process is killed. What a power cut leaves is removed at the next start; see
//! [`super::placeholder`].

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Waits, then removes every noted folder that is still marked, the innermost first. The third argument is the mark.
///
/// Whoever has the session by then has the journal locked while its own placeholders stand: those are not touched, and
/// it waits for the lock before it looks.
const SCRIPT: &str = r#"
while read -r _; do :; done
exec 9<"$2"
flock --exclusive --timeout 2 9 || exit 0
for round in 1 2 3; do
    (cd -- "$1" && xargs -0 -I{} find ./{} -maxdepth 0 -type d -perm "$3" -exec rmdir {} \; <"$2")
done
"#;

/// Removes marked folders once this process is gone.
#[derive(Debug)]
pub(crate) struct Steward {
    child: Child,
    /// Open for as long as there is nothing to do.
    waits: Option<ChildStdin>,
}

impl Steward {
    /// Engages a steward for the folders that `journal` names, each beneath `root` and with the mode `mark`.
    ///
    /// # Errors
    /// When no process can be made.
    pub(crate) fn engage(root: &Path, journal: &Path, mark: u32) -> io::Result<Self> {
        let mut child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "hames-steward"])
            .args([root, journal])
            .arg(format!("{mark:o}"))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // An interrupt at the terminal is not meant for it.
            .process_group(0)
            .spawn()?;
        let waits = child.stdin.take();
        Ok(Self { child, waits })
    }
}

impl Drop for Steward {
    fn drop(&mut self) {
        drop(self.waits.take());
        // It has nothing left to remove, so this takes a moment at most.
        let _ = self.child.wait();
    }
}
