//! The doubles: a model that plays replies and polices requests, tools that count what they do, a log in memory, and
//! a clock that runs on tokio's paused time.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hames_agent::{AgentProblem, Driver, Ports, Prompt};
use hames_protocol::port::*;
use hames_protocol::*;
use serde_json::{Value, json};

pub(crate) enum Play {
    Reply(Reply),
    Failure(ModelFailure),
    Hang,
}

/// A model that plays what it was given, and refuses a conversation that a provider would refuse.
pub(crate) struct ScriptModel {
    info: ModelInfo,
    plays: Mutex<VecDeque<Play>>,
    pub(crate) requests: Mutex<Vec<Vec<Value>>>,
}

impl ScriptModel {
    fn new(plays: Vec<Play>) -> Self {
        let price = Some(Price { input: 1.0, output: 10.0, cache_read: 0.1, cache_write: 1.25 });
        let info = ModelInfo {
            provider: "scripted".into(),
            name: "test".into(),
            dialect: Dialect::Anthropic,
            context_tokens: 100_000,
            output_tokens: 1_000,
            price,
        };
        Self { info, plays: Mutex::new(plays.into()), requests: Mutex::default() }
    }
}

impl Model for ScriptModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn encode_head(&self, head: &Head) -> Arc<str> {
        head.system.as_str().into()
    }

    fn encode(&self, message: &Message) -> Encoded {
        let value = match message {
            Message::User(blocks) => json!({"user": blocks.iter().filter_map(Block::as_text).collect::<Vec<_>>()}),
            Message::Assistant { wire_ids, reply } => json!({"calls": wire_ids, "text": reply.text()}),
            Message::Results(results) => {
                let of = |result: &WireResult| json!([result.wire_id, result.status, blocks_text(&result.blocks)]);
                json!({"results": results.iter().map(of).collect::<Vec<_>>()})
            }
        };
        Encoded { body: value.to_string().into(), marker_at: None }
    }

    fn send<'a>(
        &'a self,
        request: Request,
        on_delta: &'a (dyn Fn(Delta) + Send + Sync),
    ) -> BoxFuture<'a, Result<Reply, ModelFailure>> {
        let messages: Vec<Value> = request.messages.iter().map(|m| serde_json::from_str(&m.body).unwrap()).collect();
        check_conversation(&messages);
        self.requests.lock().unwrap().push(messages);
        let play = self.plays.lock().unwrap().pop_front();
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            on_delta(Delta::Usage(Usage { input_tokens: 100, output_tokens: 1, ..Usage::default() }));
            match play {
                Some(Play::Reply(reply)) => Ok(reply),
                Some(Play::Failure(failure)) => Err(failure),
                Some(Play::Hang) => std::future::pending().await,
                None => Err(failure(FailureKind::Setup, "the script is over")),
            }
        })
    }
}

fn blocks_text(blocks: &[Block]) -> String {
    blocks.iter().filter_map(Block::as_text).collect()
}

/// Promise P1, as a provider sees it: the message after a reply with calls holds exactly their results, in order.
pub(crate) fn check_conversation(messages: &[Value]) {
    let mut seen = std::collections::HashSet::new();
    for (index, message) in messages.iter().enumerate() {
        let Some(calls) = message["calls"].as_array().filter(|calls| !calls.is_empty()) else {
            if message.get("results").is_some() {
                assert!(messages[index - 1]["calls"].is_array(), "results without calls: {messages:#?}");
            }
            continue;
        };
        assert!(calls.iter().all(|id| seen.insert(id.clone())), "an id repeats: {messages:#?}");
        let results = messages.get(index + 1).and_then(|next| next["results"].as_array());
        let results = results.unwrap_or_else(|| panic!("calls without results: {messages:#?}"));
        let answered: Vec<&Value> = results.iter().map(|result| &result[0]).collect();
        assert_eq!(answered, calls.iter().collect::<Vec<_>>());
    }
}

