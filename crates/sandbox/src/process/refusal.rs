//! The system calls that no command may make.
//!
//! What is refused either reaches around the sandbox (other processes' memory, mounts, namespaces, the terminal), or
//! is a part of the kernel that ordinary programs do without and that has often been the way out.

use std::io;

use seccompiler::{BpfProgram, SeccompCmpOp};

use super::filter::{self, Rules, Verdict, all, argument};

/// Refused whatever their arguments.
const REFUSED: [libc::c_long; 50] = [
    // Other processes' memory and descriptors.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Mounts and roots.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_open_by_handle_at,
    // Namespaces; making them with clone is below.
    libc::SYS_setns,
    libc::SYS_unshare,
    // Keys are not kept apart by namespaces.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Large parts of the kernel.
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    // These would do what is refused above, past this filter.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // The machine itself.
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
];

/// More of the machine itself, on x86_64.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: [libc::c_long; 3] = [libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: [libc::c_long; 0] = [];

/// Flags of clone that make a namespace (linux/sched.h).
const NEW_NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Personalities that may be set: none, the 2.6 version number, 32 bits, both, and to ask (linux/personality.h).
const PERSONALITIES: [u32; 5] = [0, 0x20000, 0x0008, 0x20008, 0xffff_ffff];

/// What types into or draws on the terminal (asm-generic/ioctls.h).
const TERMINAL_REQUESTS: [u32; 2] = [0x5412, 0x541c];

/// Socket families that no network namespace keeps apart: virtual machines', and the kernel's cryptography.
const FAMILIES: [libc::c_int; 2] = [libc::AF_VSOCK, libc::AF_ALG];

/// The filters, each to be loaded.
///
/// # Errors
/// When this machine's architecture is not known.
pub(crate) fn filters() -> io::Result<[BpfProgram; 2]> {
    let mut refused = Rules::new();
    for call in REFUSED.iter().chain(&REFUSED_HERE) {
        refused.insert(*call, Vec::new());
    }
    let is = |index: u8, value: u32| all(vec![argument(index, SeccompCmpOp::Eq, value)?]);
    let has = |index: u8, flag: u32| all(vec![argument(index, SeccompCmpOp::MaskedEq(flag.into()), flag)?]);
    let clone: io::Result<_> = NEW_NAMESPACES.iter().map(|flag| has(0, flag.cast_unsigned())).collect();
    refused.insert(libc::SYS_clone, clone?);
    let ioctl: io::Result<_> = TERMINAL_REQUESTS.iter().map(|request| is(1, *request)).collect();
    refused.insert(libc::SYS_ioctl, ioctl?);
    let socket: io::Result<_> = FAMILIES.iter().map(|family| is(0, family.cast_unsigned())).collect();
    refused.insert(libc::SYS_socket, socket?);
    let others: io::Result<_> = PERSONALITIES.iter().map(|value| argument(0, SeccompCmpOp::Ne, *value)).collect();
    refused.insert(libc::SYS_personality, vec![all(others?)?]);

    // Its flags lie in memory, where a filter cannot look; a C library falls back to clone.
    let unknown = Rules::from([(libc::SYS_clone3, Vec::new())]);
    Ok([filter::build(refused, Verdict::Fail(libc::EPERM))?, filter::build(unknown, Verdict::Fail(libc::ENOSYS))?])
}
