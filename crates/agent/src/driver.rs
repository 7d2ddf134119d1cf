//! The driver: the only thing here that does anything. It appends, starts what `next` wants, waits, appends.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use futures_core::Stream;
use hames_protocol::port::{
    Blobs, Clock, Journal, JournalProblem, Model, Observer, Toolbox, Verifier, VerifyProblem, Workspace,
};
use hames_protocol::{
    AttemptEnded, AttemptResult, AttemptStarted, Baseline, Block, BoxFuture, Call, CallId, Command, Delta, Digest,
    Encoded, Ended, Entry, Event, Examination, Head, Judgement, Limits, Opened, Outcome, Probe, Record, Repaired,
    Request, RunId, RunResult, RunStarted, Seq, SessionId, Status, ToolResult, UntouchedCounts,
};

use crate::fold::fold;
use crate::next::{EffectId, Step, next};
use crate::result::run_result;
use crate::retry;
use crate::running::Running;
use crate::state::{CallState, Phase, Stage, State};
use crate::words;

/// What the driver acts through.
pub struct Ports {
    /// The model.
    pub model: Arc<dyn Model>,
    /// The tools.
    pub tools: Arc<dyn Toolbox>,
    /// The workspace.
    pub workspace: Arc<dyn Workspace>,
    /// The verifier.
    pub verifier: Arc<dyn Verifier>,
    /// The log.
    pub journal: Box<dyn Journal>,
    /// Large bodies.
    pub blobs: Arc<dyn Blobs>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Who watches.
    pub observer: Arc<dyn Observer>,
    /// Draws a number in 0..=999 for the wait before a retry.
    pub jitter: fn() -> u16,
}

/// Why the agent cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum AgentProblem {
    /// The log could not be written: nothing more is done, since nothing more would be remembered.
    #[error("{0}")]
    Journal(#[from] JournalProblem),
    /// The kept listing of the workspace cannot be taken up again.
    #[error("The session's listing of the workspace cannot be read: {0}. Start a new session.")]
    Manifest(std::io::Error),
    /// There is nothing to continue.
    #[error("The session's last run ended `{0}`; there is nothing to continue. Give a prompt.")]
    NothingToContinue(String),
}

/// What starts a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// What the user asks for; empty continues where the session stopped.
    pub blocks: Vec<Block>,
    /// Folder, platform, day; see `hames_context::Surroundings`.
    pub surroundings: String,
    /// The bounds.
    pub limits: Limits,
    /// Globs that are protected on request; kept with the run, so that a resumed one is as strict.
    pub protect: Vec<String>,
    /// Globs that are left open on request.
    pub unprotect: Vec<String>,
    /// The sandbox's mode.
    pub sandbox: String,
}

/// Drives one session.
pub struct Driver {
    ports: Ports,
    state: State,
    head: Arc<str>,
    encoded: Vec<Encoded>,
    /// The digest chain over head and messages; see [`AttemptStarted::request`].
    chain: Digest,
    /// What is added to the clock to get the session's active time.
    clock_offset: i128,
    running: Running<Happened>,
    unsynced: VecDeque<Record>,
    /// A sync that runs beside a request, and the last record that it covers.
    syncing: Option<(Seq, BoxFuture<'static, Result<(), JournalProblem>>)>,
}

/// What came of an effect.
enum Happened {
    Replied(AttemptResult, u64),
    Baselined(Result<Baseline, VerifyProblem>),
    Counted(UntouchedCounts),
    Examined(Examination),
    Ran(ToolResult, u64),
    Probed(Probe),
    Judged(Result<Judgement, VerifyProblem>, u64),
}

/// What woke the driver.
enum Woken {
    Effect(EffectId, Happened),
    Command(Option<Command>),
    Synced(Seq, Result<(), JournalProblem>),
    Timer,
}

impl Driver {
    /// Opens a session for writing: folds what its log holds, then logs the opening and the repairs.
    ///
    /// # Errors
    /// When the log cannot be written or the kept listing of the workspace not be read.
    pub fn open(
        ports: Ports,
        head: &Head,
        records: &[Record],
        opened: Opened,
        repairs: Vec<String>,
    ) -> Result<Self, AgentProblem> {
        let state = records.iter().fold(State::default(), fold);
        let head = ports.model.encode_head(head);
        let clock_offset = i128::from(state.ledger.tick) - i128::from(ports.clock.now_ms());
        let chain = Digest::of(head.as_bytes());
        let (encoded, running, unsynced) = (Vec::new(), Running::new(), VecDeque::new());
        let mut driver = Self { ports, state, head, encoded, chain, clock_offset, running, unsynced, syncing: None };
        driver.append(Entry::Opened(opened))?;
        for text in repairs {
            driver.append(Entry::Repaired(Repaired { text }))?;
        }
        driver.take_up_workspace()?;
        Ok(driver)
    }

