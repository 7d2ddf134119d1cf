//! Code under test that says more than its tests do.

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
async fn tests_chosen_by_name_pass_although_the_control_is_not_among_them() {
    let class = "tests.test_pricing.TestDiscount";
    let command = format!("python3 -m unittest {class}");
    let trial = Trial::checkout(&[&command]);
    // Two failures before the fix, so that a failing copy alone does not pass for a control that was heard.
    trial.write("tests/test_pricing.py", &TESTS.replace("(50, 0), 50", "(50, 20), 40"));
    let judgement = trial.judged(|trial| trial.write("pricing.py", FIXED)).await.unwrap();
    assert_eq!(judgement.verdict, Verdict::Pass, "{judgement:?}");
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
