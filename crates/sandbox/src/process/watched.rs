//! The system calls by which a path can be changed: which arguments name it, and the filter that picks them out.

use std::io;

use seccompiler::{BpfProgram, SeccompCmpOp};

use super::filter::{self, Rules, Verdict, all, argument, whole_argument};

/// How a call touches the path that an argument names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touches {
    /// What the path leads to, through a link at its end.
    Content,
    /// The name itself: it is made, moved or removed.
    Entry,
    /// A folder of this name is made; where one is, nothing happens.
    Folder,
}

/// A path argument.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathArgument {
    /// The argument that holds the descriptor which a relative path starts from; the working directory without one.
    pub(crate) folder: Option<usize>,
    /// The argument that points to the path.
    pub(crate) path: usize,
    /// How it is touched.
    pub(crate) touches: Touches,
}

/// A call to be looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watched {
    /// Its number.
    pub(crate) call: libc::c_long,
    /// What it would do, in words.
    pub(crate) action: &'static str,
    /// The paths that it would do it to.
    pub(crate) paths: &'static [PathArgument],
}

/// An argument for the calls of the `at` family.
const fn at(folder: usize, touches: Touches) -> PathArgument {
    PathArgument { folder: Some(folder), path: folder + 1, touches }
}

/// An argument that starts from the working directory.
#[cfg(target_arch = "x86_64")]
const fn plain(path: usize, touches: Touches) -> PathArgument {
    PathArgument { folder: None, path, touches }
}

use Touches::{Content, Entry, Folder};

/// Number of fchmodat2, the same on every architecture (asm-generic/unistd.h).
const SYS_FCHMODAT2: libc::c_long = 452;

const OPENS: &str = "open for writing";
const RENAMES: &str = "rename";
const REMOVES: &str = "remove";
const LINKS: &str = "hard link";
const SYMLINKS: &str = "link";
const MODES: &str = "change the mode";
const OWNERS: &str = "change the owner";
const TIMES: &str = "change the time";
const CUTS: &str = "truncate";
const MAKES: &str = "create";
const LABELS: &str = "change an attribute";

/// Calls that every architecture has.
const EVERYWHERE: [Watched; 17] = [
    Watched { call: libc::SYS_openat, action: OPENS, paths: &[at(0, Content)] },
    Watched { call: libc::SYS_openat2, action: OPENS, paths: &[at(0, Content)] },
    Watched { call: libc::SYS_renameat2, action: RENAMES, paths: &[at(0, Entry), at(2, Entry)] },
    Watched { call: libc::SYS_unlinkat, action: REMOVES, paths: &[at(0, Entry)] },
    Watched { call: libc::SYS_linkat, action: LINKS, paths: &[at(0, Entry), at(2, Entry)] },
    Watched {
        call: libc::SYS_symlinkat,
        action: SYMLINKS,
        paths: &[PathArgument { folder: Some(1), path: 2, touches: Entry }],
    },
    Watched { call: libc::SYS_mkdirat, action: MAKES, paths: &[at(0, Folder)] },
    Watched { call: libc::SYS_mknodat, action: MAKES, paths: &[at(0, Entry)] },
    Watched { call: libc::SYS_fchmodat, action: MODES, paths: &[at(0, Content)] },
    Watched { call: SYS_FCHMODAT2, action: MODES, paths: &[at(0, Content)] },
    Watched { call: libc::SYS_fchownat, action: OWNERS, paths: &[at(0, Content)] },
    Watched { call: libc::SYS_utimensat, action: TIMES, paths: &[at(0, Content)] },
    Watched {
        call: libc::SYS_truncate,
        action: CUTS,
        paths: &[PathArgument { folder: None, path: 0, touches: Content }],
    },
    Watched {
        call: libc::SYS_setxattr,
        action: LABELS,
        paths: &[PathArgument { folder: None, path: 0, touches: Content }],
    },
    Watched {
        call: libc::SYS_lsetxattr,
        action: LABELS,
        paths: &[PathArgument { folder: None, path: 0, touches: Entry }],
    },
    Watched {
        call: libc::SYS_removexattr,
        action: LABELS,
        paths: &[PathArgument { folder: None, path: 0, touches: Content }],
    },
    Watched {
        call: libc::SYS_lremovexattr,
        action: LABELS,
        paths: &[PathArgument { folder: None, path: 0, touches: Entry }],
    },
];

