//! Why an old text stands nowhere in a file: the places that almost match, and in what they differ.
//!
//! Only for the error text. An edit is never placed by likeness.

use unicode_normalization::UnicodeNormalization;

use crate::text::{clipped, counted, lines, numbered};

/// Files beyond this are not searched for near misses, in bytes.
const SEARCH_LIMIT_BYTES: usize = 2 * 1024 * 1024;

/// How many lines of the file are compared one by one, and how long they may be, in bytes.
const COMPARED_LINES: usize = 5_000;
const COMPARED_LINE_BYTES: usize = 200;

/// How many lines of the file are shown.
const SHOWN_LINES: usize = 12;

/// How many lines that are only alike are shown.
const CLOSE_LINES: usize = 3;

/// How much of each line is shown, in bytes.
const SHOWN_LINE_BYTES: usize = 300;

/// How alike two lines must be for one to be shown for the other, from 0 to 1.
const LIKENESS: f64 = 0.6;

type Fold = fn(&str) -> String;

/// Says in sentences what of the file comes closest to `old`; empty when nothing does.
pub(crate) fn near_miss(file: &[u8], old: &str) -> String {
    if file.len() > SEARCH_LIMIT_BYTES || old.len() > SEARCH_LIMIT_BYTES {
        return String::new();
    }
    let decoded = String::from_utf8_lossy(file);
    let lines: Vec<&str> =
        lines(decoded.as_bytes()).map(|line| std::str::from_utf8(line).unwrap_or_default()).collect();
    let mut text = slip(&lines, old).or_else(|| variant(&lines, old)).unwrap_or_else(|| closest_lines(&lines, old));
    if matches!(decoded, std::borrow::Cow::Owned(_)) && !old.is_ascii() {
        text.push_str(
            " The file is not UTF-8, so characters beyond ASCII cannot match in it; choose lines without them.",
        );
    }
    text
}

/// Old texts that would match had they been written down rightly.
fn slip(lines: &[&str], old: &str) -> Option<String> {
    let unnumbered: Option<Vec<&str>> = old.lines().map(without_number).collect();
    if let Some(found) = unnumbered.and_then(|lines_of_old| find(lines, &lines_of_old.join("\n"), str::to_owned)) {
        return Some(format!(
            " It holds the line numbers of `read_file`, which are not part of the file; leave them out.{}",
            excerpt(lines, found)
        ));
    }
    let unescaped = old.replace("\\n", "\n").replace("\\t", "\t").replace("\\\"", "\"").replace("\\\\", "\\");
    let found = (unescaped != old).then(|| find(lines, &unescaped, str::to_owned))??;
    Some(format!(
        " It writes out escapes such as `\\n` or `\\\"` where the file has the characters themselves.{}",
        excerpt(lines, found)
    ))
}

fn without_number(line: &str) -> Option<&str> {
    let (number, rest) = line.split_once('\t')?;
    (!number.trim().is_empty() && number.trim().bytes().all(|b| b.is_ascii_digit())).then_some(rest)
}

/// Places that match once a difference of one kind is folded away.
fn variant(lines: &[&str], old: &str) -> Option<String> {
    let folds: [(&str, Fold); 6] = [
        ("in white space (blanks, tabs, line breaks)", fold_space),
        ("in typographic quotes, dashes or blanks", fold_typography),
        ("in Unicode normalisation (composed or decomposed accents)", fold_normalisation),
        ("in upper and lower case", fold_case),
        ("in typography and white space", |text| fold_space(&fold_typography(text))),
        ("in white space, typography, Unicode normalisation or case", |text| {
            fold_space(&fold_case(&fold_typography(&fold_normalisation(text))))
        }),
    ];
    folds.into_iter().find_map(|(difference, fold)| {
        let found = find(lines, old, fold)?;
        Some(format!(" The file has text that differs from it only {difference}.{}", excerpt(lines, found)))
    })
}

fn fold_space(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && *c != '\u{200b}').collect()
}

fn fold_typography(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{201b}' | '\u{2032}' => '\'',
            '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{201f}' | '\u{2033}' => '"',
            '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
            '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
            other => other,
        })
        .collect()
}