/// What a tool does is told by its name: `look` is pure, `put` can be reconciled, `sh` must happen once; with `job` it
/// leaves one running.
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
            if !["look", "put", "sh", FINISH].contains(&call.name.as_str()) {
                return Examination::problem(Guard::Valid, format!("There is no tool `{}`.", call.name));
            }
            if let Some(text) = arguments.get("invalid").and_then(Value::as_str) {
                let problems = vec![Problem { guard: Guard::Valid, text: text.into() }];
                return Examination { problems, ..plain };
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

/// A verifier with a queue of verdicts; fails when none is left.
pub(crate) struct ScriptVerifier {
    pub(crate) checks: Vec<String>,
    pub(crate) verdicts: Mutex<VecDeque<Result<Verdict, VerifyProblem>>>,
    /// How often a baseline was begun.
    pub(crate) baselines: Mutex<u32>,
}

impl Verifier for ScriptVerifier {
    fn checks(&self) -> Vec<String> {
        self.checks.clone()
    }

    fn baseline(&self) -> BoxFuture<'_, Result<Baseline, VerifyProblem>> {
        *self.baselines.lock().unwrap() += 1;
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok(Baseline::default())
        })
    }

    fn count(&self) -> BoxFuture<'_, UntouchedCounts> {
        Box::pin(async { UntouchedCounts::default() })
    }

    fn judge<'a>(&'a self, _: &'a Baseline, _: &'a UntouchedCounts) -> BoxFuture<'a, Result<Judgement, VerifyProblem>> {
        let verdict = self.verdicts.lock().unwrap().pop_front().unwrap_or(Ok(Verdict::Fail));
        Box::pin(async move { Ok(Judgement { verdict: verdict?, evidence: Vec::new(), set_aside: Vec::new() }) })
    }

    fn rehearse(&self) -> BoxFuture<'_, Result<Judgement, VerifyProblem>> {
        Box::pin(async { Err(VerifyProblem::System("not offered".into())) })
    }
}

/// A workspace in which one file has always just appeared.
struct OneChange;

impl Workspace for OneChange {
    fn root(&self) -> &Path {
        Path::new("/nowhere")
    }

    fn locate(&self, path: &str) -> Result<Landing, PathProblem> {
        Err(PathProblem::Outside(path.into()))
    }

    fn read(&self, path: &str, _: u64) -> Result<FileContent, PathProblem> {
        Err(PathProblem::Outside(path.into()))
    }

    fn replace(&self, path: &str, _: &[u8], _: &Expected) -> Result<FileChange, PathProblem> {
        Err(PathProblem::Outside(path.into()))
    }

    fn create(&self, path: &str, _: &[u8], _: u32) -> Result<FileChange, PathProblem> {
        Err(PathProblem::Outside(path.into()))
    }

    fn remove(&self, path: &str, _: &Digest) -> Result<FileChange, PathProblem> {
        Err(PathProblem::Outside(path.into()))
    }

    fn begin(&self) -> std::io::Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn adopt(&self, _: &[u8], _: &[FileChange]) -> std::io::Result<()> {
        Ok(())
    }

    fn observe(&self) -> std::io::Result<Vec<FileChange>> {
        Ok(FileChange::between("left-behind", None, Some(Digest::of("x"))).into_iter().collect())
    }

    fn protected_files(&self) -> std::io::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

struct NoBlobs;

impl Blobs for NoBlobs {
    fn put(&self, bytes: &[u8]) -> std::io::Result<Digest> {
        Ok(Digest::of(bytes))
    }

    fn get(&self, _: &Digest) -> std::io::Result<Vec<u8>> {
        Err(std::io::ErrorKind::NotFound.into())
    }

    fn path(&self, _: &Digest) -> std::io::Result<PathBuf> {
        Err(std::io::ErrorKind::NotFound.into())
    }
}

/// A log in memory, shared so that it outlives its driver.
#[derive(Clone, Default)]
pub(crate) struct SharedLog(pub(crate) Arc<Mutex<Vec<Record>>>);

impl Journal for SharedLog {
    fn append(&mut self, tick: u64, entry: Entry) -> Result<Record, JournalProblem> {
        let mut records = self.0.lock().unwrap();
        let seq = Seq(records.len() as u64 + 1);
        let opened = |record: &&Record| matches!(record.entry, Entry::Opened(_));
        let epochs = records.iter().filter(opened).count() + usize::from(matches!(entry, Entry::Opened(_)));
        let record = Record { seq, at: 1_700_000_000_000 + tick, tick, epoch: Epoch(epochs as u32), entry };
        // What is read back later is what was written: go through the text as a real log does.
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
        records.push(record.clone());
        Ok(record)
    }

    fn sync(&mut self) -> BoxFuture<'static, Result<(), JournalProblem>> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(2)).await;
            Ok(())
        })
    }
}

struct PausedClock(tokio::time::Instant);

impl Clock for PausedClock {
    fn now_ms(&self) -> u64 {
        self.0.elapsed().as_millis() as u64
    }

    fn sleep_until(&self, at: u64) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep_until(self.0 + Duration::from_millis(at)))
    }
}

#[derive(Default)]
struct Watch(Mutex<Vec<Event>>);

