//! Jobs: commands of `bash` that go on in the background, with `job_output` and `job_kill`.
//!
//! A job lives in this process and ends with it, so after a crash there is none; its number is not used again. What one
//! does to the workspace is seen with the next command, and at the latest when all jobs are ended: before the verifier
//! judges, and at the end of a run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use hames_protocol::port::{Exit, Job, News, SandboxProblem, Tool, Until, Workspace};
use hames_protocol::{
    BoxFuture, Call, EffectClass, Examination, Guard, GuardFired, JobsEnded, Probe, Problem, Reach, ToolResult,
    ToolSpec,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::bash::observe;
use super::report::{Report, exit_sentence};
use crate::blocking::lock;
use crate::schema::{arguments, spec, whole_number};
use crate::text::{shown, thousands};

/// How many jobs may run at once.
const LIMIT: usize = 4;

/// What a job's name begins with; its number follows.
const NAME: &str = "job-";

/// The jobs of a session.
#[derive(Default)]
pub(super) struct Jobs(Mutex<Book>);

#[derive(Default)]
struct Book {
    /// The last number that was given.
    last: u32,
    jobs: BTreeMap<u32, State>,
}

#[derive(Clone)]
enum State {
    /// It runs, or how it ended was not told yet.
    Kept(Arc<Kept>),
    /// It ended, as this sentence says.
    Over(String),
}

/// A job and where it came from.
pub(super) struct Kept {
    job: Box<dyn Job>,
    /// The tool that started it.
    tool: String,
    /// The call that started it, as it is shown.
    call: String,
    /// Where its whole output is.
    output: String,
    life_ms: u64,
    since: Instant,
}

impl Kept {
    /// A job that `call` has just started.
    pub(super) fn new(job: Box<dyn Job>, call: &Call, output: &str, life_ms: u64) -> Self {
        let (tool, shown_id) = (call.name.clone(), call.shown_id().to_owned());
        Self { job, tool, call: shown_id, output: output.to_owned(), life_ms, since: Instant::now() }
    }

    fn timed_out(&self) -> String {
        format!("Ended because it may run for {} ms at most.", thousands(self.life_ms))
    }
}

impl Jobs {
    /// Why no further job may be started.
    pub(super) fn fault(&self) -> Option<String> {
        let running = self.running();
        (running.len() >= LIMIT).then(|| {
            let names = listed(running.iter().map(|(number, _)| *number));
            format!("{LIMIT} jobs are running ({names}), which is the limit. End one with `job_kill` first.")
        })
    }

    /// Keeps a job and names it.
    pub(super) fn keep(&self, kept: Kept) -> String {
        let mut book = lock(&self.0);
        book.last += 1;
        let number = book.last;
        book.jobs.insert(number, State::Kept(Arc::new(kept)));
        name(number)
    }

    /// Takes up what a logged result's `data` says: a job of that name was started.
    pub(super) fn recall(&self, data: &Value) {
        if let Some(number) = data.get("job").and_then(Value::as_str).and_then(number) {
            let mut book = lock(&self.0);
            book.last = book.last.max(number);
        }
    }

    /// Ends all of them. What they changed in the workspace is not in it.
    pub(super) async fn end_all(&self) -> JobsEnded {
        let mut ended = JobsEnded::default();
        let unsettled: Vec<_> = lock(&self.0).jobs.iter().filter_map(|(number, state)| state.kept(*number)).collect();
        for (number, kept) in unsettled {
            if kept.job.is_running() {
                ended.jobs.push(name(number));
            }
            kept.job.end().await;
            let Ok(news) = kept.job.news(Until::End, 0).await else { continue };
            let mut report = Report::default();
            let mut fired = report.note_attempts(&news.attempts);
            fired.extend(report.note_repositories(&news.appeared));
            ended.fired.extend(fired.into_iter().map(|Problem { guard, text }| GuardFired {
                guard,
                tool: kept.tool.clone(),
                call_id: kept.call.clone(),
                reason: text,
            }));
            self.settle(number, "It was ended before the checks, or with the run. Start it again where it is needed.");
        }
        ended
    }

    fn running(&self) -> Vec<(u32, Arc<Kept>)> {
        let kept = lock(&self.0).jobs.iter().filter_map(|(number, state)| state.kept(*number)).collect::<Vec<_>>();
        kept.into_iter().filter(|(_, kept)| kept.job.is_running()).collect()
    }

    /// What is known of a job, by its name.
    fn find(&self, written: &str) -> Result<(u32, State), String> {
        let book = lock(&self.0);
        if let Some(number) = number(written).filter(|number| (1..=book.last).contains(number)) {
            let gone = || State::Over("It ended with the Hames process that had started it.".to_owned());
            return Ok((number, book.jobs.get(&number).cloned().unwrap_or_else(gone)));
        }
        drop(book);
        let running = self.running();
        let known = match running.is_empty() {
            true => "No job is running. Start one with `bash` and `background`.".to_owned(),
            false => format!("Running: {}.", listed(running.iter().map(|(number, _)| *number))),
        };
        Err(format!("There is no job `{}`. {known}", shown(written)))
    }

    /// Forgets a job that ended, but for how.
    fn settle(&self, number: u32, how: &str) {
        lock(&self.0).jobs.insert(number, State::Over(how.to_owned()));
    }

    /// What a job did, as a result, after a word on how it is.
    fn tell(&self, number: u32, kept: &Kept, news: Result<News, SandboxProblem>, ended: Ended) -> ToolResult {
        let name = name(number);
        let news = match news {
            Ok(news) => news,
            Err(problem) => {
                self.settle(number, &problem.to_string());
                return ToolResult::failed(format!("`{name}` never began to run. {problem}"));
            }
        };
        let mut report = Report::default();
        match news.exit {
            None => report.note(format!("`{name}` is still running, after {} s.", kept.since.elapsed().as_secs())),
            Some(_) if ended == Ended::ByThisCall => {
                report.note(format!("`{name}` was ended."));
                self.settle(number, "It was ended by `job_kill`.");
            }
            Some(exit) => {
                let how = exit_sentence(exit, &kept.timed_out());
                report.note(format!("`{name}` has ended. {how}"));
                self.settle(number, &how);
            }
        }
        report.note_strays(news.strays, "Start a server without `&` or a daemon mode.");
        let mut fired = report.note_attempts(&news.attempts);
        fired.extend(report.note_repositories(&news.appeared));
        let silent = news.output.head.is_empty();
        let (text, left_out) = report.text(&news.output, &kept.output, "");
        let text = if silent { format!("(no new output)\n{text}") } else { text };
        let data = json!({
            "job": name,
            "exit": news.exit,
            "code": news.exit.map(Exit::shell_code),
            "left_out": left_out,
            "attempts": news.attempts,
            "appeared": news.appeared,
            "output": kept.output,
        });
        ToolResult { data, fired, ..ToolResult::ok(text) }
    }
}

impl State {
    fn kept(&self, number: u32) -> Option<(u32, Arc<Kept>)> {
        match self {
            Self::Kept(kept) => Some((number, Arc::clone(kept))),
            Self::Over(_) => None,
        }
    }
}

/// By what a job ended, if it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    ByItself,
    ByThisCall,
}

