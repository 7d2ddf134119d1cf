//! What bytes are as text: encoding, byte order mark, line ends, and how lines and names are shown to the model.

use memchr::memchr_iter;

/// The UTF-8 byte order mark.
pub(crate) const BOM: &[u8] = b"\xEF\xBB\xBF";

/// How far the start of a file is searched for a NUL byte, in bytes; what git and grep do as well.
const BINARY_PROBE_BYTES: usize = 8 * 1024;

/// What a file's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextKind {
    /// Valid UTF-8, with or without a mark.
    Utf8,
    /// An eight-bit encoding that is not UTF-8, such as Latin-1.
    EightBit,
    /// An encoding of two or four bytes a character, by its mark; the name is for people.
    Wide(&'static str),
    /// No text: a NUL byte near its start.
    Binary,
}

impl TextKind {
    /// Tells what `bytes` are.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        // The four-byte marks begin with the two-byte ones, so they come first.
        let marks: [(&[u8], &str); 4] = [
            (b"\xFF\xFE\0\0", "UTF-32 (little endian)"),
            (b"\0\0\xFE\xFF", "UTF-32 (big endian)"),
            (b"\xFF\xFE", "UTF-16 (little endian)"),
            (b"\xFE\xFF", "UTF-16 (big endian)"),
        ];
        if let Some((_, name)) = marks.iter().find(|(mark, _)| bytes.starts_with(mark)) {
            return Self::Wide(name);
        }
        let probe = bytes.get(..BINARY_PROBE_BYTES).unwrap_or(bytes);
        if memchr::memchr(0, probe).is_some() {
            Self::Binary
        } else if std::str::from_utf8(bytes).is_ok() {
            Self::Utf8
        } else {
            Self::EightBit
        }
    }

    /// Why text tools cannot use such a file, as a sentence with the remedy; none when they can.
    pub(crate) fn obstacle(self, path: &str, bytes: usize) -> Option<String> {
        let bytes = thousands(bytes as u64);
        match self {
            Self::Utf8 | Self::EightBit => None,
            Self::Wide(name) => Some(format!(
                "`{path}` is {name} text ({bytes} bytes), which the file tools do not handle. Use `bash` with `iconv` \
                 to read or change it."
            )),
            Self::Binary => Some(format!(
                "`{path}` is a binary file of {bytes} bytes (it has NUL bytes), not text. Use `bash` to look into it or to \
                 change it."
            )),
        }
    }
}

/// The line ends of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineEnds {
    /// There is none.
    None,
    /// Every one is LF.
    Lf,
    /// Every one is CRLF.
    Crlf,
    /// Both kinds.
    Mixed,
}

impl LineEnds {
    /// Tells which line ends `bytes` have.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let (mut lf, mut crlf) = (false, false);
        for at in memchr_iter(b'\n', bytes) {
            if ends_with_cr(bytes, at) {
                crlf = true
            } else {
                lf = true
            }
            if lf && crlf {
                return Self::Mixed;
            }
        }
        match (lf, crlf) {
            (false, false) => Self::None,
            (true, _) => Self::Lf,
            (_, true) => Self::Crlf,
        }
    }

    /// The name that the model reads.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "no",
            Self::Lf => "LF",
            Self::Crlf => "CRLF",
            Self::Mixed => "mixed LF and CRLF",
        }
    }
}

/// Whether the LF at `at` is the second half of a CRLF.
pub(crate) fn ends_with_cr(bytes: &[u8], at: usize) -> bool {
    at > 0 && bytes.get(at - 1) == Some(&b'\r')
}

/// The lines of a text without their line ends; a last line without one counts, an empty text has none.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let lines = (!bytes.is_empty()).then(|| body.split(|byte| *byte == b'\n'));
    lines.into_iter().flatten().map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// The number of the line in which the byte at `at` lies, from 1.
pub(crate) fn line_at(bytes: &[u8], at: usize) -> usize {
    1 + memchr_iter(b'\n', bytes.get(..at).unwrap_or(bytes)).count()
}

/// Writes a line with its number as `cat -n` does, which is the form that models know.
pub(crate) fn numbered(number: usize, line: &str) -> String {
    format!("{number:>6}\t{line}\n")
}

/// Shortens a text to `limit` bytes at a character's edge and says how many bytes it left out.
pub(crate) fn clipped(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let kept = &text[..text.floor_char_boundary(limit)];
    format!("{kept}… [{} bytes left out]", thousands((text.len() - kept.len()) as u64))
}

/// A name or value from the model or the disk for use in a sentence: control characters escaped, at most 100 bytes.
pub(crate) fn shown(text: &str) -> String {
    escaped(&clipped(text, 100))
}

/// The text with its control characters written as escapes, so that a file name cannot draw on a terminal.
pub(crate) fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if c.is_control() {
            out.extend(c.escape_default())
        } else {
            out.push(c)
        }
        out
    })
}

/// A number with commas between its thousands.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 line`, `2 lines`, `1,000 lines`.
pub(crate) fn counted(number: usize, one: &str) -> String {
    let plural = match one.strip_suffix('y') {
        Some(stem) if number != 1 => format!("{stem}ies"),
        _ if number == 1 => one.to_owned(),
        _ if one.ends_with("ss") || one.ends_with("ch") => format!("{one}es"),
        _ => format!("{one}s"),
    };
    format!("{} {plural}", thousands(number as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_told_by_its_bytes() {
        let table: [(&[u8], TextKind); 6] = [
            (b"", TextKind::Utf8),
            ("\u{feff}caf\u{e9}".as_bytes(), TextKind::Utf8),
            (b"caf\xE9", TextKind::EightBit),
            (b"\xFF\xFEa\0", TextKind::Wide("UTF-16 (little endian)")),
            (b"\xFF\xFE\0\0a\0\0\0", TextKind::Wide("UTF-32 (little endian)")),
            (b"a\0b", TextKind::Binary),
        ];
        for (bytes, kind) in table {
            assert_eq!(TextKind::of(bytes), kind, "{bytes:?}");
        }
    }

    #[test]
    fn lines_are_counted_as_people_count_them() {
        let table: [(&[u8], usize); 6] =
            [(b"", 0), (b"a", 1), (b"a\n", 1), (b"a\nb", 2), (b"\n", 1), (b"a\r\n\r\n", 2)];
        for (bytes, count) in table {
            assert_eq!(lines(bytes).count(), count, "{bytes:?}");
        }
    }

    #[test]
    fn numbers_and_nouns_read_well() {
        assert_eq!(counted(1, "line"), "1 line");
        assert_eq!(counted(1234567, "entry"), "1,234,567 entries");
        assert_eq!(counted(2, "match"), "2 matches");
        assert_eq!(counted(3, "process"), "3 processes");
        assert_eq!(clipped("ééé", 3), "é… [4 bytes left out]");
        assert_eq!(shown("a\u{1b}[31m\n"), "a\\u{1b}[31m\\n");
    }
}
