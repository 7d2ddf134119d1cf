//! Why a session cannot be had.

use std::path::PathBuf;

use hames_protocol::SessionId;

use crate::Owner;

/// Why a session cannot be had; each text is a sentence for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreProblem {
    /// The text is not a session id, so that nothing was looked up.
    #[error(
        "`{0}` is not a session id. Give an id as `hames session list` shows it, or at least its first eight characters."
    )]
    NotAnId(String),
    /// There is no such session.
    #[error("There is no session `{text}`.{nearest} `hames session list` shows all sessions.")]
    Unknown {
        /// What was asked for.
        text: String,
        /// A sentence that names the nearest id, with a space before it; empty when none is near.
        nearest: String,
    },
    /// The first characters fit more than one session.
    #[error("`{text}` is the beginning of more than one session id: {candidates}. Give more characters.")]
    Ambiguous {
        /// What was asked for.
        text: String,
        /// The ids that it fits.
        candidates: String,
    },
    /// Another process writes it.
    #[error("The session {id} is open in {owner}. End that process, or start a new session.")]
    Busy {
        /// The session.
        id: SessionId,
        /// Who has it open.
        owner: Owner,
    },
    /// Its log was written by a version that this one cannot follow.
    #[error("The session {id} cannot be opened: {why}. Use the version of Hames that wrote it, or a newer one.")]
    Newer {
        /// The session.
        id: SessionId,
        /// What could not be understood.
        why: String,
    },
    /// Its log is another session's.
    #[error(
        "`{}` is not the log of the session {id}: it was copied from another session. Put the session's own log back, \
         or start a new session.",
        log.display()
    )]
    Foreign {
        /// The session.
        id: SessionId,
        /// The log.
        log: PathBuf,
    },
    /// It is larger than can be loaded.
    #[error(
        "The session {id} is too large to be continued: its log has {bytes} bytes, and at most {limit} are loaded. \
         `hames session show {id}` reads it; start a new session to go on."
    )]
    TooLarge {
        /// The session.
        id: SessionId,
        /// The log's size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The system refused.
    #[error("{0}")]
    System(String),
}
