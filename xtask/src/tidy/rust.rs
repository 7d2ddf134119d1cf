//! Rust text split into its code and its comments, so that a rule about one is not set off by the other.

/// A file's code and comments: each as long as the file and with its line ends, blanks in the place of the rest.
/// The contents of strings and characters are in neither.
#[derive(Debug, Default)]
pub(super) struct Rust {
    pub(super) code: String,
    pub(super) comments: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

/// Splits a file. Text that is not Rust is split somehow, never a panic: the compiler will say so.
pub(super) fn split(text: &str) -> Rust {
    let mut rust = Rust::default();
    let mut rest = text;
    while !rest.is_empty() {
        let (kind, length) = token(rest, rust.code.chars().next_back());
        let (token, after) = rest.split_at(length);
        for c in token.chars() {
            let blank = if c == '\n' { '\n' } else { ' ' };
            rust.code.push(if kind == Kind::Code { c } else { blank });
            rust.comments.push(if kind == Kind::Comment { c } else { blank });
        }
        rest = after;
    }
    rust
}

/// The kind and the length of what `rest` begins with; `before` is the code's last character.
fn token(rest: &str, before: Option<char>) -> (Kind, usize) {
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if rest.starts_with("//") {
        return (Kind::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (Kind::Comment, block_comment(rest));
    }
    if let Some(raw) = (!in_word).then(|| raw_string(rest)).flatten() {
        return (Kind::Literal, raw);
    }
    if rest.starts_with('"') {
        return (Kind::Literal, quoted(rest, '"'));
    }
    if let Some(quote) = rest.strip_prefix('\'') {
        // A character, or else the mark of a lifetime or a label.
        let mut ahead = quote.chars();
        let first = ahead.next();
        if first == Some('\\') || (first.is_some() && ahead.next() == Some('\'')) {
            return (Kind::Literal, quoted(rest, '\''));
        }
    }
    (Kind::Code, rest.chars().next().map_or(0, char::len_utf8))
}

/// The length of a comment with those inside it.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        let here = &rest[at..];
        if here.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if here.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += here.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// The length of `r"…"`, `r#"…"#`, and their byte and C forms; none when there is no such string.
fn raw_string(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r"].into_iter().find(|prefix| rest.starts_with(prefix))?;
    let hashes = rest[prefix.len()..].bytes().take_while(|byte| *byte == b'#').count();
    let start = prefix.len() + hashes;
    rest[start..].starts_with('"').then_some(())?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(rest[start + 1..].find(&end).map_or(rest.len(), |length| start + 1 + length + end.len()))
}

/// The length of a string or character with escapes.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, code: &str, comments: &str) {
        let rust = split(text);
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!((words(&rust.code).as_str(), words(&rust.comments).as_str()), (code, comments));
        assert_eq!(rust.code.matches('\n').count(), text.matches('\n').count());
        assert_eq!(rust.comments.matches('\n').count(), text.matches('\n').count());
    }

    #[test]
    fn comments_and_literals_are_taken_out_of_the_code() {
        check("a // b\nc", "a c", "// b");
        check("a /* b /* c */ d */ e", "a e", "/* b /* c */ d */");
        check(r#"a("// no", "\" // no") // yes"#, "a( , )", "// yes");
        check("a(r#\"\" // no\"#) b", "a( ) b", "");
        check("br\"\\\" c", "c", "");
        check("x('\"', '\\'', b'/') // y", "x( , , b )", "// y");
    }

    #[test]
    fn lifetimes_and_raw_names_stay_code() {
        check("fn f<'a>(x: &'a str) -> &'a str", "fn f<'a>(x: &'a str) -> &'a str", "");
        check("'outer: loop { r#type }", "'outer: loop { r#type }", "");
    }

    #[test]
    fn broken_text_does_not_panic() {
        for text in ["\"", "'", "'\\", "/*", "r#\"", "/* é", "\"é\\"] {
            split(text);
        }
    }
}
