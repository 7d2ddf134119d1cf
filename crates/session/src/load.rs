//! Reading a log: line by line, and whole with its repairs.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use hames_protocol::{Entry, Epoch, LOG_FORMAT, Record, Seq, SessionId};

use crate::StoreProblem;
use crate::anchor::Anchored;
use crate::audit::{Link, Scanned, audit};
use crate::disk::{make_folder, private_file, refused, sync_folder};
use crate::line::{Line, MAX_LINE, Sha, read_body, read_line};

/// Splits bytes into lines at LF only, with bounded memory.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    source: R,
    line: Vec<u8>,
}

/// What the next line is.
pub(crate) enum Next<'a> {
    /// A line, without its LF.
    Line(&'a [u8]),
    /// A line that is longer than any record; its bytes were skipped.
    Oversized,
    /// Bytes at the end without an LF.
    Unfinished,
    /// The end.
    End,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { source, line: Vec::new() }
    }

    /// Reads on; also says how many bytes were passed.
    pub(crate) fn next(&mut self) -> io::Result<(Next<'_>, u64)> {
        self.line.clear();
        let mut bytes = self.source.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', &mut self.line)? as u64;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
            return Ok((Next::Line(&self.line), bytes));
        }
        if self.line.len() > MAX_LINE {
            self.line.clear();
            bytes += skip_line(&mut self.source)?;
            return Ok((Next::Oversized, bytes));
        }
        Ok((if bytes == 0 { Next::End } else { Next::Unfinished }, bytes))
    }
}

/// Passes the rest of a line, its LF included.
fn skip_line(source: &mut impl BufRead) -> io::Result<u64> {
    Ok(source.skip_until(b'\n')? as u64)
}

/// A log as its lines show it.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Every line that ends with LF.
    pub(crate) lines: Vec<Scanned>,
    /// The byte offset just after each of them.
    pub(crate) ends: Vec<u64>,
    /// Bytes after the last LF.
    pub(crate) unfinished_bytes: u64,
}

/// Reads a log once, giving each line with good hashes, and its index, to `each`.
pub(crate) fn scan(log: &File, mut each: impl FnMut(usize, &Line<'_>)) -> io::Result<Scan> {
    let mut lines = Lines::new(BufReader::with_capacity(1 << 16, log));
    let mut scan = Scan::default();
    let mut offset = 0;
    loop {
        let (next, bytes) = lines.next()?;
        let scanned = match next {
            Next::End => return Ok(scan),
            Next::Unfinished => {
                scan.unfinished_bytes = bytes;
                return Ok(scan);
            }
            Next::Oversized => Scanned::Damaged("is longer than any record".to_owned()),
            Next::Line(text) => match read_line(text) {
                Ok(line) => {
                    each(scan.lines.len(), &line);
                    Scanned::Whole(Link { seq: line.header.seq, prev: line.header.prev, hash: line.hash })
                }
                Err(why) => Scanned::Damaged(why),
            },
        };
        offset += bytes;
        scan.lines.push(scanned);
        scan.ends.push(offset);
    }
}

/// A log that was read whole and is ready to be continued.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// Its records.
    pub(crate) records: Vec<Record>,
    /// What was found and is not yet told of by a record.
    pub(crate) repairs: Vec<String>,
    /// The last record's place and hash.
    pub(crate) head: Link,
    /// The log's length, in bytes.
    pub(crate) length: u64,
    /// The epoch that opens it now.
    pub(crate) epoch: Epoch,
}

