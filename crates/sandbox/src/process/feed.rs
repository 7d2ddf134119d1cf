//! Output on its way from the supervising thread to the future that passes it on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// How much may wait before the command's output is left in its pipe, in bytes.
const ROOM: usize = 1 << 20;

/// The end that output is put in. Never blocks.
#[derive(Debug)]
pub(crate) struct Feed {
    sender: UnboundedSender<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
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
    (Feed { sender, waiting: Arc::clone(&waiting) }, FeedReader { receiver, waiting })
}

impl Feed {
    /// Puts bytes in; they are dropped when nobody reads any more.
    pub(crate) fn push(&self, bytes: &[u8]) {
        self.waiting.fetch_add(bytes.len(), Ordering::Relaxed);
        if self.sender.send(bytes.to_vec()).is_err() {
            self.waiting.store(0, Ordering::Relaxed);
        }
    }

    /// Whether the reader is behind, so that no more should be put in for now.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) >= ROOM && !self.sender.is_closed()
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
