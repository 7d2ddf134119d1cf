//! What passes, what fails, and what shows nothing.

use std::fs;

use hames_protocol::port::{Tmp, Verifier as _};
use hames_protocol::{CheckKind, Judgement, Verdict};

use crate::double::{FIXED, TESTS, Trial, UNITTEST};

fn reason(judgement: &Judgement) -> &str {
    &judgement.evidence[0].reason
}

#[tokio::test]
async fn a_fix_passes_with_the_tests_counted_against_the_untouched_copy() {
    let trial = Trial::checkout(&[UNITTEST]);
    let judgement = trial.judged(|trial| trial.write("pricing.py", FIXED)).await.unwrap();
    assert_eq!(judgement.verdict, Verdict::Pass, "{judgement:?}");
    let kind = CheckKind::Tests { runner: "unittest".to_owned(), ran: 2, untouched: Some(2) };
    assert_eq!(judgement.evidence[0].kind, kind);
    assert!(judgement.set_aside.is_empty());
    assert!(judgement.evidence[0].output.contains("Ran 2 tests"));
}

#[tokio::test]
async fn work_that_does_not_fix_fails_with_the_failing_test_in_the_output() {
    let trial = Trial::checkout(&[UNITTEST]);
    let judgement = trial.judged(|_| {}).await.unwrap();
    assert_eq!(judgement.verdict, Verdict::Fail);
    assert!(judgement.evidence[0].output.contains("test_ten_percent"));
    assert_eq!(judgement.evidence[0].exit_code, 1);
}

#[tokio::test]
async fn an_exit_that_the_runner_notices_fails() {
    let trial = Trial::checkout(&[UNITTEST]);
    let judgement = trial.judged(|trial| trial.write("pricing.py", "import sys\nsys.exit(0)\n")).await.unwrap();
    assert_eq!(judgement.verdict, Verdict::Fail, "{judgement:?}");
}

#[tokio::test]
async fn a_changed_test_is_put_back_however_it_was_changed() {
    type Change = fn(&Trial);
    let changes: [Change; 5] = [
        |trial| trial.write("tests/test_pricing.py", &TESTS.replace("45", "40")),
        |trial| fs::remove_file(trial.root.join("tests/test_pricing.py")).unwrap(),
        |trial| fs::remove_dir_all(trial.root.join("tests")).unwrap(),
        |trial| {
            fs::rename(trial.root.join("tests"), trial.root.join("t2")).unwrap();
            std::os::unix::fs::symlink("t2", trial.root.join("tests")).unwrap();
        },
        |trial| {
            let path = trial.root.join("tests/test_pricing.py");
            fs::remove_file(&path).unwrap();
            trial.write("easy.py", "");
            std::os::unix::fs::symlink("../easy.py", path).unwrap();
        },
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let trial = Trial::checkout(&[UNITTEST]);
        let judgement = trial.judged(change).await.unwrap();
        assert_eq!(judgement.verdict, Verdict::Fail, "change {index}: {judgement:?}");
        assert!(judgement.evidence[0].output.contains("test_ten_percent"), "change {index}: {judgement:?}");
        assert!(judgement.set_aside.iter().any(|one| one.contains("`tests/test_pricing.py`")), "change {index}");
    }
}

