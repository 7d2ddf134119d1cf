//! The control: the same check once more, with tests that must fail added to the test files.
//!
//! A report is text, and code under test can print any text and end its process with 0, turn a failing assertion into
//! nothing, or skip what it is imported by. None of that needs to be recognised: whoever runs the tests and means it
//! must fail now, as often as there are such tests. A check in which some are missed may have a good reason: it chooses
//! its tests. So it runs a third time, with the failing tests alone, where no code under test is imported. If more of
//! them are heard then, the code under test is what silenced them; if they are heard only on the untouched copy, what
//! runs the tests was changed. A check that chooses its tests by name hears none at all: there every test is made to
//! fail at its own end.

mod course;
mod go;
mod javascript;
mod python;
mod rust;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use hames_protocol::port::{Blobs, Exit, Workspace};
use hames_protocol::{Baseline, Digest};

use crate::command::{Language, Runner};
use crate::report::Report;
use crate::view::write_aside;

/// The most test files that get a control; each is one more bind in the sandbox.
const MAX_FILES: usize = 500;

/// The largest file that gets one, in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// Folders whose tests are not the workspace's own.
const FOREIGN: [&str; 6] = ["node_modules", "site-packages", ".venv", "venv", "vendor", "target"];

/// What stands in a controlled test file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Its own tests and those that must fail.
    Added,
    /// Those that must fail, and nothing that imports code under test.
    Alone,
    /// Its own tests, each failing at its end.
    Ends,
}

/// The test files of the judged workspace, by where their text is.
#[derive(Clone, Copy)]
pub(crate) struct Tests<'a> {
    pub(crate) workspace: &'a dyn Workspace,
    pub(crate) blobs: &'a dyn Blobs,
    /// Holds the originals of those that were there before.
    pub(crate) baseline: &'a Baseline,
    /// Those that were not.
    pub(crate) new: &'a [String],
    /// Sources that may hold tests, or that are compiled along with them.
    pub(crate) sources: &'a [String],
    pub(crate) languages: &'a [Language],
}

/// The controlled test files, for binding over what is there.
#[derive(Debug, Default)]
pub(crate) struct Control {
    /// Paths relative to the root, and the host path of the bytes; empty when no test file can carry a control.
    pub(crate) files: BTreeMap<String, PathBuf>,
    /// What the run must not see besides.
    pub(crate) left_out: Vec<String>,
    /// Part of the names of the failing tests.
    mark: String,
}

/// Writes the controlled test files into `folder`.
///
/// # Errors
/// When an original is missing or `folder` cannot be written.
pub(crate) fn prepare(tests: &Tests<'_>, content: Content, folder: &Path) -> io::Result<Control> {
    // A name that code under test cannot know beforehand: the folder is the session's own and hidden from it.
    let digest = Digest::of_parts([folder.as_os_str().as_encoded_bytes(), format!("{content:?}").as_bytes()]);
    let mut control = Control { mark: digest.short().to_owned(), ..Control::default() };
    let mut bind = |path: &str, source: &[u8], mode: u32| -> io::Result<()> {
        let Some(language) = tests.languages.iter().find(|one| holds(**one, path)) else {
            return Ok(());
        };
        let text = String::from_utf8_lossy(source);
        let written = match language {
            Language::Python => python::write(&text, content, &control.mark),
            Language::Rust => rust::write(path, &text, content, &control.mark),
            Language::Go => go::write(path, &text, content, &control.mark),
            Language::JavaScript => javascript::write(&text, content, &control.mark),
        };
        if let Some(written) = written.filter(|_| control.files.len() < MAX_FILES) {
            let name = format!("{}-{}", Digest::of(path.as_bytes()), control.mark);
            let bound = write_aside(&folder.join("control"), &name, written.as_bytes(), mode & 0o777)?;
            control.files.insert(path.to_owned(), bound);
        }
        Ok(())
    };
    for (path, original) in &tests.baseline.originals {
        if tests.languages.iter().any(|language| carries(*language, path)) {
            bind(path, &tests.blobs.get(&original.blob)?, original.mode)?;
        }
    }
    let unit_tests = tests.sources.iter().filter(|path| {
        tests.languages.contains(&Language::Rust)
            && (rust::is_root(path) || (content == Content::Ends && path.ends_with(".rs")))
    });
    for path in tests.new.iter().chain(unit_tests) {
        if let Ok(found) = tests.workspace.read(path, MAX_BYTES)
            && found.path == *path
        {
            bind(path, &found.bytes, found.mode)?;
        }
    }
    if content == Content::Alone {
        control.left_out = left_out(tests, &control);
    }
    Ok(control)
}

