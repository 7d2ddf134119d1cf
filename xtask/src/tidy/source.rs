//! What every Rust file keeps to: its doc, its length, nothing unfinished, `unsafe` in one place.

use std::collections::BTreeSet;

use super::Failure;
use super::manifest::PURE;
use super::rust::Rust;

/// The length that a file should not pass, in lines.
pub(super) const CEILING: usize = 500;

/// The length that no file but a flat catalogue may pass, in lines.
const HARD_CEILING: usize = 800;

/// Files that are longer than the ceiling, each with its reason.
const LONGER: &[(&str, &str)] = &[];

/// Flat tables: they may be of any length.
const CATALOGUES: &[&str] = &["crates/model/tests/it/script_police.rs"];

/// Where `unsafe` may stand.
const UNSAFE_HOME: &str = "crates/sandbox/";

/// What a pure crate may not name, although it needs no dependency.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::process",
    "std::env",
    "std::thread",
    "SystemTime",
    "Instant::now",
    "async fn",
    "println!",
    "eprintln!",
];

/// Checks one file.
pub(super) fn check(file: &str, text: &str, rust: &Rust) -> Vec<Failure> {
    let mut failures = Vec::new();
    if !text.starts_with("//!") {
        failures.push(Failure::new(
            file,
            1,
            "The file has no module doc: say in its first line, with `//!`, what it is for.",
        ));
    }
    let lines = text.lines().count();
    let catalogue = CATALOGUES.contains(&file);
    let allowed = catalogue || LONGER.iter().any(|(longer, _)| *longer == file);
    if lines > HARD_CEILING && !catalogue {
        let text = format!("The file has {lines} lines, and none may have more than {HARD_CEILING}: split it.");
        failures.push(Failure::new(file, lines, text));
    } else if lines > CEILING && !allowed {
        let text = format!(
            "The file has {lines} lines, more than {CEILING}: split it, or add it with a reason to the table in \
             xtask/src/tidy/source.rs."
        );
        failures.push(Failure::new(file, lines, text));
    }
    let mut find = |within: &str, wanted: &str, text: &str| {
        let hits = within.lines().enumerate().filter(|(_, line)| holds_word(line, wanted));
        failures.extend(hits.map(|(index, _)| Failure::new(file, index + 1, text.replace("{}", wanted))));
    };
    for unfinished in ["todo!", "unimplemented!"] {
        find(&rust.code, unfinished, "`{}` stands for code that is not written: write it, or leave the path out.");
    }
    for unfinished in ["TODO", "FIXME", "XXX"] {
        find(&rust.comments, unfinished, "A comment says {}: do it, or open an issue and remove the comment.");
    }
    find(&rust.code, "#[ignore", "An ignored test protects nothing: mend it or delete it.");
    if !file.starts_with(UNSAFE_HOME) {
        find(&rust.code, "unsafe", "`{}` may stand in crates/sandbox only: use a safe wrapper such as rustix.");
    }
    if PURE.iter().any(|name| file.starts_with(&format!("crates/{name}/src/"))) {
        for impure in IMPURE {
            find(&rust.code, impure, "This crate is pure and may not use `{}`: give it the values it needs.");
        }
    }
    failures
}

/// Checks that no file is exempt from the ceiling without need; `long` are the files that are longer.
pub(super) fn check_exempt(long: &BTreeSet<String>) -> Vec<Failure> {
    let exempt = LONGER.iter().map(|(file, _)| *file).chain(CATALOGUES.iter().copied());
    exempt
        .filter(|file| !long.contains(*file))
        .map(|file| {
            let text = format!("`{file}` is not longer than {CEILING} lines: remove it from the table.");
            Failure::new("xtask/src/tidy/source.rs", 1, text)
        })
        .collect()
}

/// Says whether a line holds `wanted`, not as a part of a longer word.
fn holds_word(line: &str, wanted: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let open_start = wanted.starts_with(part);
    let open_end = wanted.ends_with(part);
    line.match_indices(wanted).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + wanted.len()..].chars().next();
        !(open_start && before.is_some_and(part) || open_end && after.is_some_and(part))
    })
}

/// The names of the test functions in a file's code.
pub(super) fn tests(code: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut marked = false;
    for line in code.lines().map(str::trim) {
        if line.starts_with("#[") {
            marked |= line.starts_with("#[test]") || line.contains("::test]") || line.contains("::test(");
        } else if let Some(name) = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ") {
            if marked {
                names.extend(name.split(['(', '<']).next());
            }
            marked = false;
        } else if !line.is_empty() {
            marked = false;
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::rust::split;

    #[track_caller]
    fn check_one(file: &str, text: &str, wanted: &[(usize, &str)]) {
        let failures = check(file, text, &split(text));
        assert_eq!(failures.len(), wanted.len(), "{failures:?}");
        for (failure, (line, text)) in failures.iter().zip(wanted) {
            assert!(failure.line == *line && failure.text.contains(text), "{failure} is not {line}: {text}");
        }
    }

    #[test]
    fn a_file_begins_with_its_doc() {
        check_one("crates/tool/src/a.rs", "//! What it is.\n", &[]);
        check_one("crates/tool/src/a.rs", "// A comment.\n", &[(1, "no module doc")]);
        check_one("crates/tool/src/a.rs", "", &[(1, "no module doc")]);
    }

    #[test]
    fn long_files_are_found() {
        let text = |lines: usize| format!("//! A.\n{}", "x\n".repeat(lines - 1));
        check_one("crates/tool/src/a.rs", &text(500), &[]);
        check_one("crates/tool/src/a.rs", &text(501), &[(501, "501 lines, more than 500")]);
        check_one("crates/tool/src/a.rs", &text(801), &[(801, "none may have more than 800")]);
    }

    #[test]
    fn nothing_is_left_unfinished() {
        let text = "//! A.\nfn f() {\n    todo!()\n}\n// TODO: later\n/// FIXME\n#[ignore = \"slow\"]\nfn g() { unimplemented!() }\n";
        let wanted = [(3, "`todo!`"), (8, "`unimplemented!`"), (5, "TODO"), (6, "FIXME"), (7, "ignored test")];
        check_one("crates/tool/src/a.rs", text, &wanted);
        check_one("crates/tool/src/a.rs", "//! A.\nfn f() { g(\"TODO todo!()\") } // XXXL\n", &[]);
    }

    #[test]
    fn unsafe_stands_in_the_sandbox_only() {
        let text = "//! A.\nfn f() { unsafe { g() } }\n";
        check_one("crates/tool/src/a.rs", text, &[(2, "crates/sandbox only")]);
        check_one("crates/sandbox/src/a.rs", text, &[]);
        check_one("crates/tool/src/a.rs", "//! unsafe\n#![deny(unsafe_code)]\n", &[]);
    }

    #[test]
    fn pure_crates_touch_no_clock_and_no_file() {
        let text = "//! A.\nuse std::fs;\nfn f() { Instant::now(); }\n";
        check_one("crates/context/src/a.rs", text, &[(2, "`std::fs`"), (3, "`Instant::now`")]);
        check_one("crates/context/tests/it/main.rs", text, &[]);
        check_one("crates/session/src/a.rs", text, &[]);
    }

    #[test]
    fn tests_are_known_by_their_mark() {
        let code = "#[test]\nfn one() {}\n#[tokio::test(flavor = \"x\")]\n#[cfg(unix)]\nasync fn two() {}\nfn three() {}\n#[test]\nstruct X;\nfn four() {}\n";
        assert_eq!(tests(code), ["one", "two"]);
    }
}
