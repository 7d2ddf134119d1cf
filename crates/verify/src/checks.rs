//! The verifier's order of work: baseline, count, judge, rehearse.

use std::path::PathBuf;
use std::sync::Arc;

use hames_protocol::port::{
    Blobs, CommandSpec, Exit, Finished, Program, Sandbox, Tmp, Verifier, VerifyProblem, View, Workspace,
};
use hames_protocol::{Baseline, BoxFuture, CheckEvidence, Judgement, UntouchedCounts, Verdict};

use crate::command::{self, Runner};
use crate::control::{self, Content, Control};
use crate::finding::{self, Before, Shown};
use crate::report::{self, Report};
use crate::untouched::{self, Untouched};
use crate::view::{self, Judged};
use crate::{baseline, blocking, missing, output};

/// The longest time one check may take unless the user says otherwise, in milliseconds.
pub const DEFAULT_TIMEOUT_MS: u64 = 10 * 60 * 1000;

/// The longest time one look for a missing program may take, in milliseconds.
const PROBE_TIMEOUT_MS: u64 = 30_000;

/// How much of a check's output is read for its report, in bytes at either end.
const CAPTURE_BYTES: usize = 1 << 20;

/// Caches from before are not trusted: a compiled test would run instead of its source. So those of Python are kept
/// in the command's own fresh /tmp, wherever the sandbox has that.
const FRESH_CACHES: &str = "export PYTHONPYCACHEPREFIX=\"${TMPDIR:-/tmp}/hames-pycache\" \
                            PYTEST_ADDOPTS=\"-o 'cache_dir=${TMPDIR:-/tmp}/hames-pytest'\"; ";

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
                self.control(&mut one, kept, report.runner).await?;
            }
            evidence.push(one);
            set_aside.extend(judged.set_aside);
            set_aside.extend(ran.set_aside);
        }
        set_aside.sort();
        set_aside.dedup();
        Ok(Judgement { verdict: finding::overall(&evidence), evidence, set_aside })
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

    /// Runs a passing check of tests once more with tests that must fail, and withdraws the pass when the code under
    /// test is what keeps them from failing.
    async fn control(
        &self,
        evidence: &mut CheckEvidence,
        kept: &Baseline,
        runner: Runner,
    ) -> Result<(), VerifyProblem> {
        let command = evidence.command.clone();
        let added = self.prepare_control(kept, runner, Content::Added).await?;
        if added.files.is_empty() {
            return Ok(());
        }
        let controlled = added.files.len();
        let mut view = self.compare(kept).await?.view;
        view.originals.extend(added.files);
        let ran = self.run(&command, view, Tmp::Fresh).await?;
        let heard = control::heard(ran.exit, ran.report, runner);
        if heard >= control::all(runner, controlled) {
            return Ok(());
        }
        // Some may be missed for a good reason. Then they are missed as well where nothing can silence them.
        let alone = self.prepare_control(kept, runner, Content::Alone).await?;
        let is_silenced =
            |ran: &Ran| control::heard_alone(ran.exit, ran.report, &ran.output, &alone.mark, runner) > heard;
        let judged = self.compare(kept).await?;
        let mut view = judged.view;
        view.originals.extend(alone.files.clone());
        view.left_out.extend(judged.new_tests.into_iter().filter(|path| control::carries(runner, path)));
        let silencer = if is_silenced(&self.run(&command, view, Tmp::Fresh).await?) {
            Some("The code under test keeps the tests from running or from failing.")
        } else if let Untouched::At(tree) = self.untouched().await? {
            let view = View { stand_in: Some(tree), originals: alone.files.clone(), ..View::default() };
            let ran = self.run(&command, view, Tmp::Fresh).await?;
            is_silenced(&ran).then_some("On the untouched copy they fail: what runs the tests was changed.")
        } else {
            None
        };
        if let Some(why) = silencer {
            evidence.verdict = Verdict::Unverifiable;
            let name = runner.name();
            evidence.reason = format!("{name} reported success even with tests added that must fail. {why}");
        }
        Ok(())
    }

    async fn prepare_control(
        &self,
        kept: &Baseline,
        runner: Runner,
        content: Content,
    ) -> Result<Control, VerifyProblem> {
        let (blobs, kept, folder) = (Arc::clone(&self.blobs), kept.clone(), self.config.copy.clone());
        blocking::run(move |_| {
            control::prepare(&*blobs, &kept, runner, content, &folder)
                .map_err(|error| VerifyProblem::System(format!("The control cannot be prepared: {error}.")))
        })
        .await
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
        let runners = command::runners(command);
        let line = match tmp {
            Tmp::Session => command.to_owned(),
            Tmp::Fresh if builds_tests(command, &runners) => format!("{FRESH_CACHES}{FRESH_TARGET}{command}"),
            Tmp::Fresh => format!("{FRESH_CACHES}{command}"),
        };
        let finished = self.start(line, view, tmp, self.config.timeout_ms).await?;
        let output = output::text(&finished.capture);
        let report = report::read(&output, &runners);
        let parts = finished.appeared.iter().flat_map(|repository| &repository.set_aside);
        let set_aside = parts.map(ToString::to_string).collect();
        Ok(Ran { exit: finished.exit, report, output, set_aside })
    }

    async fn start(&self, line: String, view: View, tmp: Tmp, timeout_ms: u64) -> Result<Finished, VerifyProblem> {
        let spec = CommandSpec {
            program: Program::Shell(line),
            cwd: PathBuf::from("."),
            env: Vec::new(),
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
            let answer = self.start(question.probe, view.clone(), tmp, PROBE_TIMEOUT_MS).await?;
            if answer.exit == Exit::Code(missing::ABSENT) {
                return Err(VerifyProblem::MissingProgram { command: command.to_owned(), why: question.missing });
            }
        }
        Ok(())
    }
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