/// What could silence the failing tests though nothing imports it: new test files, and the sources that Go compiles
/// into one package with its tests.
fn left_out(tests: &Tests<'_>, control: &Control) -> Vec<String> {
    let folder = |path: &str| path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let is_beside = |path: &str| control.files.keys().any(|file| file.ends_with(".go") && folder(file) == folder(path));
    let new = tests.new.iter().filter(|path| tests.languages.iter().any(|language| carries(*language, path)));
    let go = tests.sources.iter().filter(|path| path.ends_with(".go") && is_beside(path));
    new.chain(go).filter(|path| !control.files.contains_key(*path)).cloned().collect()
}

impl Control {
    /// Whether a run showed an assertion that lets through what it must not.
    pub(crate) fn is_toothless(&self, output: &str) -> bool {
        output.contains(&format!("toothless-{}", self.mark))
    }

    /// What was heard in a run with the failing tests added; nothing when it was called a success.
    pub(crate) fn heard(&self, exit: Exit, report: Option<Report>) -> Heard {
        match report {
            _ if exit == Exit::Code(0) => Heard::default(),
            Some(report) => Heard { tests: report.failed, parts: report.parts.failed },
            // Broken, and so no success.
            None => Heard { tests: u64::MAX, parts: BTreeSet::new() },
        }
    }

    /// What was surely heard in a run with the failing tests alone: they failed and were named.
    pub(crate) fn heard_alone(&self, exit: Exit, report: Option<Report>, output: &str) -> Heard {
        if output.contains(&self.mark) && report.is_some() { self.heard(exit, report) } else { Heard::default() }
    }

    /// Whether a run in which every test fails at its end was heard to fail. Those of unittest fail in two ways, and
    /// each must be heard.
    pub(crate) fn is_heard_at_ends(&self, exit: Exit, report: Option<Report>) -> bool {
        exit != Exit::Code(0)
            && report.is_none_or(|report| match report.runner {
                Runner::Unittest => report.failed > report.ran,
                _ => report.failed > 0,
            })
    }

    /// Whether all was heard that a check lets be heard: a failure in each part that ran when it was judged, and where
    /// the runner tells of no parts, every failing test.
    pub(crate) fn is_all(&self, heard: &Heard, judged: &Report) -> bool {
        let files = |language| self.files.keys().filter(|path| holds(language, path)).count() as u64;
        let pairs = python::ADDED * files(Language::Python) + javascript::ADDED * files(Language::JavaScript);
        let is_controlled = judged.runner.language().map_or(!self.files.is_empty(), |language| files(language) > 0);
        is_controlled
            && (heard.tests == u64::MAX
                || match judged.runner {
                    Runner::Unittest | Runner::Pytest | Runner::Node => heard.tests >= pairs,
                    Runner::JunitXml => heard.tests >= pairs.max(1),
                    _ if judged.parts.ran.is_empty() => heard.tests > 0,
                    _ => judged.parts.ran.is_subset(&heard.parts),
                })
    }
}

/// The failing tests that were heard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Heard {
    /// How many.
    pub(crate) tests: u64,
    /// In which parts, where the runner tells.
    parts: BTreeSet<String>,
}

impl Heard {
    /// Whether more was heard here than in `other`.
    pub(crate) fn is_more_than(&self, other: &Self) -> bool {
        let has_parts = !(self.parts.is_empty() && other.parts.is_empty());
        if has_parts { !self.parts.is_subset(&other.parts) } else { self.tests > other.tests }
    }
}

/// Whether a controlled file of this name is one of the language.
fn holds(language: Language, path: &str) -> bool {
    carries(language, path) || is_source(language, path)
}

/// Whether a file of this name holds tests in the language.
pub(crate) fn carries(language: Language, path: &str) -> bool {
    !is_foreign(path)
        && match language {
            Language::Python => python::carries(path),
            Language::Rust => rust::carries(path),
            Language::Go => go::carries(path),
            Language::JavaScript => javascript::carries(path),
        }
}

/// Whether a source of this name may hold tests in the language, or is compiled along with them.
pub(crate) fn is_source(language: Language, path: &str) -> bool {
    !is_foreign(path)
        && match language {
            Language::Rust => path.ends_with(".rs"),
            Language::Go => path.ends_with(".go"),
            Language::Python | Language::JavaScript => false,
        }
}

fn is_foreign(path: &str) -> bool {
    path.split('/').any(|part| FOREIGN.contains(&part))
}
