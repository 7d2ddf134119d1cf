//! The verifier's order of work: baseline, count, judge, rehearse.

use std::path::PathBuf;
use std::sync::Arc;

use hames_protocol::port::{
    Blobs, CommandSpec, Exit, Finished, Program, Sandbox, Tmp, Verifier, VerifyProblem, View, Workspace,
};
use hames_protocol::{Baseline, BoxFuture, CheckEvidence, CheckKind, Judgement, UntouchedCounts, Verdict};

use crate::command::{self, Runner};
use crate::finding::{self, Before, Shown};
use crate::report::{self, Report};
use crate::untouched::{self, Untouched};
use crate::view::{self, Judged};
use crate::{baseline, blocking, control, missing, output};

/// The longest time one check may take unless the user says otherwise, in milliseconds.
pub const DEFAULT_TIMEOUT_MS: u64 = 10 * 60 * 1000;

/// The longest time one look for a missing program may take, in milliseconds.
const PROBE_TIMEOUT_MS: u64 = 30_000;

/// How much of a check's output is read for its report, in bytes at either end.
const CAPTURE_BYTES: usize = 1 << 20;

/// Build products and caches from before are not trusted: a compiled test that is newer than its source would run
/// instead of it. So those of the usual tools are kept in the command's own fresh /tmp.
const FRESH_CACHES: [(&str, &str); 3] = [
    ("CARGO_TARGET_DIR", "/tmp/hames-target"),
    ("PYTHONPYCACHEPREFIX", "/tmp/hames-pycache"),
    ("PYTEST_ADDOPTS", "-o cache_dir=/tmp/hames-pytest"),
];

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
    config: ChecksConfig,
    workspace: Arc<dyn Workspace>,
    sandbox: Arc<dyn Sandbox>,
    blobs: Arc<dyn Blobs>,
}