fn name(number: u32) -> String {
    format!("{NAME}{number}")
}

fn number(name: &str) -> Option<u32> {
    name.strip_prefix(NAME)?.parse().ok()
}

fn listed(numbers: impl Iterator<Item = u32>) -> String {
    numbers.map(|number| format!("`{}`", name(number))).collect::<Vec<_>>().join(", ")
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OutputArguments {
    job: String,
    /// Wait for output or its end.
    #[serde(default, deserialize_with = "whole_number")]
    #[schemars(range(max = 120_000))]
    wait_ms: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct KillArguments {
    job: String,
}

/// `job_output`. It is pure although it moves on in the output: what it was told before a crash it never gives again,
/// for the job is gone with it.
pub(crate) struct JobOutput {
    spec: ToolSpec,
    jobs: Arc<Jobs>,
}

impl JobOutput {
    pub(super) fn new(jobs: Arc<Jobs>) -> Self {
        let description = "Shows new output of a job, and whether it still runs.";
        Self { spec: spec::<OutputArguments>("job_output", description), jobs }
    }

    async fn execute(&self, call: &Call) -> ToolResult {
        let OutputArguments { job, wait_ms } = match arguments(call) {
            Ok(arguments) => arguments,
            Err(problem) => return ToolResult::failed(problem.text),
        };
        match self.jobs.find(&job) {
            Err(text) => ToolResult::failed(text),
            Ok((_, State::Over(how))) => ToolResult::failed(format!("`{job}` has ended. {how}")),
            Ok((number, State::Kept(kept))) => {
                let news = kept.job.news(Until::Output, wait_ms.unwrap_or(0)).await;
                self.jobs.tell(number, &kept, news, Ended::ByItself)
            }
        }
    }
}

impl Tool for JobOutput {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn examine<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Examination> {
        let job = arguments::<OutputArguments>(call).map(|arguments| arguments.job);
        Box::pin(std::future::ready(examined(&self.jobs, job, EffectClass::Pure)))
    }

    fn run<'a>(&'a self, call: &'a Call, _: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, ToolResult> {
        Box::pin(self.execute(call))
    }

    fn probe<'a>(&'a self, _: &'a Call, _: &'a Examination) -> BoxFuture<'a, Probe> {
        Box::pin(std::future::ready(Probe::DidNotHappen))
    }
}

