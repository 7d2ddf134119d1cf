//! A command that runs on its supervising thread, as a future that ends the command when it is dropped.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::event::EventfdFlags;
use tokio::sync::oneshot;

use super::feed::{self, Feed, FeedReader};

/// Work on a thread of its own that can be told to stop.
pub(crate) struct Running<T> {
    feed: FeedReader,
    result: oneshot::Receiver<T>,
    cancel: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Running<T> {
    /// Starts `work` on a thread. It must return soon after the descriptor that it is given becomes readable.
    ///
    /// # Errors
    /// When the system has no thread or descriptor left.
    pub(crate) fn start(work: impl FnOnce(&OwnedFd, &Feed) -> T + Send + 'static) -> std::io::Result<Self> {
        let (sending, feed) = feed::feed();
        let (done, result) = oneshot::channel();
        let cancel = Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?);
        let cancelled = Arc::clone(&cancel);
        let thread = std::thread::Builder::new().name("sandbox".to_owned()).spawn(move || {
            let value = work(&cancelled, &sending);
            drop(sending);
            // Nobody waits for the result of what was cancelled.
            let _ = done.send(value);
        })?;
        Ok(Self { feed, result, cancel, thread: Some(thread) })
    }

    /// Passes on the output as it comes, and then what the work returned; none when it panicked.
    pub(crate) async fn result(&mut self, output: &(dyn Fn(&[u8]) + Send + Sync)) -> Option<T> {
        while let Some(bytes) = self.feed.next().await {
            output(&bytes);
        }
        (&mut self.result).await.ok()
    }
}

impl<T> Drop for Running<T> {
    /// Stops the work and waits until it has stopped.
    fn drop(&mut self) {
        // Cannot fail: the counter is far from its end.
        let _ = rustix::io::write(&*self.cancel, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
