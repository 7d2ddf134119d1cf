//! From the text of a patch to its sections, or to a sentence that names the line at fault.

use super::{End, Hunk, Line, Section};
use crate::text::shown;

/// What the lines of a patch may begin with, for sentences.
const HEADERS: &str = "`*** Add File: PATH`, `*** Update File: PATH`, `*** Delete File: PATH` or `*** End Patch`";

/// Reads a patch.
///
/// # Errors
/// A sentence for the model.
pub(crate) fn parse(patch: &str) -> Result<Vec<Section<'_>>, String> {
    // A patch whose own line ends are CRLF says nothing about the files' line ends.
    let crlf = patch.split('\n').find(|line| !line.trim().is_empty()).is_some_and(|line| line.ends_with('\r'));
    let lines = patch.split('\n').map(|line| if crlf { line.strip_suffix('\r').unwrap_or(line) } else { line });
    let mut reader = Reader::default();
    for (number, line) in (1..).zip(lines) {
        reader.line(number, line).map_err(|why| format!("Line {number} of the patch: {why}"))?;
    }
    match reader.state {
        State::Ended if reader.sections.is_empty() => {
            Err(format!("The patch is empty. Between its first and last line it needs {HEADERS}."))
        }
        State::Ended => Ok(reader.sections),
        State::Unbegun => Err("The patch is empty. It begins with the line `*** Begin Patch`.".to_owned()),
        _ => {
            Err("The patch does not end with the line `*** End Patch`, so a part may be missing. Send it whole."
                .to_owned())
        }
    }
}

#[derive(Default, PartialEq, Eq, Clone, Copy)]
enum State {
    #[default]
    Unbegun,
    /// A header of a section must follow.
    Between,
    /// After `*** Update File`, where `*** Move to` may stand.
    Updating,
    /// In a section, whose last kind of line is open.
    Inside,
    /// After `*** End of File`.
    FileEnded,
    Ended,
}

#[derive(Default)]
struct Reader<'a> {
    state: State,
    sections: Vec<Section<'a>>,
    /// Blank lines that may only separate sections, and are no content then.
    blanks: usize,
}

impl<'a> Reader<'a> {
    fn line(&mut self, number: usize, line: &'a str) -> Result<(), String> {
        let marker = line.trim_end();
        match self.state {
            State::Unbegun if marker.is_empty() => Ok(()),
            State::Unbegun if marker == "*** Begin Patch" => {
                self.state = State::Between;
                Ok(())
            }
            State::Unbegun => Err(format!("a patch begins with `*** Begin Patch`, not with `{}`.", shown(line))),
            State::Ended if marker.is_empty() => Ok(()),
            State::Ended => Err(format!("`{}` stands behind `*** End Patch`. Leave it out.", shown(line))),
            _ if marker == "*** Begin Patch" => Err("`*** Begin Patch` stands here again. Send one patch.".to_owned()),
            _ if marker == "*** End of File" => self.end_of_file(),
            _ if line.starts_with("***") => self.header(marker),
            _ if line.is_empty() => {
                self.blanks += 1;
                Ok(())
            }
            _ => self.content(number, line),
        }
    }

    fn header(&mut self, marker: &'a str) -> Result<(), String> {
        let argument = |name: &str| marker.strip_prefix(name).map(str::trim);
        if let Some(to) = argument("*** Move to:") {
            let updating = self.state == State::Updating && self.blanks == 0;
            let Some(Section::Update { to: slot @ None, .. }) = self.sections.last_mut().filter(|_| updating) else {
                return Err("`*** Move to:` may only stand directly beneath `*** Update File:`.".to_owned());
            };
            *slot = Some(path(to)?);
            return Ok(());
        }
        self.close_section()?;
        self.state = State::Inside;
        if marker == "*** End Patch" {
            self.state = State::Ended;
        } else if let Some(at) = argument("*** Add File:") {
            self.sections.push(Section::Add { path: path(at)?, content: String::new() });
        } else if let Some(at) = argument("*** Delete File:") {
            self.sections.push(Section::Delete { path: path(at)? });
            self.state = State::Between;
        } else if let Some(at) = argument("*** Update File:") {
            self.sections.push(Section::Update { path: path(at)?, to: None, hunks: Vec::new() });
            self.state = State::Updating;
        } else {
            return Err(format!("`{}` is not known. Use {HEADERS}.", shown(marker)));
        }
        Ok(())
    }

