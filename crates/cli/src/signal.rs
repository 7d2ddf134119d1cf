//! Signals as commands: the first cancels the run, a second one quits at once.

use futures_util::stream::{self, Stream};
use hames::protocol::{CancelCause, Command};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// "File size limit exceeded", signal(7); tokio has no name for it.
const SIGXFSZ: i32 = 25;

/// Starts to listen for SIGINT, SIGTERM and SIGHUP.
pub(crate) fn commands() -> Result<impl Stream<Item = Command> + Send, Failure> {
    let listen = |kind| signal(kind).map_err(|error| Failure::internal(format!("Signals cannot be caught: {error}.")));
    let signals = Signals {
        interrupt: listen(SignalKind::interrupt())?,
        terminate: listen(SignalKind::terminate())?,
        hang_up: listen(SignalKind::hangup())?,
        // A limit on file sizes must fail the write that meets it, not end the process in the middle of a log.
        _file_size: listen(SignalKind::from_raw(SIGXFSZ))?,
    };
    Ok(stream::unfold(Some(signals), |signals| async {
        let mut signals = signals?;
        let cause = signals.next().await;
        // Whoever asks twice does not want to wait. What still runs dies with this process; the log has what happened.
        tokio::spawn(async move {
            let code = if signals.next().await == CancelCause::Interrupt { 130 } else { 143 };
            std::process::exit(code);
        });
        Some((Command::Cancel { cause }, None))
    }))
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    _file_size: Signal,
}

impl Signals {
    async fn next(&mut self) -> CancelCause {
        tokio::select! {
            _ = self.interrupt.recv() => CancelCause::Interrupt,
            _ = self.terminate.recv() => CancelCause::Terminate,
            _ = self.hang_up.recv() => CancelCause::Terminate,
        }
    }
}