    /// The state as it is now.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The session's id.
    pub fn session(&self) -> Option<&SessionId> {
        self.state.ledger.session.as_ref()
    }

    /// Starts a run with a prompt, or takes up the one that was interrupted, and drives it to its end.
    ///
    /// # Errors
    /// When the log cannot be written: what happened up to then is in it.
    pub async fn run(
        &mut self,
        prompt: Prompt,
        commands: impl Stream<Item = Command> + Send,
    ) -> Result<RunResult, AgentProblem> {
        self.start(prompt)?;
        let mut commands = Some(std::pin::pin!(commands));
        while self.is_under_way() {
            let wake_at = self.carry_out().await?;
            if !self.is_under_way() {
                break;
            }
            match self.wait(&mut commands, wake_at).await {
                Woken::Effect(id, happened) => self.take(id, happened)?,
                Woken::Command(Some(command)) => self.append(Entry::Commanded(command))?,
                Woken::Command(None) => commands = None,
                Woken::Synced(covered, synced) => synced.map(|()| self.tell_committed(covered))?,
                Woken::Timer => {}
            }
        }
        self.sync().await?;
        run_result(&self.state).ok_or_else(|| AgentProblem::NothingToContinue("before it began".into()))
    }

    fn is_under_way(&self) -> bool {
        self.state.branch.run.as_ref().is_some_and(|run| run.ended.is_none())
    }

    fn start(&mut self, prompt: Prompt) -> Result<(), AgentProblem> {
        let interrupted = self.is_under_way();
        let mut blocks = prompt.blocks;
        if blocks.is_empty() {
            if interrupted {
                return Ok(());
            }
            match self.state.branch.run.as_ref().and_then(|run| run.ended.as_ref()) {
                Some(ended) if !matches!(ended.outcome, Outcome::Done | Outcome::Answered) => {
                    blocks.push(Block::text(words::RESUME));
                }
                Some(ended) => {
                    let outcome = serde_json::to_value(ended.outcome).unwrap_or_default();
                    return Err(AgentProblem::NothingToContinue(outcome.as_str().unwrap_or_default().to_owned()));
                }
                None => return Err(AgentProblem::NothingToContinue("before it began".into())),
            }
        } else if interrupted {
            self.close_interrupted()?;
        }
        let run = RunId::new(format!("run-{}", self.state.ledger.runs + 1));
        self.append(Entry::RunStarted(Box::new(RunStarted {
            run,
            prompt: blocks,
            surroundings: prompt.surroundings,
            limits: prompt.limits,
            model: self.ports.model.info().clone(),
            checks: self.ports.verifier.checks(),
            protect: prompt.protect,
            unprotect: prompt.unprotect,
            sandbox: prompt.sandbox,
            head: Digest::of(self.head.as_bytes()),
        })))?;
        Ok(())
    }

    /// A new prompt for a session whose last run was interrupted: that run ends as cancelled, every call answered.
    fn close_interrupted(&mut self) -> Result<(), AgentProblem> {
        self.append(Entry::Commanded(Command::Cancel { cause: hames_protocol::CancelCause::Interrupt }))?;
        while self.is_under_way() {
            let Some(entry) = next(&self.state, self.now()).into_iter().find_map(|step| match step {
                Step::Append(entry) => Some(*entry),
                _ => None,
            }) else {
                break;
            };
            self.append(entry)?;
        }
        Ok(())
    }

