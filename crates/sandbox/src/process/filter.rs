//! Filters of system calls, in the kernel's own form.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    sock_filter,
};

/// Calls with a number from here on are of the x32 variant of x86_64 (`__X32_SYSCALL_BIT` in asm/unistd.h).
const X32_CALLS: u32 = 0x4000_0000;

/// When a call matches: each rule is a list of conditions that hold together; none at all is always.
pub(crate) type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// What happens to a call that matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It fails with this number.
    Fail(i32),
    /// The supervisor is asked.
    Notify,
}

/// Builds a filter that lets pass what does not match. Calls of other architectures end the process.
///
/// # Errors
/// When this machine's architecture is not known.
pub(crate) fn build(rules: Rules, verdict: Verdict) -> io::Result<BpfProgram> {
    let action = match verdict {
        Verdict::Fail(errno) => SeccompAction::Errno(errno.unsigned_abs()),
        // The builder does not know notifications; the action is exchanged below for the one it stands for.
        Verdict::Notify => SeccompAction::Trace(0),
    };
    let target = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, target).map_err(io::Error::other)?;
    let mut program: BpfProgram = filter.try_into().map_err(io::Error::other)?;
    if verdict == Verdict::Notify {
        for instruction in &mut program {
            let returns = u32::from(instruction.code) == libc::BPF_RET | libc::BPF_K;
            if returns && instruction.k == libc::SECCOMP_RET_TRACE {
                instruction.k = libc::SECCOMP_RET_USER_NOTIF;
            }
        }
    }
    Ok(if cfg!(target_arch = "x86_64") { without_x32(program) } else { program })
}

/// Lets calls of the x32 variant fail: the same calls under other numbers.
fn without_x32(program: BpfProgram) -> BpfProgram {
    let instruction = |code: u32, k: u32, jt: u8, jf: u8| sock_filter { code: code as u16, jt, jf, k };
    let mut whole = vec![
        // The number is the first field of `struct seccomp_data`.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, X32_CALLS, 0, 1),
        instruction(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs(), 0, 0),
    ];
    whole.extend(program);
    whole
}

/// The bytes of a program, as bubblewrap reads them.
pub(crate) fn to_bytes(program: &BpfProgram) -> Vec<u8> {
    let bytes = |one: &sock_filter| {
        let [code_low, code_high] = one.code.to_ne_bytes();
        let [a, b, c, d] = one.k.to_ne_bytes();
        [code_low, code_high, one.jt, one.jf, a, b, c, d]
    };
    program.iter().flat_map(bytes).collect()
}

/// A rule of conditions that hold together.
///
/// # Errors
/// Never for at least one condition.
pub(crate) fn all(conditions: Vec<SeccompCondition>) -> io::Result<SeccompRule> {
    SeccompRule::new(conditions).map_err(io::Error::other)
}

/// A condition on the lower half of an argument: all that the kernel reads of flags, numbers and request codes.
///
/// # Errors
/// Never for an argument that exists.
pub(crate) fn argument(index: u8, operator: SeccompCmpOp, value: u32) -> io::Result<SeccompCondition> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value.into()).map_err(io::Error::other)
}

/// A condition on a whole argument, such as a pointer.
///
/// # Errors
/// Never for an argument that exists.
pub(crate) fn whole_argument(index: u8, operator: SeccompCmpOp, value: u64) -> io::Result<SeccompCondition> {
    SeccompCondition::new(index, SeccompCmpArgLen::Qword, operator, value).map_err(io::Error::other)
}
