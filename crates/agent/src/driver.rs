//! The driver: the only thing here that does anything. It appends, starts what `next` wants, waits, appends.

mod arrived;
mod effect;

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use futures_core::Stream;
use hames_context::text_tokens;
use hames_protocol::port::{
    Approver, Blobs, Clock, Journal, JournalProblem, Model, Observer, Toolbox, Verifier, Workspace,
};
use hames_protocol::{
    AddedFolder, AttemptEnded, AttemptResult, Block, BoxFuture, Command, Digest, Encoded, Entry, Event, Head, Limits,
    Network, Opened, Outcome, Record, Repaired, RunId, RunResult, RunStarted, Seq, SessionId,
};

use self::arrived::Arrived;
use self::effect::Happened;
use crate::fold::fold;
use crate::next::{EffectId, Step, next, take_up};
use crate::result::run_result;
use crate::running::Running;
use crate::state::{Run, State};
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
    /// Who answers what only a person can.
    pub approver: Arc<dyn Approver>,
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
    /// What the user asks for, or answers where a run waits for an answer; empty continues where the session stopped.
    pub blocks: Vec<Block>,
    /// Folder, platform, day; see `hames_context::Surroundings`.
    pub surroundings: String,
    /// The bounds.
    pub limits: Limits,
    /// Globs that are protected on request; kept with the run, so that a resumed one is as strict.
    pub protect: Vec<String>,
    /// Globs that are left open on request.
    pub unprotect: Vec<String>,
    /// Folders that were added to the workspace.
    pub added: Vec<AddedFolder>,
    /// The sandbox's mode.
    pub sandbox: String,
    /// The network that commands have.
    pub network: Network,
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
    /// An estimate of the tokens of head and messages.
    request_tokens: u64,
    /// What has arrived of the reply in flight.
    arrived: Arc<Mutex<Arrived>>,
    unsynced: VecDeque<Record>,
    /// A sync that runs beside a request, and the last record that it covers.
    syncing: Option<(Seq, BoxFuture<'static, Result<(), JournalProblem>>)>,
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
        let (arrived, syncing) = (Arc::default(), None);
        let request_tokens = text_tokens(head.len());
        let mut driver = Self {
            ports,
            state,
            head,
            encoded,
            chain,
            clock_offset,
            running,
            request_tokens,
            arrived,
            unsynced,
            syncing,
        };
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

    /// Starts a run with a prompt, or takes up the one that was suspended or interrupted, and drives it to its end or
    /// until a person must answer and nobody is there. Where a run waits for an answer, the prompt is that answer.
    ///
    /// # Errors
    /// When the log cannot be written: what happened up to then is in it.
    pub async fn run(
        &mut self,
        prompt: Prompt,
        commands: impl Stream<Item = Command> + Send,
    ) -> Result<RunResult, AgentProblem> {
        self.start(prompt).await?;
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
        // What the run no longer needs (a count of the untouched copy) must not be taken for an effect of the next.
        self.running = Running::new();
        self.sync().await?;
        run_result(&self.state).ok_or_else(|| AgentProblem::NothingToContinue("before it began".into()))
    }

    fn is_under_way(&self) -> bool {
        self.state.branch.run.as_ref().is_some_and(Run::is_under_way)
    }

    async fn start(&mut self, prompt: Prompt) -> Result<(), AgentProblem> {
        if let Some(entry) = take_up(&self.state, &prompt.blocks) {
            return Ok(self.append(entry)?);
        }
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
            self.close_interrupted().await?;
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
            added: prompt.added,
            sandbox: prompt.sandbox,
            network: prompt.network,
            head: Digest::of(self.head.as_bytes()),
        })))?;
        Ok(())
    }

    /// A new prompt for a session whose last run was interrupted: that run ends as cancelled, every call answered.
    async fn close_interrupted(&mut self) -> Result<(), AgentProblem> {
        self.append(Entry::Commanded(Command::Cancel { cause: hames_protocol::CancelCause::Interrupt }))?;
        while self.is_under_way() {
            let steps = next(&self.state, self.now());
            if steps.contains(&Step::Do(EffectId::EndJobs)) {
                // They went with the process that had them; what they changed is still to be told.
                let ended = self.ports.tools.end_jobs().await;
                self.append(Entry::JobsEnded(Box::new(ended)))?;
                continue;
            }
            let Some(entry) = steps.into_iter().find_map(|step| match step {
                Step::Append(entry) => Some(*entry),
                Step::Do(EffectId::Survey) => Some(Entry::Surveyed(self.ports.workspace.survey().unwrap_or_default())),
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
        if matches!(entry, Entry::Answered(..)) {
            // What changed in the workspace while a person was asked is theirs, and not told as the agent's.
            let _ = self.ports.workspace.observe();
        }
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
        if !self.running.stop(id) {
            return Ok(());
        }
        match id {
            EffectId::Send => {
                let attempt = self.state.ledger.next_attempt();
                let nothing = AttemptResult::Cancelled { usage: None, text: String::new() };
                let result = self.arrived.lock().map_or(nothing, |arrived| arrived.cancelled());
                self.append(Entry::AttemptEnded(Box::new(AttemptEnded { attempt, result, ms: 0, jitter: 0 })))
            }
            EffectId::Run(call) if !self.is_pure(call) => {
                // It is gone, what it did to the workspace is not. Nothing else waits for this thread by now.
                let changes = self.ports.workspace.observe().unwrap_or_default();
                self.append(Entry::Stopped(call.clone(), changes))
            }
            _ => Ok(()),
        }
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
