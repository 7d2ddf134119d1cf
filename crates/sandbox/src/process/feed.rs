//! Output on its way from the supervising thread to the future that passes it on, or to the backlog of a job.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hames_protocol::port::Attempt;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::job::Backlog;

/// How much may wait before the command's output is left in its pipe, in bytes.
const ROOM: usize = 1 << 20;

/// The end that output is put in. Never blocks.
#[derive(Debug)]
pub(crate) struct Feed(Sink);

#[derive(Debug)]
enum Sink {
    Reader { sender: UnboundedSender<Vec<u8>>, waiting: Arc<AtomicUsize> },
    Backlog(Arc<Backlog>),
}

/// The end that output is taken from.
#[derive(Debug)]
pub(crate) struct FeedReader {
    receiver: UnboundedReceiver<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
}

/// Makes the two ends.
pub(crate) fn feed() -> (Feed, FeedReader) {
    let (sender, receiver) = unbounded_channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    (Feed(Sink::Reader { sender, waiting: Arc::clone(&waiting) }), FeedReader { receiver, waiting })
}

impl Feed {
    /// A feed that ends in a backlog, which is never full.
    pub(crate) fn keep(backlog: Arc<Backlog>) -> Self {
        Self(Sink::Backlog(backlog))
    }

    /// Puts bytes in; they are dropped when nobody reads any more.
    pub(crate) fn push(&self, bytes: &[u8]) {
        match &self.0 {
            Sink::Reader { sender, waiting } => {
                waiting.fetch_add(bytes.len(), Ordering::Relaxed);
                if sender.send(bytes.to_vec()).is_err() {
                    waiting.store(0, Ordering::Relaxed);
                }
            }
            Sink::Backlog(backlog) => backlog.print(bytes),
        }
    }

    /// Tells what was tried on protected paths so far; others learn it when the command has ended.
    pub(crate) fn attempted(&self, attempts: &[Attempt]) {
        if let Sink::Backlog(backlog) = &self.0 {
            backlog.attempt(attempts);
        }
    }

    /// Whether the reader is behind, so that no more should be put in for now.
    pub(crate) fn is_full(&self) -> bool {
        match &self.0 {
            Sink::Reader { sender, waiting } => waiting.load(Ordering::Relaxed) >= ROOM && !sender.is_closed(),
            Sink::Backlog(_) => false,
        }
    }
}

impl FeedReader {
    /// The next bytes; none when the other end is gone.
    pub(crate) async fn next(&mut self) -> Option<Vec<u8>> {
        let bytes = self.receiver.recv().await?;
        self.waiting.fetch_sub(bytes.len().min(self.waiting.load(Ordering::Relaxed)), Ordering::Relaxed);
        Some(bytes)
    }
}
