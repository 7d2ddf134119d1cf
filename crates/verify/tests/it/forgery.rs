//! Code under test that says more than its tests do.

use hames_protocol::port::Verifier as _;
use hames_protocol::{CheckKind, Verdict};

use crate::double::{FIXED, PRICING, TESTS, Trial, UNITTEST};

const REPORT: &str = r#"print("..\n----------------------------------------------------------------------\nRan 2 tests in 0.001s\n\nOK", flush=True)"#;

#[track_caller]
fn unverifiable(pricing: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let trial = Trial::checkout(&[UNITTEST]);
    let judgement = runtime.block_on(trial.judged(|trial| trial.write("pricing.py", pricing))).unwrap();
    assert_eq!(judgement.verdict, Verdict::Unverifiable, "{judgement:?}");
}

#[test]
fn leaving_with_success_at_import_is_unverifiable() {
    unverifiable("import os\nos._exit(0)\n");
}

#[test]
fn leaving_with_success_in_the_middle_is_unverifiable() {
    unverifiable("import os\ndef apply_discount(total, percent):\n    os._exit(0)\n");
}

#[test]
fn a_forged_report_at_import_is_unverifiable() {
    unverifiable(&format!("import os\n{REPORT}\nos._exit(0)\n"));
}

#[test]
fn a_forged_report_in_the_middle_is_unverifiable() {
    unverifiable(&format!("import os\ndef apply_discount(total, percent):\n    {REPORT}\n    os._exit(0)\n"));
}

#[test]
fn a_forged_report_after_skipped_tests_is_unverifiable() {
    unverifiable(&format!(
        "import atexit, unittest\natexit.register(lambda: {REPORT})\nraise unittest.SkipTest('x')\n"
    ));
}

#[test]
fn assertions_made_toothless_are_unverifiable() {
    unverifiable(&format!("import unittest\nunittest.TestCase.assertEqual = lambda *a, **k: None\n{PRICING}"));
    unverifiable(&format!("import unittest\nunittest.TestResult.addFailure = lambda *a: None\n{PRICING}"));
}

#[tokio::test]
async fn a_forgery_is_told_even_when_the_untouched_copy_cannot_import_its_tests() {
    let trial = Trial::checkout(&[UNITTEST]);
    std::fs::remove_file(trial.root.join("pricing.py")).unwrap();
    let forged = format!("import os\n{REPORT}\nos._exit(0)\n");
    let judgement = trial.judged(|trial| trial.write("pricing.py", &forged)).await.unwrap();
    assert_eq!(judgement.verdict, Verdict::Unverifiable, "{judgement:?}");
}

#[tokio::test]
async fn a_forgery_in_a_new_test_file_is_told() {
    let trial = Trial::checkout(&[UNITTEST]);
    let forged = format!("import os\n{REPORT}\nos._exit(0)\n");
    let judgement = trial.judged(|trial| trial.write("tests/test_aaa.py", &forged)).await.unwrap();
    assert_eq!(judgement.verdict, Verdict::Unverifiable, "{judgement:?}");
}

#[tokio::test]
async fn tests_chosen_by_name_pass_although_the_control_is_not_among_them() {
    let class = "tests.test_pricing.TestDiscount";
    // The second fails as often as a control of one file does when the class is not there: only names tell them apart.
    for command in [format!("python3 -m unittest {class}"), format!("python3 -m unittest {class} {class}")] {
        let trial = Trial::checkout(&[&command]);
        let judgement = trial.judged(|trial| trial.write("pricing.py", FIXED)).await.unwrap();
        assert_eq!(judgement.verdict, Verdict::Pass, "{judgement:?}");
    }
}

#[tokio::test]
async fn a_test_file_run_as_a_program_passes_and_is_controlled() {
    let main = format!("{TESTS}\n\nif __name__ == '__main__':\n    unittest.main()\n");
    for (pricing, expected) in
        [(FIXED.to_owned(), Verdict::Pass), (format!("import os\n{REPORT}\nos._exit(0)\n"), Verdict::Unverifiable)]
    {
        let trial = Trial::checkout(&["PYTHONPATH=. python3 tests/test_pricing.py"]);
        trial.write("tests/test_pricing.py", &main);
        let judgement = trial.judged(|trial| trial.write("pricing.py", &pricing)).await.unwrap();
        assert_eq!(judgement.verdict, expected, "{judgement:?}");
    }
}

