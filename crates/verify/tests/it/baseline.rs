//! What is kept before the first effect.

use std::fs;

use hames_protocol::port::{Blobs as _, Verifier as _};
use hames_protocol::{Baseline, Digest};

use crate::double::{Store, TESTS, Trial, UNITTEST};

#[tokio::test]
async fn protected_files_runner_files_and_the_manifest_are_kept() {
    let trial = Trial::checkout(&[UNITTEST]);
    trial.write("conftest.py", "");
    trial.write("sub/pyproject.toml", "[project]\n");
    trial.write("sub/tox.ini", "[tox]\n");
    let before = trial.files();
    let (baseline, counts) = trial.begin().await;
    let kept: Vec<&str> = baseline.originals.keys().map(String::as_str).collect();
    assert_eq!(kept, ["conftest.py", "tests/__init__.py", "tests/test_pricing.py"]);
    assert_eq!(baseline.originals["tests/test_pricing.py"].blob, Digest::of(TESTS));
    assert_eq!(baseline.originals["tests/test_pricing.py"].mode & 0o600, 0o600);
    assert_eq!(baseline.runner_files, ["conftest.py", "sub/pyproject.toml", "sub/tox.ini", "tests/__init__.py"]);
    let store = Store(trial.host.path().join("blobs"));
    assert_eq!(store.get(&baseline.manifest.unwrap()).unwrap(), b"manifest");
    assert_eq!(counts.0[UNITTEST], Some(2));
    assert_eq!(trial.files(), before, "neither keeping nor counting touches the workspace");
}

#[tokio::test]
async fn a_second_baseline_starts_over() {
    let trial = Trial::checkout(&[UNITTEST]);
    let first = trial.checks.baseline().await.unwrap();
    fs::write(trial.host.path().join("copy/tree/half.py"), "").unwrap();
    fs::remove_file(trial.host.path().join("copy/complete")).unwrap();
    let second = trial.checks.baseline().await.unwrap();
    assert_eq!(first, second);
    assert!(!trial.host.path().join("copy/tree/half.py").exists());
}

#[tokio::test]
async fn a_baseline_that_is_dropped_leaves_no_work_behind() {
    let trial = Trial::checkout(&[UNITTEST]);
    for number in 0..1_000 {
        fs::write(trial.root.join(format!("file-{number}")), "x").unwrap();
    }
    let cut = tokio::time::timeout(std::time::Duration::from_millis(5), trial.checks.baseline()).await;
    let files = || fs::read_dir(trial.host.path().join("copy/tree")).map_or(0, Iterator::count);
    let then = files();
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(files(), then);
    if cut.is_err() {
        assert!(!trial.host.path().join("copy/complete").exists());
    }
    trial.checks.baseline().await.unwrap();
    assert!(trial.host.path().join("copy/complete").exists());
}

#[tokio::test]
async fn without_checks_only_the_manifest_is_kept() {
    let trial = Trial::checkout(&[]);
    let (baseline, counts) = trial.begin().await;
    assert_eq!(Baseline { manifest: None, ..baseline.clone() }, Baseline::default());
    assert!(baseline.manifest.is_some() && counts.0.is_empty());
    assert!(!trial.host.path().join("copy").exists());
}

#[tokio::test]
async fn a_check_that_reports_no_tests_is_counted_as_none() {
    let trial = Trial::checkout(&["true", "hames-no-such-program"]);
    let (_, counts) = trial.begin().await;
    assert_eq!(counts.0.values().copied().collect::<Vec<_>>(), [None, None]);
}

#[tokio::test]
async fn evidence_says_why_nothing_was_counted() {
    let trial = Trial::checkout(&[UNITTEST]);
    fs::File::create(trial.root.join("huge")).unwrap().set_len((1 << 30) + 1).unwrap();
    let (baseline, counts) = trial.begin().await;
    assert_eq!(counts.0[UNITTEST], None);
    fs::remove_file(trial.root.join("huge")).unwrap();
    trial.write("pricing.py", crate::double::FIXED);
    let judgement = trial.checks.judge(&baseline, &counts).await.unwrap();
    assert!(judgement.evidence[0].reason.contains("more than 1024 MiB"), "{judgement:?}");
}
