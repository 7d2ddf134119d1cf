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

/// Attributes that make a function a test, besides those that end in `::test`.
const ATTRIBUTES: [&str; 5] = ["#[test]", "#[rstest", "#[test_case", "#[quickcheck", "#[wasm_bindgen_test"];

/// Every test fails at its end; none when the file holds no test. A value is dropped there, whichever way a test
/// returns; one that is meant to panic can only be failed by the end of its process.
fn ends(source: &str, mark: &str) -> Option<String> {
    let guard = |when_panicking: &str| {
        format!(
            " struct Zz{mark}; impl Drop for Zz{mark} {{ fn drop(&mut self) {{ if ::std::thread::panicking() \
             {{ {when_panicking} }} else {{ ::std::panic!(\"control {mark}\") }} }} }} let _zz = Zz{mark};"
        )
    };
    let mut written = String::with_capacity(source.len());
    let (mut is_test, mut must_panic, mut any) = (false, false, false);
    for line in source.split_inclusive('\n') {
        let text = line.trim();
        is_test |=
            ATTRIBUTES.iter().any(|one| text.starts_with(one)) || (text.starts_with("#[") && text.contains("::test"));
        must_panic |= text.starts_with("#[should_panic");
        let declared = line.find("fn ").filter(|_| is_test && !text.starts_with("//"));
        match declared.and_then(|at| line[at..].find('{').map(|brace| at + brace + 1)) {
            Some(body) => {
                let guard = guard(if must_panic { "::std::process::abort()" } else { "" });
                written.extend([&line[..body], guard.as_str(), &line[body..]]);
                (is_test, must_panic, any) = (false, false, true);
            }
            None => written.push_str(line),
        }
    }
    any.then_some(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_test_gets_its_end_and_nothing_else_does() {
        let source = "fn plain() {}\n#[test]\n#[should_panic]\nfn a() { x() }\n#[tokio::test]\nasync fn b() -> R {\n}\n\
                      #[rstest]\nfn c(#[case] n: u8) {}\n";
        let written = ends(source, "m").unwrap();
        let guarded: Vec<&str> = written.lines().filter(|line| line.contains("struct Zzm")).collect();
        assert_eq!(guarded.len(), 3, "{written}");
        assert!(guarded[0].contains("abort") && !guarded[1].contains("abort"), "{written}");
        assert_eq!(ends("fn plain() {}\n", "m"), None);
    }
}
