//! Whether a session's log is what was written.

use std::fmt;
use std::fs::File;
use std::path::Path;

use hames_protocol::{Entry, Seq, SessionId};

use crate::StoreProblem;
use crate::anchor::Anchored;
use crate::audit::audit;
use crate::disk::{open_regular, private_file, refused};
use crate::line::{Sha, read_body};
use crate::load::scan;

/// One thing that is wrong with a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The place in the log at which it shows.
    pub seq: Seq,
    /// What is wrong, as a sentence.
    pub text: String,
    /// The record that says that Hames has noticed and repaired it; none when the damage is new.
    pub repaired_by: Option<Seq>,
}

impl Finding {
    pub(crate) fn new(seq: Seq, text: String) -> Self {
        Self { seq, text, repaired_by: None }
    }
}

/// What a check of a log found. Its text is what `hames session verify` prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The session.
    pub session: SessionId,
    /// How many records are as they were written.
    pub records: u64,
    /// The last record known to have been on disk; none when nothing was ever synced, or the anchor is lost: then a cut
    /// end does not show.
    pub anchored: Option<Seq>,
    /// Everything that is wrong, in file order.
    pub findings: Vec<Finding>,
    /// Records whose body was erased; the chain holds all the same.
    pub erased: Vec<Seq>,
    /// Repairs that the log itself tells of, with their sentences.
    pub repairs: Vec<(Seq, String)>,
    /// Bytes of an unfinished line at the end: a write in progress, or what a crash left; never acknowledged.
    pub unfinished_bytes: u64,
}

impl Report {
    /// The first bad place: of new damage where there is some, else of damage that the log knows; none when the log is
    /// as it was written.
    pub fn first_bad(&self) -> Option<Seq> {
        let lowest = |findings: &mut dyn Iterator<Item = &Finding>| findings.map(|finding| finding.seq).min();
        lowest(&mut self.findings.iter().filter(|finding| finding.repaired_by.is_none()))
            .or_else(|| lowest(&mut self.findings.iter()))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { session, records, .. } = self;
        match self.first_bad() {
            None => writeln!(f, "The log of session {session} is intact: {records} records.")?,
            Some(seq) => writeln!(
                f,
                "The log of session {session} is damaged; the first bad record is {seq}. {records} records are as they \
                 were written."
            )?,
        }
        for finding in &self.findings {
            match finding.repaired_by {
                None => writeln!(f, "  {}", finding.text)?,
                Some(by) => writeln!(f, "  {} Record {by} tells of it.", finding.text)?,
            }
        }
        for (seq, text) in &self.repairs {
            writeln!(f, "  Record {seq} is a repair: {text}")?;
        }
        for seq in &self.erased {
            writeln!(f, "  The body of record {seq} was erased.")?;
        }
        if self.unfinished_bytes > 0 {
            writeln!(
                f,
                "  {} bytes at the end are an unfinished line: a write in progress, or what a crash left.",
                self.unfinished_bytes
            )?;
        }
        match self.anchored {
            Some(seq) => write!(f, "  The anchor stands at record {seq}."),
            None => write!(f, "  There is no anchor, so that a cut end would not show."),
        }
    }
}

/// Checks the log in a session's folder. Reads it once, a line at a time; takes no lock.
pub(crate) fn verify(session: &SessionId, folder: &Path) -> Result<Report, StoreProblem> {
    // The anchor is read first: a writer moves the log before the anchor, so that it is never ahead of what is read.
    let heads = folder.join("heads");
    let anchored = Anchored::read(&heads).map_err(|cause| refused("read", &heads, &cause))?;
    let path = folder.join("log.jsonl");
    let log: File = open_regular(private_file().read(true), &path)?;
    let (mut erased, mut repairs) = (Vec::new(), Vec::new());
    let scan = scan(&log, |_, line| {
        let seq = line.header.seq;
        match line.body {
            None => erased.push(seq),
            Some(body) if body.starts_with(r#"{"repaired":"#) => {
                if let Ok(Entry::Repaired(repaired)) = read_body(body) {
                    repairs.push((seq, repaired.text));
                }
            }
            Some(_) => {}
        }
    })
    .map_err(|cause| refused("read", &path, &cause))?;
    let mut audit = audit(Sha::before_first(session), &scan.lines, anchored);
    for finding in &mut audit.findings {
        let teller = repairs.iter().find(|(_, text)| text.contains(&finding.text));
        finding.repaired_by = teller.map(|(seq, _)| *seq);
    }
    Ok(Report {
        session: session.clone(),
        records: audit.accepted.iter().filter(|accepted| **accepted).count() as u64,
        anchored: anchored.anchor().map(|anchor| anchor.seq),
        findings: audit.findings,
        erased,
        repairs,
        unfinished_bytes: scan.unfinished_bytes,
    })
}
