//! The effects of the driver: each begins as a future over a port, and what came of it becomes an entry.

use std::sync::Arc;

use hames_context::message_tokens;
use hames_protocol::port::VerifyProblem;
use hames_protocol::{
    Answer, AttemptEnded, AttemptResult, AttemptStarted, Baseline, BoxFuture, Call, CallId, Delta, Digest, EffectClass,
    Ended, Entry, Event, Examination, JobsEnded, Judgement, Probe, Request, RunSuspended, SessionId, Status, Survey,
    ToolResult, UntouchedCounts,
};

use super::{AgentProblem, Driver};
use crate::next::EffectId;
use crate::retry;
use crate::state::{CallState, Phase, Stage};
use crate::words;

/// What came of an effect.
pub(super) enum Happened {
    Replied(AttemptResult, u64),
    Baselined(Result<Baseline, VerifyProblem>),
    Counted(UntouchedCounts),
    Examined(Examination),
    Heard(Option<Answer>),
    Ran(ToolResult, u64),
    Probed(Probe),
    JobsEnded(JobsEnded),
    Judged(Result<Judgement, VerifyProblem>, u64),
    Surveyed(Survey),
}

impl Driver {
    /// Begins an effect and keeps it in flight.
    pub(super) async fn begin(&mut self, id: EffectId) -> Result<(), AgentProblem> {
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
            EffectId::Ask(call) => self.ask(call).await?,
            EffectId::Run(call) => self.call(call).await?,
            EffectId::EndJobs => {
                let tools = Arc::clone(&self.ports.tools);
                Box::pin(async move { Happened::JobsEnded(tools.end_jobs().await) })
            }
            EffectId::Probe(call) => self.probe(call),
            EffectId::Judge(call) => self.judge(call).await?,
            EffectId::Survey => {
                let workspace = Arc::clone(&self.ports.workspace);
                // Nothing else waits for this thread by now. A workspace that is gone has nothing to tell.
                Box::pin(async move { Happened::Surveyed(workspace.survey().unwrap_or_default()) })
            }
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
            self.request_tokens = self.request_tokens.saturating_add(message_tokens(message));
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
        self.arrived = Arc::default();
        let (arrived, request_tokens) = (Arc::clone(&self.arrived), self.request_tokens);
        Ok(Box::pin(async move {
            let began = clock.now_ms();
            let on_delta = |delta| {
                let _ = arrived.lock().map(|mut arrived| arrived.take(&delta));
                observer.observe(&match delta {
                    Delta::Text(text) => Event::TextDelta(text),
                    Delta::Reasoning(text) => Event::ReasoningDelta(text),
                    Delta::Call { name } => Event::CallDelta { name },
                    Delta::Usage(_) => return,
                });
            };
            let result = match model.send(request, &on_delta).await {
                Ok(reply) => AttemptResult::Reply(reply),
                Err(failure) => AttemptResult::Failure(failure),
            };
            let result = match arrived.lock() {
                Ok(arrived) => arrived.counted(result, request_tokens),
                Err(_) => result,
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

    /// Whether a call was examined and found to change nothing.
    pub(super) fn is_pure(&self, id: &CallId) -> bool {
        let examined = self.known(id).and_then(|known| known.examined.as_ref());
        examined.is_some_and(|examined| examined.class == EffectClass::Pure)
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

    /// What is asked is on disk before a person sees it.
    async fn ask(&mut self, id: &CallId) -> Result<BoxFuture<'static, Happened>, AgentProblem> {
        self.sync().await?;
        let (approver, ask) = (Arc::clone(&self.ports.approver), self.known(id).and_then(|known| known.ask.clone()));
        Ok(Box::pin(async move {
            match ask {
                Some(ask) => Happened::Heard(approver.ask(&ask).await),
                None => std::future::pending().await,
            }
        }))
    }

    fn suspend(&mut self, id: &CallId) -> Result<(), AgentProblem> {
        let Some(run) = self.state.branch.run.as_ref().map(|run| run.id.clone()) else { return Ok(()) };
        let (ask, session) = (self.known(id).and_then(|known| known.ask.as_ref()), self.session());
        let why = ask.zip(session).map(|(ask, session)| words::nobody_there(ask, session)).unwrap_or_default();
        Ok(self.append(Entry::RunSuspended(RunSuspended { run, why }))?)
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
        if !self.is_pure(id) {
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
    pub(super) fn take(&mut self, id: EffectId, happened: Happened) -> Result<(), AgentProblem> {
        match (id, happened) {
            (_, Happened::Replied(result, ms)) => {
                let (attempt, jitter) = (self.state.ledger.next_attempt(), (self.ports.jitter)());
                self.append(Entry::AttemptEnded(Box::new(AttemptEnded { attempt, result, ms, jitter })))?;
                self.tell_wait();
            }
            (_, Happened::Baselined(Ok(baseline))) => self.append(Entry::Baselined(baseline))?,
            (_, Happened::Baselined(Err(problem))) => self.append(Entry::NotBaselined(problem.to_string()))?,
            (_, Happened::Surveyed(survey)) => self.append(Entry::Surveyed(survey))?,
            (_, Happened::Counted(counts)) => self.append(Entry::Counted(counts))?,
            (EffectId::Examine(call), Happened::Examined(examination)) => {
                self.append(Entry::Examined(call, examination))?;
            }
            (EffectId::Ask(call), Happened::Heard(Some(answer))) => self.append(Entry::Answered(call, answer))?,
            (EffectId::Ask(call), Happened::Heard(None)) => self.suspend(&call)?,
            (EffectId::Run(call), Happened::Ran(result, ms)) => {
                self.append(Entry::Ended(Box::new(Ended { call, result, ms })))?;
            }
            (EffectId::Probe(call), Happened::Probed(probe)) => self.append(Entry::Probed(call, Box::new(probe)))?,
            (_, Happened::JobsEnded(ended)) => self.append(Entry::JobsEnded(Box::new(ended)))?,
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
}
