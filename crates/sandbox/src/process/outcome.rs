//! What a supervised command means to the port: its result, or the sentence why there is none.

use std::io;
use std::path::{Path, PathBuf};

use hames_protocol::port::{Finished, SandboxProblem};

use super::supervision::{Ended, StartFailure};

/// What the port wants to know of a command that ended.
pub(crate) fn finished(ended: Ended) -> Finished {
    Finished {
        exit: ended.exit,
        capture: ended.capture,
        strays: ended.strays,
        cwd: ended.cwd,
        attempts: ended.attempts,
        appeared: Vec::new(),
        ms: u64::try_from(ended.duration.as_millis()).unwrap_or(u64::MAX),
    }
}

/// Why a command did not come to run, with the remedy where one is known.
pub(crate) fn explain(failure: &StartFailure) -> SandboxProblem {
    SandboxProblem(match failure {
        StartFailure::Spawn(error) => format!("The command could not be started: {error}."),
        StartFailure::Nowhere(said) => format!(
            "The working directory does not exist or cannot be entered ({}). Use the workspace root or another folder.",
            said.lines().last().unwrap_or_default()
        ),
        StartFailure::Setup(said) => {
            let remedy = if said.contains("namespace") || said.contains("uid map") || said.contains("RTM_NEWADDR") {
                " This system forbids user namespaces. Allow them as root: `sysctl -w kernel.unprivileged_userns_clone=1 \
                 kernel.apparmor_restrict_unprivileged_userns=0 user.max_user_namespaces=10000` (those of the three that \
                 exist); in a container, start it with a seccomp profile that allows them."
            } else {
                " `bwrap --unshare-user --ro-bind / / true` shows whether bubblewrap works at all; reinstall it where not."
            };
            let said = if said.is_empty() { "bubblewrap ended without a word" } else { said.trim_end_matches('.') };
            format!("The sandbox could not be set up: {said}.{remedy}")
        }
    })
}

/// An error of the system on the way to a command.
pub(crate) fn io_problem(error: impl Into<io::Error>) -> SandboxProblem {
    explain(&StartFailure::Spawn(error.into()))
}

/// The supervising thread panicked, which is a fault of this program.
pub(crate) fn broken() -> SandboxProblem {
    SandboxProblem("The sandbox broke down while it ran the command. Report this fault.".to_owned())
}

/// The workspace's real path.
///
/// # Errors
/// When it is not there, or is everything.
pub(crate) fn real_root(root: &Path) -> Result<PathBuf, SandboxProblem> {
    let unusable = |error| SandboxProblem(format!("The workspace {} cannot be used: {error}.", root.display()));
    let root = root.canonicalize().map_err(unusable)?;
    if root.parent().is_none() {
        return Err(SandboxProblem("The root folder cannot be the workspace. Name a folder below it.".to_owned()));
    }
    Ok(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_that_forbids_user_namespaces_is_told_with_the_remedy() {
        // As bubblewrap 0.8 words it.
        for said in [
            "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged \
             user namespaces.",
            "bwrap: Creating new namespace failed: Operation not permitted",
            "bwrap: setting up uid map: Permission denied",
        ] {
            let problem = explain(&StartFailure::Setup(said.to_owned()));
            assert!(problem.0.contains(said.trim_end_matches('.')) && problem.0.contains("sysctl"), "{problem}");
        }
        let other = explain(&StartFailure::Setup("bwrap: Can't mount proc".to_owned()));
        assert!(!other.0.contains("sysctl"), "{other}");
    }

    #[test]
    fn a_bubblewrap_that_says_nothing_is_told_with_a_remedy() {
        let told = explain(&StartFailure::Setup(String::new())).0;
        assert!(told.contains("ended without a word") && told.contains("reinstall"), "{told}");
    }
}
