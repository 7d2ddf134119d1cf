//! The host's network, for who allows it by name.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use hames_protocol::Network;
use hames_protocol::port::{Exit, Sandbox as _};

use crate::process::{World, run, runtime, shell, text};

#[test]
fn with_the_full_network_listeners_of_the_host_are_reached_and_without_it_they_are_not() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let name = format!("hames-network-{}", std::process::id());
    let _abstract = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let line = format!(
        "(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo tcp
        python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"\\0{name}\")' 2>/dev/null && echo abstract
        exit 0"
    );
    let check = |network: Network, expected: &str| {
        let world = World { network, ..World::new() };
        let sandbox = world.sandbox();
        assert_eq!(sandbox.network(), network);
        assert_eq!(text(&run(&sandbox, shell(&line)).unwrap()), expected, "{network:?}");
    };
    check(Network::None, "");
    check(Network::Full, "tcp\nabstract\n");
}

#[test]
fn with_the_full_network_names_are_resolved_as_on_the_host() {
    let world = World { network: Network::Full, ..World::new() };
    let finished = world.bash("cat /etc/hosts; cmp /etc/resolv.conf - && echo same");
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap();
    assert!(text(&finished).ends_with(&hosts) || text(&finished).contains(&hosts), "{}", text(&finished));
    let resolver = |network| text(&World { network, ..World::new() }.bash("cat /etc/resolv.conf 2>/dev/null"));
    assert_eq!(resolver(Network::Full), std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default());
    assert_eq!(resolver(Network::None), "");
}

#[test]
fn with_the_full_network_a_command_still_has_no_right_over_it() {
    let world = World { network: Network::Full, ..World::new() };
    let finished = world.bash("grep CapEff /proc/self/status; ip link set lo down 2>/dev/null && echo changed; exit 0");
    assert_eq!((text(&finished).as_str(), finished.exit), ("CapEff:\t0000000000000000\n", Exit::Code(0)));
}

#[test]
fn with_the_full_network_a_job_is_reached_as_well() {
    let world = World { network: Network::Full, ..World::new() };
    let sandbox = world.sandbox();
    runtime().block_on(async {
        let job = sandbox.start(shell("echo up; sleep 300")).await.unwrap();
        job.end().await;
        assert_eq!(job.news(hames_protocol::port::Until::End, 0).await.unwrap().exit, Some(Exit::Signal(9)));
    });
}
