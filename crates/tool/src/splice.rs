//! The edit itself, on bytes: where the old text stands, and what the new text becomes there.
//!
//! Nothing outside the matched bytes is ever decoded, so a byte order mark, another encoding elsewhere in the file and
//! every untouched line end stay as they are. A model writes LF. In the old text an LF stands for the line end that the
//! file has at that place; in the new text it becomes that line end. A new text that holds a CR is taken literally.

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr_iter, memmem};

use crate::text::{ends_with_cr, line_at};

/// How many of several places are named by their lines.
const LISTED_LINES: usize = 20;

/// Which of the places at which the old text stands are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// The only one; more than one is refused.
    Only,
    /// All, from the start, those that overlap an earlier one left out.
    All,
}

/// A file after an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spliced {
    /// The new bytes of the whole file.
    pub(crate) bytes: Vec<u8>,
    /// Where in them the new texts stand.
    pub(crate) places: Vec<Range<usize>>,
}

/// Why an edit cannot be placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Misplaced {
    /// The old text stands nowhere.
    Nowhere,
    /// It stands at several places.
    Several {
        /// How many, those that overlap an earlier one left out unless there is no other.
        count: usize,
        /// The lines at which the first of them begin.
        lines: Vec<usize>,
    },
    /// The file would grow beyond the limit.
    TooLarge,
}

/// Replaces `old`, which must not be empty, by `new` in the bytes of a file.
/// The file that results has at most `limit` bytes, or nearly: line ends that become CRLF are not counted before.
pub(crate) fn splice(file: &[u8], old: &str, new: &str, which: Which, limit: u64) -> Result<Spliced, Misplaced> {
    // An old text with a CR in it names the file's bytes exactly.
    let view = if old.contains('\r') { LineView::literal(file) } else { LineView::of(file) };
    let finder = memmem::Finder::new(old);
    let mut starts: Vec<usize> = finder.find_iter(&view.text).collect();
    let Some(first) = starts.first() else { return Err(Misplaced::Nowhere) };
    if which == Which::Only {
        // The next one may overlap the first: then the place is as doubtful as if they stood apart.
        if let Some(beyond) = finder.find(&view.text[first + 1..])
            && starts.len() == 1
        {
            starts.push(first + 1 + beyond);
        }
        if starts.len() > 1 {
            let lines = starts.iter().take(LISTED_LINES).map(|start| line_at(&view.text, *start)).collect();
            return Err(Misplaced::Several { count: starts.len(), lines });
        }
    }
    let matches: Vec<Range<usize>> = starts.into_iter().map(|start| view.origin(start, old.len())).collect();
    if (matches.len() as u64).saturating_mul(new.len() as u64) > limit {
        return Err(Misplaced::TooLarge);
    }
    let mut bytes = Vec::with_capacity(file.len() + new.len());
    let mut places = Vec::with_capacity(matches.len());
    let mut kept = 0;
    for place in matches {
        bytes.extend_from_slice(&file[kept..place.start]);
        let start = bytes.len();
        bytes.extend_from_slice(&with_line_ends_of(file, &place, old, new));
        places.push(start..bytes.len());
        kept = place.end;
    }
    bytes.extend_from_slice(&file[kept..]);
    Ok(Spliced { bytes, places })
}

/// A file with each CRLF written as LF, and the way back to its own bytes.
struct LineView<'a> {
    text: Cow<'a, [u8]>,
    /// The positions in `text` of the LFs that are CRLF in the file.
    crlf: Vec<usize>,
}

impl<'a> LineView<'a> {
    fn literal(file: &'a [u8]) -> Self {
        Self { text: Cow::Borrowed(file), crlf: Vec::new() }
    }

    fn of(file: &'a [u8]) -> Self {
        let mut text = Vec::new();
        let mut crlf = Vec::new();
        let mut kept = 0;
        for at in memchr_iter(b'\n', file).filter(|at| ends_with_cr(file, *at)) {
            text.extend_from_slice(&file[kept..at - 1]);
            crlf.push(text.len());
            kept = at;
        }
        if crlf.is_empty() {
            return Self::literal(file);
        }
        text.extend_from_slice(&file[kept..]);
        Self { text: Cow::Owned(text), crlf }
    }

    /// Where in the file `length` bytes of the text lie; a CRLF is wholly inside or wholly outside.
    fn origin(&self, start: usize, length: usize) -> Range<usize> {
        let back = |at: usize| at + self.crlf.partition_point(|crlf| *crlf < at);
        back(start)..back(start + length)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineEnd {
    Lf,
    Crlf,
}

/// The new text with the line ends of the place that it goes to.
fn with_line_ends_of<'a>(file: &[u8], place: &Range<usize>, old: &str, new: &'a str) -> Cow<'a, [u8]> {
    if new.contains('\r') || !new.contains('\n') {
        return Cow::Borrowed(new.as_bytes());
    }
    let ends = new_line_ends(&line_ends_in(file, place), line_end_near(file, place.start), old, new);
    if ends.iter().all(|end| *end == LineEnd::Lf) {
        return Cow::Borrowed(new.as_bytes());
    }
    let mut bytes = Vec::with_capacity(new.len() + ends.len());
    for (line, end) in new.split('\n').zip(ends.iter().map(Some).chain([None])) {
        bytes.extend_from_slice(line.as_bytes());
        bytes.extend_from_slice(match end {
            Some(LineEnd::Crlf) => b"\r\n",
            Some(LineEnd::Lf) => b"\n",
            None => b"",
        });
    }
    Cow::Owned(bytes)
}

