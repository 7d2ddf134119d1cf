//! Tools that do nothing but count what they are asked.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hames_protocol::port::*;
use hames_protocol::*;
use serde_json::Value;

/// What a tool does is told by its name: `look` is pure, `put` can be reconciled, `sh` must happen once (with `job` it
/// leaves one running), `ask` asks.
#[derive(Default)]
pub(crate) struct CountingTools {
    pub(crate) ran: Mutex<Vec<String>>,
    pub(crate) slow: bool,
    /// Those that are running.
    pub(crate) jobs: Arc<Mutex<Vec<String>>>,
}

impl CountingTools {
    fn class(name: &str) -> EffectClass {
        match name {
            "look" => EffectClass::Pure,
            "put" => EffectClass::Reconcilable,
            _ => EffectClass::Once,
        }
    }
}

impl Toolbox for CountingTools {
    fn specs(&self) -> Vec<ToolSpec> {
        Vec::new()
    }

    fn examine<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Examination> {
        Box::pin(async move {
            let class = Self::class(&call.name);
            let plain = Examination::plain(class, Reach::Workspace);
            let arguments = call.whole_arguments().cloned().unwrap_or_default();
            if !["look", "put", "sh", "ask", FINISH].contains(&call.name.as_str()) {
                return Examination::problem(Guard::Valid, format!("There is no tool `{}`.", call.name));
            }
            if let Some(text) = arguments.get("invalid").and_then(Value::as_str) {
                let problems = vec![Problem { guard: Guard::Valid, text: text.into() }];
                return Examination { problems, ..plain };
            }
            if call.name == "ask" {
                let question = arguments.get("question").and_then(Value::as_str).map(str::to_owned);
                return Examination { question, ..Examination::plain(EffectClass::Pure, Reach::Private) };
            }
            plain
        })
    }

    fn run<'a>(&'a self, call: &'a Call, _: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let arguments = call.whole_arguments().cloned().unwrap_or_default();
            let number = {
                let mut ran = self.ran.lock().unwrap();
                ran.push(format!("{} {}", call.name, Value::Object(arguments.clone())));
                ran.len()
            };
            let ms = if self.slow { 60_000 } else { arguments.get("ms").and_then(Value::as_u64).unwrap_or(1) };
            tokio::time::sleep(Duration::from_millis(ms)).await;
            self.ran.lock().unwrap().push(format!("{} ended", call.name));
            if let Some(reason) = arguments.get("permanent").and_then(Value::as_str) {
                return ToolResult { permanent: Some(reason.into()), ..ToolResult::failed(reason) };
            }
            if arguments.get("fail").is_some() {
                return ToolResult::failed("It failed in 0.12s.");
            }
            let job = arguments.get("job").and_then(Value::as_str).map(str::to_owned);
            let leaves = if job.is_some() { Leaves::Job } else { Leaves::Nothing };
            self.jobs.lock().unwrap().extend(job);
            let change = FileChange::between(format!("f{number}"), None, Some(Digest::of(format!("{number}"))));
            let changes = change.into_iter().filter(|_| call.name == "put").collect();
            ToolResult { changes, leaves, ..ToolResult::ok("done in 3ms") }
        })
    }

    fn probe<'a>(&'a self, _: &'a Call, _: &'a Examination) -> BoxFuture<'a, Probe> {
        Box::pin(async { Probe::Settled(ToolResult::new(Status::InDoubt, "IN DOUBT")) })
    }

    fn end_jobs(&self) -> BoxFuture<'_, JobsEnded> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let jobs = std::mem::take(&mut *self.jobs.lock().unwrap());
            let changes = FileChange::between("by-job", None, Some(Digest::of("x"))).into_iter().collect();
            let (tool, call_id, reason) = ("sh".to_owned(), "a".to_owned(), "It tried.".to_owned());
            let fired = vec![GuardFired { guard: Guard::Protected, tool, call_id, reason }];
            JobsEnded { jobs, changes, fired }
        })
    }
}
