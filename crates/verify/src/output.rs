//! Output as evidence: bounded, decoded, and free of anything that a terminal would act on.

use hames_protocol::port::Capture;

/// The most that one check keeps of its output, in bytes.
pub(crate) const EVIDENCE_BYTES: usize = 4_000;

/// The captured output as text; where its middle was left out, a line says so.
pub(crate) fn text(capture: &Capture) -> String {
    let head = String::from_utf8_lossy(&capture.head);
    if capture.left_out == 0 && capture.tail.is_empty() {
        return head.into_owned();
    }
    let tail = String::from_utf8_lossy(&capture.tail);
    if capture.left_out == 0 {
        return format!("{head}{tail}");
    }
    format!("{head}\n[{} bytes left out]\n{tail}", capture.left_out)
}

/// The end of `text`, at most `EVIDENCE_BYTES` long, without control characters.
pub(crate) fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(|line| line.rsplit('\r').next().unwrap_or(line)).collect();
    let clean = without_escapes(&lines.join("\n"));
    let clean = clean.trim_end();
    let mut start = clean.len().saturating_sub(EVIDENCE_BYTES);
    while !clean.is_char_boundary(start) {
        start += 1;
    }
    clean[start..].to_owned()
}

/// `text` without escape sequences, control characters other than newline and tab, and direction overrides.
pub(crate) fn without_escapes(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\u{1b}' => skip_sequence(&mut rest),
            '\u{9b}' => skip_control_sequence(&mut rest),
            '\n' | '\t' => clean.push(character),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            _ if character.is_control() => {}
            _ => clean.push(character),
        }
    }
    clean
}

/// Skips what follows an ESC (ECMA-48): a control sequence, a string up to its terminator, or one character.
fn skip_sequence(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match rest.next_if(|next| *next != '\n') {
        Some('[') => skip_control_sequence(rest),
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(next) = rest.next_if(|next| *next != '\n') {
                if next == '\u{7}' || next == '\u{9c}' {
                    return;
                }
                if next == '\u{1b}' {
                    rest.next_if_eq(&'\\');
                    return;
                }
            }
        }
        _ => {}
    }
}

/// Skips parameters and intermediates up to the final byte.
fn skip_control_sequence(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    while let Some(next) = rest.next_if(|next| ('\u{20}'..='\u{7e}').contains(next)) {
        if next >= '\u{40}' {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_cut_between_characters_and_bounded() {
        for shift in 0..4 {
            let text = format!("{}{}", "x".repeat(shift), "🦀".repeat(2_000));
            let kept = tail(&text);
            assert!(kept.len() <= EVIDENCE_BYTES && kept.len() > EVIDENCE_BYTES - 4);
            assert!(kept.chars().all(|one| one == '🦀'));
        }
    }

    #[test]
    fn nothing_that_a_terminal_acts_on_is_kept() {
        let text =
            "a\u{1b}[31mred\u{1b}[0m\u{1b}]52;c;AAAA\u{7}b\u{9b}2Jc\u{0}d\u{202e}e\u{1b}Pq\u{1b}\\f\n50%\r100%\r\nend";
        assert_eq!(tail(text), "aredbcdef\n100%\nend");
    }

    #[test]
    fn a_capture_says_what_was_left_out() {
        let capture = Capture { head: b"one".to_vec(), tail: b"two".to_vec(), left_out: 7 };
        assert_eq!(text(&capture), "one\n[7 bytes left out]\ntwo");
    }
}
