//! What a terminal would show of a command's output, as plain text: no control sequences, progress lines folded.
//!
//! Output is data of unknown origin. A sequence that sets a title, a clipboard or a colour means nothing to a model and
//! may do harm on a screen, so none passes.

/// Plain text made of raw output, with what was lost on the way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plain {
    /// The text.
    pub(crate) text: String,
    /// Whether bytes that are not UTF-8 were replaced by U+FFFD.
    pub(crate) replaced: bool,
    /// Whether control characters such as NUL were left out (those of a terminal's own language do not count).
    pub(crate) stripped: bool,
    /// How many bytes of a character cut in two were dropped.
    pub(crate) dropped: usize,
}

/// Which side of a raw output was cut, so that a character cut in two is dropped there instead of replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Neither.
    Nowhere,
    /// Its end.
    End,
    /// Its start.
    Start,
}

/// Makes plain text of raw output.
pub(crate) fn plain(raw: &[u8], cut: Cut) -> Plain {
    let whole = match cut {
        Cut::Nowhere => raw,
        Cut::End => whole_at_end(raw),
        Cut::Start => whole_at_start(raw),
    };
    let decoded = String::from_utf8_lossy(whole);
    let mut stripper = Stripper::default();
    let mut text = String::with_capacity(decoded.len());
    stripper.push(&decoded, &mut text);
    Plain {
        text: folded(&text),
        replaced: std::str::from_utf8(whole).is_err(),
        stripped: stripper.stripped,
        dropped: raw.len() - whole.len(),
    }
}

/// Drops the bytes of a character that the end cuts in two.
fn whole_at_end(raw: &[u8]) -> &[u8] {
    match std::str::from_utf8(raw) {
        // No error length: the bytes are the start of a character, and more were to come.
        Err(error) if error.error_len().is_none() => &raw[..error.valid_up_to()],
        // An earlier fault hides the end: look at the last bytes alone.
        Err(_) => {
            let lead = raw.iter().rposition(|byte| byte & 0xC0 != 0x80).unwrap_or(0);
            let unfinished = std::str::from_utf8(&raw[lead..]).is_err_and(|error| error.error_len().is_none());
            if unfinished { &raw[..lead] } else { raw }
        }
        Ok(_) => raw,
    }
}

/// Drops the bytes of a character that the start cuts in two: at most three continuation bytes.
fn whole_at_start(raw: &[u8]) -> &[u8] {
    let rest = raw.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
    &raw[rest..]
}

/// Keeps what stands after the last carriage return of each line, as a terminal's line would read in the end.
fn folded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (body, end) = match line.strip_suffix('\n') {
            Some(body) => (body, "\n"),
            None => (line, ""),
        };
        let body = body.trim_end_matches('\r');
        out.push_str(body.rsplit('\r').next().unwrap_or(body));
        out.push_str(end);
    }
    out
}

/// Where in a control sequence the stripper is (ECMA-48; the string kinds end at a line end too, so that an unfinished
/// one cannot swallow the rest of the output).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Text,
    Escape,
    /// ESC and intermediate bytes: one final byte ends it.
    Designation,
    /// `ESC [`: a final byte in `@` to `~` ends it.
    Control,
    /// OSC, DCS, APC, PM, SOS: BEL or ST ends it.
    String,
    /// An ESC inside a string, perhaps the first half of ST.
    StringEscape,
}

/// Takes control sequences and control characters out of text that arrives in pieces.
#[derive(Debug, Default)]
pub(crate) struct Stripper {
    within: Within,
    stripped: bool,
}

impl Stripper {
    /// Appends what `text` shows to `out`. Line feeds, tabs and carriage returns stay.
    pub(crate) fn push(&mut self, text: &str, out: &mut String) {
        for c in text.chars() {
            self.within = match (self.within, c) {
                (Within::String | Within::StringEscape, '\n') => {
                    out.push('\n');
                    Within::Text
                }
                (Within::String, '\u{7}' | '\u{9c}') => Within::Text,
                (Within::String, '\u{1b}') => Within::StringEscape,
                (Within::String, _) => Within::String,
                (Within::StringEscape, '\\') => Within::Text,
                // An ESC always begins anew, also inside a sequence.
                (_, '\u{1b}') => Within::Escape,
                (Within::Escape | Within::StringEscape, '[') | (_, '\u{9b}') => Within::Control,
                (Within::Escape | Within::StringEscape, ']' | 'P' | 'X' | '^' | '_')
                | (_, '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}') => Within::String,
                (Within::Escape | Within::StringEscape | Within::Designation, ' '..='/') => Within::Designation,
                (Within::Escape | Within::StringEscape | Within::Designation, '0'..='~') => Within::Text,
                (Within::Control, ' '..='?') => Within::Control,
                (Within::Control, '@'..='~') => Within::Text,
                (_, c) => {
                    self.visible(c, out);
                    Within::Text
                }
            };
        }
    }

