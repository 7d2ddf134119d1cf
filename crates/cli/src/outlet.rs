//! Standard output for data that comes while something runs: when it takes no more, whoever waits is told.

use std::io::{Error, Write};
use std::sync::OnceLock;

use tokio::sync::Notify;

use crate::exit::Failure;

/// Standard output and the first failure to write it. A command whose reader went away must not run on for nobody.
#[derive(Default)]
pub(crate) struct Outlet {
    problem: OnceLock<Error>,
    failed: Notify,
}

impl Outlet {
    /// Writes the bytes at once, unless an earlier write failed.
    pub(crate) fn write(&self, bytes: &[u8]) {
        if self.problem.get().is_some() {
            return;
        }
        let mut stdout = std::io::stdout().lock();
        if let Err(error) = stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            let _ = self.problem.set(error);
            self.failed.notify_one();
        }
    }

    /// Waits until a write fails.
    pub(crate) async fn failed(&self) {
        self.failed.notified().await;
    }

    /// Succeeds unless a write failed.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.problem.get().map_or(Ok(()), |error| Err(Failure::output(error)))
    }
}