    /// Active time of the session, in milliseconds.
    fn now(&self) -> u64 {
        let now = i128::from(self.ports.clock.now_ms()) + self.clock_offset;
        u64::try_from(now).unwrap_or(0).max(self.state.ledger.tick)
    }

    fn append(&mut self, entry: Entry) -> Result<(), JournalProblem> {
        let record = self.ports.journal.append(self.now(), entry)?;
        self.state = fold(std::mem::take(&mut self.state), &record);
        self.unsynced.push_back(record);
        Ok(())
    }

    /// Makes what was appended durable and tells it.
    async fn sync(&mut self) -> Result<(), JournalProblem> {
        if self.unsynced.is_empty() {
            return Ok(());
        }
        self.ports.journal.sync().await?;
        self.tell_committed(self.state.ledger.head);
        Ok(())
    }

    /// Starts to make durable what was appended, beside whatever else is in flight.
    fn sync_beside(&mut self) {
        if self.syncing.is_none() && !self.unsynced.is_empty() {
            self.syncing = Some((self.state.ledger.head, self.ports.journal.sync()));
        }
    }

    fn tell_committed(&mut self, covered: Seq) {
        while let Some(record) = self.unsynced.pop_front_if(|record| record.seq <= covered) {
            self.ports.observer.observe(&Event::Committed(record));
        }
    }

    /// Does what `next` wants until only waiting is left; says when to wake at the latest.
    async fn carry_out(&mut self) -> Result<Option<u64>, AgentProblem> {
        loop {
            let mut wake_at: Option<u64> = None;
            let head = self.state.ledger.head;
            for step in next(&self.state, self.now()) {
                match step {
                    Step::Append(entry) => self.append(*entry)?,
                    Step::Stop(id) => self.stop(&id)?,
                    Step::WakeAt(at) => wake_at = Some(wake_at.map_or(at, |known| known.min(at))),
                    Step::Do(id) if self.running.contains(&id) => {}
                    Step::Do(id) => self.begin(id).await?,
                }
            }
            if self.state.ledger.head == head {
                return Ok(wake_at);
            }
        }
    }

    fn stop(&mut self, id: &EffectId) -> Result<(), JournalProblem> {
        if self.running.stop(id) && *id == EffectId::Send {
            let attempt = self.state.ledger.next_attempt();
            let result = AttemptResult::Cancelled;
            self.append(Entry::AttemptEnded(Box::new(AttemptEnded { attempt, result, ms: 0, jitter: 0 })))?;
        }
        Ok(())
    }

    async fn begin(&mut self, id: EffectId) -> Result<(), AgentProblem> {
        let effect = match &id {
            EffectId::Send => self.send()?,
            EffectId::Baseline => {
                let verifier = Arc::clone(&self.ports.verifier);
                Box::pin(async move { Happened::Baselined(verifier.baseline().await) })
            }
            EffectId::Count => {
                let verifier = Arc::clone(&self.ports.verifier);
                Box::pin(async move { Happened::Counted(verifier.count().await) })
            }
            EffectId::Examine(call) => self.examine(call),
            EffectId::Run(call) => self.call(call).await?,
            EffectId::Probe(call) => self.probe(call),
            EffectId::Judge(call) => self.judge(call).await?,
        };
        if id == EffectId::Send {
            self.sync_beside();
        }
        self.running.start(id, effect);
        Ok(())
    }