    fn content(&mut self, number: usize, line: &'a str) -> Result<(), String> {
        let blanks = std::mem::take(&mut self.blanks);
        let state = self.state;
        match self.sections.last_mut() {
            Some(Section::Add { content, .. }) if state == State::Inside => match line.strip_prefix('+') {
                Some(text) if blanks == 0 => {
                    content.push_str(text);
                    content.push('\n');
                    Ok(())
                }
                Some(_) => Err("the line before it is blank; in a new file a blank line is written `+`.".to_owned()),
                None => Err(format!("each line of a new file begins with `+`; this one is `{}`.", shown(line))),
            },
            Some(Section::Update { hunks, .. }) if state != State::Between => {
                if let Some(header) = line.strip_prefix("@@") {
                    self.state = State::Inside;
                    return hunk_header(hunks, number, header);
                }
                if state == State::FileEnded {
                    return Err(format!(
                        "`{}` stands behind `*** End of File`. Begin another hunk with `@@`, or another section.",
                        shown(line)
                    ));
                }
                if hunks.is_empty() {
                    hunks.push(Hunk { line: number - blanks, ..Hunk::default() });
                }
                self.state = State::Inside;
                let Some(hunk) = hunks.last_mut() else { return Ok(()) };
                // A blank line within a hunk is a kept one whose first character, a blank, was lost.
                hunk.lines.extend(std::iter::repeat_n(Line::Kept(""), blanks));
                hunk.lines.push(hunk_line(line)?);
                Ok(())
            }
            _ => Err(format!("`{}` belongs to no file. Here stands {HEADERS}.", shown(line))),
        }
    }

    fn end_of_file(&mut self) -> Result<(), String> {
        let blanks = std::mem::take(&mut self.blanks);
        match self.sections.last_mut() {
            Some(Section::Update { hunks, .. }) if self.state == State::Inside => {
                let Some(hunk) = hunks.last_mut() else { return Ok(()) };
                hunk.lines.extend(std::iter::repeat_n(Line::Kept(""), blanks));
                hunk.end = End::OfFile;
                self.state = State::FileEnded;
                Ok(())
            }
            // Says what is true of a new file anyway.
            Some(Section::Add { .. }) if self.state == State::Inside && blanks == 0 => {
                self.state = State::Between;
                Ok(())
            }
            _ => Err("`*** End of File` may only stand at the end of a hunk.".to_owned()),
        }
    }

    fn close_section(&mut self) -> Result<(), String> {
        self.blanks = 0;
        let Some(Section::Update { path, to, hunks }) = self.sections.last() else { return Ok(()) };
        let path = shown(path);
        if hunks.is_empty() && to.is_none() {
            return Err(format!("the update of `{path}` above has no hunk. Add one, or leave the section out."));
        }
        match hunks.iter().find(|hunk| hunk.lines.iter().all(|line| matches!(line, Line::Kept(_)))) {
            Some(hunk) => Err(format!(
                "the hunk at line {} for `{path}` has no line that begins with `-` or `+`, so it would change nothing.",
                hunk.line
            )),
            None => Ok(()),
        }
    }
}

fn path(text: &str) -> Result<&str, String> {
    if text.is_empty() { Err("the path is missing behind the colon.".to_owned()) } else { Ok(text) }
}

fn hunk_header<'a>(hunks: &mut Vec<Hunk<'a>>, number: usize, header: &'a str) -> Result<(), String> {
    if !header.is_empty() && !header.starts_with([' ', '\t', '\r']) {
        return Err("a blank stands between `@@` and the line of the file that it names.".to_owned());
    }
    let header = header.trim();
    let mut words = header.split_whitespace();
    if let (Some(old), Some(new)) = (words.next(), words.next())
        && old.starts_with('-')
        && new.starts_with('+')
        && [old, new].iter().all(|range| range[1..].starts_with(|c: char| c.is_ascii_digit()))
    {
        return Err(
            "line numbers are not part of this format. Write `@@` alone, or `@@` and a line of the file above the hunk."
                .to_owned(),
        );
    }
    match hunks.last_mut() {
        // Several headers on top of each other narrow the place down.
        Some(open) if open.lines.is_empty() && !open.headers.is_empty() && !header.is_empty() => {
            open.headers.push(header);
        }
        _ => {
            let headers = if header.is_empty() { Vec::new() } else { vec![header] };
            hunks.push(Hunk { line: number, headers, ..Hunk::default() });
        }
    }
    Ok(())
}