/// Reads the log of a session that this process has locked, and cuts what follows its last good record.
pub(crate) fn load(session: &SessionId, folder: &Path, log: &mut File) -> Result<Loaded, StoreProblem> {
    let (path, heads) = (folder.join("log.jsonl"), folder.join("heads"));
    let anchored = Anchored::read(&heads).map_err(|cause| refused("read", &heads, &cause))?;
    let mut entries = Vec::new();
    let scan = scan(log, |index, line| {
        if let Some(body) = line.body {
            entries.push((index, read_body(body).map(|entry| line.header.record(entry)).map_err(|_| line.header.seq)));
        }
    })
    .map_err(|cause| refused("read", &path, &cause))?;
    let before_first = Sha::before_first(session);
    let audit = audit(before_first, &scan.lines, anchored);
    if audit.foreign {
        return Err(StoreProblem::Foreign { id: session.clone(), log: path });
    }
    entries.retain(|(index, _)| audit.accepted[*index]);
    let records = understand(session, entries.into_iter().map(|(_, entry)| entry))?;

    let last = audit.accepted.iter().rposition(|accepted| *accepted);
    let (length, head) = match last.map(|index| (scan.ends[index], &scan.lines[index])) {
        Some((end, Scanned::Whole(link))) => (end, *link),
        _ => (0, Link { seq: Seq(0), prev: before_first, hash: before_first }),
    };
    let told = |text: &str| {
        records.iter().any(|record| matches!(&record.entry, Entry::Repaired(repaired) if repaired.text.contains(text)))
    };
    cut(folder, log, length, head.seq)?;
    let kept = quarantined(folder).map_err(|cause| refused("read", &folder.join(QUARANTINE), &cause))?;
    let kept = kept
        .into_iter()
        .map(|name| format!("The end of the log was not whole; it was cut and is kept in `{QUARANTINE}/{name}`."));
    let findings = audit.findings.into_iter().map(|finding| finding.text);
    let repairs = findings.chain(kept).filter(|text| !told(text)).collect();
    let epoch = next_epoch(&records);
    Ok(Loaded { records, repairs, head, length, epoch })
}

/// Refuses a log that this version cannot follow: to skip what it does not know would be to lose it.
fn understand(
    session: &SessionId,
    entries: impl Iterator<Item = Result<Record, Seq>>,
) -> Result<Vec<Record>, StoreProblem> {
    let newer = |why| StoreProblem::Newer { id: session.clone(), why };
    let mut records = Vec::new();
    for entry in entries {
        let record =
            entry.map_err(|seq| newer(format!("its record {seq} is of a kind that this version cannot read")))?;
        match &record.entry {
            Entry::Opened(opened) if opened.format > LOG_FORMAT => {
                let why = format!(
                    "its log has format {}, written by version {}; this version reads formats up to {LOG_FORMAT}",
                    opened.format, opened.version
                );
                return Err(newer(why));
            }
            _ => records.push(record),
        }
    }
    Ok(records)
}

/// One more than the session was opened so far; a damaged log may have lost some openings, but never their number.
fn next_epoch(records: &[Record]) -> Epoch {
    let opened = records.iter().filter(|record| matches!(record.entry, Entry::Opened(_))).count();
    let latest = records.iter().map(|record| record.epoch.0).max().unwrap_or(0);
    Epoch(u32::try_from(opened).unwrap_or(u32::MAX).max(latest).saturating_add(1))
}

/// The folder for what was cut from the log.
const QUARANTINE: &str = "quarantine";

/// Keeps what follows `length` in the quarantine, then cuts it. The copy is durable before the cut.
fn cut(folder: &Path, log: &mut File, length: u64, last: Seq) -> Result<(), StoreProblem> {
    let quarantine = folder.join(QUARANTINE);
    let path = folder.join("log.jsonl");
    let whole = log.metadata().map_err(|cause| refused("look at", &path, &cause))?.len();
    if whole <= length {
        return Ok(());
    }
    make_folder(&quarantine)?;
    let keep = |log: &mut File| {
        let mut kept = unused_file(&quarantine, last)?;
        log.seek(SeekFrom::Start(length))?;
        io::copy(log, &mut kept)?;
        kept.sync_all()?;
        sync_folder(&quarantine)
    };
    keep(log).map_err(|cause| refused("keep the end of the log in", &quarantine, &cause))?;
    log.set_len(length).map_err(|cause| refused("cut", &path, &cause))
}

/// Makes the next file for what followed the record `last`.
fn unused_file(quarantine: &Path, last: Seq) -> io::Result<File> {
    let mut number = 1;
    loop {
        match private_file().write(true).create_new(true).open(quarantine.join(format!("after-{last}-{number}"))) {
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => number += 1,
            result => return result,
        }
    }
}

/// The names of what the quarantine holds.
fn quarantined(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(folder.join(QUARANTINE)) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
