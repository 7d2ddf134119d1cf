//! Where the hunks of a file go, and the file after them, byte for byte.
//!
//! A hunk goes where its kept and removed lines stand, and nowhere else: exactly, or, if they stand nowhere exactly,
//! where the lines differ in nothing but white space at their ends. It must be one place. Kept lines are copied from
//! the file, never from the patch. An added line takes the line end of the line that it replaces, or of the line before
//! it; a file whose last line has no line end stays such a file.

use std::ops::Range;

use memchr::memmem;

use super::{End, Hunk, Line};
use crate::near_miss::near_miss;
use crate::text::{BOM, counted, shown};

/// How many places of a hunk are looked at before it counts as ambiguous.
const PLACE_LIMIT: usize = 200;

/// How many of several places are named.
const LISTED_PLACES: usize = 10;

/// A file after its hunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Patched {
    /// The new bytes of the whole file.
    pub(crate) bytes: Vec<u8>,
    /// Where in them the changed lines stand.
    pub(crate) places: Vec<Range<usize>>,
}

/// Applies all hunks, each of which refers to the file as it is before any of them.
///
/// # Errors
/// A sentence for the model for each hunk that has no place, has several, or overlaps another.
pub(crate) fn apply(file: &[u8], hunks: &[Hunk<'_>]) -> Result<Patched, Vec<String>> {
    let text = Text::of(file);
    let mut faults = Vec::new();
    let mut placed: Vec<(Range<usize>, usize)> = Vec::new();
    for (at, hunk) in hunks.iter().enumerate() {
        match text.place(hunk) {
            Ok(range) => placed.push((range, at)),
            Err(why) => faults.push(format!("{}: {why}", name(hunks, at))),
        }
    }
    placed.sort_by_key(|(range, at)| (range.start, range.end, *at));
    for pair in placed.windows(2) {
        let [(first, one), (second, other)] = pair else { continue };
        let same_gap = first.is_empty() && first == second;
        if first.end > second.start || same_gap {
            let (one, other) = (*one.min(other), *one.max(other));
            let lines = format!("around line {}", second.start + 1);
            faults.push(format!(
                "{}: it overlaps {} {lines}. Join the two into one hunk.",
                name(hunks, other),
                name(hunks, one)
            ));
        }
    }
    if faults.is_empty() { Ok(text.rebuilt(hunks, &placed)) } else { Err(faults) }
}

fn name(hunks: &[Hunk<'_>], at: usize) -> String {
    format!("hunk {} (line {} of the patch)", at + 1, hunks[at].line)
}

/// A line of the file without its end, and its end.
#[derive(Clone, Copy)]
struct FileLine<'a> {
    text: &'a [u8],
    end: &'a [u8],
}

struct Text<'a> {
    mark: &'a [u8],
    lines: Vec<FileLine<'a>>,
    exact: Searchable,
    loose: std::cell::OnceCell<Searchable>,
}

/// A place that a hunk's headers name.
struct Anchor {
    /// The line, from 0; the first one when there are several.
    line: usize,
    /// All lines that the last header could mean, when it is more than one.
    doubt: Vec<usize>,
}

impl<'a> Text<'a> {
    fn of(file: &'a [u8]) -> Self {
        let mark = if file.starts_with(BOM) { BOM } else { &[] };
        let pieces = file[mark.len()..].split_inclusive(|byte| *byte == b'\n');
        let lines: Vec<FileLine<'a>> = pieces
            .map(|piece| {
                let text = piece.strip_suffix(b"\n").unwrap_or(piece);
                let text = if text.len() < piece.len() { text.strip_suffix(b"\r").unwrap_or(text) } else { text };
                FileLine { text, end: &piece[text.len()..] }
            })
            .collect();
        let exact = Searchable::of(lines.iter().map(|line| line.text));
        Self { mark, lines, exact, loose: std::cell::OnceCell::new() }
    }

    /// The lines of the file, from 0, that a hunk replaces; empty where it only adds.
    fn place(&self, hunk: &Hunk<'_>) -> Result<Range<usize>, String> {
        let anchor = self.anchor(&hunk.headers)?;
        let old: Vec<&[u8]> = hunk.lines.iter().filter_map(|line| line.old()).map(str::as_bytes).collect();
        if old.is_empty() {
            return self.gap(hunk, anchor.as_ref());
        }
        let from = anchor.as_ref().map_or(0, |anchor| anchor.line);
        let ends_right = |start: &usize| hunk.end == End::Anywhere || start + old.len() == self.lines.len();
        let exact: Vec<usize> = self.exact.find(&old, from).into_iter().filter(ends_right).collect();
        let found = if exact.is_empty() {
            let loose =
                self.loose.get_or_init(|| Searchable::of(self.lines.iter().map(|line| line.text.trim_ascii_end())));
            let old: Vec<&[u8]> = old.iter().map(|line| line.trim_ascii_end()).collect();
            loose.find(&old, from).into_iter().filter(ends_right).collect()
        } else {
            exact
        };
        match self.only(&found, old.len(), anchor.as_ref()) {
            Some(start) => Ok(start..start + old.len()),
            None if found.is_empty() => Err(self.nowhere(hunk, &old)),
            None => Err(several(&found, anchor.as_ref())),
        }
    }

