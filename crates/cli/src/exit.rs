//! Exit codes, as documented in `hames --help` and the README.

use std::fmt::Display;
use std::io::{Error, ErrorKind};
use std::process::ExitCode;

use hames::protocol::{CancelCause, Outcome};

/// As a shell names the end by SIGPIPE, signal(7): 128 and the number of the signal.
const CLOSED_PIPE: u8 = 141;

/// Something that kept a command from doing its work.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What is said of it; nothing when nobody is to blame.
    pub(crate) message: Option<String>,
    code: u8,
}

impl Failure {
    /// The user's to mend: arguments, configuration, what is installed.
    pub(crate) fn usage(message: impl Display) -> Self {
        Self { message: Some(message.to_string()), code: 2 }
    }

    /// Ours, or the machine's.
    pub(crate) fn internal(message: impl Display) -> Self {
        Self { message: Some(message.to_string()), code: 1 }
    }

    /// Standard output takes no more. Whoever reads and has seen enough (`| head`) is told nothing.
    pub(crate) fn output(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::BrokenPipe => Self { message: None, code: CLOSED_PIPE },
            _ => Self::internal(format!("Standard output cannot be written: {error}.")),
        }
    }

    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

/// The code of a run's outcome.
pub(crate) fn of_outcome(outcome: Outcome, cause: Option<CancelCause>) -> ExitCode {
    ExitCode::from(match outcome {
        Outcome::Done | Outcome::Answered => 0,
        Outcome::Limit | Outcome::Stuck => 3,
        Outcome::Unverified => 4,
        Outcome::ToolFailed => 5,
        Outcome::ModelFailed => 6,
        Outcome::NeedsApproval => 7,
        Outcome::Cancelled if cause == Some(CancelCause::Terminate) => 143,
        Outcome::Cancelled => 130,
    })
}