impl Observer for Watch {
    fn observe(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

/// One session's world; `run` opens it anew each time, as another process would.
pub(crate) struct World {
    pub(crate) model: Arc<ScriptModel>,
    pub(crate) tools: Arc<CountingTools>,
    pub(crate) verifier: Arc<ScriptVerifier>,
    pub(crate) log: SharedLog,
    pub(crate) limits: Limits,
    watch: Arc<Watch>,
}

impl World {
    pub(crate) fn new(plays: Vec<Play>) -> Self {
        Self {
            model: Arc::new(ScriptModel::new(plays)),
            tools: Arc::default(),
            verifier: Arc::new(ScriptVerifier {
                checks: Vec::new(),
                verdicts: Mutex::default(),
                baselines: Mutex::default(),
            }),
            log: SharedLog::default(),
            limits: Limits::default(),
            watch: Arc::default(),
        }
    }

    pub(crate) fn verified_by(mut self, verdicts: Vec<Result<Verdict, VerifyProblem>>) -> Self {
        let verdicts = Mutex::new(verdicts.into());
        self.verifier =
            Arc::new(ScriptVerifier { checks: vec!["check".into()], verdicts, baselines: Mutex::default() });
        self
    }

    pub(crate) fn slow_tools(mut self) -> Self {
        self.tools = Arc::new(CountingTools { slow: true, ..CountingTools::default() });
        self
    }

    pub(crate) fn driver(&self) -> Driver {
        let ports = Ports {
            model: self.model.clone(),
            tools: self.tools.clone(),
            workspace: Arc::new(OneChange),
            verifier: self.verifier.clone(),
            journal: Box::new(self.log.clone()),
            blobs: Arc::new(NoBlobs),
            clock: Arc::new(PausedClock(tokio::time::Instant::now())),
            observer: self.watch.clone(),
            jitter: || 500,
        };
        let records = self.log.0.lock().unwrap().clone();
        let head = Head { system: "head".into(), tools: Vec::new() };
        let opened = Opened {
            session: SessionId::new("s"),
            format: LOG_FORMAT,
            version: "0".into(),
            boot: BootId::new("b"),
            workspace: "/nowhere".into(),
        };
        Driver::open(ports, &head, &records, opened, Vec::new()).unwrap()
    }

    pub(crate) async fn run(&self, prompt: &str) -> RunResult {
        self.run_with(prompt, futures_util::stream::pending()).await.unwrap()
    }

    pub(crate) async fn run_with(
        &self,
        prompt: &str,
        commands: impl futures_core::Stream<Item = Command> + Send,
    ) -> Result<RunResult, AgentProblem> {
        self.driver().run(self.prompt(prompt), commands).await
    }

    pub(crate) fn prompt(&self, prompt: &str) -> Prompt {
        let blocks = if prompt.is_empty() { Vec::new() } else { vec![Block::text(prompt)] };
        Prompt {
            blocks,
            surroundings: "here".into(),
            limits: self.limits,
            protect: Vec::new(),
            unprotect: Vec::new(),
            sandbox: "workspace-write".into(),
            network: Network::None,
        }
    }

    pub(crate) fn ran(&self) -> Vec<String> {
        self.tools.ran.lock().unwrap().clone()
    }

    /// How often calls began to run.
    pub(crate) fn starts(&self) -> usize {
        self.ran().iter().filter(|line| !line.ends_with("ended")).count()
    }

    pub(crate) fn requests(&self) -> Vec<Vec<Value>> {
        self.model.requests.lock().unwrap().clone()
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.watch.0.lock().unwrap().clone()
    }
}

pub(crate) fn failure(kind: FailureKind, message: &str) -> ModelFailure {
    ModelFailure { kind, message: message.into(), retry_after_ms: None, usage: None }
}

pub(crate) fn native(value: &Value) -> Native {
    Native(serde_json::value::to_raw_value(value).unwrap())
}

pub(crate) fn part(kind: PartKind) -> Part {
    Part { native: native(&json!({"any": "thing"})), kind }
}

pub(crate) fn text(text: &str) -> Part {
    part(PartKind::Text(text.into()))
}

pub(crate) fn call(id: &str, name: &str, arguments: Value) -> Part {
    let arguments = match arguments {
        Value::Object(map) => Arguments::Whole(map),
        other => Arguments::Broken { text: other.to_string(), problem: "it ends early".into() },
    };
    part(PartKind::ToolCall(RawCall { provider_id: Some(id.into()), name: name.into(), arguments }))
}

pub(crate) fn reply_with(stop: StopReason, parts: Vec<Part>) -> Reply {
    let usage = Some(Usage { input_tokens: 100, output_tokens: 10, ..Usage::default() });
    Reply { dialect: Dialect::Anthropic, model: "test".into(), provider_id: None, parts, stop, usage }
}

pub(crate) fn says(parts: Vec<Part>) -> Play {
    let calls = parts.iter().any(|part| matches!(part.kind, PartKind::ToolCall(_)));
    Play::Reply(reply_with(if calls { StopReason::ToolUse } else { StopReason::EndTurn }, parts))
}
