//! System calls that reach around the sandbox fail, and ordinary ones do not.

use hames_protocol::port::Exit;

use crate::process::{World, path_exists, text};

/// Makes system calls by number and prints the error numbers that they fail with.
const PROBE: &str = r#"
import ctypes, errno, platform
libc = ctypes.CDLL(None, use_errno=True)
def call(name, x86, arm, *arguments):
    number = x86 if platform.machine() == 'x86_64' else arm
    if number is None:
        return
    ctypes.set_errno(0)
    value = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(argument) for argument in arguments])
    print(name, errno.errorcode.get(ctypes.get_errno(), 0) if value < 0 else 'passed')
"#;

fn probe(calls: &str) -> String {
    text(&World::new().bash(&format!("python3 - <<'EOF'\n{PROBE}\n{calls}\nEOF")))
}

#[test]
fn calls_that_reach_around_the_sandbox_are_refused() {
    let seen = probe(
        "
call('ptrace', 101, 117, 0, 0, 0, 0)
call('process_vm_readv', 310, 270, 1, 0, 0, 0, 0, 0)
call('process_vm_writev', 311, 271, 1, 0, 0, 0, 0, 0)
call('pidfd_getfd', 438, 438, 0, 0, 0)
call('mount', 165, 40, 0, 0, 0, 0, 0)
call('umount2', 166, 39, 0, 0)
call('fsopen', 430, 430, 0, 0)
call('open_tree', 428, 428, -100, 0, 0)
call('move_mount', 429, 429, 0, 0, 0, 0, 0)
call('pivot_root', 155, 41, 0, 0)
call('chroot', 161, 51, 0)
call('setns', 308, 268, 0, 0)
call('unshare', 272, 97, 0x10000000)
call('keyctl', 250, 219, 0, 0, 0)
call('add_key', 248, 217, 0, 0, 0, 0, 0)
call('bpf', 321, 280, 0, 0, 0)
call('userfaultfd', 323, 282, 1)
call('perf_event_open', 298, 241, 0, 0, -1, -1, 0)
call('io_uring_setup', 425, 425, 1, 0)
call('kexec_load', 246, 104, 0, 0, 0, 0)
call('init_module', 175, 105, 0, 0, 0)
call('clone with a user namespace', 56, 220, 0x10000000 | 17, 0, 0, 0, 0)
call('clone with a process namespace', 56, 220, 0x20000000 | 17, 0, 0, 0, 0)
call('personality', 135, 92, 0x0040000)
call('typing into the terminal', 16, 29, 0, 0x5412, 0)
call('the same with high bits', 16, 29, 0, 0x100005412, 0)
call('drawing on the terminal', 16, 29, 0, 0x541c, 0)
call('socket of a virtual machine', 41, 198, 40, 1, 0)",
    );
    assert_eq!(seen.lines().count(), 28, "{seen}");
    for line in seen.lines() {
        assert!(line.ends_with(" EPERM"), "{line}");
    }
}

#[test]
fn calls_by_other_numbers_are_no_way_around() {
    let seen = probe("call('clone3', 435, 435, 0, 0)\ncall('x32 ptrace', 0x40000000 + 521, None, 0, 0, 0, 0)");
    for line in seen.lines() {
        assert!(line.ends_with(" ENOSYS"), "{line}");
    }
}

#[test]
fn ordinary_calls_pass() {
    let seen =
        probe("call('personality', 135, 92, 0xffffffff)\ncall('getpid', 39, 172)\ncall('socket', 41, 198, 2, 1, 0)");
    assert_eq!(seen, "personality passed\ngetpid passed\nsocket passed\n");
}

#[test]
fn no_new_namespace_is_had() {
    let finished = World::new()
        .bash("unshare -Ur true 2>/dev/null && echo made; unshare -r -m true 2>/dev/null && echo made; true");
    assert_eq!((text(&finished).as_str(), finished.exit), ("", Exit::Code(0)));
}

#[test]
fn programs_with_many_processes_and_a_new_runtime_work() {
    let world = World::new();
    let line = "python3 -c 'import concurrent.futures as f; print(sum(f.ThreadPoolExecutor(8).map(int, range(100))))'
        python3 -c 'import subprocess; print(subprocess.run([\"echo\", \"child\"], capture_output=True).stdout)'";
    assert_eq!(text(&world.bash(line)), "4950\nb'child\\n'\n");
    if path_exists(std::path::Path::new("/usr/bin/node")) {
        let line = "node -e 'require(\"fs\").readFile(\"/etc/passwd\", () => console.log(\"read\"))'";
        assert_eq!(text(&world.bash(line)), "read\n");
    }
}
