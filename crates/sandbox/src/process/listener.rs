//! The kernel's notifications of system calls (seccomp_unotify(2)): the few calls that std and rustix do not have.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use rustix::io::{IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType,
};
use seccompiler::BpfProgram;

/// The longest path that the kernel takes, its end included (`PATH_MAX` in linux/limits.h).
const PATH_BYTES: usize = 4096;
/// A bound for the kernel's pages; reads of another process's memory end at one.
const PAGE_BYTES: usize = 4096;

/// A filter to be installed in a new process, and the way back for its listener.
pub(crate) struct Installation {
    instructions: Vec<libc::sock_filter>,
    socket: OwnedFd,
}

/// Where the listener arrives.
pub(crate) struct Arrival(OwnedFd);

/// Prepares installing `program` in a process to be made.
///
/// # Errors
/// When the system has no descriptor left.
pub(crate) fn prepare(program: &BpfProgram) -> io::Result<(Installation, Arrival)> {
    let flags = SocketFlags::CLOEXEC;
    let (here, there) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    let instruction =
        |one: &seccompiler::sock_filter| libc::sock_filter { code: one.code, jt: one.jt, jf: one.jf, k: one.k };
    Ok((Installation { instructions: program.iter().map(instruction).collect(), socket: there }, Arrival(here)))
}

impl Installation {
    /// Installs the filter in the calling process and sends its listener; where the kernel does not allow one, goes on
    /// without. Only system calls, for use between fork and exec.
    ///
    /// # Errors
    /// When the filter is installed and the listener cannot be sent: nobody would answer then.
    pub(crate) fn install(&self) -> io::Result<()> {
        rustix::thread::set_no_new_privs(true)?;
        let program = libc::sock_fprog {
            len: self.instructions.len() as libc::c_ushort,
            filter: self.instructions.as_ptr().cast_mut(),
        };
        // A call that was taken up is not interrupted by signals that do not kill: runtimes send themselves many.
        let fits = [libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, 0];
        let listener = fits.into_iter().find_map(|flag| {
            let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | flag;
            // SAFETY: `program` points to as many instructions as it says, which outlive the call; the kernel copies
            // them and writes to nothing.
            let fd =
                unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
            let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
            // SAFETY: the kernel has just made this descriptor for us alone.
            Some(unsafe { OwnedFd::from_raw_fd(fd) })
        });
        let Some(listener) = listener else { return Ok(()) };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut message = SendAncillaryBuffer::new(&mut space);
        let descriptors = [std::os::fd::AsFd::as_fd(&listener)];
        message.push(SendAncillaryMessage::ScmRights(&descriptors));
        rustix::net::sendmsg(&self.socket, &[IoSlice::new(b"l")], &mut message, SendFlags::empty())?;
        Ok(())
    }
}

impl Arrival {
    /// The listener that a process, which has executed its program by now, has sent; none when it has not.
    pub(crate) fn listener(self) -> Option<OwnedFd> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        rustix::net::recvmsg(&self.0, &mut [IoSliceMut::new(&mut byte)], &mut control, flags).ok()?;
        control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        })
    }
}

/// A system call that waits for an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Notification {
    id: u64,
    /// The calling thread, as this process sees it.
    pub(crate) thread: u32,
    /// The call's number.
    pub(crate) call: libc::c_long,
    /// Its arguments.
    pub(crate) arguments: [u64; 6],
}

/// Has waiting and waking happen on one processor, where the kernel can (6.6): half the time of a notification.
pub(crate) fn wake_in_step(listener: BorrowedFd<'_>) {
    const SYNC_WAKE_UP: u64 = 1;
    // SAFETY: a listener's descriptor and a number. Without effect where it is not known.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP) };
}

/// Takes the next notification; none when its process has ended meanwhile.
pub(crate) fn receive(listener: BorrowedFd<'_>) -> Option<Notification> {
    // SAFETY: all fields are integers, for which zero is a value; the kernel wants them zero.
    let mut raw: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the request writes one `seccomp_notif` to the pointer.
    let done = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut raw) };
    (done == 0).then(|| Notification {
        id: raw.id,
        thread: raw.pid,
        call: raw.data.nr.into(),
        arguments: raw.data.args,
    })
}

/// Lets the call go on as if nobody had looked.
pub(crate) fn answer(listener: BorrowedFd<'_>, notification: &Notification) {
    let mut raw = libc::seccomp_notif_resp {
        id: notification.id,
        val: 0,
        error: 0,
        flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
    };
    // SAFETY: the request reads one `seccomp_notif_resp`. It fails when the process is gone, which is as well.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut raw) };
}

/// Has the call fail with `error`.
pub(crate) fn refuse(listener: BorrowedFd<'_>, notification: &Notification, error: rustix::io::Errno) {
    let mut raw = libc::seccomp_notif_resp { id: notification.id, val: 0, error: -error.raw_os_error(), flags: 0 };
    // SAFETY: the request reads one `seccomp_notif_resp`. It fails when the process is gone, which is as well.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut raw) };
}

/// Whether the call still waits, so that what was read of its process was that process's.
pub(crate) fn is_valid(listener: BorrowedFd<'_>, notification: &Notification) -> bool {
    let id = notification.id;
    // SAFETY: the request reads one `u64`.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) == 0 }
}

/// The text that ends in NUL at an address of another process.
pub(crate) fn read_text(thread: u32, address: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; PATH_BYTES];
    let count = read_memory(thread, address, &mut bytes)?;
    bytes.truncate(count);
    let end = bytes.iter().position(|&byte| byte == 0)?;
    bytes.truncate(end);
    Some(bytes)
}

/// The number of eight bytes at an address of another process.
pub(crate) fn read_number(thread: u32, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    (read_memory(thread, address, &mut bytes)? == bytes.len()).then(|| u64::from_ne_bytes(bytes))
}

/// Copies memory of another process up to where it ends; returns how much.
fn read_memory(thread: u32, address: u64, bytes: &mut [u8]) -> Option<usize> {
    let address = usize::try_from(address).ok().filter(|address| *address != 0)?;
    // A piece is copied whole or not at all, so a page's end is a piece's end.
    let first = bytes.len().min(PAGE_BYTES - address % PAGE_BYTES);
    let piece = |start: usize, length: usize| libc::iovec { iov_base: start as *mut libc::c_void, iov_len: length };
    let pieces = [piece(address, first), piece(address.checked_add(first)?, bytes.len() - first)];
    let here = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let pid = libc::pid_t::try_from(thread).ok()?;
    // SAFETY: `here` describes `bytes`, which is exclusively ours; the other addresses are the other process's, and
    // the kernel checks them.
    let count = unsafe { libc::process_vm_readv(pid, &raw const here, 1, pieces.as_ptr(), 2, 0) };
    usize::try_from(count).ok()
}
