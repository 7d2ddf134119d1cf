//! What `go test` says: a line for each package, with `-v` also one for each test.
//!
//! Without `-v` it counts nothing, so then a package stands for a test. With `-json` the same lines come wrapped.

use super::Report;
use crate::command::Runner;

/// Reads all of `lines` as the words of `go test`; none when no package is spoken of.
pub(super) fn read(lines: &[String]) -> Option<Report> {
    let unwrapped: Vec<String> = lines.iter().flat_map(|line| unwrap(line)).collect();
    let mut tests = Tests::default();
    let mut report = Report::empty(Runner::Go);
    let (mut spoke, mut broken) = (false, 0);
    for line in &unwrapped {
        let Some((name, package)) = package(line) else {
            tests.hear(line);
            continue;
        };
        spoke = true;
        match package {
            Package::Failed => {
                report.parts.ran.insert(name.to_owned());
                report.parts.failed.insert(name.to_owned());
                // A broken build, a panic, an exit in the middle: no test is named for it.
                broken += u64::from(tests.failed == tests.failed_before);
            }
            // Without details, a success is all there is to know.
            Package::Passed if tests.ran > tests.ran_before || !tests.are_named => {
                report.parts.ran.insert(name.to_owned());
            }
            Package::Passed | Package::WithoutTests => {}
        }
        (tests.ran_before, tests.failed_before) = (tests.ran, tests.failed);
    }
    report.skipped = tests.skipped;
    (report.ran, report.failed) = if tests.are_named {
        (tests.ran, tests.failed + broken)
    } else {
        (report.parts.ran.len() as u64, report.parts.failed.len() as u64)
    };
    spoke.then_some(report)
}

/// Whether a line speaks of a package.
pub(super) fn is_package(line: &str) -> bool {
    unwrap(line).iter().any(|line| package(line).is_some())
}

/// Lines of a report that say that all is well; left out of evidence, where they would push out what failed.
pub(crate) fn is_chatter(line: &str) -> bool {
    let line = line.trim_start();
    ["=== RUN ", "=== PAUSE ", "=== CONT ", "=== NAME ", "--- PASS: "].iter().any(|start| line.starts_with(start))
        || line == "PASS"
}

#[derive(Default)]
struct Tests {
    ran: u64,
    failed: u64,
    skipped: u64,
    /// As they were when the last package ended.
    ran_before: u64,
    failed_before: u64,
    /// Whether each test is announced, as with `-v`.
    are_named: bool,
}

impl Tests {
    /// Subtests are indented; they belong to their test.
    fn hear(&mut self, line: &str) {
        self.are_named |= line.starts_with("=== RUN ");
        let Some((verdict, rest)) = line.strip_prefix("--- ").and_then(|rest| rest.split_once(": ")) else { return };
        if !rest.ends_with("s)") {
            return;
        }
        match verdict {
            "PASS" => self.ran += 1,
            "FAIL" => {
                self.ran += 1;
                self.failed += 1;
            }
            "SKIP" => self.skipped += 1,
            _ => {}
        }
    }
}

enum Package {
    Passed,
    Failed,
    WithoutTests,
}

/// `ok`, `FAIL` or `?`, a tab, the package, and then how long it took, `[build failed]`, `[no test files]` and the like.
fn package(line: &str) -> Option<(&str, Package)> {
    let (word, rest) = line.split_once('\t')?;
    let name = rest.trim_start().split([' ', '\t']).next().filter(|name| !name.is_empty())?;
    let package = match word.trim_end() {
        "ok" if rest.contains('\t') && !rest.ends_with("[no tests to run]") => Package::Passed,
        "ok" if rest.contains('\t') => Package::WithoutTests,
        "FAIL" => Package::Failed,
        "?" if rest.ends_with("[no test files]") => Package::WithoutTests,
        // With -cover a package without tests has a line of its own.
        "" if rest.ends_with("coverage: 0.0% of statements") => Package::WithoutTests,
        _ => return None,
    };
    Some((name, package))
}

/// The lines inside an event of `go test -json`; any other line is itself.
fn unwrap(line: &str) -> Vec<String> {
    if !line.starts_with('{') || !line.contains("\"Action\":") {
        return vec![line.to_owned()];
    }
    let Ok(event) = serde_json::from_str::<serde_json::Value>(line) else { return vec![line.to_owned()] };
    event["Output"].as_str().into_iter().flat_map(str::lines).map(str::to_owned).collect()
}
