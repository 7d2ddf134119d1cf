//! Weighs what one check showed. Pure: the exit, the runner's report and the untouched count go in, evidence comes out.

use hames_protocol::port::Exit;
use hames_protocol::{CheckEvidence, CheckKind, Verdict};

use crate::command::Runner;
use crate::report::Report;

/// How many tests the untouched copy ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Before {
    /// This many.
    Ran(u64),
    /// It reported none: not a check of tests, or it could not run there.
    NotReported,
    /// Nothing was counted, for this reason.
    NotCounted(String),
    /// A rehearsal compares with nothing.
    NotCompared,
}

/// What a check showed.
#[derive(Debug, Clone)]
pub(crate) struct Shown<'a> {
    pub(crate) command: &'a str,
    /// The test runners that its command line names.
    pub(crate) named: &'a [Runner],
    pub(crate) exit: Exit,
    pub(crate) timeout_ms: u64,
    pub(crate) report: Option<Report>,
    pub(crate) before: Before,
    pub(crate) output: String,
}

/// The evidence of one check.
pub(crate) fn weigh(shown: &Shown<'_>) -> CheckEvidence {
    let (verdict, reason) = conclude(shown);
    CheckEvidence {
        command: shown.command.to_owned(),
        verdict,
        kind: kind(shown),
        exit_code: shown.exit.shell_code(),
        reason,
        output: crate::output::tail(&shown.output),
    }
}

/// The verdict over all checks: a failure outweighs a doubt, and nothing at all is no evidence.
pub(crate) fn overall(evidence: &[CheckEvidence]) -> Verdict {
    let any = |verdict| evidence.iter().any(|one| one.verdict == verdict);
    if any(Verdict::Fail) {
        Verdict::Fail
    } else if any(Verdict::Unverifiable) || evidence.is_empty() {
        Verdict::Unverifiable
    } else {
        Verdict::Pass
    }
}

fn kind(shown: &Shown<'_>) -> CheckKind {
    let untouched = match shown.before {
        Before::Ran(tests) => Some(tests),
        _ => None,
    };
    let runner = shown.report.as_ref().map(|report| report.runner).or_else(|| shown.named.last().copied());
    match (runner, untouched) {
        (None, None) => CheckKind::ExitCode,
        (runner, untouched) => CheckKind::Tests {
            runner: runner.map_or("unknown", Runner::name).to_owned(),
            ran: shown.report.as_ref().map_or(0, |report| report.ran),
            untouched,
        },
    }
}

fn conclude(shown: &Shown<'_>) -> (Verdict, String) {
    match shown.exit {
        Exit::TimedOut => {
            let seconds = shown.timeout_ms.div_ceil(1000);
            return (Verdict::Fail, format!("It did not end within {seconds} s and was stopped."));
        }
        Exit::Signal(signal) => return (Verdict::Fail, format!("It was ended by signal {signal}.")),
        Exit::Code(_) => {}
    }
    match &shown.report {
        Some(report) => with_report(shown, report, shown.exit.shell_code()),
        None => without_report(shown, shown.exit.shell_code()),
    }
}

fn with_report(shown: &Shown<'_>, report: &Report, code: i32) -> (Verdict, String) {
    let name = report.runner.name();
    if report.failed > 0 {
        let skew = if code == 0 { ", although the command exited with 0" } else { "" };
        return (Verdict::Fail, format!("{name} reported {} failed{skew}.", tests(report.failed)));
    }
    if report.ran == 0 && says_no_tests(report.runner, code) {
        let skipped = if report.skipped > 0 { format!(" ({} skipped)", report.skipped) } else { String::new() };
        let reason = format!("{name} ran no test{skipped}, so nothing is shown. Let the check run the tests.");
        return (Verdict::Unverifiable, reason);
    }
    if code != 0 {
        return (Verdict::Fail, format!("It exited with {code}, although {name} reported no failed test."));
    }
    let passed = if report.skipped > 0 {
        format!("{name} ran {}, none failed, {} skipped", tests(report.ran), report.skipped)
    } else {
        format!("{name} ran {}, none failed", tests(report.ran))
    };
    match &shown.before {
        Before::Ran(before) if report.ran < *before => {
            let reason = format!(
                "{name} ran {}, fewer than the {before} of the untouched copy. Let all of them run again.",
                tests(report.ran)
            );
            (Verdict::Unverifiable, reason)
        }
        Before::Ran(before) => (Verdict::Pass, format!("{passed} (untouched copy: {before}).")),
        Before::NotReported => (Verdict::Pass, format!("{passed}; the untouched copy reported none.")),
        Before::NotCounted(why) => (Verdict::Pass, format!("{passed}; not compared, because {why}.")),
        Before::NotCompared => (Verdict::Pass, format!("{passed}.")),
    }
}

