//! Resolves paths beneath a folder descriptor, so that no link, `..` or swap of names leads out of it.
//!
//! Each step is one `openat2` of a single name with `RESOLVE_BENEATH`, and every link is read and followed by hand:
//! the kernel alone would refuse an absolute link whose target lies inside. Nothing outside is ever looked at, so an
//! answer cannot tell whether something is there. What is decided on afterwards is the opened folder, not its name.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use hames_protocol::port::{FileKind, PathProblem};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// How many links one path may go through; the kernel's own bound.
pub(crate) const MAX_LINKS: usize = 40;
/// The longest path, in bytes; the kernel's own bound.
const MAX_PATH: usize = 4096;
/// How often a path is resolved again when something else moved names meanwhile.
const MAX_TRIES: usize = 64;

/// A step never leaves the folder, and never follows a link by itself.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS).union(ResolveFlags::NO_SYMLINKS);

/// Why a path does not resolve, without the path.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// It lands outside.
    Outside,
    /// Names moved while it was resolved; worth another try.
    Moved,
    /// It has more links than [`MAX_LINKS`].
    Loop,
    /// Something on the way is a file.
    NotAFolder,
    /// The system refused.
    System(Errno),
}

impl From<Errno> for Refusal {
    fn from(error: Errno) -> Self {
        match error {
            // A link, or nothing, where a moment ago was neither: only a race does this to a single name.
            Errno::LOOP | Errno::XDEV | Errno::AGAIN | Errno::STALE => Self::Moved,
            Errno::NOTDIR => Self::NotAFolder,
            error => Self::System(error),
        }
    }
}

impl Refusal {
    /// The same as a sentence about the path as `written`.
    pub(crate) fn problem(self, written: &str) -> PathProblem {
        let system = |why: &str| PathProblem::System { path: written.to_owned(), why: why.to_owned() };
        match self {
            Self::Outside => PathProblem::Outside(written.to_owned()),
            Self::Moved => system("it is being moved by something else. Try again when that is done"),
            Self::Loop => {
                PathProblem::Invalid { path: written.to_owned(), why: "its links lead in a circle".to_owned() }
            }
            Self::NotAFolder => system("a part of the path is a file, not a folder"),
            Self::System(Errno::NOENT) => PathProblem::Missing(written.to_owned()),
            Self::System(Errno::NAMETOOLONG) => {
                PathProblem::Invalid { path: written.to_owned(), why: "a name in it is too long".to_owned() }
            }
            Self::System(error) => system(&words(&error.into())),
        }
    }
}

/// A system error without its number.
pub(crate) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

/// Repeats `attempt` while names move under it.
pub(crate) fn retry<T>(mut attempt: impl FnMut() -> Result<T, Refusal>) -> Result<T, Refusal> {
    for _ in 1..MAX_TRIES {
        match attempt() {
            Err(Refusal::Moved) => std::thread::yield_now(),
            result => return result,
        }
    }
    attempt()
}

/// Checks what can be told of a path without looking at any file.
pub(crate) fn check_text(path: &str) -> Result<(), PathProblem> {
    let why = if path.is_empty() {
        "it is empty"
    } else if path.len() > MAX_PATH {
        "it is longer than 4096 bytes"
    } else if path.contains('\0') {
        "it holds a NUL byte"
    } else {
        return Ok(());
    };
    let shown: String = path.chars().take(80).map(|c| if c == '\0' { '\u{fffd}' } else { c }).collect();
    Err(PathProblem::Invalid { path: shown, why: why.to_owned() })
}

/// Where a path led.
#[derive(Debug)]
pub(crate) struct Spot {
    /// The last folder on the way that exists.
    pub(crate) folder: OwnedFd,
    /// The names beneath it: none for the folder itself, one for a file or for nothing yet, more when folders are
    /// missing as well.
    pub(crate) rest: Vec<OsString>,
    /// What is there; none when nothing is.
    pub(crate) metadata: Option<Metadata>,
}

impl Spot {
    /// What is there.
    pub(crate) fn kind(&self) -> FileKind {
        match &self.metadata {
            None => FileKind::Missing,
            Some(metadata) if metadata.is_dir() => FileKind::Folder,
            Some(metadata) if metadata.is_file() => FileKind::File,
            Some(_) => FileKind::Special,
        }
    }
}

