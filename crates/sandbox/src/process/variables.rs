//! The environment of commands: an allow-list, never what Hames itself was started with.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use hames_protocol::port::CommandSpec;

use super::leftover;

/// Variables that are taken over from the host: how to speak and what time it is. Each by its whole name: whoever
/// connects by ssh may bring any variable that begins with `LC_`.
const TAKEN_OVER: [&str; 15] = [
    "LANG",
    "TZ",
    "LC_ALL",
    "LC_ADDRESS",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_IDENTIFICATION",
    "LC_MEASUREMENT",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NAME",
    "LC_NUMERIC",
    "LC_PAPER",
    "LC_TELEPHONE",
    "LC_TIME",
];

/// Variables of the same value for every command.
///
/// The settings of git come last in its precedence and so win over the repository's: no program that the repository
/// names runs as its monitor or hook, and no collection starts behind a command's back. A sandbox may show the
/// workspace as owned by somebody else, so every folder counts as safe.
const FIXED: [(&str, &str); 20] = [
    ("USER", "hames"),
    ("LOGNAME", "hames"),
    ("SHELL", "/bin/bash"),
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_EDITOR", "true"),
    ("GIT_CONFIG_COUNT", "5"),
    ("GIT_CONFIG_KEY_0", "core.fsmonitor"),
    ("GIT_CONFIG_VALUE_0", "false"),
    ("GIT_CONFIG_KEY_1", "core.hooksPath"),
    ("GIT_CONFIG_VALUE_1", "/dev/null"),
    ("GIT_CONFIG_KEY_2", "safe.directory"),
    ("GIT_CONFIG_VALUE_2", "*"),
    ("GIT_CONFIG_KEY_3", "gc.auto"),
    ("GIT_CONFIG_VALUE_3", "0"),
    ("GIT_CONFIG_KEY_4", "maintenance.auto"),
    ("GIT_CONFIG_VALUE_4", "false"),
];

/// Where a command finds things.
pub(crate) struct Places<'a> {
    /// Its home.
    pub(crate) home: &'a Path,
    /// Its private temporary folder.
    pub(crate) tmp: &'a Path,
    /// The search path.
    pub(crate) path: OsString,
}

/// The whole environment of a command.
pub(crate) fn variables(command: &CommandSpec, places: &Places<'_>) -> Vec<(OsString, OsString)> {
    let mut variables: Vec<(OsString, OsString)> = Vec::new();
    let mut set = |name: &str, value: &OsStr| variables.push((name.into(), value.to_owned()));
    set("LANG", OsStr::new("C.UTF-8"));
    for (name, value) in FIXED {
        set(name, OsStr::new(value));
    }
    set(leftover::OWNER, &leftover::own_name());
    set("PATH", &places.path);
    set("HOME", places.home.as_os_str());
    set("TMPDIR", places.tmp.as_os_str());
    set("XDG_CACHE_HOME", places.tmp.join("cache").as_os_str());
    // Bytecode beside the sources would be a change of the workspace that nobody asked for.
    set("PYTHONPYCACHEPREFIX", places.tmp.join("pycache").as_os_str());
    for (name, value) in std::env::vars_os() {
        let known = name.to_str().is_some_and(|name| TAKEN_OVER.contains(&name));
        if known {
            variables.push((name, value));
        }
    }
    variables.extend(command.env.iter().map(|(name, value)| (name.into(), value.into())));
    variables
}

/// The search path inside: what the host searches of `shown`, the `bin` folders of `shown`, then the system's.
pub(crate) fn search_path(shown: &[PathBuf]) -> OsString {
    let host = std::env::var_os("PATH").unwrap_or_default();
    let of_host = std::env::split_paths(&host).filter(|path| shown.iter().any(|folder| path.starts_with(folder)));
    let bins = shown.iter().map(|folder| if folder.ends_with("bin") { folder.clone() } else { folder.join("bin") });
    let mut paths: Vec<PathBuf> = Vec::new();
    let system = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from);
    for path in of_host.chain(bins.filter(|path| path.is_dir())).chain(system) {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    // Fails for a folder whose name holds a colon; nothing is searched there then.
    std::env::join_paths(&paths).unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".into())
}
