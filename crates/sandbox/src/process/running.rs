//! A command that runs on its supervising thread, and is ended when what holds it is dropped.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::event::EventfdFlags;
use tokio::sync::oneshot;

use super::feed::{self, Feed, FeedReader};

/// A thread that can be told to stop.
#[derive(Debug)]
pub(crate) struct Worker {
    cancel: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts `work`. It must return soon after the descriptor that it is given becomes readable.
    ///
    /// # Errors
    /// When the system has no thread or descriptor left.
    pub(crate) fn start(work: impl FnOnce(&OwnedFd) + Send + 'static) -> std::io::Result<Self> {
        let cancel = Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?);
        let cancelled = Arc::clone(&cancel);
        let thread = std::thread::Builder::new().name("sandbox".to_owned()).spawn(move || work(&cancelled))?;
        Ok(Self { cancel, thread: Some(thread) })
    }

    /// Tells the work to stop.
    pub(crate) fn cancel(&self) {
        // Cannot fail: the counter is far from its end.
        let _ = rustix::io::write(&*self.cancel, &1u64.to_ne_bytes());
    }
}

impl Drop for Worker {
    /// Stops the work and waits until it has stopped.
    fn drop(&mut self) {
        self.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Work on a thread of its own, with what it says meanwhile and what it comes to.
pub(crate) struct Running<T> {
    feed: FeedReader,
    result: oneshot::Receiver<T>,
    _worker: Worker,
}

impl<T: Send + 'static> Running<T> {
    /// As [`Worker::start`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn start(work: impl FnOnce(&OwnedFd, &Feed) -> T + Send + 'static) -> std::io::Result<Self> {
        let (sending, feed) = feed::feed();
        let (done, result) = oneshot::channel();
        let _worker = Worker::start(move |cancel| {
            let value = work(cancel, &sending);
            drop(sending);
            // Nobody waits for the result of what was cancelled.
            let _ = done.send(value);
        })?;
        Ok(Self { feed, result, _worker })
    }

    /// Passes on the output as it comes, and then what the work returned; none when it panicked.
    pub(crate) async fn result(&mut self, output: &(dyn Fn(&[u8]) + Send + Sync)) -> Option<T> {
        while let Some(bytes) = self.feed.next().await {
            output(&bytes);
        }
        (&mut self.result).await.ok()
    }
}