    fn send(&mut self) -> Result<BoxFuture<'static, Happened>, AgentProblem> {
        for message in self.state.branch.view.messages().iter().skip(self.encoded.len()) {
            let encoded = self.ports.model.encode(message);
            self.chain = Digest::of_parts([self.chain.as_str().as_bytes(), encoded.body.as_bytes()]);
            self.encoded.push(encoded);
        }
        let attempt = self.state.ledger.next_attempt();
        let messages = u32::try_from(self.encoded.len()).unwrap_or(u32::MAX);
        self.append(Entry::AttemptStarted(AttemptStarted { attempt, messages, request: self.chain.clone() }))?;
        let session = self.session().cloned().unwrap_or_else(|| SessionId::new(""));
        let request = Request { head: Arc::clone(&self.head), messages: self.encoded.clone(), session, attempt };
        let (model, observer) = (Arc::clone(&self.ports.model), Arc::clone(&self.ports.observer));
        let clock = Arc::clone(&self.ports.clock);
        Ok(Box::pin(async move {
            let began = clock.now_ms();
            let on_delta = move |delta| {
                observer.observe(&match delta {
                    Delta::Text(text) => Event::TextDelta(text),
                    Delta::Reasoning(text) => Event::ReasoningDelta(text),
                    Delta::Call { name } => Event::CallDelta { name },
                });
            };
            let result = match model.send(request, &on_delta).await {
                Ok(reply) => AttemptResult::Reply(reply),
                Err(failure) => AttemptResult::Failure(failure),
            };
            Happened::Replied(result, clock.now_ms().saturating_sub(began))
        }))
    }

    fn known(&self, id: &CallId) -> Option<&CallState> {
        match &self.state.branch.run.as_ref()?.stage {
            Stage::Acting(turn) => turn.call(id),
            _ => None,
        }
    }

