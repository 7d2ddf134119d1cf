//! The verifier's order of work: baseline, count, judge, rehearse.

use std::path::PathBuf;
use std::sync::Arc;

use hames_protocol::port::{
    AddedView, Blobs, CommandSpec, Exit, Finished, Peers, Program, Sandbox, Tmp, Verifier, VerifyProblem, View,
    Workspace,
};
use hames_protocol::{Baseline, BoxFuture, CheckEvidence, CheckKind, Judgement, UntouchedCounts, Verdict};

use crate::command::{self, Runner};
use crate::finding::{self, Before, Shown};
use crate::report::{self, Report, junit};
use crate::untouched::{self, Untouched};
use crate::view::{self, Judged, Recipes};
use crate::{baseline, blocking, missing, output};

/// The longest time one check may take unless the user says otherwise, in milliseconds.
pub const DEFAULT_TIMEOUT_MS: u64 = 10 * 60 * 1000;

/// The longest time one look for a missing program may take, in milliseconds.
const PROBE_TIMEOUT_MS: u64 = 30_000;

/// How much of a check's output is read for its report, in bytes at either end.
const CAPTURE_BYTES: usize = 1 << 20;

/// Caches from before are not trusted: a compiled test would run instead of its source. So those of Python are kept
/// in the command's own fresh /tmp, wherever the sandbox has that. Go tells of single tests only when asked to.
const FRESH_CACHES: &str = "export PYTHONPYCACHEPREFIX=\"${TMPDIR:-/tmp}/hames-pycache\" \
                            PYTEST_ADDOPTS=\"-o 'cache_dir=${TMPDIR:-/tmp}/hames-pytest'\" \
                            GOCACHE=\"${TMPDIR:-/tmp}/hames-go\" GOFLAGS=\"${GOFLAGS:+$GOFLAGS }-v\"; ";

/// The same for the build products of tests in Rust. Only for commands that show no interest in them.
const FRESH_TARGET: &str = "export CARGO_TARGET_DIR=\"${TMPDIR:-/tmp}/hames-target\"; ";

/// What to check, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChecksConfig {
    /// The checks, as command lines for bash, in the order in which they run.
    pub commands: Vec<String>,
    /// A private host folder of this session, outside the workspace, for the untouched copy; made when missing.
    pub copy: PathBuf,
    /// The longest time one check may take, in milliseconds.
    pub timeout_ms: u64,
}

/// Runs the configured checks in the sandbox and judges what they show.
pub struct Checks {
    pub(crate) config: ChecksConfig,
    pub(crate) workspace: Arc<dyn Workspace>,
    sandbox: Arc<dyn Sandbox>,
    pub(crate) blobs: Arc<dyn Blobs>,
}

/// One run of a check.
pub(crate) struct Ran {
    pub(crate) exit: Exit,
    pub(crate) report: Option<Report>,
    pub(crate) output: String,
    /// What was set aside of repositories that it brought into being, in sentences.
    set_aside: Vec<String>,
}

/// A check that was judged.
struct JudgedCheck {
    evidence: CheckEvidence,
    /// What was set aside of repositories that it brought into being, in sentences.
    set_aside: Vec<String>,
}

impl Checks {
    /// Puts a verifier together; does nothing yet.
    pub fn new(
        config: ChecksConfig,
        workspace: Arc<dyn Workspace>,
        sandbox: Arc<dyn Sandbox>,
        blobs: Arc<dyn Blobs>,
    ) -> Self {
        Self { config, workspace, sandbox, blobs }
    }

    async fn keep(&self) -> Result<Baseline, VerifyProblem> {
        let (workspace, blobs) = (Arc::clone(&self.workspace), Arc::clone(&self.blobs));
        let commands = self.config.commands.clone();
        let copy = (!commands.is_empty()).then(|| self.config.copy.clone());
        blocking::run(move |stop| {
            let mut kept = match copy {
                None => Baseline::default(),
                Some(folder) => {
                    untouched::make(workspace.root(), &folder, stop).map_err(|error| {
                        let folder = folder.display();
                        VerifyProblem::System(format!("The untouched copy cannot be made in `{folder}`: {error}."))
                    })?;
                    baseline::keep(&*workspace, &*blobs, &commands, stop)?
                }
            };
            let manifest = workspace.begin().map_err(|error| baseline::unreadable(workspace.root(), &error))?;
            let stored = blobs.put(&manifest);
            kept.manifest = Some(stored.map_err(|error| {
                VerifyProblem::System(format!("The workspace's manifest could not be kept: {error}."))
            })?);
            Ok(kept)
        })
        .await
    }