    fn visible(&mut self, c: char, out: &mut String) {
        match c {
            '\n' | '\t' | '\r' => out.push(c),
            // Overstriking, as manual pages do it: the character before is typed over.
            '\u{8}' => {
                if out.ends_with(|last: char| !last.is_control()) {
                    out.pop();
                }
            }
            '\u{7}' => {}
            c if c.is_control() => self.stripped = true,
            c => out.push(c),
        }
    }
}

/// Makes plain text of raw output as it arrives, for watching; a character cut by a chunk's edge waits for its rest.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pending: Vec<u8>,
    stripper: Stripper,
}

impl Live {
    /// What the next chunk shows.
    pub(crate) fn push(&mut self, chunk: &[u8]) -> String {
        self.pending.extend_from_slice(chunk);
        let whole = whole_at_end(&self.pending).len();
        let mut text = String::new();
        self.stripper.push(&String::from_utf8_lossy(&self.pending[..whole]), &mut text);
        self.pending.drain(..whole);
        text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn output_reads_as_a_terminal_would_show_it() {
        let table: [(&[u8], &str); 13] = [
            (b"\x1b[1;31mred\x1b[0m\n", "red\n"),
            (b"\x1b]0;title\x07text", "text"),
            (b"\x1b]52;c;AAAA\x1b\\text", "text"),
            (b"\x1bP1$r\x1b\\x", "x"),
            (b"\x1b(Bplain", "plain"),
            (b"\x1b]unfinished\nnext line", "\nnext line"),
            (b"10%\r50%\r100%\ndone\n", "100%\ndone\n"),
            (b"one\r\ntwo\r\n", "one\ntwo\n"),
            (b"a\0b\x07", "ab"),
            (b"N\x08NA\x08A", "NA"),
            ("\u{9b}31mred".as_bytes(), "red"),
            (b"caf\xE9", "caf\u{fffd}"),
            (b"\xED\xA0\xBD", "\u{fffd}\u{fffd}\u{fffd}"),
        ];
        for (raw, text) in table {
            assert_eq!(plain(raw, Cut::Nowhere).text, text, "{raw:?}");
        }
    }

    #[test]
    fn ten_thousand_progress_updates_fold_to_the_last() {
        let mut raw: Vec<u8> = (0..10_000).flat_map(|n| format!("\r{n}").into_bytes()).collect();
        raw.push(b'\n');
        assert_eq!(plain(&raw, Cut::Nowhere).text, "9999\n");
    }

    #[test]
    fn losses_are_told() {
        assert!(plain(b"caf\xE9", Cut::Nowhere).replaced);
        assert!(plain(b"a\0b", Cut::Nowhere).stripped);
        let coloured = plain(b"\x1b[31mred\x07", Cut::Nowhere);
        assert!(!coloured.replaced && !coloured.stripped);
    }

    #[test]
    fn a_cut_inside_a_character_drops_only_that_character() {
        let text = "ab😀".as_bytes();
        for cut in 3..6 {
            let plain = plain(&text[..cut], Cut::End);
            assert_eq!((plain.text.as_str(), plain.replaced), ("ab", false), "cut at {cut}");
        }
        for cut in 1..4 {
            let plain = plain(&"😀ab".as_bytes()[cut..], Cut::Start);
            assert_eq!((plain.text.as_str(), plain.replaced), ("ab", false), "cut at {cut}");
        }
        assert_eq!(plain(b"\xE9 x\xF0\x9F", Cut::End).text, "\u{fffd} x");
    }

    proptest! {
        #[test]
        fn no_control_character_passes(raw in proptest::collection::vec(any::<u8>(), 0..300)) {
            let text = plain(&raw, Cut::Nowhere).text;
            prop_assert!(text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'), "{text:?}");
        }

        #[test]
        fn chunks_show_what_the_whole_shows(text in "[a😀é\u{1b}\\[\\]m;\n]{0,60}", at in 0usize..200) {
            let raw = text.as_bytes();
            let at = at.min(raw.len());
            let mut live = Live::default();
            let pieces = live.push(&raw[..at]) + &live.push(&raw[at..]);
            let mut whole = String::new();
            Stripper::default().push(&text, &mut whole);
            prop_assert_eq!(pieces, whole);
        }
    }
}