    /// The one place of several that counts: the only one, or the only one in the block that the header begins.
    fn only(&self, found: &[usize], length: usize, anchor: Option<&Anchor>) -> Option<usize> {
        if let [only] = found {
            return Some(*only);
        }
        let anchor = anchor.filter(|anchor| anchor.doubt.is_empty() && found.len() < PLACE_LIMIT)?;
        let block = self.block(anchor.line);
        let mut inside = found.iter().filter(|start| block.contains(start) && **start + length <= block.end);
        inside.next().copied().filter(|_| inside.next().is_none())
    }

    /// Where a hunk without kept and removed lines adds: beneath its header, or at the end that it names.
    fn gap(&self, hunk: &Hunk<'_>, anchor: Option<&Anchor>) -> Result<Range<usize>, String> {
        let at = match anchor {
            _ if hunk.end == End::OfFile => self.lines.len(),
            Some(anchor) if anchor.doubt.is_empty() => anchor.line + 1,
            Some(anchor) => return Err(several(&[], Some(anchor))),
            None if self.lines.is_empty() => 0,
            None => {
                return Err(
                    "it only adds lines and does not say where. Give a line beside them that begins with a blank, \
                            `@@` with the line above them, or `*** End of File`."
                        .to_owned(),
                );
            }
        };
        Ok(at..at)
    }

    /// Finds the line that the headers name, each beneath the one before.
    fn anchor(&self, headers: &[&str]) -> Result<Option<Anchor>, String> {
        let mut anchor: Option<Anchor> = None;
        for header in headers {
            let from = anchor.as_ref().map_or(0, |anchor| anchor.line + 1);
            let mut found = self.headed(from, |text| text == header.as_bytes());
            if found.is_empty() {
                found = self.headed(from, |text| begins_with_words(text, header.as_bytes()));
            }
            let Some(first) = found.first().copied() else {
                let beneath = if from > 0 { format!(" beneath line {from}") } else { String::new() };
                return Err(format!(
                    "no line{beneath} is `{}`, which its `@@` names. Name a line of the file above the hunk, or write \
                     `@@` alone.",
                    shown(header)
                ));
            };
            anchor = Some(match self.only(&found, 1, anchor.as_ref()) {
                Some(line) => Anchor { line, doubt: Vec::new() },
                None => Anchor { line: first, doubt: found },
            });
        }
        Ok(anchor)
    }

    fn headed(&self, from: usize, is: impl Fn(&[u8]) -> bool) -> Vec<usize> {
        let lines = self.lines.iter().enumerate().skip(from);
        lines.filter(|(_, line)| is(line.text.trim_ascii())).map(|(at, _)| at).take(PLACE_LIMIT).collect()
    }

    /// The lines from `header` to the end of what is indented beneath it. A line that begins with a bracket of the
    /// header's own depth belongs to it, as `{` and `}` of a function do.
    fn block(&self, header: usize) -> Range<usize> {
        let depth = |line: &FileLine<'_>| line.text.len() - line.text.trim_ascii_start().len();
        let own = self.lines.get(header).map_or(0, depth);
        let ends = |line: &FileLine<'_>| {
            let text = line.text.trim_ascii_start();
            let bracket = matches!(text.first(), Some(b'{' | b'}' | b')' | b']'));
            !text.is_empty() && (depth(line) < own || depth(line) == own && !bracket)
        };
        let beneath = self.lines.iter().skip(header + 1).position(ends);
        header..beneath.map_or(self.lines.len(), |lines| header + 1 + lines)
    }

    fn nowhere(&self, hunk: &Hunk<'_>, old: &[&[u8]]) -> String {
        let mut elsewhere = self.exact.find(old, 0);
        elsewhere.truncate(LISTED_PLACES);
        if !elsewhere.is_empty() {
            let where_not = match hunk.end {
                End::OfFile => "not at the end of the file, as `*** End of File` says",
                End::Anywhere => "above the line that its `@@` names",
            };
            return format!("its lines stand at {}, {where_not}.", listed(&elsewhere));
        }
        let joined: Vec<_> = old.iter().map(|line| String::from_utf8_lossy(line)).collect();
        let mut file = Vec::new();
        for line in &self.lines {
            file.extend_from_slice(line.text);
            file.push(b'\n');
        }
        format!("its lines do not stand in the file like this.{}", near_miss(&file, &joined.join("\n")))
    }

    /// The file with the hunks in their places, which are sorted and do not overlap.
    fn rebuilt(&self, hunks: &[Hunk<'_>], placed: &[(Range<usize>, usize)]) -> Patched {
        let mut new = Rebuilt { lines: Vec::with_capacity(self.lines.len()), changed: Vec::new() };
        let mut done = 0;
        for (range, at) in placed {
            new.lines.extend_from_slice(&self.lines[done..range.start]);
            new.hunk(&hunks[*at], &self.lines[range.clone()]);
            done = range.end;
        }
        new.lines.extend_from_slice(&self.lines[done..]);
        let ends_open = self.lines.last().is_some_and(|line| line.end.is_empty());
        let usual = self.lines.first().map(|line| line.end).filter(|end| !end.is_empty()).unwrap_or(b"\n");
        let mut bytes = self.mark.to_vec();
        let mut starts = Vec::with_capacity(new.lines.len() + 1);
        let mut previous = usual;
        for (at, line) in new.lines.iter().enumerate() {
            starts.push(bytes.len());
            bytes.extend_from_slice(line.text);
            let end = if line.end.is_empty() { previous } else { line.end };
            previous = end;
            if !(ends_open && at + 1 == new.lines.len()) {
                bytes.extend_from_slice(end);
            }
        }
        starts.push(bytes.len());
        let places = new.changed.iter().map(|lines| starts[lines.start]..starts[lines.end]).collect();
        Patched { bytes, places }
    }
}

