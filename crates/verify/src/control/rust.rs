//! Tests in Rust that must fail, for libtest under cargo and nextest.

use super::Content;

pub(super) fn carries(path: &str) -> bool {
    path.ends_with(".rs") && (path.starts_with("tests/") || path.contains("/tests/"))
}

/// Whether the file is where a crate begins by cargo's conventions. Unit tests stand in code that may be changed, so
/// no original of theirs is kept; a control in the root of their crate runs beside them all the same.
pub(super) fn is_root(path: &str) -> bool {
    ["src/lib.rs", "src/main.rs"].iter().any(|root| path == *root || path.ends_with(&format!("/{root}")))
}

/// The file with its control; none when it can carry none.
pub(super) fn write(path: &str, source: &str, content: Content, mark: &str) -> Option<String> {
    match content {
        Content::Added => Some(format!("{source}\n{}", added(mark))),
        Content::Alone => {
            // Attributes of the whole file may rule all of its tests out (`#![cfg(…)]`).
            let attributes: String =
                source.lines().filter(|line| line.starts_with("#![")).flat_map(|line| [line, "\n"]).collect();
            let main = if path.ends_with("src/main.rs") { "fn main() {}\n" } else { "" };
            Some(format!("{attributes}{main}{}", added(mark)))
        }
        Content::Ends => ends(source, mark),
    }
}

/// A test that fails, and says so when an assertion is not what it was: a crate may bring macros of the same names.
fn added(mark: &str) -> String {
    format!(
        "
#[cfg(test)]
#[test]
fn zz_{mark}() {{
    let attempts: [fn(); 3] = [|| assert_eq!(1, 2), || assert_ne!(1, 1), || assert!(1 > 2)];
    let toothless = attempts.into_iter().any(|attempt| ::std::panic::catch_unwind(attempt).is_ok());
    ::std::panic!(\"{{}}-{mark}\", if toothless {{ \"toothless\" }} else {{ \"control\" }});
}}
"
    )
}

/// Every test fails at its end; none when the file holds no test. A value is dropped there, whichever way a test
/// returns.
fn ends(source: &str, mark: &str) -> Option<String> {
    let guard = format!(
        " struct Zz{mark}; impl Drop for Zz{mark} {{ fn drop(&mut self) {{ if !::std::thread::panicking() {{ \
         ::std::panic!(\"control {mark}\") }} }} }} let _zz = Zz{mark};"
    );
    let mut written = String::with_capacity(source.len());
    let mut is_test = false;
    let mut any = false;
    for line in source.split_inclusive('\n') {
        let text = line.trim();
        is_test |= text.starts_with("#[test]") || (text.starts_with("#[") && text.contains("::test"));
        let declared = line.find("fn ").filter(|_| is_test && !text.starts_with("//"));
        match declared.and_then(|at| line[at..].find('{').map(|brace| at + brace + 1)) {
            Some(body) => {
                written.extend([&line[..body], guard.as_str(), &line[body..]]);
                (is_test, any) = (false, true);
            }
            None => written.push_str(line),
        }
    }
    any.then_some(written)
}
