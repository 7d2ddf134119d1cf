//! Signals as commands: the first cancels the run, a second one quits at once.
//!
//! A thread of its own waits for them. The one that drives the run may be held up for as long as somebody else likes,
//! by a slow reader of standard output above all, and whoever presses Ctrl-C twice must be heard then as well.

use std::io;
use std::sync::mpsc;
use std::thread;

use futures_util::stream::{self, Stream, StreamExt};
use hames::protocol::{CancelCause, Command};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::exit::Failure;

/// "File size limit exceeded", signal(7); tokio has no name for it.
const SIGXFSZ: i32 = 25;

/// Starts to listen for SIGINT, SIGTERM and SIGHUP.
pub(crate) fn commands() -> Result<impl Stream<Item = Command> + Send, Failure> {
    let cannot = |error: io::Error| Failure::internal(format!("Signals cannot be caught: {error}."));
    let (begun, has_begun) = mpsc::channel();
    let (first, cancelled) = oneshot::channel();
    let wait = move || {
        // An error is told through the channel; after that there is nothing left for this thread to do.
        let _ = wait(&begun, first).map_err(|error| begun.send(Err(error)));
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(cannot)?;
    has_begun.recv().unwrap_or_else(|gone| Err(io::Error::other(gone))).map_err(cannot)?;
    Ok(stream::once(cancelled).filter_map(async |cause| Some(Command::Cancel { cause: cause.ok()? })))
}

/// Says when it listens, passes the first signal on, and ends the process with the second.
fn wait(begun: &mpsc::Sender<io::Result<()>>, first: oneshot::Sender<CancelCause>) -> io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let mut signals = Signals::listen()?;
        // Nobody waits for either of these any more once the process is about to end.
        let _ = begun.send(Ok(()));
        let _ = first.send(signals.next().await);
        // Whoever asks twice does not want to wait. What still runs dies with this process; the log has what happened.
        std::process::exit(if signals.next().await == CancelCause::Interrupt { 130 } else { 143 })
    })
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    _file_size: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            // A limit on file sizes must fail the write that meets it, not end the process in the middle of a log.
            _file_size: signal(SignalKind::from_raw(SIGXFSZ))?,
        })
    }

    async fn next(&mut self) -> CancelCause {
        tokio::select! {
            _ = self.interrupt.recv() => CancelCause::Interrupt,
            _ = self.terminate.recv() => CancelCause::Terminate,
            _ = self.hang_up.recv() => CancelCause::Terminate,
        }
    }
}
