//! Files and folders as this crate makes them, and what to say when the disk refuses.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::StoreProblem;

/// Makes a folder, and those above it, readable by its owner only. One that exists stays as it is.
pub(crate) fn make_folder(path: &Path) -> Result<(), StoreProblem> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|cause| refused("make the folder", path, &cause))
}

/// The options for a private file; a symbolic link at its path is refused, for nothing here is ever a link.
pub(crate) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    options
}

/// Opens a regular file with [`private_file`] options.
pub(crate) fn open_regular(options: &OpenOptions, path: &Path) -> Result<File, StoreProblem> {
    let file = options.open(path).map_err(|cause| refused("open", path, &cause))?;
    match file.metadata() {
        Ok(metadata) if metadata.is_file() => Ok(file),
        Ok(_) => Err(StoreProblem::System(format!(
            "`{}` is not a regular file, so that no session can be kept in it. Remove it.",
            path.display()
        ))),
        Err(cause) => Err(refused("look at", path, &cause)),
    }
}

/// Makes a folder's names durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// The problem of an operation that the system refused: the thing, the cause, and the remedy where there is one.
pub(crate) fn refused(action: &str, path: &Path, cause: &io::Error) -> StoreProblem {
    StoreProblem::System(refusal(action, path, cause))
}

/// The text of [`refused`].
pub(crate) fn refusal(action: &str, path: &Path, cause: &io::Error) -> String {
    let shown = path.display();
    let on = file_system(path).map_or_else(String::new, |name| format!(" on {name}"));
    let remedy = match Errno::from_io_error(cause) {
        Some(Errno::NOSPC) => "Free some space there.",
        Some(Errno::DQUOT) => "The disk quota is used up: free some space, or ask for more.",
        Some(Errno::FBIG) => "The process may not write larger files: raise `ulimit -f`.",
        Some(Errno::ROFS) => "The file system is read-only: set XDG_STATE_HOME to a folder that can be written.",
        Some(Errno::ACCESS | Errno::PERM) => {
            "Give this user access to it, or set XDG_STATE_HOME to a folder that can be written."
        }
        Some(Errno::LOOP) => "It is a symbolic link, which Hames never makes there: remove it.",
        Some(Errno::NOENT | Errno::NOTDIR) => "A part of the path is missing or not a folder.",
        _ => "Look after the disk, then try again.",
    };
    format!("Hames could not {action} `{shown}`{on}: {cause}. {remedy}")
}

/// Names the file system that a path lies on, as the mount table shows it.
fn file_system(path: &Path) -> Option<String> {
    let existing = path.ancestors().find_map(|part| part.canonicalize().ok())?;
    let table = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let (point, kind) = mounts(&table).filter(|(point, _)| existing.starts_with(point)).max_by_key(|(point, _)| {
        // A later mount at the same point hides an earlier one; max_by_key keeps the last of equals.
        point.as_os_str().len()
    })?;
    Some(format!("the file system at `{}` ({kind})", point.display()))
}

/// The mount points with their types; see proc_pid_mountinfo(5).
fn mounts(table: &str) -> impl Iterator<Item = (PathBuf, &str)> {
    table.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let point = left.split(' ').nth(4)?.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\");
        Some((PathBuf::from(point), right.split(' ').next()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_of_a_path_is_named_even_before_the_path_exists() {
        let named = file_system(Path::new("/proc/self/no/such/file")).unwrap();
        assert_eq!(named, "the file system at `/proc` (proc)");
    }

    #[test]
    fn a_mount_point_with_a_blank_is_read_as_it_is() {
        let table = "36 35 98:0 / /mnt/a\\040b rw,noatime shared:1 - ext4 /dev/sda rw\n";
        assert_eq!(mounts(table).collect::<Vec<_>>(), [(PathBuf::from("/mnt/a b"), "ext4")]);
    }
}
