//! The user's git name and e-mail: all that the sandbox's home holds.

use std::process::{Command, Stdio};

use hames::sandbox::GitIdentity;

/// Asks git for the user's own configuration; that of a repository is never read, for it is not trusted.
pub(crate) fn of_user() -> Option<GitIdentity> {
    let output = Command::new("git")
        .args(["config", "--global", "--includes", "--get-regexp", r"^user\.(name|email)$"])
        .current_dir("/")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let last = |key: &str| text.lines().rev().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    Some(GitIdentity { name: last("user.name")?.to_owned(), email: last("user.email")?.to_owned() })
}