/// Which way a path went.
#[derive(Debug)]
pub(crate) enum Way {
    /// It stayed beneath the folder and led here.
    Within(Spot),
    /// It left the folder for this absolute path, of which nothing was looked at.
    Out(PathBuf),
}

/// A folder beneath which all paths stay.
#[derive(Debug)]
pub(crate) struct Jail {
    root: OwnedFd,
    /// The absolute paths by which the folder is known, the real one first; an absolute path must begin with one.
    names: Vec<PathBuf>,
}

impl Jail {
    /// Opens the folder at `path`, known by `names`.
    pub(crate) fn open(path: &Path, names: Vec<PathBuf>) -> io::Result<Self> {
        let root = rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let jail = Self { root, names };
        // Tells at once when the kernel, or a filter around this process, has no openat2.
        jail.folder(&[])?;
        Ok(jail)
    }

    /// The part of an absolute path beneath this folder; a relative path as it is; none when it lies elsewhere.
    pub(crate) fn beneath<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        if path.is_relative() {
            return Some(path);
        }
        self.names.iter().find_map(|name| path.strip_prefix(name).ok())
    }

    /// Finds where a path leads, following links by hand.
    pub(crate) fn resolve(&self, path: &Path) -> Result<Way, Refusal> {
        let mut todo = Vec::new();
        let Some(beneath) = self.beneath(path) else { return Ok(Way::Out(path.to_owned())) };
        push_parts(&mut todo, beneath);
        let mut folder = self.folder(&[])?;
        let mut trail: Vec<OsString> = Vec::new();
        let mut missing: Vec<OsString> = Vec::new();
        let mut links = 0;
        while let Some(part) = todo.pop() {
            if part == ".." {
                if missing.pop().is_none() {
                    if trail.pop().is_none() {
                        return Ok(Way::Out(self.above(todo)));
                    }
                    folder = self.folder(&trail)?;
                }
                continue;
            }
            if !missing.is_empty() {
                missing.push(part);
                continue;
            }
            let (file, metadata) = match entry(&folder, &part) {
                Ok(found) => found,
                Err(Refusal::System(Errno::NOENT)) => {
                    missing.push(part);
                    continue;
                }
                Err(refusal) => return Err(refusal),
            };
            if metadata.is_symlink() {
                links += 1;
                if links > MAX_LINKS {
                    return Err(Refusal::Loop);
                }
                let target = rustix::fs::readlinkat(&file, "", Vec::new())?.into_bytes();
                let target = PathBuf::from(OsString::from_vec(target));
                if target.is_absolute() {
                    trail.clear();
                    folder = self.folder(&[])?;
                }
                let Some(beneath) = self.beneath(&target) else {
                    return Ok(Way::Out(target.iter().map(OsStr::to_owned).chain(todo.into_iter().rev()).collect()));
                };
                push_parts(&mut todo, beneath);
            } else if metadata.is_dir() {
                trail.push(part);
                folder = file.into();
            } else if todo.is_empty() {
                return Ok(Way::Within(Spot { folder, rest: vec![part], metadata: Some(metadata) }));
            } else {
                return Err(Refusal::NotAFolder);
            }
        }
        let metadata = if missing.is_empty() { Some(metadata_of(&folder)?) } else { None };
        Ok(Way::Within(Spot { folder, rest: missing, metadata }))
    }

    /// The absolute path of what is still to do one step above this folder. Its real path has no links, so going up is a
    /// matter of names alone.
    fn above(&self, mut todo: Vec<OsString>) -> PathBuf {
        let mut at = self.names.first().and_then(|name| name.parent()).unwrap_or(Path::new("/"));
        while todo.pop_if(|part| *part == "..").is_some() {
            at = at.parent().unwrap_or(at);
        }
        at.iter().map(OsStr::to_owned).chain(todo.into_iter().rev()).collect()
    }

    /// Where a folder and the names beneath it really lie now, relative to this folder; read from the descriptors.
    pub(crate) fn path_of(&self, folder: &OwnedFd, rest: &[OsString]) -> Result<PathBuf, Refusal> {
        let path = real_path(folder)?;
        let mut path = path.strip_prefix(real_path(&self.root)?).map_err(|_| Refusal::Outside)?.to_owned();
        path.extend(rest);
        Ok(path)
    }

    /// Opens what lies at a path that has neither links nor `..`, for example one that a walk gave.
    pub(crate) fn open_plain(&self, path: &Path, flags: OFlags) -> Result<File, Refusal> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(rustix::fs::openat2(&self.root, path, flags, Mode::empty(), BENEATH)?.into())
    }

    /// Removes the file at a path that has neither links nor `..`.
    pub(crate) fn remove_plain(&self, path: &Path) -> Result<(), Refusal> {
        let Some(name) = path.file_name() else { return Err(Refusal::System(Errno::ISDIR)) };
        let trail: Vec<OsString> = path.parent().into_iter().flatten().map(OsStr::to_owned).collect();
        Ok(rustix::fs::unlinkat(self.folder(&trail)?, name, AtFlags::empty())?)
    }

    fn folder(&self, trail: &[OsString]) -> Result<OwnedFd, Errno> {
        let path = if trail.is_empty() { PathBuf::from(".") } else { trail.iter().collect() };
        rustix::fs::openat2(
            &self.root,
            path,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
            BENEATH,
        )
    }
}

