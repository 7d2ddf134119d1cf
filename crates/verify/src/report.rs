//! Reads what test runners say of themselves; those of Python and Rust here, the others in modules of their own.
//!
//! Only text is read here, and code under test can print text. So the numbers are read to the disadvantage of the
//! work: a report counts only when it is the last of its runner, and more reports than the command asks for never
//! add up to more tests. What text cannot show is left to the control.

pub(crate) mod go;
mod javascript;
pub(crate) mod junit;

use std::collections::BTreeSet;

use crate::command::Runner;

/// What one run of a check reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    /// The runner whose words these are.
    pub(crate) runner: Runner,
    /// Tests whose body ran; skipped and deselected ones are not among them.
    pub(crate) ran: u64,
    /// Failures and errors.
    pub(crate) failed: u64,
    /// Tests that were skipped or ignored.
    pub(crate) skipped: u64,
    /// Its binaries, packages or files, where the runner tells of them.
    pub(crate) parts: Parts,
}

/// The parts of which a run consists, by name: cargo's test binaries, Go's packages. Jest and Vitest tell how many
/// files there are, not which, so theirs are numbered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Parts {
    /// Those that ran a test.
    pub(crate) ran: BTreeSet<String>,
    /// Those of them that failed.
    pub(crate) failed: BTreeSet<String>,
}

impl Parts {
    /// As many parts, of which so many failed.
    fn numbered(ran: u64, failed: u64) -> Self {
        let names = |many: u64| (0..many).map(|number| number.to_string()).collect();
        Self { ran: names(ran), failed: names(failed) }
    }
}

impl Report {
    /// A report of nothing.
    fn empty(runner: Runner) -> Self {
        Self { runner, ran: 0, failed: 0, skipped: 0, parts: Parts::default() }
    }
}

/// Reads the report in `output` of a check that names `named` runners, in the order of the command line.
///
/// A command that names none (`make test`) is read by the runner that spoke last.
pub(crate) fn read(output: &str, named: &[Runner]) -> Option<Report> {
    let lines: Vec<String> = output.lines().map(plain).collect();
    let found = scan(&lines);
    let runner = named
        .iter()
        .rev()
        .copied()
        .find(|runner| found.iter().any(|one| one.runner == *runner))
        .or_else(|| if named.is_empty() { found.last().map(|one| one.runner) } else { None })?;
    let own: Vec<Report> = found.into_iter().filter(|one| one.runner == runner).collect();
    if runner == Runner::Go {
        return go::read(&lines);
    }
    let asked = named.iter().filter(|one| **one == runner).count().max(1);
    // Cargo starts one binary after the other and says nothing over all of them.
    if runner == Runner::CargoTest || own.len() <= asked {
        return Some(added_up(runner, &own));
    }
    let ran = own.iter().map(|one| one.ran).min().unwrap_or(0);
    own.into_iter().last().map(|last| Report { ran, ..last })
}

fn added_up(runner: Runner, reports: &[Report]) -> Report {
    reports.iter().fold(Report::empty(runner), |mut sum, one| {
        sum.ran += one.ran;
        sum.failed += one.failed;
        sum.skipped += one.skipped;
        sum.parts.ran.extend(one.parts.ran.iter().cloned());
        sum.parts.failed.extend(one.parts.failed.iter().cloned());
        sum
    })
}

/// All reports in the order in which they were printed. A section that cargo announces holds one: its last.
fn scan(lines: &[String]) -> Vec<Report> {
    let mut found: Vec<Report> = Vec::new();
    let mut section = None;
    let mut in_section: Option<usize> = None;
    for (index, line) in lines.iter().enumerate() {
        let after = &lines[index + 1..];
        if let Some(name) = cargo_section(line) {
            section = Some(name);
            in_section = None;
        } else if let Some(mut report) = cargo_result(line) {
            // Tests in documents carry no control, and without a name a binary has its place.
            let name = section.clone().unwrap_or_else(|| found.len().to_string());
            if !name.starts_with("Doc-tests ") {
                report.parts.ran.extend((report.ran > 0).then(|| name.clone()));
                report.parts.failed.extend((report.failed > 0).then_some(name));
            }
            match in_section {
                Some(place) if section.is_some() => found[place] = report,
                _ => {
                    in_section = Some(found.len());
                    found.push(report);
                }
            }
        } else if go::is_package(line) {
            found.push(Report::empty(Runner::Go));
        } else if let Some(report) = unittest(line, after)
            .or_else(|| pytest(line))
            .or_else(|| nextest(line, &lines[..index]))
            .or_else(|| javascript::read(line, after))
        {
            found.push(report);
        }
    }
    found
}