/// Older calls that only some architectures have.
#[cfg(target_arch = "x86_64")]
const HERE: [Watched; 16] = [
    Watched { call: libc::SYS_open, action: OPENS, paths: &[plain(0, Content)] },
    Watched { call: libc::SYS_creat, action: OPENS, paths: &[plain(0, Content)] },
    Watched { call: libc::SYS_rename, action: RENAMES, paths: &[plain(0, Entry), plain(1, Entry)] },
    Watched { call: libc::SYS_renameat, action: RENAMES, paths: &[at(0, Entry), at(2, Entry)] },
    Watched { call: libc::SYS_unlink, action: REMOVES, paths: &[plain(0, Entry)] },
    Watched { call: libc::SYS_rmdir, action: REMOVES, paths: &[plain(0, Entry)] },
    Watched { call: libc::SYS_link, action: LINKS, paths: &[plain(0, Entry), plain(1, Entry)] },
    Watched { call: libc::SYS_symlink, action: SYMLINKS, paths: &[plain(1, Entry)] },
    Watched { call: libc::SYS_mkdir, action: MAKES, paths: &[plain(0, Folder)] },
    Watched { call: libc::SYS_mknod, action: MAKES, paths: &[plain(0, Entry)] },
    Watched { call: libc::SYS_chmod, action: MODES, paths: &[plain(0, Content)] },
    Watched { call: libc::SYS_chown, action: OWNERS, paths: &[plain(0, Content)] },
    Watched { call: libc::SYS_lchown, action: OWNERS, paths: &[plain(0, Entry)] },
    Watched { call: libc::SYS_utime, action: TIMES, paths: &[plain(0, Content)] },
    Watched { call: libc::SYS_utimes, action: TIMES, paths: &[plain(0, Content)] },
    Watched { call: libc::SYS_futimesat, action: TIMES, paths: &[at(0, Content)] },
];
#[cfg(not(target_arch = "x86_64"))]
const HERE: [Watched; 0] = [];

/// The call of this number.
pub(crate) fn find(call: libc::c_long) -> Option<&'static Watched> {
    EVERYWHERE.iter().chain(HERE.iter()).find(|watched| watched.call == call)
}

/// Whether flags of an open allow to change the file.
pub(crate) fn opens_for_writing(flags: u64) -> bool {
    let flags = flags as libc::c_int;
    flags & libc::O_ACCMODE != libc::O_RDONLY || flags & (libc::O_CREAT | libc::O_TRUNC) != 0
}

/// Exit codes by which an ordinary end cannot be told from that by a signal, as a shell writes both.
pub(crate) const DOUBTFUL_EXITS: std::ops::RangeInclusive<u32> = 129..=192;

/// The filter that has the supervisor asked: the calls above, and ends with a doubtful exit code.
///
/// # Errors
/// When this machine's architecture is not known.
pub(crate) fn filter() -> io::Result<BpfProgram> {
    let mut rules = Rules::new();
    for watched in EVERYWHERE.iter().chain(HERE.iter()) {
        rules.insert(watched.call, Vec::new());
    }
    let mask = |index: u8, mask: libc::c_int, value: libc::c_int| {
        all(vec![argument(index, SeccompCmpOp::MaskedEq(mask.cast_unsigned().into()), value.cast_unsigned())?])
    };
    let writes = |index: u8| -> io::Result<_> {
        Ok(vec![
            mask(index, libc::O_ACCMODE, libc::O_WRONLY)?,
            mask(index, libc::O_ACCMODE, libc::O_RDWR)?,
            mask(index, libc::O_CREAT, libc::O_CREAT)?,
            mask(index, libc::O_TRUNC, libc::O_TRUNC)?,
        ])
    };
    rules.insert(libc::SYS_openat, writes(2)?);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, writes(1)?);
    // Without a path it is about a descriptor, which was opened before.
    rules.insert(libc::SYS_utimensat, vec![all(vec![whole_argument(1, SeccompCmpOp::Ne, 0)?])?]);
    let exits = vec![
        argument(0, SeccompCmpOp::Ge, *DOUBTFUL_EXITS.start())?,
        argument(0, SeccompCmpOp::Le, *DOUBTFUL_EXITS.end())?,
    ];
    rules.insert(libc::SYS_exit_group, vec![all(exits)?]);
    filter::build(rules, Verdict::Notify)
}
