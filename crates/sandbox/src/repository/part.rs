//! The parts of a repository that git executes or obeys, and what becomes of one that is new.
//!
//! Everything here goes by descriptors of folders and never through a link: commands of the same session may still run
//! and move names meanwhile.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use hames_protocol::SetAside;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::settings::{Setting, Settings};
use crate::jail::{self, spell};
use crate::protection::names;

/// Settings larger than this are not looked at but set aside as a whole, in bytes.
const LARGEST_SETTINGS: u64 = 1 << 20;
/// How many files of one name may have been set aside.
const KEPT: u32 = 1_000;

/// What a part is to git.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A program that git runs, or a link in place of the folder of these.
    Hook,
    /// Settings.
    Settings,
    /// A file that says where the settings and hooks are instead.
    CommonFolder,
    /// A `.git` that is no folder: it says where the repository is.
    Pointer,
}

/// One part, by its path relative to the workspace root or absolute outside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
}

/// The parts that the repository at `folder` has now.
pub(super) fn of(root: &Path, folder: &Path) -> Vec<Part> {
    let mut parts = Vec::new();
    let part = |name: &str, kind| Part { path: folder.join(name), kind };
    let there = |name: &str| root.join(folder).join(name).symlink_metadata().ok();
    match there("hooks") {
        Some(found) if found.is_dir() => {
            for entry in fs::read_dir(root.join(folder).join("hooks")).into_iter().flatten().flatten() {
                let name = entry.file_name();
                if !name.as_bytes().ends_with(b".sample") && !is_kept(&name) {
                    parts.push(Part { path: folder.join("hooks").join(name), kind: Kind::Hook });
                }
            }
        }
        Some(_) => parts.push(part("hooks", Kind::Hook)),
        None => {}
    }
    for (name, kind) in
        [("config", Kind::Settings), ("config.worktree", Kind::Settings), ("commondir", Kind::CommonFolder)]
    {
        parts.extend(there(name).map(|_| part(name, kind)));
    }
    parts
}

/// What a `.git` file, or another file of git that holds a path, names, as a real path; none when there is nothing, or it
/// is no such file. Read as git reads it (`read_gitfile_gently` and `get_common_dir_noenv` in its setup.c), blanks at
/// either end of the path included.
pub(super) fn leads_to(file: &Path) -> Option<PathBuf> {
    let found = file.symlink_metadata().ok().filter(|found| found.is_file() && found.len() < 64 << 10)?;
    let bytes = fs::read(file).ok().filter(|bytes| bytes.len() as u64 == found.len())?;
    let is_pointer = names::is_dot_git(&file.file_name()?.to_string_lossy());
    let mut path = if is_pointer { bytes.strip_prefix(b"gitdir: ".as_slice())? } else { &bytes };
    while let [rest @ .., b'\n' | b'\r'] = path {
        path = rest;
    }
    file.parent()?.join(OsStr::from_bytes(path)).canonicalize().ok()
}

/// Sets a part aside when git would execute or obey something in it. `known` are the real paths of repositories to
/// which a part may lead.
///
/// # Errors
/// When it should be set aside and cannot be.
pub(super) fn settle(
    open: impl Fn(&Path) -> io::Result<OwnedFd>,
    root: &Path,
    part: &Part,
    known: &[PathBuf],
) -> io::Result<Option<SetAside>> {
    let (Some(above), Some(name)) = (part.path.parent(), part.path.file_name()) else { return Ok(None) };
    let aside =
        |why: String, kept: OsString| Some(SetAside { path: spell(&part.path), why, kept: spell(&above.join(kept)) });
    let whole = |why: &str| -> io::Result<Option<SetAside>> {
        let folder = match open(above) {
            // It is gone.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            folder => folder?,
        };
        let moved = move_aside(&folder, name)?;
        Ok(moved.and_then(|kept| aside(why.to_owned(), kept)))
    };
    let leads_to_known = || leads_to(&root.join(&part.path)).is_some_and(|leads_to| known.contains(&leads_to));
    match part.kind {
        Kind::Hook => whole("it is a hook, which git runs"),
        Kind::CommonFolder if leads_to_known() => Ok(None),
        Kind::CommonFolder => whole("it makes git read hooks and settings of another folder"),
        Kind::Pointer if leads_to_known() => Ok(None),
        Kind::Pointer => whole("it makes git use a repository elsewhere"),
        Kind::Settings => {
            let folder = open(above)?;
            let Some(bytes) = read(&folder, name)? else {
                return whole("git obeys it, and it is no regular file of a usual size");
            };
            let mut settings = Settings::read(&bytes);
            let stays = |setting: &Setting| setting.is_inert() || is_own_worktree(root, above, setting);
            let taken: Vec<String> = settings.take_out(stays).iter().map(Setting::name).collect();
            if taken.is_empty() && settings.is_plain {
                return Ok(None);
            }
            let kept = replace(&folder, name, &bytes, &settings.to_text())?;
            let what = if taken.is_empty() { "it is not written plainly".to_owned() } else { named(&taken) };
            Ok(aside(format!("{what}; a file without that took its place"), kept))
        }
    }
}

