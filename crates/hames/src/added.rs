//! Checks the folders that the user adds to the workspace, before anything reaches them.
//!
//! An added folder is a hole in the wall, so what lies behind the wall for a reason is not let through by a wide name:
//! the home folder, Hames's own records and configuration, the system itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hames_protocol::{Access, AddedFolder};
use hames_sandbox::{AddedFolders, Protection, ProtectionConfig};

use crate::builder::BuildProblem;

/// Folders of the sandbox's own making: nothing of the host is shown in their place.
const OWN: [&str; 3] = ["/etc", "/run", "/tmp"];
/// Folders in which no folder may be added either.
const CLOSED: [&str; 5] = ["/proc", "/sys", "/dev", "/run/hames", "/tmp/outputs"];
/// Folders in which nothing may be added to be changed.
const SYSTEM: [&str; 3] = ["/usr", "/etc", "/boot"];

/// The folders that a command line and its configuration add.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Folders {
    /// Those that are asked for now.
    pub asked: Vec<AddedFolder>,
    /// Those that always are; one that is asked for as well, is the workspace or lies in it, is left out.
    pub standing: Vec<AddedFolder>,
}

/// What the added folders are judged by; all paths are real.
#[derive(Debug)]
pub(crate) struct Neighbours {
    /// The workspace.
    pub(crate) workspace: PathBuf,
    /// Folders that none may hold or lie in, each with what it is.
    pub(crate) closed: Vec<(PathBuf, &'static str)>,
    /// The user's home, which none may hold.
    pub(crate) home: Option<PathBuf>,
}

impl Neighbours {
    /// Those of a session in `workspace`; `sessions` is where sessions are kept.
    pub(crate) fn of(workspace: &Path, sessions: Option<&Path>) -> Self {
        let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = absolute("HOME");
        let config = absolute("XDG_CONFIG_HOME").or_else(|| home.as_ref().map(|home| home.join(".config")));
        let closed = [
            (sessions.map(Path::to_owned), "where Hames keeps its sessions"),
            (config.map(|config| config.join("hames")), "where your configuration of Hames lies"),
        ];
        let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
        Self {
            workspace: workspace.to_owned(),
            closed: closed.into_iter().filter_map(|(path, what)| Some((real(path?), what))).collect(),
            home: home.map(real),
        }
    }

    /// The folders that are asked for, and those of the others that are not there already.
    pub(crate) fn joined(&self, folders: Folders) -> Vec<AddedFolder> {
        let real = |folder: &AddedFolder| Path::new(&folder.path).canonicalize().ok();
        let asked: Vec<_> = folders.asked.iter().map(real).collect();
        let is_there = |folder: &AddedFolder| match real(folder) {
            Some(path) => path.starts_with(&self.workspace) || asked.contains(&Some(path)),
            None => false,
        };
        let more = folders.standing.into_iter().filter(|folder| !is_there(folder));
        folders.asked.into_iter().chain(more).collect()
    }

    /// The folders by their real paths, each once.
    ///
    /// # Errors
    /// When one cannot be added, in a sentence that says why and what to do.
    pub(crate) fn admit(&self, asked: &[AddedFolder]) -> Result<Vec<AddedFolder>, BuildProblem> {
        let mut admitted: Vec<AddedFolder> = Vec::new();
        for folder in asked {
            let path = self.real(folder)?;
            let admit = AddedFolder { path, access: folder.access };
            if !admitted.contains(&admit) {
                admitted.push(admit);
            }
        }
        let mut apart: Vec<AddedFolder> = Vec::new();
        for folder in &admitted {
            let holds = |other: &&AddedFolder| Path::new(&folder.path).starts_with(&other.path) && *other != folder;
            match admitted.iter().find(holds) {
                // It is there with the other one.
                Some(other) if other.access == folder.access => {}
                Some(other) if other.path == folder.path => {
                    return Err(refused(folder, "is named twice, once to be changed", "Name it once"));
                }
                Some(other) => {
                    return Err(refused(
                        folder,
                        &format!("lies in {}, which is added as well", other.path),
                        "Name one of them",
                    ));
                }
                None => apart.push(folder.clone()),
            }
        }
        Ok(apart)
    }

    fn real(&self, folder: &AddedFolder) -> Result<String, BuildProblem> {
        let refuse = |why: &str, remedy: &str| Err(refused(folder, why, remedy));
        let real = match Path::new(&folder.path).canonicalize() {
            Ok(real) => real,
            Err(error) => return refuse(&format!("cannot be opened: {error}"), "Name a folder that exists"),
        };
        let (is_in, holds) = (|of: &Path| real.starts_with(of), |of: &Path| of.starts_with(&real));
        if !real.is_dir() {
            return refuse("is not a folder", "Name a folder");
        }
        if real == Path::new("/") {
            return refuse("is the root folder of the system", "Name the folder that is needed");
        }
        if real == self.workspace {
            return refuse("is the workspace", "Leave it out");
        }
        if is_in(&self.workspace) {
            return refuse("lies in the workspace, where it is already", "Leave it out; `--protect` keeps it as it is");
        }
        if holds(&self.workspace) {
            return refuse("holds the workspace", "Name a folder beside the workspace, or work in this one with `-C`");
        }
        if self.home.as_deref().is_some_and(holds) {
            return refuse("holds your home folder", "Name the folder in it that is needed");
        }
        if let Some((_, what)) = self.closed.iter().find(|(closed, _)| holds(closed) || is_in(closed)) {
            return refuse(&format!("holds or lies in the folder {what}"), "Name another folder");
        }
        let closed =
            OWN.iter().any(|own| real == Path::new(own)) || CLOSED.iter().any(|closed| is_in(Path::new(closed)));
        if closed {
            return refuse("is a folder that every command has for itself", "Name another folder");
        }
        if folder.access == Access::Write && SYSTEM.iter().any(|system| is_in(Path::new(system))) {
            return refuse("belongs to the system", "Add it without `:rw`, to be read only");
        }
        match real.to_str() {
            Some(path) => Ok(path.to_owned()),
            None => refuse("has a path that is not UTF-8, which the log cannot tell", "Rename it"),
        }
    }
}

/// The folders as the sandbox takes them, with what is protected in those that may be changed. Blocks while it walks
/// those.
///
/// # Errors
/// When one cannot be read.
pub(crate) fn opened(folders: &[AddedFolder]) -> Result<AddedFolders, BuildProblem> {
    let mut opened = AddedFolders::default();
    for folder in folders {
        let path = Path::new(&folder.path);
        match folder.access {
            Access::Read => opened.read_only.push(path.to_owned()),
            Access::Write => {
                let protection = Protection::new(path, ProtectionConfig::default()).map_err(BuildProblem::new)?;
                opened.writable.push(Arc::new(protection));
            }
        }
    }
    Ok(opened)
}

fn refused(folder: &AddedFolder, why: &str, remedy: &str) -> BuildProblem {
    BuildProblem::new(format!("The folder {} cannot be added: it {why}. {remedy}.", folder.path))
}
