//! The `*** Begin Patch` format: read strictly, placed exactly, or refused with the file and the hunk.
//!
//! It is the format that models know from OpenAI's `apply_patch`. What is taken from it is the notation alone; where a
//! hunk goes is decided here, because other readers put a hunk that they cannot place at the end of the file.

mod parse;
mod place;

pub(crate) use parse::parse;
pub(crate) use place::apply;

/// What a patch does to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Section<'a> {
    /// Creates it.
    Add {
        /// Where.
        path: &'a str,
        /// Its whole content.
        content: String,
    },
    /// Removes it.
    Delete {
        /// Where it is.
        path: &'a str,
    },
    /// Changes it, moves it, or both.
    Update {
        /// Where it is.
        path: &'a str,
        /// Where it goes; none when it stays.
        to: Option<&'a str>,
        /// Its changes, in the order of the patch.
        hunks: Vec<Hunk<'a>>,
    },
}

/// One change of an [`Section::Update`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Hunk<'a> {
    /// The line of the patch at which it begins, from 1.
    pub(crate) line: usize,
    /// What stands behind each `@@`: lines of the file above the hunk, outermost first.
    pub(crate) headers: Vec<&'a str>,
    /// Its lines without their first character.
    pub(crate) lines: Vec<Line<'a>>,
    /// Where it must end.
    pub(crate) end: End,
}

/// A line of a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// It is in the file and stays.
    Kept(&'a str),
    /// It is in the file and goes.
    Removed(&'a str),
    /// It is new.
    Added(&'a str),
}

impl<'a> Line<'a> {
    /// The text, when the line is in the file before the change.
    fn old(self) -> Option<&'a str> {
        match self {
            Self::Kept(text) | Self::Removed(text) => Some(text),
            Self::Added(_) => None,
        }
    }
}

/// Where a hunk must end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum End {
    /// Anywhere.
    #[default]
    Anywhere,
    /// At the end of the file.
    OfFile,
}
