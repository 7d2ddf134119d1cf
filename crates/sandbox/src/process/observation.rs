//! What a command tries on protected paths, as the kernel tells of its system calls.
//!
//! The mounts enforce the protection. What no mount holds (links, and files beyond the number that can be bound) is
//! refused here, and a command that races against the look at its arguments may get past that, to be found by the
//! comparison afterwards; every other call is let through. What is counted is what was observed here and by that
//! comparison, never what a command prints.
//!
//! It costs such a call some ten microseconds. The one difference that a command can notice: a signal whose handler
//! does not restart calls may interrupt one of these, where the kernel alone would have finished it.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hames_protocol::port::{Attempt, FileKind};
use rustix::fs::{AtFlags, FileType, OFlags, ResolveFlags, Stat};

use super::config::Mode;
use super::listener::{self, Notification};
use super::view;
use super::watched::{self, PathArgument, Touches, Watched};
use crate::protection::names;
use crate::{Guarded, Protection};

/// How many links are followed at the end of a path that leads nowhere.
const LINKS: usize = 8;
/// How many links one path may go through; the kernel's own bound.
const WALKED_LINKS: usize = 40;
/// Attempts that are kept of one command.
const ATTEMPTS: usize = 1_000;

/// What is looked for.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    /// The workspace's path, inside as outside.
    pub(crate) root: PathBuf,
    /// What is protected; none when the command sees something else in the workspace's place.
    pub(crate) protection: Option<Arc<Protection>>,
    /// Folders that hold something protected, each with the first of it.
    holders: BTreeMap<PathBuf, PathBuf>,
    /// What the mounts of this command keep from being changed.
    mounted: Vec<Guarded>,
    /// What does not exist, and cannot come into being.
    absent: Vec<PathBuf>,
    mode: Mode,
    /// What is protected and no mount holds.
    pub(crate) unheld: HashSet<PathBuf>,
    /// How its paths are told.
    pub(crate) naming: Naming,
}

/// How the paths of a folder are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    /// Relative to it: the workspace.
    Relative,
    /// Whole: a folder that was added to it.
    Absolute,
}

impl Subject {
    /// Notes what a command's mounts protect: what exists, and what is absent.
    pub(crate) fn new(
        root: &Path,
        mode: Mode,
        protection: Option<Arc<Protection>>,
        existing: &[Guarded],
        absent: Vec<PathBuf>,
    ) -> Self {
        let mut holders = BTreeMap::new();
        for guarded in existing {
            for above in guarded.path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
                holders.entry(above.to_owned()).or_insert_with(|| guarded.path.clone());
            }
        }
        let (root, mounted, unheld) = (root.to_owned(), existing.to_vec(), view::unheld(existing));
        Self { root, protection, holders, mounted, absent, mode, unheld, naming: Naming::Relative }
    }

    /// How a path relative to the folder is told.
    fn told(&self, relative: &Path) -> String {
        match self.naming {
            Naming::Relative => relative.to_string_lossy().into_owned(),
            Naming::Absolute => self.root.join(relative).to_string_lossy().into_owned(),
        }
    }

    /// Whether a path under a rule is kept from being changed by a mount of this command. What only came into being
    /// while it ran, such as the settings of a new repository, is not.
    fn is_mounted(&self, relative: &Path) -> bool {
        let beneath = |guarded: &Guarded| {
            relative.starts_with(&guarded.path) && !guarded.writable.iter().any(|open| relative.starts_with(open))
        };
        self.mode == Mode::ReadOnly
            || self.holders.contains_key(relative)
            || self.mounted.iter().any(beneath)
            || self.absent.iter().any(|absent| relative.starts_with(absent))
    }
}

/// Answers the notifications of one command.
#[derive(Debug)]
pub(crate) struct Observer {
    listener: OwnedFd,
    subjects: Vec<Subject>,
    /// The root folder of the command's processes; all have the same one.
    inside: Option<OwnedFd>,
    attempts: Vec<Attempt>,
    seen: HashSet<(PathBuf, &'static str)>,
    /// Whole paths under a rule that no mount keeps, and that were not there when the command touched them.
    appeared: BTreeMap<PathBuf, Attempt>,
    /// Doubtful exit codes with which the command's main process ended by itself.
    exits: Vec<i32>,
}

/// What was observed of one command.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// What was tried on protected paths.
    pub(crate) attempts: Vec<Attempt>,
    /// Doubtful exit codes with which the main process ended by itself, and not by a signal.
    pub(crate) exits: Vec<i32>,
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Pass,
    Refuse,
}

/// Where a path lands inside the sandbox.
struct Landing {
    path: PathBuf,
    found: Option<Stat>,
}