/// The binary that `     Running unittests src/lib.rs (target/debug/deps/name-0123456789abcdef)` or
/// `   Doc-tests name` announces; its file's name tells packages apart, but for the hash of a build.
fn cargo_section(line: &str) -> Option<String> {
    let text = line.trim_start();
    if line.len() == text.len() {
        return None;
    }
    if text.starts_with("Doc-tests ") {
        return Some(text.to_owned());
    }
    let (source, binary) = text.strip_prefix("Running ")?.strip_suffix(')')?.rsplit_once(" (")?;
    let file = binary.rsplit('/').next()?;
    Some(format!("{} of {source}", file.rsplit_once('-').map_or(file, |(name, _)| name)))
}

/// `test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s`, from libtest.
fn cargo_result(line: &str) -> Option<Report> {
    let rest = line.strip_prefix("test result: ")?;
    let (word, counts) = rest.split_once(". ")?;
    if word != "ok" && word != "FAILED" {
        return None;
    }
    let mut report = Report::empty(Runner::CargoTest);
    for part in counts.split(';').map(str::trim) {
        let Some((number, what)) = numbered(part) else { continue };
        match what {
            "passed" | "measured" => report.ran += number,
            "failed" => {
                report.ran += number;
                report.failed += number;
            }
            "ignored" => report.skipped += number,
            _ => {}
        }
    }
    if word == "FAILED" {
        report.failed = report.failed.max(1);
    }
    Some(report)
}

/// `Ran 4 tests in 0.001s`, an empty line, then `OK` or `FAILED (failures=1, skipped=1)`, from unittest's runner.
fn unittest(line: &str, after: &[String]) -> Option<Report> {
    let rest = line.strip_prefix("Ran ")?;
    let (number, time) = rest.split_once(" tests in ").or_else(|| rest.split_once(" test in "))?;
    let total: u64 = number.parse().ok()?;
    seconds(time)?;
    let last = after.iter().take(3).find(|line| !line.trim().is_empty())?;
    let (word, details) = match last.split_once(" (") {
        Some((word, details)) => (word, details.strip_suffix(')')?),
        None => (last.as_str(), ""),
    };
    let (mut failed, mut skipped) = (0, 0);
    for (name, number) in details.split(", ").filter_map(|part| part.split_once('=')) {
        let number: u64 = number.parse().ok()?;
        match name {
            "failures" | "errors" | "unexpected successes" => failed += number,
            "skipped" => skipped += number,
            _ => {}
        }
    }
    match word {
        "OK" | "NO TESTS RAN" => {}
        "FAILED" => failed = failed.max(1),
        _ => return None,
    }
    let ran = total.saturating_sub(skipped);
    Some(Report { runner: Runner::Unittest, ran, failed, skipped, parts: Parts::default() })
}

/// `=== 3 passed, 1 skipped in 0.10s ===`, bare with `-q`; `no tests ran in 0.01s`, from pytest's last line.
fn pytest(line: &str) -> Option<Report> {
    let text = line.trim_matches('=').trim();
    let (counts, time) = text.rsplit_once(" in ")?;
    seconds(time.split(" (").next()?)?;
    let mut report = Report::empty(Runner::Pytest);
    if counts == "no tests ran" {
        return Some(report);
    }
    for part in counts.split(", ") {
        let (number, what) = numbered(part)?;
        match what {
            "passed" | "xfailed" | "xpassed" => report.ran += number,
            "failed" => {
                report.ran += number;
                report.failed += number;
            }
            "error" | "errors" => report.failed += number,
            "skipped" => report.skipped += number,
            "deselected" | "warning" | "warnings" | "rerun" | "subtests passed" => {}
            _ => return None,
        }
    }
    Some(report)
}