/// One line end for each LF of the new text. Lines that the old and the new text share at their start and end keep
/// their own; what lies between takes those of the lines it replaces, and beyond those, that of the line before it.
fn new_line_ends(region: &[LineEnd], nearby: LineEnd, old: &str, new: &str) -> Vec<LineEnd> {
    let old = old.replace("\r\n", "\n");
    let old: Vec<&str> = old.split('\n').collect();
    let new: Vec<&str> = new.split('\n').collect();
    let shared = (old.len() - 1).min(new.len() - 1);
    let before = old.iter().zip(&new).take(shared).take_while(|(a, b)| a == b).count();
    let same_from_end = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    // The last piece has no line end of its own.
    let after = same_from_end.saturating_sub(1).min(shared - before);
    let count = new.len() - 1;
    let replaced = region.len().saturating_sub(after);
    let mut ends: Vec<LineEnd> = Vec::with_capacity(count);
    for at in 0..count {
        let end = if at + after >= count {
            region.get(region.len() + at - count)
        } else {
            region[..replaced].get(at).or(ends.last()).or(region.first())
        };
        ends.push(*end.unwrap_or(&nearby));
    }
    ends
}

fn line_ends_in(file: &[u8], place: &Range<usize>) -> Vec<LineEnd> {
    memchr_iter(b'\n', &file[place.clone()]).map(|at| line_end_at(file, place.start + at)).collect()
}

fn line_end_at(file: &[u8], at: usize) -> LineEnd {
    if ends_with_cr(file, at) { LineEnd::Crlf } else { LineEnd::Lf }
}

/// The end of the line at `at`, else of the line before it, else LF.
fn line_end_near(file: &[u8], at: usize) -> LineEnd {
    let next = memchr::memchr(b'\n', &file[at..]).map(|found| at + found);
    let near = next.or_else(|| memchr::memrchr(b'\n', &file[..at]));
    near.map_or(LineEnd::Lf, |at| line_end_at(file, at))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(file: &str, old: &str, new: &str, after: &str) {
        let spliced = splice(file.as_bytes(), old, new, Which::Only, 1_000_000).unwrap();
        assert_eq!(String::from_utf8(spliced.bytes).unwrap(), after, "{old:?} -> {new:?} in {file:?}");
    }

    #[test]
    fn new_lines_take_the_line_ends_of_their_place() {
        check("one\r\ntwo\r\nthree\r\n", "two", "TWO\nextra", "one\r\nTWO\r\nextra\r\nthree\r\n");
        check("one\r\ntwo\r\nthree\r\n", "one\ntwo", "1\n2", "1\r\n2\r\nthree\r\n");
        check("one\r\ntwo\r\n", "two\n", "", "one\r\n");
        check("one\r\ntwo", "two", "two\nthree", "one\r\ntwo\r\nthree");
        check("one\ntwo\n", "two", "TWO\nextra", "one\nTWO\nextra\n");
        check("a\nb\r\nc\n", "b", "B", "a\nB\r\nc\n");
    }

    #[test]
    fn shared_lines_of_a_mixed_file_keep_their_own_line_ends() {
        check("a\nb\r\nc\n", "a\nb\nc\n", "a\nB\nc\n", "a\nB\r\nc\n");
        check("a\nb\r\nc\nd\r\n", "a\nb\nc\nd", "a\nb1\nb2\nb3\nc\nd", "a\nb1\r\nb2\r\nb3\r\nc\nd\r\n");
        check("a\r\nb\nc\r\n", "a\nb\nc\n", "a\nc\n", "a\r\nc\r\n");
    }

    #[test]
    fn a_new_text_with_a_carriage_return_is_literal() {
        check("a\nb\n", "a", "x\r\ny", "x\r\ny\nb\n");
        check("a\r\nb\n", "a\r\nb", "x", "x\n");
    }

    #[test]
    fn places_that_overlap_count_as_several() {
        assert_eq!(
            splice(b"aaa", "aa", "b", Which::Only, 1_000_000),
            Err(Misplaced::Several { count: 2, lines: vec![1, 1] })
        );
        assert_eq!(splice(b"aaa", "aa", "b", Which::All, 1_000_000).unwrap().bytes, b"ba");
    }

    proptest! {
        #[test]
        fn bytes_outside_the_match_never_change(
            before in proptest::collection::vec(any::<u8>(), 0..40),
            old in "[a-c\n]{1,6}",
            after in proptest::collection::vec(any::<u8>(), 0..40),
            new in "[x-z\n]{0,6}",
            crlf in any::<bool>(),
        ) {
            let written = if crlf { old.replace('\n', "\r\n") } else { old.clone() };
            let file = [before.as_slice(), b"<", written.as_bytes(), b">", after.as_slice()].concat();
            let needle = format!("<{old}>");
            if let Ok(spliced) = splice(&file, &needle, &new, Which::Only, 1_000_000) {
                prop_assert!(spliced.bytes.starts_with(&before));
                prop_assert!(spliced.bytes.ends_with(&after));
                let put = &spliced.bytes[before.len()..spliced.bytes.len() - after.len()];
                let put = String::from_utf8(put.to_vec()).unwrap();
                prop_assert_eq!(put.replace("\r\n", "\n"), new);
                let place = spliced.places[0].clone();
                prop_assert_eq!(&spliced.bytes[place], put.as_bytes());
            }
        }

        #[test]
        fn replace_all_is_a_plain_left_to_right_replace(file in "[ab)\n ]{0,40}", old in "[ab)\n]{1,3}", new in "[x\n]{0,3}") {
            let expected = file.replace(&old, &new);
            match splice(file.as_bytes(), &old, &new, Which::All, 1_000_000) {
                Ok(spliced) => prop_assert_eq!(String::from_utf8(spliced.bytes).unwrap(), expected),
                Err(_) => prop_assert_eq!(file, expected),
            }
        }
    }
}