    fn examine(&self, id: &CallId) -> BoxFuture<'static, Happened> {
        let (tools, known) = (Arc::clone(&self.ports.tools), self.known(id).cloned());
        Box::pin(async move {
            match known {
                Some(known) => Happened::Examined(tools.examine(&known.call).await),
                None => std::future::pending().await,
            }
        })
    }

    fn probe(&self, id: &CallId) -> BoxFuture<'static, Happened> {
        let (tools, known) = (Arc::clone(&self.ports.tools), self.known(id).cloned());
        Box::pin(async move {
            match known {
                Some(CallState { call, examined: Some(examined), .. }) => {
                    Happened::Probed(tools.probe(&call, &examined).await)
                }
                _ => Happened::Probed(Probe::Settled(ToolResult::new(Status::InDoubt, words::IN_DOUBT))),
            }
        })
    }

    /// The intent is on disk before the effect begins; that it begins is written, and survives this process.
    async fn commit_start(&mut self, id: &CallId) -> Result<Option<Call>, AgentProblem> {
        let Some(known) = self.known(id).cloned() else { return Ok(None) };
        let is_pure = known.examined.as_ref().is_some_and(|e| e.class == hames_protocol::EffectClass::Pure);
        if !is_pure {
            self.sync().await?;
        }
        if known.phase == Phase::Intended {
            self.append(Entry::Started(id.clone()))?;
        }
        Ok(Some(known.call))
    }

    async fn call(&mut self, id: &CallId) -> Result<BoxFuture<'static, Happened>, AgentProblem> {
        let Some(call) = self.commit_start(id).await? else { return Ok(Box::pin(std::future::pending())) };
        let (tools, observer) = (Arc::clone(&self.ports.tools), Arc::clone(&self.ports.observer));
        let clock = Arc::clone(&self.ports.clock);
        Ok(Box::pin(async move {
            let began = clock.now_ms();
            let id = call.id.clone();
            let output = move |text: &str| {
                observer.observe(&Event::Output { call: id.clone(), text: text.to_owned() });
            };
            let result = tools.run(&call, &output).await;
            Happened::Ran(result, clock.now_ms().saturating_sub(began))
        }))
    }

    async fn judge(&mut self, id: &CallId) -> Result<BoxFuture<'static, Happened>, AgentProblem> {
        self.commit_start(id).await?;
        let run = self.state.branch.run.as_ref();
        let baseline = run.and_then(|run| run.baseline.clone()).unwrap_or_default();
        let counts = run.and_then(|run| run.counts.clone()).unwrap_or_default();
        let (verifier, clock) = (Arc::clone(&self.ports.verifier), Arc::clone(&self.ports.clock));
        Ok(Box::pin(async move {
            let began = clock.now_ms();
            let judged = verifier.judge(&baseline, &counts).await;
            Happened::Judged(judged, clock.now_ms().saturating_sub(began))
        }))
    }

    /// Appends what came of an effect.
    fn take(&mut self, id: EffectId, happened: Happened) -> Result<(), AgentProblem> {
        match (id, happened) {
            (_, Happened::Replied(result, ms)) => {
                let (attempt, jitter) = (self.state.ledger.next_attempt(), (self.ports.jitter)());
                self.append(Entry::AttemptEnded(Box::new(AttemptEnded { attempt, result, ms, jitter })))?;
                self.tell_wait();
            }
            (_, Happened::Baselined(Ok(baseline))) => self.append(Entry::Baselined(baseline))?,
            (_, Happened::Baselined(Err(problem))) => self.append(Entry::NotBaselined(problem.to_string()))?,
            (_, Happened::Counted(counts)) => self.append(Entry::Counted(counts))?,
            (EffectId::Examine(call), Happened::Examined(examination)) => {
                self.append(Entry::Examined(call, examination))?;
            }
            (EffectId::Run(call), Happened::Ran(result, ms)) => {
                self.append(Entry::Ended(Box::new(Ended { call, result, ms })))?;
            }
            (EffectId::Probe(call), Happened::Probed(probe)) => self.append(Entry::Probed(call, probe))?,
            (EffectId::Judge(call), Happened::Judged(Ok(judgement), _)) => {
                self.append(Entry::Judged(call, judgement))?;
            }
            (EffectId::Judge(call), Happened::Judged(Err(problem), ms)) => {
                let text = problem.to_string();
                let result = ToolResult { permanent: Some(text.clone()), ..ToolResult::failed(text) };
                self.append(Entry::Ended(Box::new(Ended { call, result, ms })))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn tell_wait(&self) {
        let Some(run) = &self.state.branch.run else { return };
        let Some(retry::Verdict::At(at)) = run.retry.verdict() else { return };
        let (ms, reason) = (at.saturating_sub(self.now()), run.retry.reason().to_owned());
        self.ports.observer.observe(&Event::Waiting { ms, reason });
    }

    fn take_up_workspace(&self) -> Result<(), AgentProblem> {
        let Some(run) = self.state.branch.run.as_ref().filter(|run| run.ended.is_none()) else { return Ok(()) };
        let Some(manifest) = run.baseline.as_ref().and_then(|baseline| baseline.manifest.as_ref()) else {
            return Ok(());
        };
        let bytes = self.ports.blobs.get(manifest).map_err(AgentProblem::Manifest)?;
        self.ports.workspace.adopt(&bytes, &run.changes).map_err(AgentProblem::Manifest)
    }

    async fn wait<S: Stream<Item = Command>>(
        &mut self,
        commands: &mut Option<Pin<&mut S>>,
        wake_at: Option<u64>,
    ) -> Woken {
        let mut timer = wake_at.map(|at| {
            let on_clock = i128::from(at) - self.clock_offset;
            self.ports.clock.sleep_until(u64::try_from(on_clock).unwrap_or(0))
        });
        let (mut ended, syncing) = (std::pin::pin!(self.running.ended()), &mut self.syncing);
        poll_fn(|context| {
            if let Some(commands) = commands
                && let Poll::Ready(command) = commands.as_mut().poll_next(context)
            {
                return Poll::Ready(Woken::Command(command));
            }
            if let Poll::Ready((id, happened)) = ended.as_mut().poll(context) {
                return Poll::Ready(Woken::Effect(id, happened));
            }
            if let Some((covered, sync)) = syncing
                && let Poll::Ready(synced) = sync.as_mut().poll(context)
            {
                let covered = *covered;
                *syncing = None;
                return Poll::Ready(Woken::Synced(covered, synced));
            }
            if let Some(timer) = &mut timer
                && timer.as_mut().poll(context).is_ready()
            {
                return Poll::Ready(Woken::Timer);
            }
            Poll::Pending
        })
        .await
    }
}
