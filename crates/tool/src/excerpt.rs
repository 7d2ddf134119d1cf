//! What a file reads after a change, shown around the places that changed.

use std::ops::Range;

use crate::text::{BOM, clipped, line_at, lines, numbered};

/// How many changed lines the result shows, and how much of each, in bytes.
const SHOWN_LINES: usize = 40;
const SHOWN_LINE_BYTES: usize = 200;

/// How many lines stand around a change.
const CONTEXT_LINES: usize = 2;

/// The lines around each of `places`, which are in order, numbered.
pub(crate) fn excerpt(bytes: &[u8], places: &[Range<usize>]) -> String {
    let mut text = String::new();
    let (mut counted_to, mut line) = (0, 1);
    let mut wanted = Vec::new();
    let mut shown_to = 0;
    for place in places {
        // Counting goes on from the place before, so many places cost one pass.
        line += line_at(&bytes[counted_to..], place.start - counted_to) - 1;
        counted_to = place.start;
        let last = line + line_at(&bytes[place.start..], place.len()) - 1;
        let from = line.saturating_sub(CONTEXT_LINES).max(shown_to + 1).max(1);
        shown_to = shown_to.max(last + CONTEXT_LINES);
        wanted.extend(from..=shown_to);
        if wanted.len() > SHOWN_LINES {
            break;
        }
    }
    wanted.truncate(SHOWN_LINES);
    let first = wanted.first().copied().unwrap_or_default();
    let last = wanted.last().copied().unwrap_or_default();
    let mut previous = first;
    for (number, line) in (1..=last).zip(lines(bytes)) {
        if wanted.binary_search(&number).is_err() {
            continue;
        }
        if number > previous + 1 {
            text.push_str("     …\n");
        }
        previous = number;
        // As `read_file` shows it: a mark that is copied into `old_string` would be in the way.
        let line = if number == 1 { line.strip_prefix(BOM).unwrap_or(line) } else { line };
        text.push_str(&numbered(number, &clipped(&String::from_utf8_lossy(line), SHOWN_LINE_BYTES)));
    }
    text.truncate(text.trim_end_matches('\n').len());
    text
}