/// `     Summary [   0.006s] 2 tests run: 1 passed, 1 failed, 1 skipped`, from cargo nextest. The binaries are those of
/// the lines before it: `        FAIL [   0.090s] (1/2) shop::it a_test`.
fn nextest(line: &str, before: &[String]) -> Option<Report> {
    let rest = line.trim_start().strip_prefix("Summary [")?;
    let (_, rest) = rest.split_once("] ")?;
    let (head, counts) = rest.split_once(" run: ")?;
    let number = head.strip_suffix(" tests").or_else(|| head.strip_suffix(" test"))?;
    let ran: u64 = number.split('/').next()?.parse().ok()?;
    let mut report = Report { runner: Runner::Nextest, ran, failed: 0, skipped: 0, parts: Parts::default() };
    for part in counts.split(", ") {
        let (number, what) = numbered(part)?;
        if what == "skipped" {
            report.skipped += number;
        } else if what.starts_with("failed") || what.starts_with("timed out") || what.starts_with("exec failed") {
            report.failed += number;
        }
    }
    for line in before {
        let Some((word, rest)) = line.trim_start().split_once(" [") else { continue };
        let Some((_, rest)) = rest.split_once("] ") else { continue };
        let binary = rest.split_whitespace().find(|word| !(word.starts_with('(') || word.ends_with(')')));
        let binary = binary.map(str::to_owned);
        match word {
            "PASS" => report.parts.ran.extend(binary),
            "FAIL" | "TIMEOUT" | "SIGABRT" | "SIGSEGV" => {
                report.parts.ran.extend(binary.clone());
                report.parts.failed.extend(binary);
            }
            _ => {}
        }
    }
    Some(report)
}

/// `3 passed` → (3, "passed").
fn numbered(part: &str) -> Option<(u64, &str)> {
    let (number, what) = part.split_once(' ')?;
    Some((number.parse().ok()?, what))
}

/// `0.10s` → 0.10; a duration is what tells a report from a sentence.
fn seconds(text: &str) -> Option<f64> {
    text.strip_suffix('s')?.parse().ok()
}

