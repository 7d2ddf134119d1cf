//! Reading a session's records one after another, without its lock.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use hames_protocol::Record;

use crate::StoreProblem;
use crate::disk::{open_regular, private_file, refusal};
use crate::line::{read_body, read_line};
use crate::load::{Lines, Next};

/// A line of a log that is not shown as a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    /// It is damaged, erased, or of a kind that this version does not know.
    #[error("Line {number} {why}.")]
    Line {
        /// From 1.
        number: u64,
        /// The end of the sentence.
        why: String,
    },
    /// The log cannot be read any further.
    #[error("{0}")]
    System(String),
}

/// The records of a log in file order, a line in memory at a time. Each one's own hashes are checked; whether the chain
/// holds, `verify` says. Ends at an unfinished line: another process may be writing it.
#[derive(Debug)]
pub struct Records {
    path: PathBuf,
    lines: Option<Lines<BufReader<File>>>,
    number: u64,
}

impl Records {
    pub(crate) fn open(folder: &Path) -> Result<Self, StoreProblem> {
        let path = folder.join("log.jsonl");
        let log = open_regular(private_file().read(true), &path)?;
        Ok(Self { path, lines: Some(Lines::new(BufReader::with_capacity(1 << 16, log))), number: 0 })
    }
}

impl Iterator for Records {
    type Item = Result<Record, BadLine>;

    fn next(&mut self) -> Option<Self::Item> {
        self.number += 1;
        let next = match self.lines.as_mut()?.next() {
            Ok((next, _)) => next,
            Err(cause) => {
                self.lines = None;
                let text = refusal("read", &self.path, &cause);
                return Some(Err(BadLine::System(text)));
            }
        };
        let read = match next {
            Next::End | Next::Unfinished => {
                self.lines = None;
                return None;
            }
            Next::Oversized => Err("is longer than any record".to_owned()),
            Next::Line(text) => read_line(text).and_then(|line| match line.body {
                Some(body) => read_body(body)
                    .map(|entry| line.header.record(entry))
                    .map_err(|_| format!("holds record {}, which this version cannot read", line.header.seq)),
                None => Err(format!("holds record {}, whose body was erased", line.header.seq)),
            }),
        };
        Some(read.map_err(|why| BadLine::Line { number: self.number, why }))
    }
}