/// The exit codes of a runner that found nothing to run: unittest since Python 3.12 and pytest 5, nextest 4.
fn says_no_tests(runner: Runner, code: i32) -> bool {
    code == 0
        || match runner {
            Runner::Unittest | Runner::Pytest => code == 5,
            Runner::Nextest => code == 4,
            _ => false,
        }
}

fn without_report(shown: &Shown<'_>, code: i32) -> (Verdict, String) {
    if code != 0 {
        return (Verdict::Fail, format!("It exited with {code}."));
    }
    if let Before::Ran(before) = shown.before {
        let reason = format!(
            "It exited with 0 without a test report, although the untouched copy ran {}. Something ends the test \
             process early.",
            tests(before)
        );
        return (Verdict::Unverifiable, reason);
    }
    if let Some(runner) = shown.named.last() {
        let reason = format!(
            "It exited with 0 without a report of {}, so no test is known to have run. Let the runner print its \
             summary to the end.",
            runner.name()
        );
        return (Verdict::Unverifiable, reason);
    }
    (Verdict::Pass, "It exited with 0; it reports no tests, so its exit code is the evidence.".to_owned())
}

fn tests(number: u64) -> String {
    if number == 1 { "1 test".to_owned() } else { format!("{number} tests") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Parts;

    #[track_caller]
    fn check(exit: Exit, report: Option<(u64, u64, u64)>, named: &[Runner], before: Before, expected: Verdict) {
        let report = report.map(|(ran, failed, skipped)| Report {
            runner: Runner::Pytest,
            ran,
            failed,
            skipped,
            parts: Parts::default(),
        });
        let shown = Shown { command: "x", named, exit, timeout_ms: 1_000, report, before, output: "".into() };
        let evidence = weigh(&shown);
        assert_eq!(evidence.verdict, expected, "{shown:?}: {}", evidence.reason);
        assert!(evidence.reason.ends_with('.'), "{}", evidence.reason);
    }

    #[test]
    fn every_way_a_check_can_show_something_has_its_verdict() {
        use Before::{NotCompared, NotCounted, NotReported, Ran};
        use Verdict::{Fail, Pass, Unverifiable};
        let pytest = [Runner::Pytest];
        let absent = || NotCounted("it is too large".to_owned());
        for (exit, report, named, before, expected) in [
            (0, Some((2, 0, 0)), &pytest[..], Ran(2), Pass),
            (0, Some((3, 0, 1)), &pytest, Ran(2), Pass),
            (0, Some((2, 0, 0)), &pytest, absent(), Pass),
            (0, Some((2, 0, 0)), &pytest, NotReported, Pass),
            (0, Some((2, 0, 0)), &[], Ran(2), Pass),
            (1, Some((2, 1, 0)), &pytest, Ran(2), Fail),
            (0, Some((2, 1, 0)), &pytest, Ran(2), Fail),
            (1, Some((2, 0, 0)), &pytest, Ran(2), Fail),
            (0, Some((1, 0, 1)), &pytest, Ran(2), Unverifiable),
            (0, Some((0, 0, 0)), &pytest, Ran(0), Unverifiable),
            (0, Some((0, 0, 2)), &pytest, NotCompared, Unverifiable),
            (5, Some((0, 0, 0)), &pytest, Ran(2), Unverifiable),
            (4, Some((0, 0, 0)), &pytest, Ran(2), Fail),
            (0, None, &pytest, Ran(2), Unverifiable),
            (0, None, &pytest, NotReported, Unverifiable),
            (0, None, &pytest, NotCompared, Unverifiable),
            (0, None, &[], Ran(2), Unverifiable),
            (0, None, &[], NotReported, Pass),
            (0, None, &[], absent(), Pass),
            (1, None, &[], NotReported, Fail),
        ] {
            check(Exit::Code(exit), report, named, before, expected);
        }
        check(Exit::TimedOut, Some((2, 0, 0)), &pytest, Ran(2), Fail);
        check(Exit::Signal(9), Some((2, 0, 0)), &pytest, Ran(2), Fail);
    }

    #[test]
    fn no_check_at_all_is_no_evidence() {
        assert_eq!(overall(&[]), Verdict::Unverifiable);
    }
}
