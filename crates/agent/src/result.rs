//! The one result of a run, read off the state.

use std::collections::BTreeMap;

use hames_protocol::{ChangedFile, Digest, FileChange, Outcome, RunResult};

use crate::state::{Run, State};

/// The result of the last run; none when there was no run.
///
/// A run that has neither ended nor is suspended counts as cancelled: that is what it is when its process reports on it.
pub fn run_result(state: &State) -> Option<RunResult> {
    let run = state.branch.run.as_ref()?;
    let (outcome, reason, ended_at) = match (&run.ended, &run.suspended) {
        (Some(ended), _) => (ended.outcome, ended.reason.clone(), run.ended_at),
        (None, Some(suspended)) => (Outcome::NeedsApproval, suspended.why.clone(), state.ledger.tick),
        (None, None) => (Outcome::Cancelled, "The run has not ended.".to_owned(), state.ledger.tick),
    };
    Some(RunResult {
        session_id: state.ledger.session.as_ref().map(ToString::to_string).unwrap_or_default(),
        run_id: run.id.to_string(),
        outcome,
        reason,
        summary: run.summary.clone(),
        verdict: run.verdict(),
        turns: run.turns,
        tool_calls: run.tool_calls,
        guards: run.guards.clone(),
        usage: run.usage,
        cost_usd: run.cost_usd(),
        duration_ms: ended_at.saturating_sub(run.started.saturating_add(run.waited)),
        files_changed: changed_files(run),
        files_not_listed: run.survey.as_ref().map_or(0, |survey| survey.not_listed),
        evidence: run.evidence().to_vec(),
        sandbox: run.sandbox.clone(),
        network: run.network,
    })
}

/// The files that differ from before the run: what was changed and changed back is not listed.
fn net_changes(run: &Run) -> Vec<ChangedFile> {
    let mut net: BTreeMap<&str, (Option<Digest>, Option<Digest>)> = BTreeMap::new();
    for change in &run.changes {
        let first_before = change.before.clone();
        net.entry(&change.path)
            .and_modify(|(_, after)| after.clone_from(&change.after))
            .or_insert((first_before, change.after.clone()));
    }
    let changes = net.into_iter().filter_map(|(path, (before, after))| FileChange::between(path, before, after));
    changes.map(|change| ChangedFile { path: change.path, change: change.change, ignored: false }).collect()
}

/// The files that differ, and after them the ignored ones that were created or changed.
fn changed_files(run: &Run) -> Vec<ChangedFile> {
    let mut files = net_changes(run);
    if let Some(survey) = &run.survey {
        files.extend(survey.ignored.iter().cloned());
    }
    files
}