/// `job_kill`.
pub(crate) struct JobKill {
    spec: ToolSpec,
    workspace: Arc<dyn Workspace>,
    jobs: Arc<Jobs>,
}

impl JobKill {
    pub(super) fn new(workspace: Arc<dyn Workspace>, jobs: Arc<Jobs>) -> Self {
        Self { spec: spec::<KillArguments>("job_kill", "Ends a job."), workspace, jobs }
    }

    async fn execute(&self, call: &Call) -> ToolResult {
        let job = match arguments::<KillArguments>(call) {
            Ok(arguments) => arguments.job,
            Err(problem) => return ToolResult::failed(problem.text),
        };
        match self.jobs.find(&job) {
            Err(text) => ToolResult::failed(text),
            Ok((_, State::Over(how))) => ToolResult::ok(format!("`{job}` has ended already. {how}")),
            Ok((number, State::Kept(kept))) => {
                let ended = if kept.job.is_running() { Ended::ByThisCall } else { Ended::ByItself };
                kept.job.end().await;
                let news = kept.job.news(Until::End, 0).await;
                let result = self.jobs.tell(number, &kept, news, ended);
                // What cannot be observed now is observed with the next command.
                ToolResult { changes: observe(&self.workspace).await.unwrap_or_default(), ..result }
            }
        }
    }
}

impl Tool for JobKill {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn examine<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Examination> {
        let job = arguments::<KillArguments>(call).map(|arguments| arguments.job);
        Box::pin(std::future::ready(examined(&self.jobs, job, EffectClass::Idempotent)))
    }

    fn run<'a>(&'a self, call: &'a Call, _: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, ToolResult> {
        Box::pin(self.execute(call))
    }

    fn probe<'a>(&'a self, _: &'a Call, _: &'a Examination) -> BoxFuture<'a, Probe> {
        Box::pin(std::future::ready(Probe::DidNotHappen))
    }
}

fn examined(jobs: &Jobs, job: Result<String, Problem>, class: EffectClass) -> Examination {
    match job.map(|job| jobs.find(&job)) {
        Ok(Ok(_)) => Examination::plain(class, Reach::Workspace),
        Ok(Err(text)) => Examination::problem(Guard::Valid, text),
        Err(Problem { guard, text }) => Examination::problem(guard, text),
    }
}
