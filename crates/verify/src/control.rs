//! The control: the same check once more, with tests that must fail added to the protected test files.
//!
//! A report is text, and code under test can print any text and end its process with 0, turn a failing assertion into
//! nothing, or skip what it is imported by. None of that needs to be recognised: whoever runs the tests and means it
//! must fail now. A check that still passes reports something other than its tests. Where the untouched copy
//! passes the control as well (a selection by name, a harness of its own), the control says nothing and is dropped.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use hames_protocol::port::{Blobs, Exit};
use hames_protocol::{Baseline, Digest};

use crate::command::Runner;
use crate::report::Report;
use crate::view::write_aside;

/// The most test files that get a control; each is one more bind in the sandbox.
const MAX_FILES: usize = 64;

/// Writes the controlled test files into `folder`; empty when no protected test file can carry a control.
///
/// # Errors
/// When an original is missing or `folder` cannot be written.
pub(crate) fn files(
    blobs: &dyn Blobs,
    baseline: &Baseline,
    runner: Runner,
    folder: &Path,
) -> io::Result<BTreeMap<String, PathBuf>> {
    let mut files = BTreeMap::new();
    let carriers = baseline.originals.iter().filter(|(path, _)| carries(runner, path)).take(MAX_FILES);
    for (path, original) in carriers {
        let source = blobs.get(&original.blob)?;
        // A name that code under test cannot know beforehand.
        let mark = Digest::of_parts([folder.as_os_str().as_encoded_bytes(), original.blob.as_str().as_bytes()]);
        let controlled = add(runner, &source, mark.short());
        let name = format!("{}-{}", Digest::of(path.as_bytes()).short(), mark.short());
        files.insert(path.clone(), write_aside(&folder.join("control"), &name, &controlled, original.mode & 0o777)?);
    }
    Ok(files)
}

/// Whether a run of the work with the control looks as if its failing tests did not matter.
pub(crate) fn is_deaf(exit: Exit, report: Option<Report>, runner: Runner) -> bool {
    exit == Exit::Code(0) || report.is_some_and(|report| report.failed < failures(runner))
}

/// Whether a run of the untouched copy, which ran `before` tests without the control, surely ran it and failed by it.
///
/// The copy may fail of itself, so that its failures alone say nothing.
pub(crate) fn is_heard(exit: Exit, report: Option<Report>, before: u64, runner: Runner) -> bool {
    let more = before + failures(runner);
    exit != Exit::Code(0) && report.is_some_and(|report| report.ran >= more && report.failed >= failures(runner))
}

/// How many tests of one file fail by the control.
fn failures(runner: Runner) -> u64 {
    match runner {
        Runner::Unittest | Runner::Pytest => 2,
        Runner::CargoTest | Runner::Nextest => 1,
    }
}

fn carries(runner: Runner, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    match runner {
        Runner::Unittest | Runner::Pytest => name.strip_suffix(".py").is_some_and(|stem| {
            stem.starts_with("test_") || stem.ends_with("_test") || stem == "test" || stem == "tests"
        }),
        Runner::CargoTest | Runner::Nextest => {
            name.ends_with(".rs") && (path.starts_with("tests/") || path.contains("/tests/"))
        }
    }
}

/// Adds the failing tests at the end, in Python before a main block that would never return.
fn add(runner: Runner, source: &[u8], mark: &str) -> Vec<u8> {
    match runner {
        Runner::Unittest | Runner::Pytest => {
            let control = format!(
                "\nimport unittest as _unittest_{mark}\n\nclass Zz{mark}(_unittest_{mark}.TestCase):\n    def test_equal(self):\n        \
                 self.assertEqual(1, 2)\n\n    def test_raise(self):\n        raise RuntimeError('{mark}')\n\n"
            );
            let main = b"\nif __name__";
            let at = source.windows(main.len()).position(|part| part == main).unwrap_or(source.len());
            [&source[..at], control.as_bytes(), &source[at..]].concat()
        }
        Runner::CargoTest | Runner::Nextest => {
            let control = format!("\n#[test]\nfn zz_{mark}() {{\n    assert_eq!(1, 2);\n}}\n");
            [source, control.as_bytes()].concat()
        }
    }
}
