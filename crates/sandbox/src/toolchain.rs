//! The tool chains that a user has in the home folder: which folders commands must see for them, and no others.
//!
//! What lies beside the tools may hold credentials (`~/.cargo/credentials.toml`), so folders are named one
//! by one. A chain is shown when its programs are on the search path, that is when they would run outside as well.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The folders and variables of the tool chains found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Toolchains {
    /// Folders to show read-only at their own paths.
    pub folders: Vec<PathBuf>,
    /// Variables by which the tools find their own folders.
    pub variables: Vec<(String, OsString)>,
}

/// Where one kind of tool chain lies. Paths are relative to its own folder.
struct Chain {
    /// Its folder, relative to the home folder.
    folder: &'static str,
    /// The variable that names its folder; set to it inside, and followed where the user has set it.
    variable: Option<&'static str>,
    /// The folders to show.
    shown: &'static [&'static str],
}

/// Where tool chains lie, by the documentation of what installs them.
const CHAINS: [Chain; 15] = [
    Chain { folder: ".cargo", variable: Some("CARGO_HOME"), shown: &["bin", "registry", "git"] },
    Chain { folder: ".rustup", variable: Some("RUSTUP_HOME"), shown: &["."] },
    Chain { folder: ".pyenv", variable: Some("PYENV_ROOT"), shown: &["."] },
    Chain { folder: ".local/share/uv", variable: None, shown: &["python", "tools"] },
    Chain { folder: ".local/share/pipx", variable: None, shown: &["venvs"] },
    Chain { folder: ".local", variable: None, shown: &["bin"] },
    Chain { folder: ".nvm", variable: None, shown: &["versions"] },
    Chain { folder: ".volta", variable: Some("VOLTA_HOME"), shown: &["bin", "tools"] },
    Chain { folder: ".local/share/fnm", variable: None, shown: &["."] },
    Chain { folder: ".bun", variable: None, shown: &["bin"] },
    Chain { folder: ".deno", variable: None, shown: &["bin"] },
    Chain { folder: ".rbenv", variable: Some("RBENV_ROOT"), shown: &["."] },
    Chain { folder: ".local/share/mise", variable: None, shown: &["installs", "shims"] },
    Chain { folder: ".sdkman", variable: Some("SDKMAN_DIR"), shown: &["candidates"] },
    Chain { folder: GO, variable: Some("GOPATH"), shown: &["bin", "pkg/mod"] },
];

/// What cargo's proxies need as well.
const RUSTUP: &str = ".rustup";

/// Where go keeps the modules that it downloaded, wherever its own program lies.
const GO: &str = "go";

impl Toolchains {
    /// Finds the tool chains whose programs are on the search path `path`, for the home folder `home`. `variable`
    /// looks up the user's own variables.
    pub fn find(path: &OsStr, home: &Path, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let searched: Vec<PathBuf> = std::env::split_paths(path).filter(|folder| folder.is_absolute()).collect();
        let mut folders = BTreeSet::new();
        let mut variables = Vec::new();
        let mut with_cargo = false;
        for chain in &CHAINS {
            let own = chain.variable.and_then(&variable).map(PathBuf::from).filter(|path| path.is_absolute());
            let base = own.unwrap_or_else(|| home.join(chain.folder));
            let used = searched.iter().any(|folder| folder.starts_with(&base));
            let needed_by_cargo = chain.folder == RUSTUP && with_cargo;
            let needed_by_go = chain.folder == GO
                && base.join("pkg/mod").is_dir()
                && searched.iter().any(|folder| folder.join("go").is_file());
            if !(used || needed_by_cargo || needed_by_go) {
                continue;
            }
            with_cargo |= chain.folder == ".cargo";
            folders.extend(chain.shown.iter().map(|shown| base.join(shown)).filter(|shown| shown.exists()));
            variables.extend(chain.variable.map(|name| (name.to_owned(), base.into_os_string())));
        }
        // A virtual environment of Python is wherever its user made it.
        let environments = searched.iter().filter_map(|folder| folder.parent());
        folders.extend(environments.filter(|folder| folder.join("pyvenv.cfg").is_file()).map(Path::to_owned));
        Self { folders: folders.into_iter().collect(), variables }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(make: &[&str], path: &[&str]) -> (tempfile::TempDir, Toolchains) {
        let home = tempfile::tempdir().unwrap();
        for folder in make {
            std::fs::create_dir_all(home.path().join(folder)).unwrap();
        }
        let path = std::env::join_paths(path.iter().map(|folder| home.path().join(folder))).unwrap();
        let toolchains = Toolchains::find(&path, home.path(), |_| None);
        (home, toolchains)
    }

    #[test]
    fn cargo_is_shown_with_its_tool_chains_and_without_its_credentials() {
        let (home, found) =
            found(&[".cargo/bin", ".cargo/registry", ".rustup/toolchains", ".ssh"], &[".cargo/bin", "elsewhere"]);
        let at = |path: &str| home.path().join(path);
        assert_eq!(found.folders, [at(".cargo/bin"), at(".cargo/registry"), at(".rustup/.")]);
        assert!(found.variables.contains(&("RUSTUP_HOME".to_owned(), at(".rustup").into())));
    }

    #[test]
    fn modules_of_go_are_shown_wherever_its_program_lies() {
        let home = tempfile::tempdir().unwrap();
        for folder in ["go/pkg/mod", "go/src", "sdk/bin"] {
            std::fs::create_dir_all(home.path().join(folder)).unwrap();
        }
        let path = home.path().join("sdk/bin");
        assert_eq!(Toolchains::find(path.as_os_str(), home.path(), |_| None), Toolchains::default());
        std::fs::write(path.join("go"), "").unwrap();
        let found = Toolchains::find(path.as_os_str(), home.path(), |_| None);
        assert_eq!(found.folders, [home.path().join("go/pkg/mod")]);
        assert_eq!(found.variables, [("GOPATH".to_owned(), home.path().join("go").into())]);
    }

    #[test]
    fn what_is_not_on_the_search_path_is_not_shown() {
        let (_home, found) = found(&[".cargo/bin", ".pyenv/shims", "bin"], &["bin"]);
        assert_eq!(found, Toolchains::default());
    }

    #[test]
    fn a_virtual_environment_on_the_search_path_is_shown() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join("env/bin")).unwrap();
        std::fs::write(home.path().join("env/pyvenv.cfg"), "").unwrap();
        let found = Toolchains::find(home.path().join("env/bin").as_os_str(), home.path(), |_| None);
        assert_eq!(found.folders, [home.path().join("env")]);
    }
}