#[tokio::test]
async fn a_test_module_that_chooses_its_tests_passes() {
    let trial = Trial::checkout(&[UNITTEST]);
    let chosen = "\n\ndef load_tests(loader, tests, pattern):\n    return loader.loadTestsFromTestCase(TestDiscount)\n";
    trial.write("tests/test_pricing.py", &format!("{TESTS}{chosen}"));
    let judgement = trial.judged(|trial| trial.write("pricing.py", FIXED)).await.unwrap();
    assert_eq!(judgement.verdict, Verdict::Pass, "{judgement:?}");
}

#[tokio::test]
async fn tests_in_rust_are_counted_and_controlled() {
    let manifest = "[package]\nname = \"shop\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n";
    let test = "#[test]\nfn a_tenth_is_taken_off() {\n    assert_eq!(shop::discount(50, 10), 45);\n}\n";
    let fixed = "pub fn discount(total: u32, percent: u32) -> u32 { total - total * percent / 100 }\n";
    let forged = "use std::io::Write as _;
pub fn discount(_: u32, _: u32) -> u32 {
    let report = \"\\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\\n\";
    std::io::stdout().write_all(report.as_bytes()).ok();
    std::process::exit(0)
}
";
    let trial = Trial::empty(&["cargo test --offline --tests"], 300_000);
    trial.write("Cargo.toml", manifest);
    trial.write("src/lib.rs", "pub fn discount(total: u32, percent: u32) -> u32 { total - percent }\n");
    trial.write("tests/discount.rs", test);
    let (baseline, counts) = trial.begin().await;
    for (source, expected) in [(fixed, Verdict::Pass), (forged, Verdict::Unverifiable)] {
        trial.write("src/lib.rs", source);
        let judgement = trial.checks.judge(&baseline, &counts).await.unwrap();
        assert_eq!(judgement.verdict, expected, "{judgement:?}");
        let kind = CheckKind::Tests { runner: "cargo test".to_owned(), ran: 1, untouched: Some(1) };
        assert_eq!(judgement.evidence[0].kind, kind);
    }
}

#[tokio::test]
async fn new_tests_count_and_leave_the_control_heard() {
    let trial = Trial::checkout(&[UNITTEST]);
    let judgement = trial
        .judged(|trial| {
            trial.write("pricing.py", FIXED);
            trial.write("tests/test_new.py", &TESTS.replace("TestDiscount", "TestNew"));
        })
        .await
        .unwrap();
    assert_eq!(judgement.verdict, Verdict::Pass, "{judgement:?}");
    assert!(matches!(judgement.evidence[0].kind, CheckKind::Tests { ran: 4, untouched: Some(2), .. }));
}

#[tokio::test]
async fn a_changed_way_to_run_the_tests_is_told() {
    let makefile = format!("test:\n\t{UNITTEST}\n");
    let forged = "test:\n\t@echo; echo 'Ran 2 tests in 0.001s'; echo; echo OK\n";
    let runner = "import runpy, sys\nsys.argv = ['unittest', 'discover', '-s', 'tests', '-t', '.']\n\
                  runpy.run_module('unittest', run_name='__main__')\n";
    let patched = format!(
        "import unittest\nunittest.TestResult.addFailure = lambda *a: None\n\
                           unittest.TestResult.addError = lambda *a: None\n{runner}"
    );
    for (command, file, honest, forged) in
        [("make test", "Makefile", makefile.as_str(), forged), ("python3 run.py", "run.py", runner, patched.as_str())]
    {
        let told = Verdict::Unverifiable;
        for (text, pricing, expected) in [(honest, FIXED, Verdict::Pass), (forged, PRICING, told)] {
            let trial = Trial::checkout(&[command]);
            trial.write(file, honest);
            let work = |trial: &Trial| {
                trial.write(file, text);
                trial.write("pricing.py", pricing);
            };
            let judgement = trial.judged(work).await.unwrap();
            assert_eq!(judgement.verdict, expected, "{command}: {judgement:?}");
        }
    }
}