fn fold_normalisation(text: &str) -> String {
    text.nfc().collect()
}

fn fold_case(text: &str) -> String {
    text.to_lowercase()
}

/// The lines (from 0, the last included) at which `old` stands once both are folded line by line.
fn find(lines: &[&str], old: &str, fold: impl Fn(&str) -> String) -> Option<(usize, usize)> {
    // A fold that takes line breaks away must not leave them between the lines either.
    let joint = fold("\n");
    let mut folded = String::new();
    let mut starts = Vec::with_capacity(lines.len());
    for line in lines {
        starts.push(folded.len());
        folded.push_str(&fold(line));
        folded.push_str(&joint);
    }
    let needle = old.split('\n').map(|line| fold(line.strip_suffix('\r').unwrap_or(line))).collect::<Vec<_>>();
    let needle = needle.join(&joint);
    if needle.is_empty() {
        return None;
    }
    let at = folded.find(&needle)?;
    let line_of = |at: usize| starts.partition_point(|start| *start <= at).saturating_sub(1);
    Some((line_of(at), line_of(at + needle.len() - 1)))
}

/// The lines most like the longest line of the old text.
fn closest_lines(lines: &[&str], old: &str) -> String {
    let Some(wanted) =
        old.lines().map(str::trim).filter(|line| line.len() <= COMPARED_LINE_BYTES).max_by_key(|l| l.len())
    else {
        return String::new();
    };
    let compared = lines.iter().enumerate().take(COMPARED_LINES).filter(|(_, line)| line.len() <= COMPARED_LINE_BYTES);
    let scored = compared.map(|(at, line)| (strsim::sorensen_dice(wanted, line.trim()), at));
    let mut close: Vec<(f64, usize)> = scored.filter(|(score, _)| *score >= LIKENESS).collect();
    close.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    close.truncate(CLOSE_LINES);
    close.sort_by_key(|(_, at)| *at);
    let shown: String = close.iter().map(|(_, at)| numbered(at + 1, &clipped(lines[*at], SHOWN_LINE_BYTES))).collect();
    if shown.is_empty() {
        return " Nothing in the file is like it; read the file again.".to_owned();
    }
    format!(" The lines most like it are:\n{}", shown.trim_end_matches('\n'))
}

fn excerpt(lines: &[&str], (first, last): (usize, usize)) -> String {
    let shown: String = (first..=last)
        .take(SHOWN_LINES)
        .filter_map(|at| Some(numbered(at + 1, &clipped(lines.get(at)?, SHOWN_LINE_BYTES))))
        .collect();
    let more = (last + 1 - first).saturating_sub(SHOWN_LINES);
    let rest = if more > 0 { format!("[… {} more]", counted(more, "line")) } else { String::new() };
    format!(" The file reads:\n{shown}{rest}").trim_end_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(file: &str, old: &str, says: &str) {
        let text = near_miss(file.as_bytes(), old);
        assert!(text.contains(says), "{old:?} in {file:?} says {text:?}, not {says:?}");
    }

    #[test]
    fn the_difference_is_named_with_the_lines_as_they_are() {
        check("a\n\tif x:\n\t\ty()\n", "    if x:\n        y()", "only in white space");
        check("a\n\tif x:\n\t\ty()\n", "    if x:\n        y()", "     2\t\tif x:\n     3\t\t\ty()");
        check("say “hi”\n", "say \"hi\"", "typographic quotes");
        check("cafe\u{301}\n", "caf\u{e9}", "Unicode normalisation");
        check("Total = 1\n", "total = 1", "upper and lower case");
        check("a\nb\n", "     1\ta\n     2\tb", "line numbers of `read_file`");
        check("a\n\"b\"\n", "a\\n\\\"b\\\"", "writes out escapes");
        check("def total(cart):\n    pass\n", "def totals(card):", "     1\tdef total(cart):");
        check("x\n", "entirely different text", "Nothing in the file is like it");
    }

    #[test]
    fn a_file_in_another_encoding_is_named() {
        assert!(near_miss(b"caf\xE9 = 1\n", "caf\u{e9} = 1").contains("not UTF-8"));
    }
}