impl Observer {
    /// Takes over a listener.
    pub(crate) fn new(listener: OwnedFd, subjects: Vec<Subject>) -> Self {
        listener::wake_in_step(listener.as_fd());
        Self {
            listener,
            subjects,
            inside: None,
            attempts: Vec::new(),
            seen: HashSet::new(),
            appeared: BTreeMap::new(),
            exits: Vec::new(),
        }
    }

    /// What becomes readable when a call waits.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Takes the next call; none when it was gone before.
    pub(crate) fn next(&self) -> Option<Notification> {
        listener::receive(self.listener.as_fd())
    }

    /// Looks at a call of the command and lets it go on.
    pub(crate) fn look(&mut self, notification: &Notification) {
        if notification.call == libc::SYS_exit_group {
            self.note_exit(notification);
        } else if let Some(watched) = watched::find(notification.call)
            && is_a_change(notification)
        {
            let mut refused = false;
            for argument in watched.paths {
                refused |= self.look_at(notification, watched, *argument) == Answer::Refuse;
            }
            if refused {
                return listener::refuse(self.listener.as_fd(), notification, rustix::io::Errno::ROFS);
            }
        }
        self.pass(notification);
    }

    /// What was tried so far on paths that a mount holds; more may show at the end.
    pub(crate) fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// Lets a call go on unseen.
    pub(crate) fn pass(&self, notification: &Notification) {
        listener::answer(self.listener.as_fd(), notification);
    }

    /// Closes the listener and sums up.
    pub(crate) fn finish(mut self) -> Observed {
        for (path, mut attempt) in std::mem::take(&mut self.appeared) {
            if path.symlink_metadata().is_ok() {
                attempt.action = Attempt::CHANGED.to_owned();
            }
            self.attempts.push(attempt);
        }
        Observed { attempts: self.attempts, exits: self.exits }
    }

    fn look_at(&mut self, notification: &Notification, watched: &Watched, argument: PathArgument) -> Answer {
        let Some(written) = listener::read_text(notification.thread, notification.arguments[argument.path]) else {
            return Answer::Pass;
        };
        // By far the most frequent one.
        if written == b"/dev/null" {
            return Answer::Pass;
        }
        let Some(landing) = self.land(notification, argument, Path::new(OsStr::from_bytes(&written))) else {
            return Answer::Pass;
        };
        let subject = self.subjects.iter().find(|subject| landing.path.starts_with(&subject.root));
        let Some((subject, protection)) = subject.and_then(|subject| Some((subject, subject.protection.as_ref()?)))
        else {
            return Answer::Pass;
        };
        let relative = landing.path.strip_prefix(&subject.root).unwrap_or(&landing.path);
        let kind = kind_of(landing.found.as_ref());
        if argument.touches == Touches::Folder && kind != FileKind::Missing {
            return Answer::Pass;
        }
        let text = relative.to_string_lossy();
        let by_inode = || landing.found.as_ref().and_then(|found| protection.rule_of_inode(found.st_dev, found.st_ino));
        let rule = protection.rule(&text, kind).or_else(by_inode).map(str::to_owned).or_else(|| {
            let held = subject.holders.get(relative).filter(|_| argument.touches == Touches::Entry)?;
            Some(format!("it holds `{}`, which is protected", held.display()))
        });
        let Some(rule) = rule else { return Answer::Pass };
        let attempt = |rule| Attempt { path: subject.told(relative), rule, action: watched.action.to_owned() };
        if !subject.is_mounted(relative) {
            // What was there is compared afterwards, and what is new in repositories is looked at by itself.
            if kind == FileKind::Missing && !names::is_of_repository(&rule) {
                self.appeared.entry(landing.path.clone()).or_insert_with(|| attempt(rule));
            }
            return Answer::Pass;
        }
        let new = self.attempts.len() < ATTEMPTS && !self.seen.contains(&(landing.path.clone(), watched.action));
        if new && listener::is_valid(self.listener.as_fd(), notification) {
            self.seen.insert((landing.path.clone(), watched.action));
            self.attempts.push(attempt(rule));
        }
        if subject.unheld.contains(relative) { Answer::Refuse } else { Answer::Pass }
    }