/// The lines of a new file; a line without an end takes that of the line before it.
struct Rebuilt<'a> {
    lines: Vec<FileLine<'a>>,
    /// Which of the lines are new, or stand where others went.
    changed: Vec<Range<usize>>,
}

impl<'a> Rebuilt<'a> {
    /// Adds what a hunk makes of the lines that it stands for.
    fn hunk(&mut self, hunk: &Hunk<'a>, old: &[FileLine<'a>]) {
        let mut old = old.iter();
        let changes = |line: &Line<'_>| !matches!(line, Line::Kept(_));
        for run in hunk.lines.chunk_by(|one, next| changes(one) == changes(next)) {
            if matches!(run, [Line::Kept(_), ..]) {
                self.lines.extend(old.by_ref().take(run.len()));
                continue;
            }
            let removed = run.iter().filter(|line| matches!(line, Line::Removed(_))).count();
            let removed: Vec<&FileLine<'a>> = old.by_ref().take(removed).collect();
            let start = self.lines.len();
            let added = run.iter().filter_map(|line| if let Line::Added(text) = line { Some(*text) } else { None });
            for (at, text) in added.enumerate() {
                let end = removed.get(at).or(removed.last()).map_or(&b""[..], |line| line.end);
                self.lines.push(FileLine { text: text.as_bytes(), end });
            }
            self.changed.push(start..self.lines.len());
        }
    }
}

/// Lines joined so that several in a row are found in one linear search.
struct Searchable {
    /// Each line after a line feed, and one more line feed at the end.
    text: Vec<u8>,
    /// The position of the line feed before each line.
    starts: Vec<usize>,
}

impl Searchable {
    fn of<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let (mut text, mut starts) = (Vec::new(), Vec::new());
        for line in lines {
            starts.push(text.len());
            text.push(b'\n');
            text.extend_from_slice(line);
        }
        text.push(b'\n');
        Self { text, starts }
    }

    /// The lines, from 0, at which `wanted` stands; none before `from`, at most [`PLACE_LIMIT`] of them.
    fn find(&self, wanted: &[&[u8]], from: usize) -> Vec<usize> {
        let needle = Self::of(wanted.iter().copied()).text;
        let finder = memmem::Finder::new(&needle);
        let mut found = Vec::new();
        let mut at = self.starts.get(from).copied().unwrap_or(self.text.len());
        while let Some(beyond) = finder.find(&self.text[at..]) {
            at += beyond;
            found.push(self.starts.partition_point(|start| *start < at));
            at += 1;
            if found.len() == PLACE_LIMIT {
                break;
            }
        }
        found
    }
}

/// Whether a line begins with the header and goes on with no letter of the same word, as `def b():` does for `def b`.
fn begins_with_words(line: &[u8], header: &[u8]) -> bool {
    let rest = line.strip_prefix(header);
    rest.is_some_and(|rest| {
        !rest.first().is_some_and(|next| next.is_ascii_alphanumeric() || *next == b'_' || *next > 127)
    })
}

fn several(found: &[usize], anchor: Option<&Anchor>) -> String {
    let header = match anchor {
        Some(anchor) if !anchor.doubt.is_empty() => {
            format!("the line that its `@@` names stands {} times, at {}", anchor.doubt.len(), listed(&anchor.doubt))
        }
        _ => String::new(),
    };
    let lines = if found.is_empty() {
        String::new()
    } else {
        format!("its lines stand at {}, at {}", counted(found.len(), "place"), listed(found))
    };
    let both = if header.is_empty() || lines.is_empty() { "" } else { ", and " };
    format!("{header}{both}{lines}. Add kept lines around the change, or `@@` with a line above it, until one is left.")
}

fn listed(lines: &[usize]) -> String {
    let numbers: Vec<String> = lines.iter().take(LISTED_PLACES).map(|line| (line + 1).to_string()).collect();
    let noun = if lines.len() == 1 { "line" } else { "lines" };
    let more = if lines.len() > LISTED_PLACES { ", …" } else { "" };
    format!("{noun} {}{more}", numbers.join(", "))
}

#[cfg(test)]
mod tests;