    async fn count_all(&self) -> UntouchedCounts {
        let mut counts = UntouchedCounts::default();
        let found = self.untouched().await;
        for command in &self.config.commands {
            let ran = match &found {
                Ok(Untouched::At(tree)) => {
                    let view = View { stand_in: Some(tree.clone()), ..View::default() };
                    self.run(command, view, Tmp::Fresh).await.ok()
                }
                _ => None,
            };
            let tests = ran.filter(|ran| ran.exit != Exit::TimedOut).and_then(|ran| ran.report);
            counts.0.insert(command.clone(), tests.map(|report| report.ran));
        }
        counts
    }

    async fn judge_all(&self, kept: &Baseline, counts: &UntouchedCounts) -> Result<Judgement, VerifyProblem> {
        let found = self.untouched().await?;
        let mut evidence = Vec::new();
        let mut set_aside = Vec::new();
        for command in &self.config.commands {
            let before = match (counts.0.get(command).copied().flatten(), &found) {
                (Some(tests), _) => Before::Ran(tests),
                (None, Untouched::At(_)) if !counts.0.contains_key(command) => {
                    Before::NotCounted("the untouched copy has not been counted".to_owned())
                }
                (None, Untouched::At(_)) => Before::NotReported,
                (None, Untouched::Absent(why)) => Before::NotCounted(why.clone()),
            };
            // Compared anew each time: the code under test may have changed files while the check before ran.
            let judged = self.compare(kept, Recipes::AsBefore).await?;
            let mut one = self.judge_one(command, kept, judged.view, Recipes::AsBefore, before.clone()).await?;
            if one.evidence.verdict == Verdict::Fail && !judged.recipes.is_empty() {
                one = self.judge_changed(one, kept, &judged.recipes, before).await?;
            }
            evidence.push(one.evidence);
            set_aside.extend(judged.set_aside);
            set_aside.extend(one.set_aside);
        }
        set_aside.sort();
        set_aside.dedup();
        Ok(Judgement { verdict: finding::overall(&evidence), evidence, set_aside })
    }

    async fn judge_one(
        &self,
        command: &str,
        kept: &Baseline,
        view: View,
        recipes: Recipes,
        before: Before,
    ) -> Result<JudgedCheck, VerifyProblem> {
        let ran = self.run(command, view.clone(), Tmp::Fresh).await?;
        self.refuse_missing(command, &ran, &view, Tmp::Fresh).await?;
        let mut evidence = self.weigh(command, &ran, before);
        if let (Verdict::Pass, Some(report)) = (evidence.verdict, &ran.report) {
            self.control(&mut evidence, kept, recipes, report).await?;
        }
        Ok(JudgedCheck { evidence, set_aside: ran.set_aside })
    }

    /// Judges a check that failed with what it runs as it was before: the change may be part of the work. Tests that
    /// are controlled pass with it; an exit code alone would be the word of whoever made the change.
    async fn judge_changed(
        &self,
        failed: JudgedCheck,
        kept: &Baseline,
        recipes: &[String],
        before: Before,
    ) -> Result<JudgedCheck, VerifyProblem> {
        let judged = self.compare(kept, Recipes::AsNow).await?;
        let mut one = self.judge_one(&failed.evidence.command, kept, judged.view, Recipes::AsNow, before).await?;
        if one.evidence.verdict == Verdict::Fail {
            return Ok(failed);
        }
        let changed = recipes.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ");
        let is_shown = matches!(one.evidence.kind, CheckKind::Tests { .. });
        if one.evidence.verdict == Verdict::Pass && !is_shown {
            one.evidence.verdict = Verdict::Unverifiable;
            one.evidence.reason = format!(
                "It exits with 0 only with the change to {changed}, which decides what the check runs. Undo that \
                 change, or let the check name a test runner."
            );
        } else {
            one.evidence.reason = format!("{} It ran with {changed} as changed.", one.evidence.reason);
        }
        Ok(one)
    }

    async fn rehearse_all(&self) -> Result<Judgement, VerifyProblem> {
        let (mut evidence, mut set_aside) = (Vec::new(), Vec::new());
        for command in &self.config.commands {
            let ran = self.run(command, View::default(), Tmp::Session).await?;
            self.refuse_missing(command, &ran, &View::default(), Tmp::Session).await?;
            evidence.push(self.weigh(command, &ran, Before::NotCompared));
            set_aside.extend(ran.set_aside);
        }
        Ok(Judgement { verdict: finding::overall(&evidence), evidence, set_aside })
    }

    pub(crate) async fn untouched(&self) -> Result<Untouched, VerifyProblem> {
        let folder = self.config.copy.clone();
        blocking::run(move |_| Ok(untouched::find(&folder))).await
    }

    pub(crate) async fn compare(&self, kept: &Baseline, recipes: Recipes) -> Result<Judged, VerifyProblem> {
        let (workspace, blobs) = (Arc::clone(&self.workspace), Arc::clone(&self.blobs));
        let (kept, folder) = (kept.clone(), self.config.copy.clone());
        blocking::run(move |stop| view::compare(&*workspace, &*blobs, &kept, recipes, &folder, stop)).await
    }