#[tokio::test]
async fn an_original_keeps_the_mode_with_which_it_is_executed() {
    use std::os::unix::fs::PermissionsExt as _;
    let trial = Trial::empty(&["./protected/check.sh"], 60_000);
    trial.write("protected/check.sh", "#!/bin/sh\nexit 3\n");
    let path = trial.root.join("protected/check.sh");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let judgement = trial.judged(|trial| trial.write("protected/check.sh", "#!/bin/sh\nexit 0\n")).await.unwrap();
    assert_eq!((judgement.verdict, judgement.evidence[0].exit_code), (Verdict::Fail, 3), "{judgement:?}");
    let trial = Trial::empty(&["./protected/check.sh"], 60_000);
    trial.write("protected/check.sh", "#!/bin/sh\nexit 0\n");
    fs::set_permissions(trial.root.join("protected/check.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let judgement = trial
        .judged(|trial| {
            fs::set_permissions(trial.root.join("protected/check.sh"), fs::Permissions::from_mode(0o644)).unwrap();
        })
        .await
        .unwrap();
    assert_eq!(judgement.verdict, Verdict::Pass, "{judgement:?}");
    assert!(judgement.set_aside[0].contains("another mode"), "{judgement:?}");
}

#[tokio::test]
async fn what_is_added_around_the_tests_is_left_out() {
    let cheat = "import unittest\nunittest.TestCase.assertEqual = lambda *a, **k: None\n";
    for path in
        ["sitecustomize.py", "unittest.py", "unittest/__init__.py", "random.py", "conftest.py", "tests/conftest.py"]
    {
        let trial = Trial::checkout(&[UNITTEST]);
        let judgement = trial.judged(|trial| trial.write(path, cheat)).await.unwrap();
        assert_eq!(judgement.verdict, Verdict::Fail, "{path}: {judgement:?}");
        assert!(judgement.set_aside.iter().any(|one| one.contains(&format!("`{path}`"))), "{path}: {judgement:?}");
        assert!(judgement.evidence[0].output.contains("test_ten_percent"), "{path}: {judgement:?}");
    }
}

#[tokio::test]
async fn a_manifest_is_left_out_only_when_it_configures_the_runner() {
    let table = "[tool.pytest.ini_options]\naddopts = '-k nothing'\n";
    for (manifest, is_left_out) in [
        (table.to_owned(), true),
        (format!("{}{table}", "# a line\n".repeat(1 << 19)), true),
        ("[project]\nname = 'shop'\n".to_owned(), false),
    ] {
        let trial = Trial::checkout(&["test ! -e pyproject.toml"]);
        let judgement = trial.judged(|trial| trial.write("pyproject.toml", &manifest)).await.unwrap();
        let expected = if is_left_out { Verdict::Pass } else { Verdict::Fail };
        assert_eq!(judgement.verdict, expected, "{judgement:?}");
        assert_eq!(judgement.set_aside.len(), usize::from(is_left_out), "{judgement:?}");
    }
}

#[tokio::test]
async fn build_products_of_rust_tests_are_fresh_unless_the_check_looks_for_them() {
    let trial = Trial::checkout(&[
        "echo cargo test \"in $CARGO_TARGET_DIR\"",
        "echo cargo test, target in \"$CARGO_TARGET_DIR\"",
    ]);
    let judgement = trial.judged(|_| {}).await.unwrap();
    assert!(judgement.evidence[0].output.ends_with("/hames-target"), "{judgement:?}");
    assert!(!judgement.evidence[1].output.contains("hames-target"), "{judgement:?}");
}

#[tokio::test]
async fn a_package_in_the_place_of_a_test_module_is_left_out() {
    let trial = Trial::checkout(&["python3 -m unittest tests.test_pricing"]);
    let easy = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n    def test_b(self): pass\n";
    let judgement = trial.judged(|trial| trial.write("tests/test_pricing/__init__.py", easy)).await.unwrap();
    assert_eq!(judgement.verdict, Verdict::Fail, "{judgement:?}");
}

#[tokio::test]
async fn runner_files_that_were_there_stay_and_are_put_back_when_changed() {
    let trial = Trial::checkout(&[UNITTEST, "cat conftest.py && grep -q honest conftest.py"]);
    trial.write("conftest.py", "# honest\n");
    trial.write("tox.ini", "[tox]\n");
    let judgement = trial
        .judged(|trial| {
            trial.write("pricing.py", FIXED);
            trial.write("conftest.py", "# cheat\n");
        })
        .await
        .unwrap();
    assert_eq!(judgement.verdict, Verdict::Pass, "{judgement:?}");
    assert_eq!(judgement.set_aside.len(), 1, "{judgement:?}");
}

#[tokio::test]
async fn stale_build_products_do_not_stand_in_for_tests() {
    let poison = "import py_compile, sys
py_compile.compile('easy.py', 'tests/__pycache__/test_pricing.cpython-%d%d.pyc' % sys.version_info[:2],
                   'tests/test_pricing.py', True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
";
    let trial = Trial::checkout(&[UNITTEST]);
    let judgement = trial
        .judged(|trial| {
            trial.write("easy.py", &TESTS.replace("45", "40"));
            let status = std::process::Command::new("python3").args(["-c", poison]).current_dir(&trial.root).status();
            assert!(status.unwrap().success());
        })
        .await
        .unwrap();
    assert_eq!(judgement.verdict, Verdict::Fail, "{judgement:?}");
}

#[tokio::test]
async fn an_original_is_newer_than_what_was_built_from_the_changed_file() {
    let trial = Trial::empty(&["test protected/input -nt product && grep -q old protected/input"], 60_000);
    trial.write("protected/input", "old");
    let judgement = trial
        .judged(|trial| {
            // File times move in steps of a few milliseconds.
            let step = || std::thread::sleep(std::time::Duration::from_millis(30));
            step();
            trial.write("protected/input", "new");
            trial.write("product", "made of the new input");
            step();
        })
        .await
        .unwrap();
    assert_eq!(judgement.verdict, Verdict::Pass, "{judgement:?}");
}

#[tokio::test]
async fn fewer_skipped_or_no_tests_are_unverifiable() {
    let no_tests = "import unittest\nraise unittest.SkipTest('later')\n";
    let trial = Trial::checkout(&[UNITTEST]);
    let judgement = trial.judged(|trial| trial.write("pricing.py", no_tests)).await.unwrap();
    assert_eq!(judgement.verdict, Verdict::Unverifiable, "{judgement:?}");
    assert!(reason(&judgement).contains("ran no test (1 skipped)"), "{judgement:?}");
    let trial = Trial::checkout(&[UNITTEST]);
    trial.write(
        "tests/test_more.py",
        "import unittest\nimport more\nclass M(unittest.TestCase):\n    def test_m(self): pass\n",
    );
    trial.write("more.py", "");
    let judgement = trial
        .judged(|trial| {
            trial.write("pricing.py", FIXED);
            trial.write("more.py", no_tests);
        })
        .await
        .unwrap();
    assert_eq!(judgement.verdict, Verdict::Unverifiable, "{judgement:?}");
    assert!(reason(&judgement).contains("fewer than the 3"), "{judgement:?}");
}

#[tokio::test]
async fn a_runner_that_finds_no_tests_is_unverifiable_now_and_before() {
    let trial = Trial::empty(&["python3 -m unittest discover"], 60_000);
    trial.write("a.py", "");
    let judgement = trial.judged(|_| {}).await.unwrap();
    assert_eq!(judgement.verdict, Verdict::Unverifiable, "{judgement:?}");
}

#[tokio::test]
async fn a_check_without_tests_passes_by_its_exit_code_and_is_named_so() {
    let trial = Trial::checkout(&["python3 -m py_compile pricing.py"]);
    let judgement = trial.judged(|_| {}).await.unwrap();
    assert_eq!(judgement.verdict, Verdict::Pass, "{judgement:?}");
    assert_eq!(judgement.evidence[0].kind, CheckKind::ExitCode);
    let judgement = trial.judged(|trial| trial.write("pricing.py", "def (")).await.unwrap();
    assert_eq!(judgement.verdict, Verdict::Fail, "{judgement:?}");
}

#[tokio::test]
async fn tests_behind_another_command_are_recognised_by_their_report() {
    let trial = Trial::checkout(&["python3 run.py"]);
    trial.write("run.py", &format!("import os, sys\nsys.exit(os.system('{UNITTEST}') >> 8)\n"));
    let judgement = trial
        .judged(|trial| {
            trial.write("pricing.py", FIXED);
            trial.write("run.py", "");
        })
        .await
        .unwrap();
    assert_eq!(judgement.verdict, Verdict::Unverifiable, "{judgement:?}");
    assert!(reason(&judgement).contains("without a test report"), "{judgement:?}");
}

#[tokio::test]
async fn a_failure_hidden_by_the_command_line_is_still_a_failure() {
    let trial = Trial::checkout(&["python3 -m unittest discover -s tests -t . || true"]);
    let judgement = trial.judged(|_| {}).await.unwrap();
    assert_eq!(judgement.verdict, Verdict::Fail, "{judgement:?}");
}

#[tokio::test]
async fn a_check_that_does_not_end_fails_and_one_failure_fails_the_whole() {
    let trial = Trial::empty(&["true", "exec sleep 60"], 300);
    let judgement = trial.judged(|_| {}).await.unwrap();
    assert_eq!(judgement.verdict, Verdict::Fail, "{judgement:?}");
    assert_eq!(judgement.evidence[0].verdict, Verdict::Pass);
    assert!(judgement.evidence[1].reason.contains("did not end within"), "{judgement:?}");
    assert_eq!(judgement.evidence[1].exit_code, 124);
}

#[tokio::test]
async fn what_one_check_changes_is_set_aside_for_the_next() {
    let trial = Trial::checkout(&["true", "test ! -e conftest.py"]);
    let (baseline, counts) = trial.begin().await;
    trial.write("conftest.py", "");
    let judgement = trial.checks.judge(&baseline, &counts).await.unwrap();
    assert_eq!(judgement.verdict, Verdict::Pass, "{judgement:?}");
    assert_eq!(judgement.set_aside.len(), 1, "said once, though both checks left it out: {judgement:?}");
}

#[tokio::test]
async fn a_rehearsal_runs_the_workspace_as_it_is_and_compares_nothing() {
    let trial = Trial::checkout(&[UNITTEST]);
    let (_, _) = trial.begin().await;
    trial.write("tests/test_pricing.py", &TESTS.replace("45", "40"));
    let judgement = trial.checks.rehearse().await.unwrap();
    assert_eq!(judgement.verdict, Verdict::Pass, "{judgement:?}");
    assert_eq!(judgement.evidence[0].kind, CheckKind::Tests { runner: "unittest".to_owned(), ran: 2, untouched: None });
    let commands = trial.sandbox.commands.lock().unwrap();
    let last = commands.last().unwrap();
    assert_eq!(last.tmp, Tmp::Session);
    assert!(last.view.originals.is_empty() && last.view.left_out.is_empty());
}