    /// Finds where a path lands, the way the kernel does for the calling process.
    fn land(&mut self, notification: &Notification, argument: PathArgument, written: &Path) -> Option<Landing> {
        let process = format!("/proc/{}", notification.thread);
        let mut path = if written.is_absolute() {
            written.to_owned()
        } else {
            let descriptor = argument.folder.map(|folder| notification.arguments[folder] as i32);
            let start = match descriptor {
                None | Some(libc::AT_FDCWD) => format!("{process}/cwd"),
                Some(descriptor) => format!("{process}/fd/{descriptor}"),
            };
            fs::read_link(start).ok()?.join(written)
        };
        if self.inside.is_none() {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            self.inside = rustix::fs::open(format!("{process}/root"), flags, rustix::fs::Mode::empty()).ok();
        }
        let inside = self.inside.as_ref()?;
        if path.parent().is_some_and(|folder| open_inside(inside, folder, OFlags::DIRECTORY).is_none()) {
            path = through_proc(inside, &process, &path, argument.touches)?;
        }
        for _ in 0..LINKS {
            if argument.touches == Touches::Content
                && let Some(landing) = open_inside(inside, &path, OFlags::empty()).and_then(|fd| landing_of(&fd))
            {
                return Some(landing);
            }
            let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
                return open_inside(inside, &path, OFlags::empty()).and_then(|fd| landing_of(&fd));
            };
            let folder = open_inside(inside, folder, OFlags::DIRECTORY)?;
            let at = landing_of(&folder)?.path;
            let found = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).ok();
            let is_link =
                found.as_ref().is_some_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink);
            if argument.touches != Touches::Content || !is_link {
                return Some(Landing { path: at.join(name), found });
            }
            // A link to what does not exist yet.
            let leads_to = rustix::fs::readlinkat(&folder, name, Vec::new()).ok()?;
            path = at.join(OsStr::from_bytes(leads_to.as_bytes()));
        }
        None
    }

    /// Notes that a process ends by itself with a code that could be a signal's.
    fn note_exit(&mut self, notification: &Notification) {
        let status = |thread: &str| fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
        let field = |status: &str, name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name)).map(|values| values.trim().to_owned())
        };
        // The command is the child of the shell around it, the second process of its namespace.
        let parent = field(&status(&notification.thread.to_string()), "PPid:").unwrap_or_default();
        let inner = field(&status(&parent), "NSpid:").unwrap_or_default();
        if inner.split_whitespace().last() == Some("2") {
            self.exits.push(notification.arguments[0] as i32);
        }
    }
}

/// Whether the call could change what it names; the filter cannot look into memory.
fn is_a_change(notification: &Notification) -> bool {
    if notification.call != libc::SYS_openat2 {
        return true;
    }
    // The flags are the first field of `struct open_how` (linux/openat2.h).
    listener::read_number(notification.thread, notification.arguments[2]).is_some_and(watched::opens_for_writing)
}

/// Follows a path by hand through links of /proc, by which a process reaches its own folders and open files: the kernel
/// follows those only for the process itself.
fn through_proc(inside: &OwnedFd, process: &str, path: &Path, touches: Touches) -> Option<PathBuf> {
    let parts =
        |path: &Path| -> Vec<_> { path.iter().rev().filter(|part| *part != "/").map(OsStr::to_owned).collect() };
    let mut todo = parts(path);
    let mut at = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = todo.pop() {
        if part == ".." {
            at.pop();
            continue;
        }
        let here = at.join(&part);
        if todo.is_empty() && touches != Touches::Content {
            return Some(here);
        }
        let leads_to = match here.strip_prefix("/proc") {
            // Who asks decides what these two are, so they are looked up as the process's own, on the host.
            Ok(rest) if rest == Path::new("self") || rest == Path::new("thread-self") => {
                let Some(name) = todo.pop() else { return Some(here) };
                if name == "fd" {
                    let number = todo.pop()?;
                    fs::read_link(format!("{process}/fd/{}", number.to_str()?)).ok()?
                } else {
                    fs::read_link(Path::new(process).join(name)).ok()?
                }
            }
            _ => {
                let link = open_inside(inside, &at, OFlags::DIRECTORY)
                    .and_then(|folder| rustix::fs::readlinkat(&folder, &part, Vec::new()).ok());
                let Some(link) = link else {
                    at = here;
                    continue;
                };
                PathBuf::from(OsStr::from_bytes(link.as_bytes()))
            }
        };
        links += 1;
        if links > WALKED_LINKS {
            return None;
        }
        if leads_to.is_absolute() {
            at = PathBuf::from("/");
        }
        todo.extend(parts(&leads_to));
    }
    Some(at)
}

fn open_inside(inside: &OwnedFd, path: &Path, flags: OFlags) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | flags;
    rustix::fs::openat2(inside, path, flags, rustix::fs::Mode::empty(), ResolveFlags::IN_ROOT).ok()
}

fn landing_of(fd: &OwnedFd) -> Option<Landing> {
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(fd);
    let path = fs::read_link(format!("/proc/self/fd/{descriptor}")).ok()?;
    Some(Landing { path, found: rustix::fs::fstat(fd).ok() })
}

fn kind_of(found: Option<&Stat>) -> FileKind {
    match found.map(|found| FileType::from_raw_mode(found.st_mode)) {
        None => FileKind::Missing,
        Some(FileType::Directory) => FileKind::Folder,
        Some(FileType::RegularFile | FileType::Symlink) => FileKind::File,
        Some(_) => FileKind::Special,
    }
}
