//! `run_tests`: the configured checks, run as the model may at any time; they decide nothing.

use std::sync::Arc;

use hames_protocol::port::{Tool, Verifier, VerifyProblem, Workspace};
use hames_protocol::{
    Block, BoxFuture, Call, CheckEvidence, CheckKind, EffectClass, Examination, Judgement, Probe, Reach, Status,
    ToolResult, ToolSpec, Verdict,
};
use schemars::JsonSchema;

use super::bash::observe;
use crate::bound::{RESULT_LIMIT_BYTES, gap, head_and_tail};
use crate::schema::spec;
use crate::terminal::{Cut, plain};
use crate::text::{clipped, escaped, shown};

/// What is kept free for everything but the output of the checks, in bytes.
const FRAME_BYTES: usize = 4_000;

/// How many of the paths that were set aside are named.
const NAMED_PATHS: usize = 10;
/// How much of a sentence about one of these is shown, in bytes.
const SENTENCE_BYTES: usize = 300;

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {}

pub(crate) struct RunTests {
    spec: ToolSpec,
    workspace: Arc<dyn Workspace>,
    verifier: Arc<dyn Verifier>,
}

impl RunTests {
    pub(crate) fn new(workspace: Arc<dyn Workspace>, verifier: Arc<dyn Verifier>) -> Self {
        let description = "Runs the checks that decide whether the task is done.";
        Self { spec: spec::<Arguments>("run_tests", description), workspace, verifier }
    }
}

impl Tool for RunTests {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn examine<'a>(&'a self, _: &'a Call) -> BoxFuture<'a, Examination> {
        Box::pin(std::future::ready(Examination::plain(EffectClass::Idempotent, Reach::Workspace)))
    }

    fn run<'a>(&'a self, _: &'a Call, _: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let mut result = match self.verifier.rehearse().await {
                Ok(judgement) => report(&judgement),
                Err(problem) => {
                    let mut result = ToolResult::failed(problem.to_string());
                    if matches!(problem, VerifyProblem::MissingProgram { .. }) {
                        result.permanent = Some(problem.to_string());
                    }
                    result
                }
            };
            // Tests leave caches and reports behind.
            match observe(&self.workspace).await {
                Ok(changes) => result.changes = changes,
                Err(text) => result.blocks.push(Block::text(text)),
            }
            result
        })
    }

    fn probe<'a>(&'a self, _: &'a Call, _: &'a Examination) -> BoxFuture<'a, Probe> {
        Box::pin(std::future::ready(Probe::Settled(ToolResult::in_doubt("The checks were running."))))
    }
}

fn report(judgement: &Judgement) -> ToolResult {
    let status = if judgement.verdict == Verdict::Pass { Status::Ok } else { Status::Failed };
    let share = (RESULT_LIMIT_BYTES - FRAME_BYTES) / judgement.evidence.len().max(1);
    let mut sections: Vec<String> = judgement.evidence.iter().map(|evidence| section(evidence, share)).collect();
    if !judgement.set_aside.is_empty() {
        let named: Vec<String> =
            judgement.set_aside.iter().take(NAMED_PATHS).map(|told| escaped(&clipped(told, SENTENCE_BYTES))).collect();
        let more = if judgement.set_aside.len() > NAMED_PATHS { " …" } else { "" };
        sections.push(format!("Set aside: {}{more}", named.join(" ")));
    }
    let text = sections.join("\n\n");
    // Very many checks outgrow any share; the bound on the whole still holds.
    let bounded = head_and_tail(&text, "", 0, RESULT_LIMIT_BYTES, gap);
    let mut result = ToolResult::new(status, bounded.text);
    result.data = serde_json::to_value(judgement).unwrap_or_default();
    result
}

fn section(evidence: &CheckEvidence, share: usize) -> String {
    let verdict = match evidence.verdict {
        Verdict::Pass => "passed",
        Verdict::Fail => "failed",
        Verdict::Unverifiable => "shows nothing",
    };
    let kind = match &evidence.kind {
        CheckKind::Tests { runner, ran, .. } => format!("{runner}, {ran} ran"),
        CheckKind::ExitCode => format!("exit code {}", evidence.exit_code),
    };
    let head = format!(
        "`{}` {verdict} ({kind}). {}",
        shown(&evidence.command),
        plain(evidence.reason.as_bytes(), Cut::Nowhere).text
    );
    let output = plain(evidence.output.as_bytes(), Cut::Nowhere).text;
    let output = head_and_tail(output.trim_end(), "", 0, share.saturating_sub(head.len()), gap).text;
    if output.is_empty() { head } else { format!("{head}\n{output}") }
}
