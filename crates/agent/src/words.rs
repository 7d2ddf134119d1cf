//! What Hames says to the model of its own accord: each a sentence that names the thing, the cause and the remedy.

use hames_protocol::{Ask, CheckKind, Judgement, SessionId, Verdict};

pub(crate) const REPEATING: &str = "You have made the same calls with the same results three times and nothing in the workspace has changed. Try something different: read another file, change the code, or finish and say what is missing.";
pub(crate) const CONTINUE: &str =
    "Your reply was cut at the output limit. Continue exactly where it stopped, without repeating what you wrote.";
pub(crate) const UNFINISHED: &str = "Your reply ended without a tool call, and the task is not verified yet. If the work is complete, call finish, which runs the checks; otherwise go on.";
pub(crate) const RESUME: &str = "Continue where you stopped.";
pub(crate) const CANCELLED: &str = "Cancelled by the user before it ended; parts of it may have happened.";
pub(crate) const NOT_RUN: &str = "Not run: the run was stopped first.";
pub(crate) const NOT_ANSWERED: &str = "Not answered: the run was stopped first.";
pub(crate) const TIME_UP: &str = "Stopped: the run's time was up; parts of it may have happened.";
pub(crate) const IN_DOUBT: &str =
    "IN DOUBT: Hames stopped while this ran, and cannot tell whether it happened. Look before you repeat it.";
pub(crate) const ALREADY_FINISHED: &str = "Not run: the task was already finished.";
pub(crate) const FINISHED: &str = "Finished. No checks are configured, so nothing was verified.";

/// Why no call of a reply that the output limit cut may run.
pub(crate) const CUT: &str = "Not run: the reply was cut at the output limit, so this call may be incomplete even if it looks whole. Make the call again; split a long file into a smaller first write and later edits.";

/// Why no call of a reply that filled the context window may run.
pub(crate) const WINDOW_FULL: &str =
    "Not run: the reply ended because the context window is full, so this call may be incomplete.";

/// Why no call of a reply that the provider broke off may run.
pub(crate) const DECLINED: &str = "Not run: the provider declined to go on with the reply that holds this call.";

/// What a reply had said when it was stopped, marked as such.
pub(crate) fn cut_off(text: &str) -> String {
    format!("{} … (stopped here)", text.trim_end())
}

/// Why no call of a reply with broken arguments may run.
pub(crate) fn broken(problem: &str) -> String {
    format!(
        "Not run: the arguments of a call in this reply are not whole JSON ({problem}). Make all calls of the reply again, with complete arguments."
    )
}

/// Why a run is suspended, for the user.
pub(crate) fn nobody_there(ask: &Ask, session: &SessionId) -> String {
    let Ask::Question(question) = ask;
    // Quoted, so that no line of it passes for a line of the result.
    let quoted: Vec<String> = question.trim().lines().map(|line| format!("> {line}")).collect();
    format!(
        "The model asks, and the question was left open:\n{}\nAnswer it with: hames run --resume {session} \"ANSWER\"",
        quoted.join("\n")
    )
}

/// The verdict as the result of `finish`, for which `jobs` were ended.
pub(crate) fn verdict(judgement: &Judgement, jobs: &[String]) -> String {
    let mut text = match judgement.verdict {
        Verdict::Pass => "Verified: the checks pass.".to_owned(),
        Verdict::Fail => "Not done: a check fails. Fix the cause, then call finish again.".to_owned(),
        Verdict::Unverifiable => {
            "Not done: the checks gave no positive evidence. Fix what keeps them from running, then call finish again."
                .to_owned()
        }
    };
    for check in &judgement.evidence {
        let kind = match &check.kind {
            CheckKind::Tests { runner, ran, .. } => format!("{runner}, {ran} tests"),
            CheckKind::ExitCode => format!("exit code {}", check.exit_code),
        };
        text.push_str(&format!("\n\n`{}` ({kind}): {}", check.command, check.reason));
        if check.verdict != Verdict::Pass && !check.output.is_empty() {
            text.push_str(&format!("\n{}", check.output.trim_end()));
        }
    }
    if !judgement.set_aside.is_empty() {
        text.push_str(&format!("\n\nSet aside for the checks: {}.", judgement.set_aside.join(", ")));
    }
    if !jobs.is_empty() {
        text.push_str(&format!("\n\nEnded before the checks: {}. Start again what you still need.", jobs.join(", ")));
    }
    text
}
