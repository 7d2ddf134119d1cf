//! A missing program ends the run; a missing file of the workspace is the model's to mend.

use hames_protocol::Verdict;
use hames_protocol::port::{Verifier as _, VerifyProblem};

use crate::double::Trial;

#[tokio::test]
async fn a_missing_program_is_named() {
    for (command, named) in [
        ("hames-no-such-program --all", "`hames-no-such-program`"),
        ("cd . && hames-no-such-program", "`hames-no-such-program`"),
        ("/nowhere/at/all", "`/nowhere/at/all`"),
    ] {
        let trial = Trial::checkout(&[command]);
        let problem = trial.judged(|_| {}).await.unwrap_err();
        let VerifyProblem::MissingProgram { command: check, why } = &problem else { panic!("{problem:?}") };
        assert_eq!(check, command);
        assert!(why.contains(named), "{why}");
        assert!(matches!(trial.checks.rehearse().await, Err(VerifyProblem::MissingProgram { .. })));
    }
}

#[tokio::test]
async fn a_missing_module_of_a_runner_is_a_missing_program() {
    // A search path without site packages: only what Python itself brings is there.
    let trial = Trial::checkout(&["python3 -m poetry check", "python3 -S -m nose2"]);
    let problem = trial.judged(|_| {}).await.unwrap_err();
    assert!(matches!(&problem, VerifyProblem::MissingProgram { why, .. } if why.contains("`poetry`")), "{problem:?}");
}

#[tokio::test]
async fn a_runner_that_is_not_installed_is_a_missing_program() {
    let trial = Trial::checkout(&["npx --no-install jest"]);
    trial.write("package.json", "{}");
    let problem = trial.judged(|_| {}).await.unwrap_err();
    assert!(matches!(&problem, VerifyProblem::MissingProgram { why, .. } if why.contains("`jest`")), "{problem:?}");
}

#[tokio::test]
async fn a_missing_script_of_the_workspace_is_a_failure() {
    for command in ["./build.sh", "scripts/build.sh --all", "sh build.sh"] {
        let trial = Trial::checkout(&[command]);
        let judgement = trial.judged(|_| {}).await.unwrap();
        assert_eq!(judgement.verdict, Verdict::Fail, "{command}: {judgement:?}");
    }
}

#[tokio::test]
async fn output_that_speaks_of_a_missing_program_proves_nothing() {
    for command in [
        "echo 'bash: line 1: sh: command not found'; exit 127",
        "echo '/usr/bin/python3: No module named pytest'; exit 1",
    ] {
        let trial = Trial::checkout(&[command]);
        let judgement = trial.judged(|_| {}).await.unwrap();
        assert_eq!(judgement.verdict, Verdict::Fail, "{command}: {judgement:?}");
    }
}