fn named(settings: &[String]) -> String {
    let mut names: Vec<String> = settings.iter().map(|name| format!("`{name}`")).collect();
    names.dedup();
    format!("it has settings by which git may run programs or go elsewhere: {}", names.join(", "))
}

/// Whether this is the worktree of a submodule, which lies in the workspace.
fn is_own_worktree(root: &Path, folder: &Path, setting: &Setting) -> bool {
    let worktree = (setting.name() == "core.worktree").then(|| setting.value()).flatten();
    let found = worktree.and_then(|path| root.join(folder).join(path).canonicalize().ok());
    found.is_some_and(|found| found != root && found.starts_with(root))
}

/// Whether a name is one that [`move_aside`] gives.
fn is_kept(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.contains(".quarantined"))
}

/// Free names for what was `name`.
fn kept_names(name: &OsStr) -> impl Iterator<Item = OsString> {
    (1..=KEPT).map(move |number| {
        let mut kept = name.to_owned();
        kept.push(".quarantined");
        if number > 1 {
            kept.push(format!("-{number}"));
        }
        kept
    })
}

/// Gives an entry of a folder a name that nothing looks for; none when it is gone.
fn move_aside(folder: &OwnedFd, name: &OsStr) -> io::Result<Option<OsString>> {
    allow_writing(folder);
    for kept in kept_names(name) {
        match rustix::fs::renameat_with(folder, name, folder, &kept, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(Some(kept)),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::EXIST.into())
}

/// Keeps the bytes of a file under another name and gives it other content.
fn replace(folder: &OwnedFd, name: &OsStr, bytes: &[u8], text: &str) -> io::Result<OsString> {
    allow_writing(folder);
    let mut draft = name.to_owned();
    draft.push(".hames-draft");
    for kept in kept_names(name) {
        match write_new(folder, &kept, bytes) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            written => written?,
        }
        // What a crash left of an earlier try.
        let _ = rustix::fs::unlinkat(folder, &draft, AtFlags::empty());
        write_new(folder, &draft, text.as_bytes())?;
        rustix::fs::renameat(folder, &draft, folder, name)?;
        return Ok(kept);
    }
    Err(Errno::EXIST.into())
}

fn write_new(folder: &OwnedFd, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    File::from(rustix::fs::openat(folder, name, flags, mode)?).write_all(bytes)
}

/// A command may have made its folder read-only; it belongs to the same user.
fn allow_writing(folder: &OwnedFd) {
    let itself = format!("/proc/self/fd/{}", folder.as_raw_fd());
    if let Ok(found) = fs::metadata(&itself)
        && found.permissions().mode() & 0o700 != 0o700
    {
        // Where that is refused, what comes next is and says so.
        let _ = fs::set_permissions(&itself, Permissions::from_mode(found.permissions().mode() & 0o7777 | 0o700));
    }
}

/// The bytes of settings; none when they are no regular file, or too large.
fn read(folder: &OwnedFd, name: &OsStr) -> io::Result<Option<Vec<u8>>> {
    let (file, metadata) = match jail::open_file(folder, name) {
        Ok(found) => found,
        // One that even its owner may not read, git cannot read either, until it is given the right to.
        Err(_) => return Ok(None),
    };
    if metadata.len() > LARGEST_SETTINGS {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(LARGEST_SETTINGS + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= LARGEST_SETTINGS).then_some(bytes))
}
