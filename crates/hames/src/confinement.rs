//! How commands are confined: the sandbox that an isolation stands for, in a session or for a single command.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hames_protocol::Network;
use hames_protocol::port::Sandbox;
use hames_sandbox::{
    AddedFolders, Bubblewrap, GitIdentity, Mode, ProcessLimits, Protection, ProtectionConfig, SandboxConfig,
    Toolchains, Unconfined,
};

use crate::added::{self, Folders, Neighbours};
use crate::builder::{BuildProblem, real, sessions_folder};

/// How commands are kept apart from the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// In a sandbox that may change the workspace.
    WorkspaceWrite,
    /// In a sandbox that may change nothing but its /tmp.
    ReadOnly,
    /// Not at all; only for machines that are thrown away.
    Off,
}

/// What a sandbox is told, but for the network and for who commits are made by.
pub(crate) fn sandbox_config(
    isolation: Isolation,
    root: &Path,
    private: &Path,
    protection: &Arc<Protection>,
    added: &AddedFolders,
) -> SandboxConfig {
    let mode = match isolation {
        Isolation::ReadOnly => Mode::ReadOnly,
        Isolation::WorkspaceWrite | Isolation::Off => Mode::WorkspaceWrite,
    };
    SandboxConfig {
        root: root.to_owned(),
        mode,
        network: Network::None,
        state: private.to_owned(),
        protection: Arc::clone(protection),
        identity: None,
        toolchains: toolchains(),
        added: added.clone(),
        limits: ProcessLimits::default(),
    }
}

/// Makes the sandbox.
///
/// # Errors
/// When it cannot be had.
pub(crate) fn sandbox(isolation: Isolation, config: SandboxConfig) -> Result<Arc<dyn Sandbox>, BuildProblem> {
    Ok(match isolation {
        Isolation::Off => Arc::new(Unconfined::new(config).map_err(BuildProblem::new)?),
        Isolation::ReadOnly | Isolation::WorkspaceWrite => {
            Arc::new(Bubblewrap::new(config).map_err(BuildProblem::new)?)
        }
    })
}

/// The tool chains in the user's home folder that are on the search path.
fn toolchains() -> Toolchains {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let path = std::env::var_os("PATH").unwrap_or_default();
    home.map_or_else(Toolchains::default, |home| Toolchains::find(&path, &home, |name| std::env::var_os(name)))
}

/// A sandbox without a session, for a single command; its private folder goes away with it.
pub struct LoneSandbox {
    /// The sandbox.
    pub sandbox: Arc<dyn Sandbox>,
    _private: tempfile::TempDir,
}

impl LoneSandbox {
    /// Makes a sandbox as an agent in `workspace` would have it.
    ///
    /// # Errors
    /// When the workspace or the sandbox cannot be had.
    pub fn new(
        workspace: &Path,
        isolation: Isolation,
        network: Network,
        protection: ProtectionConfig,
        identity: Option<GitIdentity>,
        folders: Folders,
    ) -> Result<Self, BuildProblem> {
        let root = real(workspace)?;
        let neighbours = Neighbours::of(&root, sessions_folder().as_deref());
        let added = neighbours.admit(&neighbours.joined(folders))?;
        let protection = Arc::new(Protection::new(&root, protection).map_err(BuildProblem::new)?);
        let private = tempfile::Builder::new().prefix("hames-").tempdir().map_err(|error| {
            BuildProblem::new(format!(
                "No private folder can be made in the system's folder for temporary files: {error}."
            ))
        })?;
        let config = sandbox_config(isolation, &root, private.path(), &protection, &added::opened(&added)?);
        let sandbox = sandbox(isolation, SandboxConfig { network, identity, ..config })?;
        Ok(Self { sandbox, _private: private })
    }
}
