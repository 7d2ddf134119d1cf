//! Checks, evidence and verdicts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Digest;

/// What Hames says of a finished task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every check passed, at least one of them positively.
    Pass,
    /// A check failed.
    Fail,
    /// Nothing failed, but there is no positive evidence either.
    Unverifiable,
}

/// What kind of evidence a check gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckKind {
    /// A test runner whose own report was read.
    Tests {
        /// For example `unittest`, `pytest` or `cargo test`.
        runner: String,
        /// Tests that ran, from the report.
        ran: u64,
        /// Tests that the untouched copy ran; none when it could not be counted.
        untouched: Option<u64>,
    },
    /// A build, a linter or a script: its exit code is all there is.
    ExitCode,
}

/// One check and what it showed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckEvidence {
    /// The command.
    pub command: String,
    /// The verdict of this check alone.
    pub verdict: Verdict,
    /// What kind of evidence it is.
    pub kind: CheckKind,
    /// The exit code, 128 + signal when a signal ended it.
    pub exit_code: i32,
    /// Why, as a sentence.
    pub reason: String,
    /// The end of its output, bounded.
    pub output: String,
}

/// The verdict with its evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// The verdict over all checks.
    pub verdict: Verdict,
    /// The evidence, a check each.
    pub evidence: Vec<CheckEvidence>,
    /// Additions that were left out of the checks, and protected files put back for them.
    pub set_aside: Vec<String>,
}

/// What was kept before the first effect, so that the checks can be judged against it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Baseline {
    /// Protected files: path relative to the workspace root, and the blob that holds the bytes.
    pub originals: BTreeMap<String, Original>,
    /// Those of the originals that only say what a check runs in turn (a Makefile, `package.json`), in order; they may
    /// be changed for good reasons.
    #[serde(default)]
    pub recipes: Vec<String>,
    /// All paths that existed and that could change how tests run (so that additions can be told).
    pub runner_files: Vec<String>,
    /// The blob that holds the workspace's manifest.
    pub manifest: Option<Digest>,
}

/// One protected file as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Original {
    /// The blob with its bytes.
    pub blob: Digest,
    /// Its permission bits.
    pub mode: u32,
}

/// How many tests each check ran on the untouched copy, by command; none when it is not a test check or failed to run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UntouchedCounts(pub BTreeMap<String, Option<u64>>);
