//! Time from the operating system.

use std::time::{Duration, Instant};

use hames_protocol::BoxFuture;
use hames_protocol::port::Clock;

/// The monotonic clock of the machine, counted from when this was made.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn sleep_until(&self, at: u64) -> BoxFuture<'static, ()> {
        // A wait beyond a month is as good as for ever, and tokio's timer could not hold it.
        const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);
        let wait = Duration::from_millis(at.saturating_sub(self.now_ms())).min(LONGEST);
        Box::pin(tokio::time::sleep(wait))
    }
}
