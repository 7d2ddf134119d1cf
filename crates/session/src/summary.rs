//! What a list of sessions shows of each, from the first and the last bytes of its log.
//!
//! A list must not read bodies whole: thousands of sessions, some of gigabytes, are listed in a moment.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

use hames_protocol::{Entry, Outcome, SessionId};

use crate::disk::private_file;
use crate::line::{read_body, read_line};

/// How much of each end of a log is read, in bytes.
const WINDOW: usize = 16 * 1024;

/// The longest title, in characters.
const TITLE: usize = 120;

/// A session as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The session.
    pub id: SessionId,
    /// Its workspace's root; none when the first record is damaged.
    pub workspace: Option<String>,
    /// When it began, in milliseconds since 1970.
    pub started: u64,
    /// When something was last written, in milliseconds since 1970.
    pub last_activity: u64,
    /// The first line of its first prompt, at most 120 characters, as the user wrote it; empty when there is none yet.
    pub title: String,
    /// How its last run ended, [`Outcome::NeedsApproval`] when it is suspended; none when it goes on or was interrupted.
    pub outcome: Option<Outcome>,
    /// The size of its log, in bytes.
    pub bytes: u64,
}

impl Summary {
    /// Reads the summary of a log; none when its first record was never finished.
    pub(crate) fn read(id: SessionId, folder: &Path) -> io::Result<Option<Self>> {
        let log = private_file().read(true).open(folder.join("log.jsonl"))?;
        let metadata = log.metadata()?;
        let bytes = metadata.len();
        if !metadata.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let head = window(&log, 0)?;
        if !head.contains(&b'\n') && head.len() < WINDOW {
            return Ok(None);
        }
        let from = bytes.saturating_sub(WINDOW as u64);
        let tail = if from == 0 { head.clone() } else { window(&log, from)? };
        let modified = metadata.modified()?.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        let modified = u64::try_from(modified).unwrap_or(u64::MAX);
        let first = head.split(|byte| *byte == b'\n').next().and_then(|line| read_line(line).ok());
        let opened = first.and_then(|line| read_body(line.body?).ok());
        let workspace = match opened {
            Some(Entry::Opened(opened)) => Some(opened.workspace),
            _ => None,
        };
        Ok(Some(Self {
            id,
            workspace,
            started: first.map_or(modified, |line| line.header.at),
            last_activity: last_time(&tail).unwrap_or(modified),
            title: title(&String::from_utf8_lossy(&head)),
            outcome: outcome(&tail),
            bytes,
        }))
    }
}

/// Reads at most a window of a file.
fn window(file: &File, from: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; WINDOW];
    let mut filled = 0;
    while filled < WINDOW {
        match file.read_at(&mut bytes[filled..], from + filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// The whole lines of a log's end, last first. The first line of the window may be a part of one; it does not parse.
fn lines_from_end(tail: &[u8]) -> impl Iterator<Item = &[u8]> {
    tail.split_inclusive(|byte| *byte == b'\n').rev().filter_map(|line| line.strip_suffix(b"\n"))
}

fn last_time(tail: &[u8]) -> Option<u64> {
    let last = lines_from_end(tail).next()?;
    Some(read_line(last).ok()?.header.at)
}

/// After a run's end, or while it is suspended, there can only be openings and repairs: what stands before them decides.
/// Lines that do not read are passed over.
fn outcome(tail: &[u8]) -> Option<Outcome> {
    let entries = lines_from_end(tail).filter_map(|line| read_body(read_line(line).ok()?.body?).ok());
    for entry in entries {
        match entry {
            Entry::Opened(_) | Entry::Repaired(_) => {}
            Entry::RunEnded(ended) => return Some(ended.outcome),
            Entry::RunSuspended(_) => return Some(Outcome::NeedsApproval),
            _ => return None,
        }
    }
    None
}

/// The first line of the first prompt. Read from the text rather than from a parsed record, because a long prompt does
/// not fit the window; inside a JSON string the marks could not stand, their quotes would be escaped.
fn title(head: &str) -> String {
    let started = head.split_once(r#""entry":{"run_started":{"#).map(|(_, rest)| rest);
    let Some((_, text)) = started.and_then(|rest| rest.split_once(r#""prompt":[{"text":""#)) else {
        return String::new();
    };
    let mut escaped = false;
    let end = text.find(|c: char| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    let text = &text[..end.unwrap_or(text.len())];
    // Where the window cut an escape apart, what is left of it is dropped; the longest is a pair of `\uXXXX`.
    let prompt = (0..=12)
        .filter_map(|cut| text.get(..text.len().checked_sub(cut)?))
        .find_map(|text| serde_json::from_str::<String>(&format!("\"{text}\"")).ok())
        .unwrap_or_default();
    let line = prompt.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    match line.char_indices().nth(TITLE) {
        Some((cut, _)) => line[..cut].to_owned(),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_read_even_when_the_window_cuts_its_prompt_anywhere() {
        let prompt = "\n  Fix the \"total\" \\ é 🐎\nand more";
        let text = serde_json::to_string(prompt).unwrap();
        let start = r#"{"seq":2,"entry":{"run_started":{"run":"run-1","prompt":[{"text":"#;
        let head = format!("{start}{text}}}]}}}}");
        assert_eq!(title(&head), "Fix the \"total\" \\ é 🐎");
        for cut in start.len()..head.len() {
            let cut = String::from_utf8_lossy(&head.as_bytes()[..cut]).into_owned();
            assert!("Fix the \"total\" \\ é 🐎\u{fffd}".starts_with(title(&cut).trim_end_matches('\u{fffd}')), "{cut}");
        }
    }

    #[test]
    fn a_title_is_short() {
        let head = format!(r#""entry":{{"run_started":{{"prompt":[{{"text":"{}"}}]"#, "é".repeat(5000));
        assert_eq!(title(&head).chars().count(), TITLE);
    }
}
