//! File work off the async thread that ends when its future is dropped.
//!
//! A dropped `spawn_blocking` goes on running; the ports promise that a dropped future leaves nothing behind. So the
//! work looks at a flag between two files, and the drop waits for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use hames_protocol::port::VerifyProblem;

/// Tells file work that nobody waits for it any more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Returns an error once the work was cancelled.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.0.load(Ordering::Relaxed) {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "the work was cancelled"));
        }
        Ok(())
    }
}

struct Waiting {
    stop: Stop,
    abort: tokio::task::AbortHandle,
    ended: mpsc::Receiver<()>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.stop.0.store(true, Ordering::Relaxed);
        self.abort.abort();
        // Nothing is ever sent: the sender goes away with the work, whether it ended or never began.
        let _ = self.ended.recv();
    }
}

/// Runs `work` on a thread for blocking work.
///
/// # Errors
/// What `work` returns, and when it panicked.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce(&Stop) -> Result<T, VerifyProblem> + Send + 'static,
) -> Result<T, VerifyProblem> {
    let stop = Stop::default();
    let (sender, ended) = mpsc::channel::<()>();
    let task = tokio::task::spawn_blocking({
        let stop = stop.clone();
        move || {
            let _alive = sender;
            work(&stop)
        }
    });
    let _waiting = Waiting { stop, abort: task.abort_handle(), ended };
    match task.await {
        Ok(result) => result,
        Err(error) => Err(VerifyProblem::System(format!("The verifier's file work broke off: {error}."))),
    }
}
