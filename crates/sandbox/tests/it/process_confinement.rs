//! What a command cannot see or reach.
//!
//! Each test states what is refused inside the sandbox, with something real on the host to be refused.

use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use hames_protocol::port::{CommandSpec, Tmp};
use hames_sandbox::Mode;

use crate::process::{World, path_exists, run, shell, text};

#[test]
fn nothing_of_the_host_but_the_system_and_the_workspace_is_visible() {
    let world = World::with(&[("mine", "")]);
    fs::write(world.outside().join("secret"), "canary").unwrap();
    let finished =
        world.bash("ls -A /; ls -A /home /root /mnt /srv /media /sys /boot 2>/dev/null; ls -A /run /run/hames");
    let seen = text(&finished);
    let known = "bin dev etc lib lib32 lib64 libx32 nix opt proc run sbin tmp usr var hames home /run: /run/hames:";
    let known: Vec<&str> = known.split(' ').collect();
    let beneath = world.root().components().nth(1).unwrap().as_os_str().to_str().unwrap().to_owned();
    for name in seen.split_whitespace() {
        assert!(known.contains(&name) || name == beneath, "`{name}` is visible:\n{seen}");
    }
    let line = format!("cat {}/secret; ls -A {}", world.outside().display(), world.outside().display());
    assert_eq!(text(&world.bash(&line)).lines().last(), Some("ws"));
    assert!(!text(&world.bash("cat /etc/shadow /etc/gshadow /etc/sudoers")).contains("root:"));
    assert_eq!(text(&world.bash("ls")), "mine\n");
}

#[test]
fn nothing_but_the_workspace_and_tmp_is_writable() {
    let world = World::new();
    // Opening is enough to tell: nothing is written to the host should this fail.
    let line = "for at in / /usr /usr/local/bin /etc /run /var /opt /home /etc/passwd /proc/sys/kernel/core_pattern \
            /proc/sysrq-trigger /proc/$$/mem /proc/1/mem; do
            { mkdir $at/canary || : >> $at; } 2>/dev/null && echo \"opened $at\"
        done
        touch here /tmp/here /dev/shm/here $HOME/here && echo fine";
    assert_eq!(text(&world.bash(line)), "fine\n");
    assert!(path_exists(&world.root().join("here")));
    assert!(path_exists(&world.state().join("tmp/here")));
    assert_eq!(text(&world.bash("ls -A $HOME /dev/shm | grep here")), "", "nothing else stays");
    assert!(!path_exists(std::path::Path::new("/dev/shm/here")));
}

#[test]
fn the_read_only_mode_writes_only_to_tmp() {
    let world = World { mode: Mode::ReadOnly, ..World::with(&[("mine", "as it was")]) };
    let finished = world.bash("echo x > mine; touch new; mkdir folder; echo x > /tmp/fine; cat mine");
    assert!(text(&finished).ends_with("as it was"), "{}", text(&finished));
    assert_eq!(fs::read_dir(world.root()).unwrap().count(), 1);
}

#[test]
fn no_variable_of_the_host_is_seen_but_those_on_the_list() {
    let world = World::new();
    let line =
        "env; tr '\\0' '\\n' < /proc/1/environ; tr '\\0' '\\n' < /proc/$PPID/environ; tr '\\0' '\\n' < /proc/1/cmdline";
    let seen = text(&world.bash(line));
    // The test runner itself sets these.
    for (name, value) in std::env::vars() {
        if name.starts_with("CARGO") || name.contains("TOKEN") || name.contains("KEY") {
            assert!(!seen.contains(&format!("{name}=")), "{name}");
        }
        if value.len() > 20 && !["LANG", "PATH"].contains(&name.as_str()) {
            assert!(!seen.contains(&format!("={value}\n")), "{name}");
        }
    }
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "there was something to hide");
    assert!(seen.contains("HOME=/run/hames/home\n") && seen.contains("TMPDIR=/tmp\n"), "{seen}");
    assert!(!seen.contains(world.state().to_str().unwrap()), "host paths are hidden:\n{seen}");
}

#[test]
fn the_home_holds_the_git_identity_and_nothing_else() {
    let finished = World::new().bash("ls -A ~; git config --global user.name; git config --global user.email");
    assert_eq!(text(&finished), ".gitconfig\nAda \"Countess\" L\nada@example.org\n");
}