/// What an entry of a folder is, without following it.
pub(crate) fn entry(folder: &impl AsFd, name: &OsStr) -> Result<(File, Metadata), Refusal> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file: File = rustix::fs::openat2(folder, name, flags, Mode::empty(), BENEATH)?.into();
    let metadata = file.metadata().map_err(system)?;
    Ok((file, metadata))
}

/// Opens a file of a folder for reading; a pipe put in its place does not block.
pub(crate) fn open_file(folder: &impl AsFd, name: &OsStr) -> Result<(File, Metadata), Refusal> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file: File = rustix::fs::openat2(folder, name, flags, Mode::empty(), BENEATH)?.into();
    let metadata = file.metadata().map_err(system)?;
    if metadata.is_file() { Ok((file, metadata)) } else { Err(Refusal::Moved) }
}

/// Opens a folder of a folder, made first when it is missing.
pub(crate) fn make_folder(folder: &impl AsFd, name: &OsStr) -> Result<OwnedFd, Refusal> {
    match rustix::fs::mkdirat(folder, name, Mode::RWXU | Mode::RWXG | Mode::RWXO) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // It was missing a moment ago: a link or a file in its place was put there meanwhile.
    rustix::fs::openat2(folder, name, flags, Mode::empty(), BENEATH).map_err(|error| match error {
        Errno::NOTDIR | Errno::NOENT => Refusal::Moved,
        error => error.into(),
    })
}

/// A system error of the standard library as a refusal.
pub(crate) fn system(error: io::Error) -> Refusal {
    Errno::from_io_error(&error).map_or(Refusal::System(Errno::IO), Refusal::from)
}

fn metadata_of(folder: &OwnedFd) -> Result<Metadata, Refusal> {
    folder.try_clone().and_then(|folder| File::from(folder).metadata()).map_err(system)
}

fn real_path(folder: &OwnedFd) -> Result<PathBuf, Refusal> {
    std::fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd())).map_err(system)
}

/// Puts the parts of a path on the stack, the first on top; `.` and doubled slashes mean nothing.
fn push_parts(todo: &mut Vec<OsString>, path: &Path) {
    todo.extend(path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    }));
}

/// A path as text. Bytes that are not UTF-8 are spelled `\xNN`, so that different names stay different.
pub(crate) fn spell(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02X}"));
        }
    }
    text
}

/// The path that [`spell`] wrote with `\xNN`.
pub(crate) fn unspell(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("\\x") {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let digits = rest.get(at + 2..at + 4).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match digits {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(b"\\x"),
        }
        rest = &rest[at + if digits.is_some() { 4 } else { 2 }..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_text_is_spelled_and_found_again() {
        for name in [&b"plain/name"[..], b"bad\xff/\xc3(", b"back\\slash", b"tail\\x"] {
            let path = Path::new(OsStr::from_bytes(name));
            assert_eq!(unspell(&spell(path)), path);
        }
        assert_eq!(spell(Path::new(OsStr::from_bytes(b"a\xffb"))), "a\\xFFb");
    }
}
