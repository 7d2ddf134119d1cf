//! One record as one line of the log: writing it, reading it back, and its hash.
//!
//! The entry's bytes are hashed as they stand in the line and never re-serialised, because a provider's own JSON must
//! come back byte for byte.

use std::fmt;

use hames_protocol::{Entry, Epoch, Record, Seq, SessionId};
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

/// The longest line that is written or read, in bytes; it bounds the memory that one record can take. No provider takes
/// a request of more than 32 MB, so that no prompt and no reply is longer.
pub(crate) const MAX_LINE: usize = 32 << 20;

/// The deepest nesting of a body. serde_json's own limit is 128, which arguments at that limit pass once a record wraps
/// them; twice that still fits any stack.
const MAX_DEPTH: usize = 256;

/// A SHA-256 in 32 bytes: the audit of a long log keeps two for each record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sha([u8; 32]);

impl Sha {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// What the first record of a session's log has as `prev`: a log cannot pass for another session's.
    pub(crate) fn before_first(session: &SessionId) -> Self {
        Self::of(format!("hames-log-1\n{session}\n").as_bytes())
    }

    /// Reads 64 lower-case hexadecimal digits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 32];
        if text.len() != 64 {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let [high, low] = pair else { return None };
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        f.write_str(str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<'de> Deserialize<'de> for Sha {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&str>::deserialize(deserializer)?;
        Self::parse(text).ok_or_else(|| D::Error::custom("a digest is 64 lower-case hexadecimal digits"))
    }
}

/// Everything of a record but its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) seq: Seq,
    pub(crate) at: u64,
    pub(crate) tick: u64,
    pub(crate) epoch: Epoch,
    pub(crate) prev: Sha,
    pub(crate) body_sha: Sha,
}

impl Header {
    /// The record's hash; the crate's documentation defines the text that it covers.
    pub(crate) fn hash(&self) -> Sha {
        let Self { seq, at, tick, epoch, prev, body_sha } = self;
        Sha::of(format!("hames-record-1\n{seq}\n{at}\n{tick}\n{}\n{prev}\n{body_sha}\n", epoch.0).as_bytes())
    }