fn hunk_line(line: &str) -> Result<Line<'_>, String> {
    let text = line.get(1..).unwrap_or_default();
    // Line ends are the file's own.
    let text = text.strip_suffix('\r').unwrap_or(text);
    match line.as_bytes().first() {
        Some(b' ') => Ok(Line::Kept(text)),
        Some(b'-') => Ok(Line::Removed(text)),
        Some(b'+') => Ok(Line::Added(text)),
        Some(b'\r') if line.len() == 1 => Ok(Line::Kept("")),
        _ => Err(format!(
            "a line of a hunk begins with a blank (kept), `-` (removed) or `+` (added); this one is `{}`.",
            shown(line)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(body: &str) -> String {
        format!("*** Begin Patch\n{body}\n*** End Patch\n")
    }

    #[test]
    fn every_notation_of_the_format_is_read() {
        let patch = framed(
            "*** Add File: new.txt\n+one\n+\n*** Delete File: old.txt\n\n*** Update File: a.py\n*** Move to: b/c.py\n\
             @@ class A\n@@ \tdef m():\n one\n-two\n+2\n\n \tfour\n@@\n+end\n*** End of File",
        );
        let hunks = vec![
            Hunk {
                line: 9,
                headers: vec!["class A", "def m():"],
                lines: vec![
                    Line::Kept("one"),
                    Line::Removed("two"),
                    Line::Added("2"),
                    Line::Kept(""),
                    Line::Kept("\tfour"),
                ],
                end: End::Anywhere,
            },
            Hunk { line: 16, headers: Vec::new(), lines: vec![Line::Added("end")], end: End::OfFile },
        ];
        let sections = vec![
            Section::Add { path: "new.txt", content: "one\n\n".to_owned() },
            Section::Delete { path: "old.txt" },
            Section::Update { path: "a.py", to: Some("b/c.py"), hunks },
        ];
        assert_eq!(parse(&patch).unwrap(), sections);
        let crlf = patch.replace('\n', "\r\n");
        assert_eq!(parse(&crlf).unwrap(), sections);
    }

    #[test]
    fn a_file_may_only_move_and_the_first_hunk_needs_no_header() {
        let patch = framed("*** Update File: a\n*** Move to: b");
        assert_eq!(parse(&patch).unwrap(), [Section::Update { path: "a", to: Some("b"), hunks: Vec::new() }]);
        let patch = framed("*** Update File: a\n-x\n+y\n\n");
        let hunk = Hunk { line: 3, lines: vec![Line::Removed("x"), Line::Added("y")], ..Hunk::default() };
        assert_eq!(parse(&patch).unwrap(), [Section::Update { path: "a", to: None, hunks: vec![hunk] }]);
    }

    #[test]
    fn what_is_no_patch_is_told_with_its_line() {
        let whole = |body: &str| framed(body);
        let table = [
            (String::new(), "The patch is empty. It begins with"),
            ("--- a/f\n+++ b/f\n".to_owned(), "Line 1 of the patch: a patch begins with `*** Begin Patch`, not with"),
            ("*** Begin Patch\n*** Add File: a\n+x\n".to_owned(), "does not end with the line `*** End Patch`"),
            ("*** Begin Patch\n*** End Patch\n".to_owned(), "The patch is empty. Between"),
            (format!("{}EOF", whole("*** Delete File: a")), "Line 4 of the patch: `EOF` stands behind"),
            (whole("*** Begin Patch"), "Line 2 of the patch: `*** Begin Patch` stands here again"),
            (whole("text"), "Line 2 of the patch: `text` belongs to no file"),
            (whole("*** Delete File: a\n-x"), "Line 3 of the patch: `-x` belongs to no file"),
            (whole("*** Rename File: a"), "`*** Rename File: a` is not known"),
            (whole("*** Add File: "), "Line 2 of the patch: the path is missing"),
            (
                whole("*** Add File: a\nx"),
                "Line 3 of the patch: each line of a new file begins with `+`; this one is `x`",
            ),
            (whole("*** Add File: a\n+x\n\n+y"), "Line 5 of the patch: the line before it is blank"),
            (whole("*** Move to: b"), "Line 2 of the patch: `*** Move to:` may only stand directly beneath"),
            (whole("*** Update File: a\n@@\n-x\n*** Move to: b"), "Line 5 of the patch: `*** Move to:`"),
            (whole("*** Update File: a"), "Line 3 of the patch: the update of `a` above has no hunk"),
            (whole("*** Update File: a\n@@ -1,2 +1,3 @@ f\n-x"), "Line 3 of the patch: line numbers are not part"),
            (whole("*** Update File: a\n@@x\n-x"), "Line 3 of the patch: a blank stands between `@@`"),
            (whole("*** Update File: a\n@@\n x"), "the hunk at line 3 for `a` has no line that begins with"),
            (whole("*** Update File: a\n@@\n@@\n-x"), "the hunk at line 3 for `a` has no line that begins with"),
            (whole("*** Update File: a\n@@\n-x\nélan"), "Line 5 of the patch: a line of a hunk begins with a blank"),
            (whole("*** Update File: a\n@@\n-x\n*** End of File\n+y"), "Line 6 of the patch: `+y` stands behind"),
            (whole("*** End of File"), "Line 2 of the patch: `*** End of File` may only stand"),
        ];
        for (patch, says) in table {
            let text = parse(&patch).unwrap_err();
            assert!(text.contains(says), "{patch:?} says {text:?}, not {says:?}");
        }
    }
}