#[tokio::test]
async fn tests_of_one_file_alone_made_toothless_are_told() {
    let other = "import unittest\n\n\nclass TestOther(unittest.TestCase):\n    def test_truth(self):\n        pass\n";
    let patch = "import unittest\n_equal = unittest.TestCase.assertEqual\n\n\ndef equal(self, *a, **k):\n    \
                 if 'pricing' not in type(self).__module__:\n        _equal(self, *a, **k)\n\n\n\
                 unittest.TestCase.assertEqual = equal\n";
    for (pricing, expected) in [(FIXED.to_owned(), Verdict::Pass), (format!("{patch}{PRICING}"), Verdict::Unverifiable)]
    {
        let trial = Trial::checkout(&[UNITTEST]);
        trial.write("tests/test_other.py", other);
        let judgement = trial.judged(|trial| trial.write("pricing.py", &pricing)).await.unwrap();
        assert_eq!(judgement.verdict, expected, "{judgement:?}");
    }
}

#[tokio::test]
async fn what_a_check_runs_in_turn_is_put_back_and_a_change_needs_more_than_an_exit_code() {
    let honest = "test:\n\tgrep -q percent pricing.txt\n";
    for (makefile, text, expected) in [
        // A change that does not matter to the check, one that the check needs, and a forgery.
        ("test:\n\tgrep -q percent pricing.txt\n\nclean:\n\trm -f x\n", "percent", Verdict::Pass),
        ("test:\n\tgrep -q ratio pricing.txt\n", "ratio", Verdict::Unverifiable),
        ("test:\n\ttrue\n", "total", Verdict::Unverifiable),
        ("test:\n\tfalse\n", "total", Verdict::Fail),
    ] {
        let trial = Trial::empty(&["make test"], 60_000);
        trial.write("Makefile", honest);
        trial.write("pricing.txt", "total\n");
        let work = |trial: &Trial| {
            trial.write("Makefile", makefile);
            trial.write("pricing.txt", text);
        };
        let judgement = trial.judged(work).await.unwrap();
        assert_eq!(judgement.verdict, expected, "{makefile}: {judgement:?}");
        assert!(judgement.set_aside[0].contains("`Makefile`"), "{judgement:?}");
    }
}

#[tokio::test]
async fn a_new_target_that_runs_tests_passes_when_they_are_controlled() {
    for (recipe, pricing, expected) in [
        (UNITTEST, FIXED, Verdict::Pass),
        ("@echo; echo 'Ran 2 tests in 0.001s'; echo; echo OK", PRICING, Verdict::Unverifiable),
    ] {
        let trial = Trial::checkout(&["make check"]);
        trial.write("Makefile", "all:\n\ttrue\n");
        let work = |trial: &Trial| {
            trial.write("Makefile", &format!("all:\n\ttrue\n\ncheck:\n\t{recipe}\n"));
            trial.write("pricing.py", pricing);
        };
        let judgement = trial.judged(work).await.unwrap();
        assert_eq!(judgement.verdict, expected, "{recipe}: {judgement:?}");
    }
}

#[tokio::test]
async fn tests_chosen_by_name_are_controlled_at_their_ends() {
    let class = "tests.test_pricing.TestDiscount";
    let toothless = format!("import unittest\nunittest.TestCase.assertEqual = lambda *a, **k: None\n{PRICING}");
    let deaf = format!("import unittest\nunittest.TestResult.addFailure = lambda *a: None\n{PRICING}");
    let leaves = format!("import os\ndef apply_discount(total, percent):\n    {REPORT}\n    os._exit(0)\n");
    let trial = Trial::checkout(&[&format!("python3 -m unittest {class}")]);
    let (baseline, counts) = trial.begin().await;
    for (pricing, expected) in [
        (FIXED.to_owned(), Verdict::Pass),
        (toothless, Verdict::Unverifiable),
        (deaf, Verdict::Unverifiable),
        (leaves, Verdict::Unverifiable),
    ] {
        trial.write("pricing.py", &pricing);
        let judgement = trial.checks.judge(&baseline, &counts).await.unwrap();
        assert_eq!(judgement.verdict, expected, "{pricing}: {judgement:?}");
    }
}
