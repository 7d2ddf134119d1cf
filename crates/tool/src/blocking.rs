//! Runs blocking work off the async thread, and keeps the rule that a dropped future leaves nothing running.
//!
//! `spawn_blocking` alone does not: its closure goes on after the future is gone, so a cancelled write could still
//! land. Here a dropped future withdraws work that has not begun and waits for work that has.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Says whether the caller has gone away; long work asks it now and then.
#[derive(Default)]
pub(crate) struct Stop(AtomicBool);

impl Stop {
    /// Whether to stop at once.
    pub(crate) fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

struct Job<F> {
    stop: Stop,
    /// Locked for as long as the work runs.
    work: Mutex<Option<F>>,
}

struct WithdrawOnDrop<F>(Arc<Job<F>>);

impl<F> Drop for WithdrawOnDrop<F> {
    fn drop(&mut self) {
        self.0.stop.0.store(true, Ordering::Relaxed);
        drop(lock(&self.0.work).take());
    }
}

/// Runs `work` on a thread that may block and returns what it returns.
pub(crate) async fn blocking<T, F>(work: F) -> T
where
    T: Send + 'static,
    F: FnOnce(&Stop) -> T + Send + 'static,
{
    let job = Arc::new(Job { stop: Stop::default(), work: Mutex::new(Some(work)) });
    let withdraw = WithdrawOnDrop(Arc::clone(&job));
    let done = tokio::task::spawn_blocking(move || {
        let mut slot = lock(&job.work);
        slot.take().map(|work| work(&job.stop))
    });
    let value = match done.await {
        Ok(Some(value)) => value,
        // The runtime is going away: nobody is left to hear an answer.
        Ok(None) => std::future::pending().await,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => std::future::pending().await,
        },
    };
    drop(withdraw);
    value
}

/// Locks, also after a thread panicked while it held the lock: every value kept here is whole at any instant.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_dropped_future_waits_for_work_that_has_begun() {
        let (begun, has_begun) = std::sync::mpsc::channel();
        let finished = Arc::new(AtomicBool::new(false));
        let mark = Arc::clone(&finished);
        let work = blocking(move |stop| {
            begun.send(()).unwrap();
            while !stop.asked() {
                std::thread::sleep(Duration::from_millis(1));
            }
            mark.store(true, Ordering::SeqCst);
        });
        let wait = tokio::task::spawn_blocking(move || has_begun.recv().unwrap());
        tokio::select! {
            () = work => unreachable!("the work goes on until it is told to stop"),
            _ = wait => {}
        }
        assert!(finished.load(Ordering::SeqCst), "the drop returned while the work was still running");
    }

    #[test]
    fn a_dropped_future_withdraws_work_that_has_not_begun() {
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        let ran = Arc::new(AtomicBool::new(false));
        let mark = Arc::clone(&ran);
        let (free, until_free) = std::sync::mpsc::channel::<()>();
        runtime.block_on(async move {
            let occupied = tokio::task::spawn_blocking(move || until_free.recv());
            let mut work = Box::pin(blocking(move |_| mark.store(true, Ordering::SeqCst)));
            let polled = std::future::poll_fn(|context| std::task::Poll::Ready(work.as_mut().poll(context))).await;
            assert!(polled.is_pending());
            drop(work);
            free.send(()).unwrap();
            occupied.await.unwrap().unwrap();
            // The only thread takes up what was queued before this.
            blocking(|_| ()).await;
        });
        assert!(!ran.load(Ordering::SeqCst));
    }
}
