//! The untouched copy of the workspace, on which the tests are counted before the work is judged.
//!
//! It lies in a private folder of the session: `tree` is the copy, `complete` says that it was finished, `absent`
//! says why there is none.

use std::fs::{self, File, FileTimes, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::blocking::Stop;

/// The most files that are copied.
const MAX_FILES: u64 = 50_000;
/// The most bytes that are copied.
const MAX_BYTES: u64 = 1 << 30;
/// The largest `.git` that is copied along: tests may ask git, a long history is of no use to them.
const MAX_GIT_BYTES: u64 = 200 << 20;
/// How much is copied between two looks at the stop flag.
const CHUNK: u64 = 8 << 20;

/// The copy, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Untouched {
    /// It lies here.
    At(PathBuf),
    /// There is none, for this reason.
    Absent(String),
}

/// What was found in `folder`, also by an earlier process.
pub(crate) fn find(folder: &Path) -> Untouched {
    let tree = folder.join("tree");
    if folder.join("complete").is_file() && tree.is_dir() {
        return Untouched::At(tree);
    }
    let why = fs::read_to_string(folder.join("absent"));
    Untouched::Absent(why.unwrap_or_else(|_| "the untouched copy is gone".to_owned()))
}

/// Copies the workspace at `root` into `folder`, replacing what an unfinished attempt left there.
///
/// A workspace that is too large or cannot be read leaves the reason behind instead of a copy.
///
/// # Errors
/// When `folder` cannot be written.
pub(crate) fn make(root: &Path, folder: &Path, stop: &Stop) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    for stale in ["complete", "absent"] {
        if let Err(error) = fs::remove_file(folder.join(stale))
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
    }
    remove_tree(&folder.join("tree"))?;
    let copied = measure(root, stop).and_then(|with_git| copy_folder(root, &folder.join("tree"), with_git, stop));
    stop.check()?;
    match copied {
        Ok(()) => fs::write(folder.join("complete"), b""),
        Err(error) => {
            remove_tree(&folder.join("tree"))?;
            fs::write(folder.join("absent"), format!("the workspace could not be copied: {error}"))
        }
    }
}

/// Removes a folder with everything in it, if it is there.
pub(crate) fn remove_tree(tree: &Path) -> io::Result<()> {
    match fs::remove_dir_all(tree) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether the `.git` folder at the root goes along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Git {
    Copied,
    LeftOut,
}

/// Refuses what is too large before a byte is copied.
fn measure(root: &Path, stop: &Stop) -> io::Result<Git> {
    let mut git = Size::default();
    let within = root.join(".git");
    let with_git = match fs::symlink_metadata(&within) {
        Ok(found) if found.is_dir() => {
            git.add_folder(&within, stop).is_ok() && git.bytes <= MAX_GIT_BYTES && git.files <= MAX_FILES
        }
        _ => true,
    };
    stop.check()?;
    let mut size = if with_git { git } else { Size::default() };
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_name() != ".git" {
            size.add(&entry, stop)?;
        }
    }
    Ok(if with_git { Git::Copied } else { Git::LeftOut })
}

#[derive(Debug, Clone, Copy, Default)]
struct Size {
    files: u64,
    bytes: u64,
}

impl Size {
    fn add_folder(&mut self, folder: &Path, stop: &Stop) -> io::Result<()> {
        stop.check()?;
        if is_cache(folder) {
            return Ok(());
        }
        fs::read_dir(folder)?.try_for_each(|entry| self.add(&entry?, stop))
    }

    fn add(&mut self, entry: &fs::DirEntry, stop: &Stop) -> io::Result<()> {
        let found = entry.metadata()?;
        if found.is_dir() {
            return self.add_folder(&entry.path(), stop);
        }
        self.files += 1;
        self.bytes += if found.is_file() { found.len() } else { 0 };
        if self.files > MAX_FILES {
            return Err(io::Error::other(format!("it has more than {MAX_FILES} files")));
        }
        if self.bytes > MAX_BYTES {
            return Err(io::Error::other(format!("it has more than {} MiB", MAX_BYTES >> 20)));
        }
        Ok(())
    }
}

