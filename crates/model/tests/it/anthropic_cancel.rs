//! Dropping an attempt ends it at the provider too, and leaves nothing behind.

use std::time::Duration;

use hames_model::{Client, ClientConfig};
use hames_protocol::port::Model;
use hames_protocol::{AttemptNo, Block, Head, Message, Request, SessionId};

use crate::script_server::{eventually, serve};

/// How many sockets of this process are connected to a port of this machine.
fn connections_to(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let connected = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields[2].ends_with(&format!(":{port:04X}")) && fields[3] == "01"
    };
    table.lines().skip(1).filter(connected).count()
}

#[tokio::test]
async fn a_hundred_cancelled_attempts_leave_no_connection_behind() {
    let hangs = [
        "{fault: hang}",
        "{text: abcdef, fault: {hang: {after_events: 0}}}",
        "{text: abcdef, fault: {hang: {after_events: 4}}}",
    ];
    let yaml: Vec<&str> = hangs.into_iter().cycle().take(100).chain(["{text: done}"]).collect();
    let server = serve(&format!("[{}]", yaml.join(","))).await;
    let base_url = Some(server.base_url());
    let client = Client::new(ClientConfig { base_url, ..ClientConfig::anthropic("any", "any") }).unwrap();
    for attempt in 1..=100 {
        let arrived = server.received().len();
        let sending = client.send(request_of(&client, attempt), &|_| {});
        let is_there = async {
            while server.received().len() == arrived {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        // The one that is not there first is dropped, which is what a cancel does.
        tokio::select! {
            result = sending => panic!("{result:?}"),
            () = is_there => {}
        }
        eventually(|| server.hang_ups() == usize::try_from(attempt).unwrap()).await;
    }
    eventually(|| connections_to(server.address().port()) == 0).await;
    client.send(request_of(&client, 101), &|_| {}).await.unwrap();
}

fn request_of(client: &Client, attempt: u32) -> Request {
    Request {
        head: client.encode_head(&Head { system: "s".to_owned(), tools: Vec::new() }),
        messages: vec![client.encode(&Message::User(vec![Block::text("a")]))],
        session: SessionId::new("s"),
        attempt: AttemptNo(attempt),
    }
}
