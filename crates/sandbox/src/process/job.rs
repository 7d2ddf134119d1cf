//! A command that goes on beside others: what it did is kept, within bounds, until somebody asks.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hames_protocol::BoxFuture;
use hames_protocol::port::{Attempt, Finished, Job, News, SandboxProblem, Until};
use tokio::sync::Notify;

use super::feed::Feed;
use super::outcome::{broken, io_problem};
use super::output::Collector;
use super::running::Worker;

/// A job on its supervising thread.
#[derive(Debug)]
pub(crate) struct RunningJob {
    backlog: Arc<Backlog>,
    worker: Worker,
}

impl RunningJob {
    /// Starts `work`, which runs a command to its end; each piece of news holds `capture_bytes` of its output's head
    /// and of its tail.
    ///
    /// # Errors
    /// When the system has no thread or descriptor left.
    pub(crate) fn start(
        capture_bytes: usize,
        work: impl FnOnce(&OwnedFd, &Feed) -> Result<Finished, SandboxProblem> + Send + 'static,
    ) -> Result<Box<dyn Job>, SandboxProblem> {
        let backlog = Arc::new(Backlog::new(capture_bytes));
        let (feed, ending) = (Feed::keep(Arc::clone(&backlog)), Ending(Arc::clone(&backlog)));
        let worker = Worker::start(move |cancel| ending.0.end(work(cancel, &feed))).map_err(io_problem)?;
        Ok(Box::new(Self { backlog, worker }))
    }

    async fn wait(&self, until: Until) {
        loop {
            // Made before looking, so that no change is missed between the two.
            let changed = self.backlog.changed.notified();
            if self.backlog.has(until) {
                return;
            }
            changed.await;
        }
    }
}

impl Job for RunningJob {
    fn news(&self, until: Until, wait_ms: u64) -> BoxFuture<'_, Result<News, SandboxProblem>> {
        Box::pin(async move {
            // Whatever there is when the time is up is the news.
            let _ = tokio::time::timeout(Duration::from_millis(wait_ms), self.wait(until)).await;
            self.backlog.take()
        })
    }

    fn is_running(&self) -> bool {
        !self.backlog.has(Until::End)
    }

    fn end(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.worker.cancel();
            self.wait(Until::End).await;
        })
    }
}

/// What a job did and nobody has asked for yet.
#[derive(Debug)]
pub(crate) struct Backlog {
    state: Mutex<Kept>,
    changed: Notify,
    capture_bytes: usize,
}

#[derive(Debug)]
struct Kept {
    output: Collector,
    attempts: Vec<Attempt>,
    /// How many of the attempts were told.
    told: usize,
    ended: Option<Result<Finished, SandboxProblem>>,
}

impl Backlog {
    fn new(capture_bytes: usize) -> Self {
        let output = Collector::new(capture_bytes);
        let state = Mutex::new(Kept { output, attempts: Vec::new(), told: 0, ended: None });
        Self { state, changed: Notify::new(), capture_bytes }
    }

    /// Keeps output.
    pub(crate) fn print(&self, bytes: &[u8]) {
        self.kept().output.push(bytes);
        self.changed.notify_waiters();
    }

    /// Keeps what was tried, unless it is known.
    pub(crate) fn attempt(&self, attempts: &[Attempt]) {
        let mut kept = self.kept();
        for attempt in attempts {
            if !kept.attempts.contains(attempt) {
                kept.attempts.push(attempt.clone());
            }
        }
    }

    fn end(&self, ended: Result<Finished, SandboxProblem>) {
        if let Ok(finished) = &ended {
            self.attempt(&finished.attempts);
        }
        self.kept().ended.get_or_insert(ended);
        self.changed.notify_waiters();
    }

    fn has(&self, wanted: Until) -> bool {
        let kept = self.kept();
        kept.ended.is_some() || (wanted == Until::Output && kept.output.has_any())
    }

    fn take(&self) -> Result<News, SandboxProblem> {
        let mut kept = self.kept();
        let (exit, strays, appeared) = match &mut kept.ended {
            None => (None, 0, Vec::new()),
            Some(Ok(finished)) => (Some(finished.exit), finished.strays, std::mem::take(&mut finished.appeared)),
            Some(Err(problem)) => return Err(problem.clone()),
        };
        let output = std::mem::replace(&mut kept.output, Collector::new(self.capture_bytes)).finish();
        let attempts = kept.attempts[kept.told..].to_vec();
        kept.told = kept.attempts.len();
        Ok(News { output, attempts, appeared, exit, strays })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Nothing is left half-written.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says that the job ended, also when its thread panicked.
struct Ending(Arc<Backlog>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end(Err(broken()));
    }
}
