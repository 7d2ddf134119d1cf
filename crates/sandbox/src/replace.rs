//! Replaces a file atomically beneath an open folder: its name holds the old bytes or the new, whatever happens.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, Permissions};
use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::jail::{Refusal, system};

/// How the names of half-written files begin, which only a crash leaves behind.
const PREFIX: &str = ".hames-write-";

/// Whether a name is that of a half-written file.
pub(crate) fn is_draft(name: &OsStr) -> bool {
    let digits = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
    digits.is_some_and(|digits| digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Which owner and permission bits new bytes get.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bits<'a> {
    /// Those of any new file.
    Usual,
    /// The user's own, with these permission bits.
    Given(u32),
    /// Those of the file that they replace.
    Of(&'a Metadata),
}

/// New bytes, complete on disk but not yet at their name. Dropped without being published, they leave nothing.
#[derive(Debug)]
pub(crate) struct Draft<'a> {
    folder: &'a OwnedFd,
    file: File,
    /// Its name for now; none while it has no name at all, which is how it starts where the file system can do that.
    name: Option<OsString>,
}

impl<'a> Draft<'a> {
    /// Writes `bytes` into `folder`, with the owner and permission bits that they shall have.
    pub(crate) fn write(folder: &'a OwnedFd, bytes: &[u8], bits: Bits<'_>) -> Result<Self, Refusal> {
        let mut draft = Self::create(folder)?;
        draft.file.write_all(bytes).map_err(system)?;
        if let Bits::Given(mode) = bits {
            draft.file.set_permissions(Permissions::from_mode(mode & 0o777)).map_err(system)?;
        }
        if let Bits::Of(old) = bits {
            let new = draft.file.metadata().map_err(system)?;
            if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
                // Only root may give a file away; for others the file becomes theirs, as with any editor.
                let _ = std::os::unix::fs::fchown(&draft.file, Some(old.uid()), Some(old.gid()));
            }
            draft.file.set_permissions(Permissions::from_mode(old.mode() & 0o7777)).map_err(system)?;
        }
        draft.file.sync_all().map_err(system)?;
        Ok(draft)
    }

    /// Gives it a name that must be free. Returns what is then at the name.
    pub(crate) fn publish_new(mut self, name: &OsStr) -> Result<Metadata, Refusal> {
        match self.name.take() {
            None => self.link(name)?,
            Some(draft) => {
                let renamed = rustix::fs::renameat_with(self.folder, &draft, self.folder, name, RenameFlags::NOREPLACE);
                if let Err(error) = renamed {
                    self.name = Some(draft);
                    return Err(error.into());
                }
            }
        }
        self.finish()
    }

    /// Puts it in the place of what has the name. Returns what is then at the name.
    pub(crate) fn publish_over(mut self, name: &OsStr) -> Result<Metadata, Refusal> {
        let draft = match self.name.take() {
            Some(draft) => draft,
            None => {
                let draft = draft_name();
                self.link(&draft)?;
                draft
            }
        };
        if let Err(error) = rustix::fs::renameat(self.folder, &draft, self.folder, name) {
            self.name = Some(draft);
            return Err(error.into());
        }
        self.finish()
    }

    fn create(folder: &'a OwnedFd) -> Result<Self, Refusal> {
        match Self::open(folder, OsStr::new("."), OFlags::TMPFILE) {
            Ok(file) => Ok(Self { folder, file, name: None }),
            // What file systems answer that have no files without a name.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => Self::create_named(folder),
            Err(error) => Err(error.into()),
        }
    }

    fn create_named(folder: &'a OwnedFd) -> Result<Self, Refusal> {
        let name = draft_name();
        let file = Self::open(folder, &name, OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW)?;
        Ok(Self { folder, file, name: Some(name) })
    }

    fn open(folder: &OwnedFd, name: &OsStr, how: OFlags) -> Result<File, Errno> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | how;
        Ok(rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o666))?.into())
    }

    fn link(&self, name: &OsStr) -> Result<(), Errno> {
        let from = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        rustix::fs::linkat(rustix::fs::CWD, from, self.folder, name, AtFlags::SYMLINK_FOLLOW)
    }

    fn finish(self) -> Result<Metadata, Refusal> {
        sync_names(self.folder);
        self.file.metadata().map_err(system)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = rustix::fs::unlinkat(self.folder, name, AtFlags::empty());
        }
    }
}

/// Removes a name of a file from a folder.
pub(crate) fn unlink(folder: &OwnedFd, name: &OsStr) -> Result<(), Refusal> {
    rustix::fs::unlinkat(folder, name, AtFlags::empty())?;
    sync_names(folder);
    Ok(())
}

/// Brings forward when what was done to the names of a folder survives a power cut; it is done whatever this says.
fn sync_names(folder: &OwnedFd) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let _ = rustix::fs::openat(folder, ".", flags, Mode::empty()).and_then(rustix::fs::fsync);
}

/// A name that nothing else has; the keys of a `RandomState` are the standard library's only source of chance.
fn draft_name() -> OsString {
    format!("{PREFIX}{:016x}", RandomState::new().hash_one(std::process::id())).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a folder holds after `act` worked in it with a draft that has a name from the start.
    fn after(act: impl FnOnce(Draft<'_>)) -> Vec<(OsString, Vec<u8>)> {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("taken"), "old").unwrap();
        let folder = rustix::fs::open(place.path(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let mut draft = Draft::create_named(&folder).unwrap();
        draft.file.write_all(b"new").unwrap();
        act(draft);
        let entries = std::fs::read_dir(place.path()).unwrap().map(Result::unwrap);
        let mut held: Vec<_> = entries.map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap())).collect();
        held.sort();
        held
    }

    fn held(files: &[(&str, &str)]) -> Vec<(OsString, Vec<u8>)> {
        files.iter().map(|(name, bytes)| (OsString::from(name), bytes.as_bytes().to_vec())).collect()
    }

    #[test]
    fn a_file_system_without_nameless_files_sees_no_half_written_one_either() {
        assert_eq!(after(|draft| drop(draft)), held(&[("taken", "old")]));
        let replaced = after(|draft| assert!(draft.publish_over(OsStr::new("taken")).is_ok()));
        assert_eq!(replaced, held(&[("taken", "new")]));
        let created = after(|draft| assert!(draft.publish_new(OsStr::new("free")).is_ok()));
        assert_eq!(created, held(&[("free", "new"), ("taken", "old")]));
        let refused = after(|draft| assert!(draft.publish_new(OsStr::new("taken")).is_err()));
        assert_eq!(refused, held(&[("taken", "old")]));
    }

    #[test]
    fn only_the_exact_form_of_a_name_is_a_half_written_file() {
        assert!(is_draft(&draft_name()));
        for name in [".hames-write-", ".hames-write-0123456789abcde", ".hames-write-0123456789abcdeg", "x"] {
            assert!(!is_draft(OsStr::new(name)), "{name}");
        }
    }
}