/// One run of a check.
struct Ran {
    exit: Exit,
    report: Option<Report>,
    output: String,
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
        let copy = (!self.config.commands.is_empty()).then(|| self.config.copy.clone());
        blocking::run(move |stop| {
            let mut kept = match copy {
                None => Baseline::default(),
                Some(folder) => {
                    untouched::make(workspace.root(), &folder, stop).map_err(|error| {
                        let folder = folder.display();
                        VerifyProblem::System(format!("The untouched copy cannot be made in `{folder}`: {error}."))
                    })?;
                    baseline::keep(&*workspace, &*blobs, stop)?
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
            // Compared anew each time: the code under test may have changed files while the check before ran.
            let judged = self.compare(kept).await?;
            let ran = self.run(command, judged.view.clone(), Tmp::Fresh).await?;
            self.refuse_missing(command, &ran, &judged.view, Tmp::Fresh).await?;
            let before = match (counts.0.get(command).copied().flatten(), &found) {
                (Some(tests), _) => Before::Ran(tests),
                (None, Untouched::At(_)) if !counts.0.contains_key(command) => {
                    Before::NotCounted("the untouched copy has not been counted".to_owned())
                }
                (None, Untouched::At(_)) => Before::NotReported,
                (None, Untouched::Absent(why)) => Before::NotCounted(why.clone()),
            };
            let mut one = self.weigh(command, &ran, before);
            if let (Verdict::Pass, Some(report)) = (one.verdict, ran.report) {
                self.control(&mut one, kept, report.runner, &found).await?;
            }
            evidence.push(one);
            set_aside.extend(judged.set_aside);
        }
        set_aside.sort();
        set_aside.dedup();
        Ok(Judgement { verdict: finding::overall(&evidence), evidence, set_aside })
    }

    async fn rehearse_all(&self) -> Result<Judgement, VerifyProblem> {
        let mut evidence = Vec::new();
        for command in &self.config.commands {
            let ran = self.run(command, View::default(), Tmp::Session).await?;
            self.refuse_missing(command, &ran, &View::default(), Tmp::Session).await?;
            evidence.push(self.weigh(command, &ran, Before::NotCompared));
        }
        Ok(Judgement { verdict: finding::overall(&evidence), evidence, set_aside: Vec::new() })
    }

    /// Runs a passing check of tests once more with tests that must fail, and withdraws the pass when it still passes.
    async fn control(
        &self,
        evidence: &mut CheckEvidence,
        kept: &Baseline,
        runner: Runner,
        found: &Untouched,
    ) -> Result<(), VerifyProblem> {
        let (blobs, kept_too, folder) = (Arc::clone(&self.blobs), kept.clone(), self.config.copy.clone());
        let files = blocking::run(move |_| {
            control::files(&*blobs, &kept_too, runner, &folder)
                .map_err(|error| VerifyProblem::System(format!("The control cannot be prepared: {error}.")))
        })
        .await?;
        if files.is_empty() {
            return Ok(());
        }
        let judged = self.compare(kept).await?;
        let command = evidence.command.clone();
        let now = self.run(&command, view::with_files(&judged.view, files.clone()), Tmp::Fresh).await?;
        if !control::is_deaf(now.exit, now.report, runner) {
            return Ok(());
        }
        let (Untouched::At(tree), CheckKind::Tests { untouched: Some(before), .. }) = (found, &evidence.kind) else {
            evidence.reason.push_str(" Whether these tests can fail was not shown: there is nothing to compare with.");
            return Ok(());
        };
        let copy = View { stand_in: Some(tree.clone()), ..View::default() };
        let then = self.run(&command, view::with_files(&copy, files), Tmp::Fresh).await?;
        if control::is_heard(then.exit, then.report, *before, runner) {
            evidence.verdict = Verdict::Unverifiable;
            evidence.reason = format!(
                "{} reported success even with tests added that must fail, which the untouched copy does not. The code \
                 under test keeps the tests from running or failing.",
                runner.name()
            );
        }
        Ok(())
    }

    async fn untouched(&self) -> Result<Untouched, VerifyProblem> {
        let folder = self.config.copy.clone();
        blocking::run(move |_| Ok(untouched::find(&folder))).await
    }

    async fn compare(&self, kept: &Baseline) -> Result<Judged, VerifyProblem> {
        let (workspace, blobs) = (Arc::clone(&self.workspace), Arc::clone(&self.blobs));
        let (kept, folder) = (kept.clone(), self.config.copy.clone());
        blocking::run(move |stop| view::compare(&*workspace, &*blobs, &kept, &folder, stop)).await
    }

    fn weigh(&self, command: &str, ran: &Ran, before: Before) -> CheckEvidence {
        finding::weigh(&Shown {
            command,
            named: &command::runners(command),
            exit: ran.exit,
            timeout_ms: self.config.timeout_ms,
            report: ran.report,
            before,
            output: ran.output.clone(),
        })
    }

    async fn run(&self, command: &str, view: View, tmp: Tmp) -> Result<Ran, VerifyProblem> {
        let finished = self.start(command, view, tmp, self.config.timeout_ms).await?;
        let output = output::text(&finished.capture);
        let report = report::read(&output, &command::runners(command));
        Ok(Ran { exit: finished.exit, report, output })
    }

    async fn start(&self, command: &str, view: View, tmp: Tmp, timeout_ms: u64) -> Result<Finished, VerifyProblem> {
        let env = match tmp {
            Tmp::Fresh => FRESH_CACHES.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            Tmp::Session => Vec::new(),
        };
        let spec = CommandSpec {
            program: Program::Shell(command.to_owned()),
            cwd: PathBuf::from("."),
            env,
            timeout_ms,
            tmp,
            view,
            keep_output: None,
            capture_bytes: CAPTURE_BYTES,
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
            let answer = self.start(&question.probe, view.clone(), tmp, PROBE_TIMEOUT_MS).await?;
            if answer.exit == Exit::Code(missing::ABSENT) {
                return Err(VerifyProblem::MissingProgram { command: command.to_owned(), why: question.missing });
            }
        }
        Ok(())
    }
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