/// A line without colours and line-end blanks. A carriage return starts the line anew, as on a terminal.
fn plain(line: &str) -> String {
    let line = line.trim_end_matches('\r');
    let line = line.rsplit('\r').next().unwrap_or(line);
    crate::output::without_escapes(line).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Runner::{CargoTest, Go, Jest, Nextest, Node, Pytest, Unittest, Vitest};

    #[track_caller]
    fn check(output: &str, named: &[Runner], expected: Option<(Runner, u64, u64, u64)>) {
        let found = read(output, named).map(|one| (one.runner, one.ran, one.failed, one.skipped));
        assert_eq!(found, expected, "{output}");
    }

    const LINE: &str = "----------------------------------------------------------------------";

    #[test]
    fn unittest_reports_are_read_as_python_prints_them() {
        for (tail, expected) in [
            ("Ran 4 tests in 0.001s\n\nFAILED (failures=1, skipped=1, expected failures=1)\n", (Unittest, 3, 1, 1)),
            ("Ran 1 test in 0.000s\n\nOK\n", (Unittest, 1, 0, 0)),
            ("Ran 1 test in 0.000s\n\nOK (skipped=1)\n", (Unittest, 0, 0, 1)),
            ("Ran 0 tests in 0.000s\n\nOK\n", (Unittest, 0, 0, 0)),
            ("Ran 0 tests in 0.000s\n\nNO TESTS RAN\n", (Unittest, 0, 0, 0)),
            ("Ran 1 test in 0.000s\n\nFAILED (errors=1)\n", (Unittest, 1, 1, 0)),
            ("Ran 2 tests in 0.010s\n\nFAILED (unexpected successes=1)\n", (Unittest, 2, 1, 0)),
            ("Ran 0 tests in 0.000s\n\nOK (skipped=2)\n", (Unittest, 0, 0, 2)),
            ("Ran 12 tests in 65.120s\r\n\r\nOK (expected failures=2)\r\n", (Unittest, 12, 0, 0)),
        ] {
            check(&format!("..s\n{LINE}\n{tail}"), &[Unittest], Some(expected));
        }
    }

    #[test]
    fn pytest_reports_are_read_in_every_verbosity_and_colour() {
        for (line, expected) in [
            (
                "============== 1 failed, 1 passed, 1 skipped, 1 xfailed in 0.05s ===============",
                Some((Pytest, 3, 1, 1)),
            ),
            ("1 failed, 1 passed, 1 skipped, 1 xfailed in 0.04s", Some((Pytest, 3, 1, 1))),
            (
                "======================= 1 passed, 3 deselected in 0.01s ========================",
                Some((Pytest, 1, 0, 0)),
            ),
            (
                "============================ 4 deselected in 0.01s =============================",
                Some((Pytest, 0, 0, 0)),
            ),
            (
                "============================ no tests ran in 0.00s =============================",
                Some((Pytest, 0, 0, 0)),
            ),
            ("no tests ran in 0.00s", Some((Pytest, 0, 0, 0))),
            ("2 errors in 0.19s", Some((Pytest, 0, 2, 0))),
            ("==== 120 passed, 2 warnings in 75.31s (0:01:15) ====", Some((Pytest, 120, 0, 0))),
            ("4 tests collected in 0.01s", None),
            (
                "\u{1b}[31m============== \u{1b}[31m\u{1b}[1m1 failed\u{1b}[0m, \u{1b}[32m1 passed\u{1b}[0m\u{1b}[31m in 0.05s\u{1b}[0m\u{1b}[31m ===============\u{1b}[0m",
                Some((Pytest, 2, 1, 0)),
            ),
            ("we found 3 passed in 5 rooms", None),
        ] {
            check(&format!("FAILED tests/test_m.py::T::test_b\n{line}\n"), &[Pytest], expected);
        }
    }

    const CARGO: &str = "    Finished `test` profile [unoptimized + debuginfo] target(s) in 0.26s
     Running unittests src/lib.rs (target/debug/deps/c-d4fd4905425e6bfe)

running 2 tests
test t::i ... ignored
test t::a ... ok

test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

     Running tests/it.rs (target/debug/deps/it-0d34b73b358d2779)

running 1 test
test x ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

   Doc-tests c

running 1 test
test src/lib.rs - (line 1) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

all doctests ran in 0.25s; merged doctests compilation took 0.24s
";

    #[test]
    fn cargo_results_add_up_over_binaries_and_doc_tests() {
        check(CARGO, &[CargoTest], Some((CargoTest, 3, 0, 1)));
        let failed = CARGO.replacen("ok. 1 passed; 0 failed", "FAILED. 0 passed; 1 failed", 1);
        check(&failed, &[CargoTest], Some((CargoTest, 3, 1, 1)));
        let quiet = "running 2 tests\ni.\ntest result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
        check(&quiet.repeat(2), &[CargoTest], Some((CargoTest, 2, 0, 2)));
        check("error[E0425]: cannot find value\nerror: could not compile `c`\n", &[CargoTest], None);
    }

    #[test]
    fn a_result_printed_by_a_test_does_not_add_to_its_binary() {
        let forged = "test result: ok. 90 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
        check(
            &CARGO.replacen("test x ... ok\n", &format!("test x ... ok\n{forged}"), 1),
            &[CargoTest],
            Some((CargoTest, 3, 0, 1)),
        );
    }

    #[test]
    fn nextest_summaries_are_read() {
        check("     Summary [   0.006s] 2 tests run: 2 passed, 1 skipped\n", &[Nextest], Some((Nextest, 2, 0, 1)));
        let failed = "     Summary [   0.091s] 2 tests run: 1 passed, 1 failed, 1 skipped\n        FAIL [   0.090s] c::it x\nerror: test run failed\n";
        check(failed, &[Nextest], Some((Nextest, 2, 1, 1)));
        check("     Summary [   0.000s] 0 tests run: 0 passed, 3 skipped\n", &[Nextest], Some((Nextest, 0, 0, 3)));
    }

    #[test]
    fn more_reports_than_asked_for_never_raise_the_number_of_tests() {
        let real = format!("s\n{LINE}\nRan 1 test in 0.000s\n\nOK (skipped=1)\n");
        let forged = format!("..\n{LINE}\nRan 2 tests in 0.000s\n\nOK\n");
        check(&format!("{real}{forged}"), &[Unittest], Some((Unittest, 0, 0, 0)));
        check(&format!("{forged}{real}"), &[], Some((Unittest, 0, 0, 1)));
        check(&format!("{forged}{forged}"), &[Unittest, Unittest], Some((Unittest, 4, 0, 0)));
    }

    /// Captured from go 1.19, node 20 (`tap` and `spec`), Jest 29 and Vitest 3.
    #[test]
    fn runners_of_go_and_javascript_are_read_as_they_print() {
        let packages =
            "?   \texample.com/shop/cmd\t[no test files]\nok  \texample.com/shop/empty\t0.007s [no tests to run]\n";
        let failed = "=== RUN   TestNone\n--- PASS: TestNone (0.00s)\n=== RUN   TestTen\n    shop_test.go:10: got 40\n\
                      --- FAIL: TestTen (0.00s)\n=== RUN   TestSkipped\n--- SKIP: TestSkipped (0.00s)\nFAIL\n\
                      FAIL\texample.com/shop\t0.005s\n";
        let plain = "--- FAIL: TestTen (0.00s)\n    shop_test.go:10: got 40\nFAIL\nFAIL\texample.com/shop\t0.008s\n";
        let node = |sign: &str| {
            format!(
                "{sign} tests 4\n{sign} suites 1\n{sign} pass 2\n{sign} fail 1\n{sign} cancelled 0\n{sign} skipped 1\n{sign} todo 0\n{sign} duration_ms 423.6\n"
            )
        };
        let event = "{\"Time\":\"2026-01-01T10:00:00Z\",\"Action\":\"output\",\"Package\":\"a\",\"Output\":\"ok  \\ta\\t0.1s\\n\"}\n";
        for (output, expected) in [
            (format!("{failed}{packages}FAIL\n"), (Go, 2, 1, 1)),
            (format!("{plain}{packages}FAIL\n"), (Go, 1, 1, 0)),
            (format!("ok  \texample.com/shop\t(cached)\n{packages}"), (Go, 1, 0, 0)),
            ("# a\n./a.go:4:9: syntax error\nFAIL\ta [build failed]\nFAIL\n".to_owned(), (Go, 1, 1, 0)),
            (event.to_owned(), (Go, 1, 0, 0)),
            (node("#"), (Node, 3, 1, 1)),
            (node("ℹ"), (Node, 3, 1, 1)),
            (
                "Test Suites: 1 failed, 1 total\nTests:       1 failed, 1 skipped, 1 todo, 1 passed, 4 total\n"
                    .to_owned(),
                (Jest, 2, 1, 2),
            ),
            ("Test Suites: 2 failed, 2 total\nTests:       0 total\n".to_owned(), (Jest, 0, 2, 0)),
            (
                " Test Files  1 failed (1)\n      Tests  1 failed | 1 passed | 1 skipped | 1 todo (4)\n".to_owned(),
                (Vitest, 2, 1, 2),
            ),
            (" Test Files  1 failed (1)\n      Tests  no tests\n".to_owned(), (Vitest, 0, 1, 0)),
            (
                " Test Files  1 passed (1)\n      Tests  2 passed (2)\n     Errors  1 error\n".to_owned(),
                (Vitest, 2, 1, 0),
            ),
        ] {
            check(&output, &[expected.0], Some(expected));
        }
        check("tests 4\npass 4\n", &[Node], None);
        check("# tests 4\n# pass 4\n", &[Node], None);
    }

    #[test]
    fn a_named_runner_is_not_spoken_for_by_another() {
        check("3 passed in 0.01s\n", &[Unittest], None);
        check("3 passed in 0.01s\n", &[], Some((Pytest, 3, 0, 0)));
    }
}
