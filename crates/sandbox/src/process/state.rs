//! The session's private folder on the host: its /tmp and the small files that commands are shown.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use hames_protocol::port::SandboxProblem;

use super::config::GitIdentity;
use super::{layout, script};

/// The paths in the folder.
#[derive(Debug, Clone)]
pub(crate) struct State {
    folder: PathBuf,
}

impl State {
    /// Makes what is missing in `folder`, for a workspace at `root`.
    ///
    /// # Errors
    /// When something cannot be written, or commands could write it.
    pub(crate) fn prepare(folder: &Path, root: &Path, identity: Option<&GitIdentity>) -> Result<Self, SandboxProblem> {
        let state = Self::make(folder, identity).map_err(|error| {
            let folder = folder.display();
            SandboxProblem(format!(
                "The session's folder {folder} cannot be written: {error}. Make room or name another."
            ))
        })?;
        if state.folder.starts_with(root) {
            return Err(SandboxProblem(format!(
                "The session's folder {} lies in the workspace, where commands could change it. Name a folder outside.",
                state.folder.display()
            )));
        }
        Ok(state)
    }

    fn make(folder: &Path, identity: Option<&GitIdentity>) -> io::Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(folder)?;
        let state = Self { folder: folder.canonicalize()? };
        builder.create(state.tmp())?;
        builder.create(state.home())?;
        // A command may have put anything at this name in an earlier run of the session.
        layout::real_folder(&state.tmp().join("outputs"))?;
        fs::write(state.empty(), "")?;
        fs::write(state.bash_env(), script::BASH_ENV)?;
        fs::write(state.git_config(), git_config(identity))?;
        Ok(state)
    }

    /// The session's /tmp.
    pub(crate) fn tmp(&self) -> PathBuf {
        self.folder.join("tmp")
    }

    /// What lies in the home of every command.
    pub(crate) fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    /// The user's git name and e-mail.
    pub(crate) fn git_config(&self) -> PathBuf {
        self.home().join(".gitconfig")
    }

    /// A folder of one command, which that command's end removes.
    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        self.folder.join("scratch").join(name)
    }

    /// Where placeholders in the workspace are noted.
    pub(crate) fn journal(&self) -> PathBuf {
        self.folder.join("placeholders")
    }

    /// Where the repositories of the workspace are noted while a command runs.
    pub(crate) fn repositories(&self) -> PathBuf {
        self.folder.join("repositories")
    }

    /// What is shown as /etc.
    pub(crate) fn etc(&self) -> PathBuf {
        self.folder.join("etc")
    }

    /// A file without content.
    pub(crate) fn empty(&self) -> PathBuf {
        self.folder.join("empty")
    }

    /// What bash reads before a command line.
    pub(crate) fn bash_env(&self) -> PathBuf {
        self.folder.join("bash_env")
    }
}

/// The text of a `.gitconfig`. Every folder counts as safe here as well as by the environment, which git does not pass on
/// to what it starts in another repository, as for a clone. See "Syntax" in git-config(1) for what a value must escape.
fn git_config(identity: Option<&GitIdentity>) -> String {
    let safe = "[safe]\n\tdirectory = *\n";
    let Some(identity) = identity else { return safe.to_owned() };
    let quote = |value: &str| {
        let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\0', "");
        format!("\"{escaped}\"")
    };
    format!("{safe}[user]\n\tname = {}\n\temail = {}\n", quote(&identity.name), quote(&identity.email))
}
