//! What of the host a command sees: an explicit list, and nothing else.
//!
//! The rest of the root is an empty file system that is made read-only when everything is in place.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::config::Mode;

/// Folders of the root that hold programs and libraries.
const SYSTEM: [&str; 9] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store"];

/// The home of every command.
pub(crate) const HOME: &str = "/run/hames/home";

/// Options of bubblewrap, in the order in which it carries them out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layout {
    options: Vec<OsString>,
}

impl Layout {
    /// Shows a file or folder of the host at `target`, read-only.
    pub(crate) fn show(&mut self, source: impl AsRef<Path>, target: impl AsRef<Path>) {
        self.push("--ro-bind", [source.as_ref(), target.as_ref()]);
    }

    /// Shows a file or folder of the host at `target`, writable.
    pub(crate) fn open(&mut self, source: impl AsRef<Path>, target: impl AsRef<Path>) {
        self.push("--bind", [source.as_ref(), target.as_ref()]);
    }

    /// Puts an empty folder in memory at `target`.
    pub(crate) fn empty(&mut self, target: impl AsRef<Path>) {
        self.push("--tmpfs", [target.as_ref()]);
    }

    /// Makes a link at `target`.
    pub(crate) fn link(&mut self, leads_to: impl AsRef<Path>, target: impl AsRef<Path>) {
        self.push("--symlink", [leads_to.as_ref(), target.as_ref()]);
    }

    /// Makes a file at `target` with what can be read from a descriptor that bubblewrap inherits.
    pub(crate) fn copy(&mut self, source: &OwnedFd, target: impl AsRef<Path>) {
        self.push("--file", [OsStr::new(&source.as_raw_fd().to_string()), target.as_ref().as_os_str()]);
    }

    /// Makes what was mounted at `target` read-only.
    pub(crate) fn seal(&mut self, target: impl AsRef<Path>) {
        self.push("--remount-ro", [target.as_ref()]);
    }

    /// Adds an option with its values.
    pub(crate) fn push<T: AsRef<OsStr>>(&mut self, option: &str, values: impl IntoIterator<Item = T>) {
        self.options.push(option.into());
        self.options.extend(values.into_iter().map(|value| value.as_ref().to_owned()));
    }

    /// The options, each ended by NUL, as `--args` reads them.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for option in &self.options {
            bytes.extend_from_slice(std::os::unix::ffi::OsStrExt::as_bytes(option.as_os_str()));
            bytes.push(0);
        }
        bytes
    }
}

/// The part that is the same for every command of every session: namespaces but that of the network, system folders, /proc and /dev.
pub(crate) fn system() -> Layout {
    let mut layout = Layout::default();
    for option in ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"] {
        layout.push(option, [""; 0]);
    }
    layout.push("--unshare-cgroup-try", [""; 0]);
    layout.push("--cap-drop", ["ALL"]);
    layout.push("--new-session", [""; 0]);
    layout.push("--die-with-parent", [""; 0]);
    layout.push("--hostname", ["hames"]);
    for folder in SYSTEM {
        show_as_it_is(&mut layout, Path::new(folder));
    }
    // Sealed, for bubblewrap leaves /proc/sys open to root, and /proc/PID/mem is a way around refusing ptrace.
    layout.push("--proc", ["/proc"]);
    layout.seal("/proc");
    layout.push("--dev", ["/dev"]);
    layout
}

/// Shows a folder of the root, as a link where the host has one.
fn show_as_it_is(layout: &mut Layout, path: &Path) {
    if let Ok(leads_to) = fs::read_link(path) {
        layout.link(leads_to, path);
    } else if path.is_dir() {
        layout.show(path, path);
    }
}

/// A folder of the host that a command sees.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown<'a> {
    /// Its path on the host.
    pub(crate) source: &'a Path,
    /// Its path inside.
    pub(crate) target: &'a Path,
    /// Whether it is writable.
    pub(crate) mode: Mode,
}

/// A private /tmp, and the folders of the host that are shown, wherever those lie.
///
/// The session's /tmp is a folder of the host in which commands plant what they like, and bubblewrap follows links as
/// it makes the folders on the way to a mount. So each entry of /tmp through which something is shown is first made
/// an empty folder in memory: being a mount in every command, it can be moved or replaced by none.
pub(crate) fn private(layout: &mut Layout, tmp: Option<&Path>, mut shown: Vec<Shown<'_>>) -> io::Result<()> {
    match tmp {
        Some(folder) => layout.open(folder, "/tmp"),
        None => layout.empty("/tmp"),
    }
    let mut entries = BTreeSet::new();
    for folder in &shown {
        if let Some(entry) = folder.target.strip_prefix("/tmp").ok().and_then(|beneath| beneath.components().next()) {
            entries.insert(entry.as_os_str().to_owned());
        }
    }
    for entry in &entries {
        if let Some(folder) = tmp {
            real_folder(&folder.join(entry))?;
        }
        layout.empty(Path::new("/tmp").join(entry));
    }
    if !shown.iter().any(|folder| folder.target.starts_with("/var/tmp")) {
        layout.link("../tmp", "/var/tmp");
    }
    // A folder that lies in another one comes after it.
    shown.sort_by_key(|folder| folder.target.components().count());
    for folder in &shown {
        match folder.mode {
            Mode::WorkspaceWrite => layout.open(folder.source, folder.target),
            Mode::ReadOnly => layout.show(folder.source, folder.target),
        }
    }
    for entry in entries.iter().map(|entry| Path::new("/tmp").join(entry)) {
        // What is shown there itself is as writable as was asked.
        if !shown.iter().any(|folder| folder.target == entry) {
            layout.seal(entry);
        }
    }
    Ok(())
}

/// Makes sure that a folder, and no link to one, is at `path`. Two commands that begin at once may both do so.
pub(crate) fn real_folder(path: &Path) -> io::Result<()> {
    let is_real = || path.symlink_metadata().is_ok_and(|found| found.is_dir());
    if is_real() {
        return Ok(());
    }
    // Often nothing is there; what cannot be removed shows in the next line.
    let _ = fs::remove_file(path);
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_real() => Ok(()),
        made => made,
    }
}

/// Where bubblewrap is, in the usual places.
pub(crate) fn find_bubblewrap() -> Option<PathBuf> {
    ["/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"].into_iter().map(PathBuf::from).find(|path| path.is_file())
}
