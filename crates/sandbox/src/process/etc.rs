//! The /etc that commands see: names and lookups, certificates, and what runtimes read at their start.
//!
//! Nothing that may hold a secret is in it, and a resolver only where there is a network. Small things are copied into a
//! folder of the session, for each mount costs every command; large folders are mounted over it.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use hames_protocol::Network;

use super::layout::Layout;
use super::script;

/// What programs need of the host's /etc.
const SHOWN: [&str; 21] = [
    "passwd",
    "group",
    "nsswitch.conf",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    "localtime",
    "timezone",
    "locale.alias",
    "os-release",
    "debian_version",
    "mime.types",
    "magic",
    "services",
    "protocols",
    "ca-certificates.conf",
    "ssl/certs",
    "ssl/openssl.cnf",
    "pki/tls/certs",
    "perl",
];

/// Beginnings of names of runtimes that come in versions, `python3.11` or `java-17-openjdk` say.
const VERSIONED: [&str; 3] = ["python3", "java-", "php"];

/// Names for the machine itself.
const HOSTS: &str = "127.0.0.1 localhost hames\n::1 localhost\n";

/// Who knows the names of other machines.
const RESOLVER: &str = "/etc/resolv.conf";

/// Where bash finds what it reads before a command line.
pub(crate) const BASH_ENV: &str = "/etc/hames/bash_env";

/// Files and folders up to which a folder is copied.
const COPIED_ENTRIES: usize = 20;

/// The session's /etc.
#[derive(Debug)]
pub(crate) struct Etc {
    folder: PathBuf,
    /// What of the host is mounted over it.
    mounted: Vec<PathBuf>,
}

impl Etc {
    /// Writes it anew to `folder`.
    ///
    /// # Errors
    /// When the folder cannot be written. What cannot be read on the host is left out.
    pub(crate) fn prepare(folder: PathBuf, network: Network) -> io::Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(folder.join("hames"))?;
        let hosts =
            if network == Network::Full { fs::read_to_string("/etc/hosts").unwrap_or_default() } else { String::new() };
        fs::write(folder.join("hosts"), format!("{HOSTS}{hosts}"))?;
        fs::write(folder.join("hames/bash_env"), script::BASH_ENV)?;
        symlink("/proc/self/mounts", folder.join("mtab"))?;
        let versioned = fs::read_dir("/etc").into_iter().flatten().flatten().map(|entry| entry.file_name());
        let versioned = versioned.filter_map(|name| name.into_string().ok());
        let versioned = versioned.filter(|name| VERSIONED.iter().any(|start| name.starts_with(start)));
        let mut etc = Self { folder, mounted: Vec::new() };
        for name in SHOWN.into_iter().map(str::to_owned).chain(versioned) {
            etc.take(&name)?;
        }
        if network == Network::Full && Path::new(RESOLVER).exists() {
            // Mounted, for it changes as the machine moves from one network to another.
            fs::write(etc.folder.join("resolv.conf"), "")?;
            etc.mounted.push(RESOLVER.into());
        }
        Ok(etc)
    }

    /// Adds it to a layout.
    pub(crate) fn mount(&self, layout: &mut Layout) {
        layout.show(&self.folder, "/etc");
        for path in &self.mounted {
            layout.show(path, path);
        }
    }

    fn take(&mut self, name: &str) -> io::Result<()> {
        let (source, target) = (Path::new("/etc").join(name), self.folder.join(name));
        // Links such as those for the time zone are followed: they lead to /usr, or out of what is shown.
        let Ok(found) = fs::metadata(&source) else { return Ok(()) };
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        if found.is_file() {
            // One that may not be read is not for commands either.
            let _ = fs::copy(&source, &target);
        } else if is_small(&source) {
            copy(&source, &target)?;
        } else {
            fs::create_dir_all(&target)?;
            self.mounted.push(source);
        }
        Ok(())
    }
}

/// Whether a folder holds few enough entries, all levels counted, to be copied.
fn is_small(folder: &Path) -> bool {
    let mut left = COPIED_ENTRIES;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Some(rest) = left.checked_sub(1) else { return false };
            left = rest;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
        }
    }
    true
}

/// Copies a folder with its links as they are.
fn copy(source: &Path, target: &Path) -> io::Result<()> {
    fs::create_dir_all(target)?;
    for entry in fs::read_dir(source).into_iter().flatten().flatten() {
        let (from, to) = (entry.path(), target.join(entry.file_name()));
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => copy(&from, &to)?,
            Ok(kind) if kind.is_symlink() => symlink(fs::read_link(&from)?, &to)?,
            Ok(kind) if kind.is_file() => drop(fs::copy(&from, &to)),
            _ => {}
        }
    }
    Ok(())
}
