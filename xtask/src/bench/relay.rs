//! A way to the script server that keeps every request's bytes and when the first came.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::Context as _;

/// The relay; it lives as long as this process, and nobody comes any more once a run is over.
pub(super) struct Relay {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    first: Option<Instant>,
    bytes: Vec<u8>,
}

impl Relay {
    pub(super) fn to(server: &str) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, seen) = (listener.local_addr()?, Arc::<Mutex<Seen>>::default());
        let (server, notes) = (server.to_owned(), Arc::clone(&seen));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (server, notes) = (server.clone(), Arc::clone(&notes));
                // A connection that breaks fails the run, which says so.
                std::thread::spawn(move || pass_on(client, &server, &notes));
            }
        });
        Ok(Self { address, seen })
    }

    pub(super) fn address(&self) -> String {
        self.address.to_string()
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// When the first byte came, in milliseconds after `began`.
    pub(super) fn first_after(&self, began: Instant) -> anyhow::Result<f64> {
        let first = self.seen().first.context("no request was sent")?;
        Ok(first.duration_since(began).as_secs_f64() * 1e3)
    }

    /// Every request as it was sent.
    pub(super) fn requests(&self) -> Vec<Vec<u8>> {
        let bytes = std::mem::take(&mut self.seen().bytes);
        let (mut requests, mut rest) = (Vec::new(), bytes.as_slice());
        while let Some(length) = length_of(rest).filter(|length| *length <= rest.len()) {
            requests.push(rest[..length].to_vec());
            rest = &rest[length..];
        }
        requests
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long the request is with which `bytes` begin.
fn length_of(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|part| part == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&bytes[..head]).ok()?;
    let body = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    Some(head + body.unwrap_or_default())
}

fn pass_on(mut client: TcpStream, server: &str, seen: &Mutex<Seen>) -> std::io::Result<()> {
    let mut server = TcpStream::connect(server)?;
    server.set_nodelay(true)?;
    client.set_nodelay(true)?;
    let (mut replies, mut back) = (server.try_clone()?, client.try_clone()?);
    std::thread::spawn(move || std::io::copy(&mut replies, &mut back));
    let mut bytes = vec![0; 1 << 16];
    loop {
        let length = client.read(&mut bytes)?;
        if length == 0 {
            return server.shutdown(Shutdown::Both);
        }
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.first.get_or_insert_with(Instant::now);
        seen.bytes.extend_from_slice(&bytes[..length]);
        drop(seen);
        server.write_all(&bytes[..length])?;
    }
}
