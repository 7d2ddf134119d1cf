//! The control: the same check once more, with tests that must fail added to the protected test files.
//!
//! A report is text, and code under test can print any text and end its process with 0, turn a failing assertion into
//! nothing, or skip what it is imported by. None of that needs to be recognised: whoever runs the tests and means it
//! must fail now, as often as there are such tests. A check in which some are missed may have a good reason: it chooses
//! its tests by name. So it runs a third time, with the failing tests alone, where no code under test is imported. If
//! more of them are heard then, the code under test is what silenced them; if they are heard only on the untouched
//! copy, what runs the tests was changed.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use hames_protocol::port::{Blobs, Exit};
use hames_protocol::{Baseline, Digest};

use crate::command::Runner;
use crate::report::Report;
use crate::view::write_aside;

/// The most test files that get a control; each is one more bind in the sandbox.
const MAX_FILES: usize = 500;

/// What stands in a controlled test file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Its own tests and those that must fail.
    Added,
    /// Those that must fail, and nothing that imports code under test.
    Alone,
}

/// The controlled test files, for binding over the originals.
#[derive(Debug, Default)]
pub(crate) struct Control {
    /// Paths relative to the root, and the host path of the bytes; empty when no protected test file can carry a
    /// control.
    pub(crate) files: BTreeMap<String, PathBuf>,
    /// Part of the names of the failing tests.
    pub(crate) mark: String,
}

/// Writes the controlled test files into `folder`.
///
/// # Errors
/// When an original is missing or `folder` cannot be written.
pub(crate) fn prepare(
    blobs: &dyn Blobs,
    baseline: &Baseline,
    runner: Runner,
    content: Content,
    folder: &Path,
) -> io::Result<Control> {
    // A name that code under test cannot know beforehand: the folder is the session's own and hidden from it.
    let digest = Digest::of_parts([folder.as_os_str().as_encoded_bytes(), format!("{content:?}").as_bytes()]);
    let mut control = Control { files: BTreeMap::new(), mark: digest.short().to_owned() };
    for (path, original) in baseline.originals.iter().filter(|(path, _)| carries(runner, path)) {
        let source = blobs.get(&original.blob)?;
        if chooses_its_tests(runner, &source) {
            continue;
        }
        let bytes = write(runner, &source, content, &control.mark);
        let name = format!("{}-{}", Digest::of(path.as_bytes()), control.mark);
        let bound = write_aside(&folder.join("control"), &name, &bytes, original.mode & 0o777)?;
        control.files.insert(path.clone(), bound);
        if control.files.len() == MAX_FILES {
            break;
        }
    }
    Ok(control)
}

/// How many of the failing tests were heard in a run with them added; none when it was called a success.
pub(crate) fn heard(exit: Exit, report: Option<Report>, runner: Runner) -> u64 {
    match report {
        _ if exit == Exit::Code(0) => 0,
        Some(report) => counted(report, runner),
        // Broken, and so no success.
        None => u64::MAX,
    }
}

/// How many were surely heard in a run with the failing tests alone: they failed and were named.
pub(crate) fn heard_alone(exit: Exit, report: Option<Report>, output: &str, mark: &str, runner: Runner) -> u64 {
    let named = exit != Exit::Code(0) && output.contains(mark);
    report.filter(|_| named).map_or(0, |report| counted(report, runner))
}

/// How many are heard when all of `files` files are run to their ends.
pub(crate) fn all(runner: Runner, files: usize) -> u64 {
    match runner {
        Runner::Unittest | Runner::Pytest => 2 * files as u64,
        Runner::CargoTest | Runner::Nextest => 1,
    }
}

/// Cargo's runners stop somewhere after a failure, so of theirs only the first counts.
fn counted(report: Report, runner: Runner) -> u64 {
    match runner {
        Runner::Unittest | Runner::Pytest => report.failed,
        Runner::CargoTest | Runner::Nextest => report.failed.min(1),
    }
}

/// Whether a file of this name holds tests of the runner.
pub(crate) fn carries(runner: Runner, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    match runner {
        Runner::Unittest | Runner::Pytest => name
            .strip_suffix(".py")
            .is_some_and(|stem| stem.starts_with("test") || stem.ends_with("_test") || stem.ends_with("_tests")),
        Runner::CargoTest | Runner::Nextest => {
            name.ends_with(".rs") && (path.starts_with("tests/") || path.contains("/tests/"))
        }
    }
}

/// Whether a module decides by itself which of its tests run, so that an added one may rightly be passed over.
fn chooses_its_tests(runner: Runner, source: &[u8]) -> bool {
    const WORDS: [&str; 6] = ["load_tests", "pytestmark", "importorskip", "allow_module_level", "SkipTest", "__test__"];
    let text = String::from_utf8_lossy(source);
    matches!(runner, Runner::Unittest | Runner::Pytest) && WORDS.iter().any(|word| text.contains(word))
}

/// Puts the failing tests at the end; in Python before a main block that would never return.
fn write(runner: Runner, source: &[u8], content: Content, mark: &str) -> Vec<u8> {
    match runner {
        Runner::Unittest | Runner::Pytest => {
            let control = python(mark);
            if content == Content::Alone {
                return format!("{control}\nif __name__ == '__main__':\n    _unittest_{mark}.main()\n").into_bytes();
            }
            let main = b"\nif __name__";
            let at = source.windows(main.len()).position(|part| part == main).unwrap_or(source.len());
            [&source[..at], control.as_bytes(), &source[at..]].concat()
        }
        Runner::CargoTest | Runner::Nextest => {
            let control = format!("\n#[test]\nfn zz_{mark}() {{\n    assert_eq!(1, 2);\n}}\n");
            match content {
                Content::Added => [source, control.as_bytes()].concat(),
                // Attributes of the whole file may rule all of its tests out (`#![cfg(…)]`).
                Content::Alone => {
                    let text = String::from_utf8_lossy(source);
                    let attributes: String =
                        text.lines().filter(|line| line.starts_with("#![")).flat_map(|line| [line, "\n"]).collect();
                    format!("{attributes}{control}").into_bytes()
                }
            }
        }
    }
}

/// One test that fails by an assertion, one by an error.
fn python(mark: &str) -> String {
    format!(
        "
import unittest as _unittest_{mark}


class Zz{mark}(_unittest_{mark}.TestCase):
    def test_equal(self):
        self.assertEqual(1, 2)

    def test_raise(self):
        raise RuntimeError('control')

"
    )
}