/// A folder that says of itself that it can be made anew (<https://bford.info/cachedir/>), cargo's `target` above
/// all. Python's virtual folders carry the same mark when uv made them, and tests need those.
fn is_cache(folder: &Path) -> bool {
    folder.join("CACHEDIR.TAG").is_file() && !folder.join("pyvenv.cfg").exists()
}

fn copy_folder(from: &Path, to: &Path, git: Git, stop: &Stop) -> io::Result<()> {
    stop.check()?;
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let found = entry.metadata()?;
        if found.is_dir() {
            let is_left_out = entry.file_name() == ".git" && git == Git::LeftOut;
            if !is_left_out && !is_cache(&source) {
                copy_folder(&source, &target, Git::Copied, stop)?;
            }
        } else if found.is_symlink() {
            symlink(fs::read_link(&source)?, &target)?;
        } else if found.is_file() {
            copy_file(&source, &target, &found, stop)?;
        }
    }
    // The owner can always enter and clear its own copy, whatever the original allows.
    let mode = fs::metadata(from)?.permissions().mode() | 0o700;
    fs::set_permissions(to, Permissions::from_mode(mode & 0o777))
}

/// Copies bytes, permission bits and times: build tools compare times.
fn copy_file(from: &Path, to: &Path, found: &fs::Metadata, stop: &Stop) -> io::Result<()> {
    let source = File::open(from)?;
    let mut target = File::create_new(to)?;
    while io::copy(&mut (&source).take(CHUNK), &mut target)? == CHUNK {
        stop.check()?;
    }
    target.set_permissions(Permissions::from_mode(found.permissions().mode() & 0o7777))?;
    target.set_times(FileTimes::new().set_modified(found.modified()?).set_accessed(found.accessed()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_keeps_bytes_links_modes_and_times_and_leaves_caches_out() {
        let host = tempfile::tempdir().unwrap();
        let root = host.path().join("work");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir_all(root.join("target/debug")).unwrap();
        fs::create_dir_all(root.join(".git/refs")).unwrap();
        fs::write(root.join("target/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55").unwrap();
        fs::write(root.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(root.join("a/b/run.sh"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(root.join("a/b/run.sh"), Permissions::from_mode(0o555)).unwrap();
        fs::set_permissions(root.join("a/b"), Permissions::from_mode(0o555)).unwrap();
        symlink("b/run.sh", root.join("a/link")).unwrap();
        let kept = host.path().join("kept");
        for _ in 0..2 {
            make(&root, &kept, &Stop::default()).unwrap();
        }
        let tree = kept.join("tree");
        assert_eq!(find(&kept), Untouched::At(tree.clone()));
        let (old, new) =
            (fs::metadata(root.join("a/b/run.sh")).unwrap(), fs::metadata(tree.join("a/b/run.sh")).unwrap());
        assert_eq!(new.permissions().mode() & 0o7777, 0o555);
        assert_eq!(new.modified().unwrap(), old.modified().unwrap());
        assert_eq!(fs::read_link(tree.join("a/link")).unwrap(), Path::new("b/run.sh"));
        assert!(tree.join(".git/HEAD").is_file());
        assert!(!tree.join("target").exists());
        fs::set_permissions(root.join("a/b"), Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_workspace_that_is_too_large_leaves_the_reason_instead_of_a_copy() {
        let host = tempfile::tempdir().unwrap();
        let root = host.path().join("work");
        fs::create_dir(&root).unwrap();
        File::create(root.join("huge")).unwrap().set_len(MAX_BYTES + 1).unwrap();
        let kept = host.path().join("kept");
        make(&root, &kept, &Stop::default()).unwrap();
        let Untouched::Absent(why) = find(&kept) else { panic!("there is a copy") };
        assert!(why.contains("more than 1024 MiB"), "{why}");
    }

    #[test]
    fn a_long_history_is_left_out_and_the_rest_is_copied() {
        let host = tempfile::tempdir().unwrap();
        let root = host.path().join("work");
        fs::create_dir_all(root.join(".git")).unwrap();
        File::create(root.join(".git/pack")).unwrap().set_len(MAX_GIT_BYTES + 1).unwrap();
        fs::write(root.join("a.py"), "").unwrap();
        let kept = host.path().join("kept");
        make(&root, &kept, &Stop::default()).unwrap();
        assert!(kept.join("tree/a.py").is_file());
        assert!(!kept.join("tree/.git").exists());
    }
}