#[test]
fn no_listener_of_the_host_is_reached() {
    let world = World::new();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    tcp.set_nonblocking(true).unwrap();
    let port = tcp.local_addr().unwrap().port();
    let outside = world.outside().join("outside.sock");
    let path = UnixListener::bind(&outside).unwrap();
    path.set_nonblocking(true).unwrap();
    let name = format!("hames-test-{}", std::process::id());
    let hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    hidden.set_nonblocking(true).unwrap();
    let line = format!(
        "python3 - <<'EOF'
import socket
def attempt(family, kind, address):
    try:
        socket.socket(family, kind).connect(address)
        print('reached', address)
    except OSError as error:
        print('refused')
attempt(socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', {port}))
attempt(socket.AF_INET, socket.SOCK_STREAM, ('192.0.2.1', 80))
attempt(socket.AF_INET, socket.SOCK_DGRAM, ('192.0.2.1', 53))
attempt(socket.AF_INET6, socket.SOCK_STREAM, ('2001:db8::1', 80))
attempt(socket.AF_UNIX, socket.SOCK_STREAM, '{}')
attempt(socket.AF_UNIX, socket.SOCK_STREAM, '\\0{name}')
EOF
(echo > /dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo reached",
        outside.display()
    );
    assert_eq!(text(&world.bash(&line)), "refused\n".repeat(6));
    assert!(tcp.accept().is_err() && path.accept().is_err() && hidden.accept().is_err());
}

#[test]
fn no_process_of_the_host_is_seen_or_signalled() {
    let finished = World::new().bash(&format!(
        "ls -d /proc/[0-9]* | wc -l; kill -0 {pid} 2>/dev/null && echo signalled; cat /proc/{pid}/environ 2>/dev/null",
        pid = std::process::id()
    ));
    let count: u32 = text(&finished).trim().parse().unwrap_or_else(|_| panic!("{}", text(&finished)));
    assert!(count <= 6, "{count} processes");
}

#[test]
fn the_command_has_no_capability_and_no_terminal() {
    let finished =
        World::new().bash("grep -E 'CapEff|CapPrm|CapBnd|NoNewPrivs' /proc/self/status; (: < /dev/tty) 2>&1");
    let seen = text(&finished);
    assert_eq!(seen.matches("0000000000000000").count(), 3, "{seen}");
    assert!(seen.contains("NoNewPrivs:\t1"), "{seen}");
    assert!(seen.contains("No such device"), "{seen}");
}

#[test]
fn the_workspace_keeps_its_path_wherever_it_lies() {
    for at in ["/tmp", "/tmp/PID/deep", "/var/tmp/PID", "/home/PID", "/root/PID"] {
        let unique = format!("hames-test-{}", std::process::id());
        let folder = std::path::PathBuf::from(at.replace("PID", &unique));
        let root = folder.join(format!("{unique}-ws"));
        // An ordinary user may not write everywhere.
        if fs::create_dir_all(&root).is_err() {
            continue;
        }
        let root = root.canonicalize().unwrap();
        fs::write(root.join("file"), "here").unwrap();
        let world = World::new();
        let mut config = world.config();
        config.root = root.clone();
        config.protection =
            std::sync::Arc::new(hames_sandbox::Protection::new(&config.root, Default::default()).unwrap());
        let sandbox = hames_sandbox::Bubblewrap::new(config).unwrap();
        for tmp in [Tmp::Session, Tmp::Fresh] {
            let finished = run(&sandbox, CommandSpec { tmp, ..shell("pwd -P; cat file; echo > new") }).unwrap();
            assert_eq!(text(&finished), format!("{}\nhere", root.display()), "{at}");
            assert!(path_exists(&root.join("new")), "{at}");
            fs::remove_file(root.join("new")).unwrap();
        }
        fs::remove_dir_all(&root).unwrap();
        if folder.ends_with(&unique) {
            fs::remove_dir(&folder).unwrap();
        } else if at != "/tmp" {
            fs::remove_dir_all(folder.parent().unwrap()).unwrap();
        }
    }
}

#[test]
fn tools_of_the_system_run() {
    for (program, line) in [
        ("python3", "python3 -c 'import ssl, json, unittest; print(\"ok\")'"),
        ("gcc", "echo 'int main(){return 0;}' > a.c && gcc a.c -o a && ./a && echo ok"),
        ("perl", "perl -e 'print \"ok\\n\"'"),
        ("git", "git --version >/dev/null && echo ok"),
        ("node", "node -e 'console.log(\"ok\")'"),
        ("java", "java -version 2>/dev/null && echo ok"),
        ("awk", "awk 'BEGIN { print \"ok\" }'"),
    ] {
        if !path_exists(&std::path::Path::new("/usr/bin").join(program)) {
            continue;
        }
        let finished = World::new().bash(line);
        assert_eq!(text(&finished), "ok\n", "{program}");
    }
}