    /// The record with this header.
    pub(crate) fn record(&self, entry: Entry) -> Record {
        Record { seq: self.seq, at: self.at, tick: self.tick, epoch: self.epoch, entry }
    }
}

/// Writes an entry as the body of a line, and gives back the entry that a reader of the line will see.
///
/// The two differ in one case: a provider's own JSON may hold line feeds between its tokens; they become spaces.
pub(crate) fn write_body(entry: Entry) -> Result<(Vec<u8>, Entry), String> {
    let mut body = serde_json::to_vec(&entry).map_err(|cause| format!("it is not JSON: {cause}"))?;
    if body.len() > MAX_LINE - 1024 {
        return Err(format!("it has {} bytes, and a record holds at most {MAX_LINE}", body.len()));
    }
    if depth(&body) > MAX_DEPTH {
        return Err(format!("it nests deeper than {MAX_DEPTH} levels"));
    }
    let mut feeds = body.iter_mut().filter(|byte| **byte == b'\n').peekable();
    if feeds.peek().is_none() {
        return Ok((body, entry));
    }
    // JSON text can hold a line feed between tokens only: inside a string it is escaped.
    feeds.for_each(|byte| *byte = b' ');
    let text = str::from_utf8(&body).map_err(|cause| cause.to_string())?;
    let entry = read_body(text).map_err(|cause| format!("it cannot be read back: {cause}"))?;
    Ok((body, entry))
}

/// Reads an entry from the body of a line.
pub(crate) fn read_body(text: &str) -> Result<Entry, serde_json::Error> {
    let plain = serde_json::from_str(text);
    if plain.is_ok() || depth(text.as_bytes()) > MAX_DEPTH {
        return plain;
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.disable_recursion_limit();
    let entry = Entry::deserialize(&mut reader)?;
    reader.end()?;
    Ok(entry)
}

/// How deep JSON text nests.
fn depth(text: &[u8]) -> usize {
    let (mut deepest, mut level, mut in_string, mut escaped) = (0_usize, 0_usize, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                level += 1;
                deepest = deepest.max(level);
            }
            b']' | b'}' => level = level.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Writes a whole line, its line feed included, into an empty buffer.
pub(crate) fn write_line(header: &Header, hash: Sha, body: &[u8], line: &mut Vec<u8>) {
    let Header { seq, at, tick, epoch, prev, body_sha } = header;
    line.clear();
    line.extend_from_slice(
        format!(
            r#"{{"seq":{seq},"at":{at},"tick":{tick},"epoch":{},"prev":"{prev}","body_sha":"{body_sha}","hash":"{hash}","entry":"#,
            epoch.0
        )
        .as_bytes(),
    );
    line.extend_from_slice(body);
    line.extend_from_slice(b"}\n");
}

/// A line whose hashes hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    pub(crate) header: Header,
    pub(crate) hash: Sha,
    /// The entry's text; none when the body was erased.
    pub(crate) body: Option<&'a str>,
}

/// Reads a line, without its line feed, and checks its own hashes. The error says what is wrong with it, as the end of
/// a sentence that begins with the line.
pub(crate) fn read_line(line: &[u8]) -> Result<Line<'_>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Fields<'a> {
        seq: Seq,
        at: u64,
        tick: u64,
        epoch: Epoch,
        prev: Sha,
        body_sha: Sha,
        hash: Sha,
        #[serde(borrow)]
        entry: &'a RawValue,
    }
    let text = str::from_utf8(line).map_err(|_| "is not text in UTF-8".to_owned())?;
    let fields: Fields<'_> = serde_json::from_str(text).map_err(|_| "is not a whole record".to_owned())?;
    let Fields { seq, at, tick, epoch, prev, body_sha, hash, entry } = fields;
    let header = Header { seq, at, tick, epoch, prev, body_sha };
    if header.hash() != hash {
        return Err("has a header that does not match its hash".to_owned());
    }
    let body = entry.get();
    if body == "null" {
        return Ok(Line { header, hash, body: None });
    }
    if Sha::of(body.as_bytes()) != body_sha {
        return Err("has a body that does not match its digest".to_owned());
    }
    Ok(Line { header, hash, body: Some(body) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn depth_counts_brackets_outside_strings_only() {
        assert_eq!(depth(br#"{"a":["[[[[","\"[",{}]}"#), 3);
    }

    #[test]
    fn a_digest_survives_its_text() {
        let sha = Sha::of(b"hames");
        assert_eq!(Sha::parse(&sha.to_string()), Some(sha));
        assert_eq!(sha.to_string(), hames_protocol::Digest::of("hames").as_str());
        assert_eq!(Sha::parse(&sha.to_string().to_uppercase()), None);
    }

    #[test]
    fn the_hash_covers_every_header_field() {
        let zero = Sha::of(b"");
        let base = Header { seq: Seq(1), at: 2, tick: 3, epoch: Epoch(4), prev: zero, body_sha: zero };
        let other = Sha::of(b"other");
        let variants = [
            Header { seq: Seq(9), ..base },
            Header { at: 9, ..base },
            Header { tick: 9, ..base },
            Header { epoch: Epoch(9), ..base },
            Header { prev: other, ..base },
            Header { body_sha: other, ..base },
        ];
        for variant in variants {
            assert_ne!(variant.hash(), base.hash(), "{variant:?}");
        }
    }

    #[test]
    fn a_body_that_nests_too_deeply_is_refused_before_it_is_written() {
        let nested = (0..300).fold(Value::Null, |inner, _| json!([inner]));
        let result = hames_protocol::ToolResult { data: nested, ..hames_protocol::ToolResult::ok("") };
        let ended = hames_protocol::Ended { call: hames_protocol::CallId::new("call-1"), result, ms: 0 };
        let problem = write_body(Entry::Ended(Box::new(ended))).unwrap_err();
        assert!(problem.contains("256 levels"), "{problem}");
    }
}
