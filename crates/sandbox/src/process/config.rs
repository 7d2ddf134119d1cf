//! What a session tells its sandbox once: folders, mode, limits.
//!
//! Everything here is plain data; nothing of it changes while the session lives.

use std::path::PathBuf;
use std::sync::Arc;

use hames_protocol::Network;

use crate::{AddedFolders, Protection, Toolchains};

/// How far commands may write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// The workspace and the private /tmp are writable.
    #[default]
    WorkspaceWrite,
    /// Only the private /tmp is writable.
    ReadOnly,
}

impl Mode {
    /// The name in options and results.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WorkspaceWrite => "workspace-write",
            Self::ReadOnly => "read-only",
        }
    }
}

/// Who commits are made by; the only thing of the user's home that commands see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitIdentity {
    /// `user.name`.
    pub name: String,
    /// `user.email`.
    pub email: String,
}

/// What one command and its children may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Processes of the user (`RLIMIT_NPROC`). The kernel does not hold root to it; `tree` holds for everyone.
    pub processes: u64,
    /// Processes of one command: more than this end it. Sampled a few times a second.
    pub tree: usize,
    /// The size of a file that is written, in bytes (`RLIMIT_FSIZE`).
    pub file_bytes: u64,
    /// Open descriptors of one process (`RLIMIT_NOFILE`).
    pub descriptors: u64,
    /// What is kept of a command's whole output, in bytes.
    pub kept_output_bytes: u64,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        Self { processes: 16_384, tree: 2_000, file_bytes: 4 << 30, descriptors: 65_536, kept_output_bytes: 1 << 30 }
    }
}

/// What a session tells its sandbox.
#[derive(Debug, Clone)]
pub struct SandboxConfig {
    /// The real path of the workspace.
    pub root: PathBuf,
    /// How far commands may write.
    pub mode: Mode,
    /// A folder of the session's own, outside the workspace. Its `tmp` is the session's /tmp, with `outputs` in it.
    pub state: PathBuf,
    /// The network that commands have.
    pub network: Network,
    /// What no command may change in the workspace.
    pub protection: Arc<Protection>,
    /// Who commits are made by.
    pub identity: Option<GitIdentity>,
    /// The user's tool chains, shown read-only at their own paths.
    pub toolchains: Toolchains,
    /// Folders beside the workspace that commands see at their own paths.
    pub added: AddedFolders,
    /// What one command may use.
    pub limits: ProcessLimits,
}