    fn weigh(&self, command: &str, ran: &Ran, before: Before) -> CheckEvidence {
        finding::weigh(&Shown {
            command,
            named: &command::runners(command),
            exit: ran.exit,
            timeout_ms: self.config.timeout_ms,
            report: ran.report.clone(),
            before,
            output: ran.output.clone(),
        })
    }

    /// Runs a check and reads what it reports.
    pub(crate) async fn run(&self, command: &str, view: View, tmp: Tmp) -> Result<Ran, VerifyProblem> {
        let runners = command::runners(command);
        let prints_xml = junit::may_write(command);
        let line = if prints_xml { junit::printing(command) } else { command.to_owned() };
        let line = match tmp {
            Tmp::Session => line,
            Tmp::Fresh if builds_tests(command, &runners) => format!("{FRESH_CACHES}{FRESH_TARGET}{line}"),
            Tmp::Fresh => format!("{FRESH_CACHES}{line}"),
        };
        let capture = if prints_xml { junit::CAPTURE_BYTES } else { CAPTURE_BYTES };
        let finished = self.start(line, view, tmp, self.config.timeout_ms, capture).await?;
        let all = output::text(&finished.capture);
        let (output, files) = if prints_xml { junit::split(command, &all) } else { (all.as_str(), Vec::new()) };
        let report = report::read(output, &runners).or_else(|| junit::read(&files));
        let is_go = report.as_ref().is_some_and(|report| report.runner == Runner::Go) && !command.contains("-v");
        let output = if is_go { without_chatter(output) } else { output.to_owned() };
        let parts = finished.appeared.iter().flat_map(|repository| &repository.set_aside);
        let set_aside = parts.map(ToString::to_string).collect();
        Ok(Ran { exit: finished.exit, report, output, set_aside })
    }

    async fn start(
        &self,
        line: String,
        view: View,
        tmp: Tmp,
        timeout_ms: u64,
        capture_bytes: usize,
    ) -> Result<Finished, VerifyProblem> {
        let spec = CommandSpec {
            program: Program::Shell(line),
            cwd: PathBuf::from("."),
            env: Vec::new(),
            timeout_ms,
            tmp,
            // A check judges; what it changed in a folder of the user's would be nobody's work.
            view: View { added: AddedView::ReadOnly, ..view },
            peers: Peers::Nobody,
            keep_output: None,
            capture_bytes,
        };
        self.sandbox.run(spec, &|_| {}).await.map_err(|problem| VerifyProblem::System(problem.0))
    }

    /// Ends the judgement when a check failed because its program is missing: nothing the model does can help.
    async fn refuse_missing(&self, command: &str, ran: &Ran, view: &View, tmp: Tmp) -> Result<(), VerifyProblem> {
        let Exit::Code(code) = ran.exit else { return Ok(()) };
        if ran.report.is_some() {
            return Ok(());
        }
        for question in missing::questions(command, code, self.workspace.root()) {
            let answer = self.start(question.probe, view.clone(), tmp, PROBE_TIMEOUT_MS, CAPTURE_BYTES).await?;
            if answer.exit == Exit::Code(missing::ABSENT) {
                return Err(VerifyProblem::MissingProgram { command: command.to_owned(), why: question.missing });
            }
        }
        Ok(())
    }
}

/// What Go says of each test that passes goes into the count, not into the evidence.
fn without_chatter(output: &str) -> String {
    output.lines().filter(|line| !report::go::is_chatter(line)).flat_map(|line| [line, "\n"]).collect()
}

/// Whether cargo builds tests that the command line does not look for afterwards.
fn builds_tests(command: &str, runners: &[Runner]) -> bool {
    runners.iter().any(|runner| matches!(runner, Runner::CargoTest | Runner::Nextest)) && !command.contains("target")
}

impl Verifier for Checks {
    fn checks(&self) -> Vec<String> {
        self.config.commands.clone()
    }

    fn baseline(&self) -> BoxFuture<'_, Result<Baseline, VerifyProblem>> {
        Box::pin(self.keep())
    }

    fn count(&self) -> BoxFuture<'_, UntouchedCounts> {
        Box::pin(self.count_all())
    }

    fn judge<'a>(
        &'a self,
        baseline: &'a Baseline,
        counts: &'a UntouchedCounts,
    ) -> BoxFuture<'a, Result<Judgement, VerifyProblem>> {
        Box::pin(self.judge_all(baseline, counts))
    }

    fn rehearse(&self) -> BoxFuture<'_, Result<Judgement, VerifyProblem>> {
        Box::pin(self.rehearse_all())
    }
}
