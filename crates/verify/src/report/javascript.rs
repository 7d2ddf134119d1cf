//! What runners of JavaScript say: the summaries of `node --test`, Jest and Vitest.

use super::{Parts, Report, numbered};
use crate::command::Runner;

/// The summary that begins at `line`, if one does.
pub(super) fn read(line: &str, after: &[String]) -> Option<Report> {
    node(line, after).or_else(|| jest(line, after)).or_else(|| vitest(line, after))
}

/// `# tests 4`, `# suites 1`, `# pass 3`, … `# duration_ms 5.1`, from the reporter `tap`; `ℹ` instead of `#` from
/// `spec`. Which of them is the default differs with the version and with whether a terminal listens.
fn node(line: &str, after: &[String]) -> Option<Report> {
    let sign = ["# ", "ℹ "].into_iter().find(|sign| line.starts_with(sign))?;
    line.strip_prefix(sign)?.strip_prefix("tests ")?.parse::<u64>().ok()?;
    let mut report = Report::empty(Runner::Node);
    let mut counts = after.iter().map_while(|line| line.strip_prefix(sign)?.split_once(' '));
    loop {
        let (what, number) = counts.next()?;
        if what == "duration_ms" {
            return Some(report);
        }
        let number: u64 = number.parse().ok()?;
        match what {
            "pass" => report.ran += number,
            "fail" | "cancelled" => {
                report.ran += number;
                report.failed += number;
            }
            // What is yet to be done may fail: its result counts for nothing.
            "skipped" | "todo" => report.skipped += number,
            "suites" => {}
            _ => return None,
        }
    }
}

/// `Test Suites: 1 failed, 2 total`, then `Tests:       1 failed, 1 skipped, 3 passed, 5 total`, from Jest.
fn jest(line: &str, after: &[String]) -> Option<Report> {
    let suites = counts(line.strip_prefix("Test Suites: ")?, ", ")?;
    let tests = counts(after.first()?.strip_prefix("Tests: ")?, ", ")?;
    let of = |counts: &[(u64, &str)], what| counts.iter().find(|one| one.1 == what).map_or(0, |one| one.0);
    let broken = of(&suites, "failed");
    let failed = of(&tests, "failed");
    Some(Report {
        runner: Runner::Jest,
        ran: of(&tests, "passed") + failed,
        // A file that could not be loaded has no test that failed.
        failed: failed.max(broken),
        skipped: of(&tests, "skipped") + of(&tests, "todo"),
        parts: Parts::numbered(of(&suites, "passed") + broken, broken),
    })
}

/// ` Test Files  1 failed | 1 passed (2)`, then `      Tests  1 failed | 3 passed (4)` or `no tests`, from Vitest.
/// Between them stands nothing; `     Errors  1 error` may follow.
fn vitest(line: &str, after: &[String]) -> Option<Report> {
    let files = counts(within(line, "Test Files  ")?, " | ")?;
    let rest = within(after.first()?, "Tests  ")?;
    let tests = if rest == "no tests" { Vec::new() } else { counts(rest, " | ")? };
    let of = |counts: &[(u64, &str)], what| counts.iter().find(|one| one.1 == what).map_or(0, |one| one.0);
    let broken = of(&files, "failed");
    let failed = of(&tests, "failed");
    let has_errors = after.get(1).is_some_and(|line| line.trim_start().starts_with("Errors  "));
    Some(Report {
        runner: Runner::Vitest,
        ran: of(&tests, "passed") + failed,
        failed: failed.max(broken).max(u64::from(has_errors)),
        skipped: of(&tests, "skipped") + of(&tests, "todo"),
        parts: Parts::numbered(of(&files, "passed") + broken, broken),
    })
}

/// What stands behind an indented label, without the total in brackets.
fn within<'a>(line: &'a str, label: &str) -> Option<&'a str> {
    let rest = line.trim_start().strip_prefix(label).filter(|_| line.starts_with(' '))?;
    Some(rest.split_once(" (").map_or(rest, |(counts, _)| counts))
}

fn counts<'a>(text: &'a str, separator: &str) -> Option<Vec<(u64, &'a str)>> {
    text.trim().split(separator).map(numbered).collect()
}
