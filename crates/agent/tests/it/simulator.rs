//! Drives `fold` and `next` through seeded worlds with faults and crashes, and checks the promises after every step.

use hames_agent::{EffectId, Phase, Stage, State, Step, fold, next, take_up};
use hames_protocol::*;
use serde_json::json;

use crate::world::{AN_HOUR_MS, call, failure, reply_with, text};

/// A world that answers effects by chance. Every choice comes from the seed, so that a failing one can be replayed.
struct Sim {
    dice: fastrand::Rng,
    state: State,
    records: Vec<Record>,
    tick: u64,
    in_flight: Vec<EffectId>,
    /// How often each call's effect began.
    begun: std::collections::HashMap<CallId, u32>,
    replies: u32,
    /// How long a person took, in all.
    waited: u64,
}

impl Sim {
    fn new(seed: u64) -> Self {
        let mut sim = Self {
            dice: fastrand::Rng::with_seed(seed),
            state: State::default(),
            records: Vec::new(),
            tick: 0,
            in_flight: Vec::new(),
            begun: Default::default(),
            replies: 0,
            waited: 0,
        };
        sim.open();
        let info = ModelInfo {
            provider: "sim".into(),
            name: "sim".into(),
            dialect: Dialect::Anthropic,
            context_tokens: 1,
            output_tokens: 1,
            price: None,
        };
        let checks = if sim.dice.bool() { vec!["check".to_owned()] } else { Vec::new() };
        sim.append(Entry::RunStarted(Box::new(RunStarted {
            run: RunId::new("run-1"),
            prompt: vec![Block::text("go")],
            surroundings: "here".into(),
            limits: Limits { max_turns: 12, ..Limits::default() },
            model: info,
            checks,
            protect: Vec::new(),
            unprotect: Vec::new(),
            added: Vec::new(),
            sandbox: "workspace-write".into(),
            network: Network::None,
            head: Digest::of("head"),
        })));
        sim
    }

    fn append(&mut self, entry: Entry) {
        let opened = self.records.iter().filter(|r| matches!(r.entry, Entry::Opened(_))).count();
        let epoch = Epoch((opened + usize::from(matches!(entry, Entry::Opened(_)))) as u32);
        let seq = Seq(self.records.len() as u64 + 1);
        let record = Record { seq, at: self.tick, tick: self.tick, epoch, entry };
        self.state = fold(std::mem::take(&mut self.state), &record);
        self.records.push(record);
    }

    fn open(&mut self) {
        self.in_flight.clear();
        let boot = if self.dice.u8(..) < 200 { "b1" } else { "b2" };
        self.append(Entry::Opened(Opened {
            session: SessionId::new("s"),
            format: 1,
            version: "0".into(),
            boot: BootId::new(boot),
            workspace: "/w".into(),
        }));
    }

    /// Another process: the state is nothing but the fold of the records.
    fn crash(&mut self) {
        self.state = self.records.iter().fold(State::default(), fold);
        self.open();
    }

    fn step(&mut self) -> bool {
        let steps = next(&self.state, self.tick);
        assert_eq!(steps, next(&self.state, self.tick), "next is deterministic");
        let (mut wake, head) = (None, self.records.len());
        for step in steps {
            match step {
                Step::Append(entry) => {
                    let has_jobs = self.state.branch.run.as_ref().is_some_and(|run| run.has_jobs);
                    assert!(!matches!(*entry, Entry::RunEnded(_)) || !has_jobs, "a job outlives the run");
                    self.append(*entry);
                    return true;
                }
                Step::Stop(id) => {
                    let was = self.in_flight.len();
                    self.in_flight.retain(|known| *known != id);
                    if id == EffectId::Send && self.in_flight.len() < was {
                        self.end_attempt(AttemptResult::Cancelled { usage: None, text: String::new() });
                    }
                }
                Step::WakeAt(at) => wake = Some(wake.map_or(at, |known: u64| known.min(at))),
                Step::Do(id) if self.in_flight.contains(&id) => {}
                Step::Do(id) => self.begin(id),
            }
        }
        if self.over() {
            return false;
        }
        if self.state.branch.run.as_ref().is_some_and(|run| run.suspended.is_some()) {
            self.come_back();
            return true;
        }
        if self.records.len() > head {
            return true;
        }
        match self.in_flight.len() {
            0 => self.tick = wake.expect("nothing in flight and nothing to wait for").max(self.tick),
            count => {
                let index = self.dice.usize(..count);
                let id = self.in_flight.swap_remove(index);
                self.complete(id);
            }
        }
        true
    }

    /// A person takes up the suspended run: in this process or another, with an answer or without a word.
    fn come_back(&mut self) {
        self.in_flight.clear();
        self.person_takes_their_time();
        if self.dice.bool() {
            self.open();
        }
        let said = if self.dice.bool() { vec![Block::text("said")] } else { Vec::new() };
        let entry = take_up(&self.state, &said).expect("a suspended run waits for a person");
        self.append(entry);
    }

    fn person_takes_their_time(&mut self) {
        let ms = self.dice.u64(0..10 * AN_HOUR_MS);
        self.tick += ms;
        self.waited += ms;
    }

    fn over(&self) -> bool {
        self.state.branch.run.as_ref().is_some_and(|run| run.ended.is_some())
    }

    fn begin(&mut self, id: EffectId) {
        match &id {
            EffectId::Send => {
                self.check_view();
                let attempt = self.state.ledger.next_attempt();
                let request = Digest::of("request");
                self.append(Entry::AttemptStarted(AttemptStarted { attempt, messages: 0, request }));
            }
            EffectId::Run(call) | EffectId::Judge(call) => self.begin_call(call),
            EffectId::Ask(call) => self.begin_ask(call),
            _ => {}
        }
        self.in_flight.push(id);
    }

    /// A person is asked one thing, which stands in the log, while nothing else of the turn goes on.
    fn begin_ask(&self, id: &CallId) {
        let asked = self.state.branch.run.as_ref().and_then(|run| run.asked()).expect("a call that waits");
        assert_eq!(&asked.call.id, id);
        assert!(self.records.iter().any(|record| matches!(&record.entry, Entry::Asked(known, _) if known == id)));
        let beside = |other: &EffectId| !matches!(other, EffectId::Baseline | EffectId::Count);
        assert!(!self.in_flight.iter().any(beside), "something goes on beside an ask: {:?}", self.in_flight);
    }

    /// Gates: whatever begins was examined, allowed and intended, alone unless it is pure, after the baseline.
    fn begin_call(&mut self, id: &CallId) {
        let run = self.state.branch.run.as_ref().unwrap();
        let Stage::Acting(turn) = &run.stage else { panic!("a call begins outside a turn") };
        let known = turn.call(id).unwrap().clone();
        assert!(known.call.name != FINISH || !run.has_jobs, "the verifier would see a live job");
        assert!(matches!(known.phase, Phase::Intended | Phase::Started), "{known:?}");
        assert!(turn.incomplete.is_none(), "an incomplete reply runs nothing");
        assert!(run.asked().is_none(), "a call begins while a person is asked");
        let examined = known.examined.as_ref().expect("examined");
        assert!(examined.problems.is_empty(), "an invalid call runs");
        assert!(known.call.twin_of.is_none(), "a twin runs");
        assert!(examined.question.is_none(), "a call runs that a person must answer");
        if examined.class != EffectClass::Pure {
            assert!(run.baseline.is_some(), "an effect before the baseline");
            let busy = self.in_flight.iter().any(|other| matches!(other, EffectId::Run(_) | EffectId::Judge(_)));
            assert!(!busy, "two effects at once");
        }
        if known.phase == Phase::Intended {
            self.append(Entry::Started(id.clone()));
        }
        let times = self.begun.entry(id.clone()).or_default();
        *times += 1;
        if examined.class == EffectClass::Once && known.call.name != FINISH {
            assert_eq!(*times, 1, "an effect that must happen once began again");
        }
    }

    /// Promise P1 over the view that is about to be sent.
    fn check_view(&self) {
        let messages = self.state.branch.view.messages();
        for (index, message) in messages.iter().enumerate() {
            let Message::Assistant { wire_ids, .. } = message else { continue };
            if wire_ids.is_empty() {
                continue;
            }
            let Some(Message::Results(results)) = messages.get(index + 1) else { panic!("calls without results") };
            assert_eq!(&results.iter().map(|r| r.wire_id.clone()).collect::<Vec<_>>(), wire_ids);
        }
    }

    fn complete(&mut self, id: EffectId) {
        if let EffectId::Ask(call) = id {
            return self.end_ask(call);
        }
        let ms = self.dice.u64(0..2_000);
        self.tick += ms;
        if self.in_flight.iter().any(|other| matches!(other, EffectId::Ask(_))) {
            self.waited += ms;
        }
        match id {
            EffectId::Send => {
                let result = self.attempt();
                self.end_attempt(result);
            }
            EffectId::Ask(_) => {}
            EffectId::Baseline => self.append(Entry::Baselined(Baseline::default())),
            EffectId::Count => self.append(Entry::Counted(UntouchedCounts::default())),
            EffectId::Survey => self.append(Entry::Surveyed(Survey::default())),
            EffectId::Examine(call) => {
                let mut examination = self.examination();
                if self.is_finish(&call) {
                    examination.question = None;
                }
                self.append(Entry::Examined(call, examination));
            }
            EffectId::Run(call) => {
                let result = self.result();
                self.append(Entry::Ended(Box::new(Ended { call, result, ms: 1 })));
            }
            EffectId::EndJobs => {
                let changes = FileChange::between("by-job", None, Some(Digest::of("x"))).into_iter().collect();
                self.append(Entry::JobsEnded(Box::new(JobsEnded { changes, ..JobsEnded::default() })));
            }
            EffectId::Probe(call) => {
                let in_doubt = ToolResult::new(Status::InDoubt, "IN DOUBT");
                self.append(Entry::Probed(call, Box::new(Probe::Settled(in_doubt))));
            }
            EffectId::Judge(call) => {
                let verdict = [Verdict::Pass, Verdict::Fail, Verdict::Unverifiable][self.dice.usize(..3)];
                self.append(Entry::Judged(call, Judgement { verdict, evidence: Vec::new(), set_aside: Vec::new() }));
            }
        }
    }

    /// An answer comes through the port or from outside, or nobody is there.
    fn end_ask(&mut self, call: CallId) {
        self.person_takes_their_time();
        let answer = Answer::said(format!("a{}", self.dice.u8(..3)));
        match self.dice.u8(..4) {
            0 => {
                let run = self.state.branch.run.as_ref().unwrap().id.clone();
                self.append(Entry::RunSuspended(RunSuspended { run, why: "nobody is there".into() }));
            }
            1 => {
                self.in_flight.push(EffectId::Ask(call.clone()));
                self.append(Entry::Commanded(Command::Answer { call, answer }));
            }
            _ => self.append(Entry::Answered(call, answer)),
        }
    }

    fn end_attempt(&mut self, result: AttemptResult) {
        let (attempt, jitter) = (self.state.ledger.next_attempt(), self.dice.u16(..1000));
        self.append(Entry::AttemptEnded(Box::new(AttemptEnded { attempt, result, ms: 1, jitter })));
    }

    fn attempt(&mut self) -> AttemptResult {
        self.replies += 1;
        match self.dice.u8(..20) {
            0 => AttemptResult::Failure(failure(FailureKind::Transient, "busy")),
            1 => AttemptResult::Reply(reply_with(StopReason::EndTurn, Vec::new())),
            2 => AttemptResult::Reply(reply_with(StopReason::OutputLimit, vec![text("cut")])),
            3 => AttemptResult::Reply(reply_with(StopReason::EndTurn, vec![text("bye")])),
            roll => {
                let count = self.dice.usize(1..5);
                let calls = (0..count).map(|_| self.call()).collect();
                let stop = if roll == 4 { StopReason::OutputLimit } else { StopReason::ToolUse };
                AttemptResult::Reply(reply_with(stop, calls))
            }
        }
    }

    fn call(&mut self) -> Part {
        let id = ["same", "bad id", "x"][self.dice.usize(..3)].to_owned() + &self.dice.u8(..3).to_string();
        let name = ["look", "put", "sh", "sh", FINISH][self.dice.usize(..5)];
        let arguments = if self.dice.u8(..40) == 0 { json!("{half") } else { json!({"n": self.dice.u8(..3)}) };
        call(&id, name, arguments)
    }

    fn examination(&mut self) -> Examination {
        if self.dice.u8(..8) == 0 {
            return Examination::problem(Guard::Valid, "no");
        }
        let classes = [EffectClass::Pure, EffectClass::Idempotent, EffectClass::Reconcilable, EffectClass::Once];
        let reach = if self.dice.u8(..20) == 0 { Reach::Outward } else { Reach::Workspace };
        let question = (self.dice.u8(..6) == 0).then(|| format!("q{}", self.dice.u8(..3)));
        Examination { question, ..Examination::plain(classes[self.dice.usize(..4)], reach) }
    }

    fn is_finish(&self, id: &CallId) -> bool {
        let is_it =
            |record: &Record| matches!(&record.entry, Entry::Proposed(call) if &call.id == id && call.name == FINISH);
        self.records.iter().any(is_it)
    }

    fn result(&mut self) -> ToolResult {
        let status = if self.dice.bool() { Status::Ok } else { Status::Failed };
        let permanent = (self.dice.u8(..60) == 0).then(|| "gone".to_owned());
        let after = Some(Digest::of([self.dice.u8(..)]));
        let changes = FileChange::between("f", None, after).into_iter().filter(|_| self.dice.bool()).collect();
        let leaves = if self.dice.u8(..10) == 0 { Leaves::Job } else { Leaves::Nothing };
        ToolResult { changes, leaves, permanent, ..ToolResult::new(status, format!("r{}", self.dice.u8(..3))) }
    }
}

#[test]
fn the_promises_hold_in_thousands_of_seeded_worlds_with_crashes_and_cancels() {
    for seed in 0..4_000 {
        let outcome = std::panic::catch_unwind(|| {
            let mut sim = Sim::new(seed);
            for _ in 0..3_000 {
                if !sim.step() {
                    break;
                }
                match sim.dice.u16(..400) {
                    0..=6 => sim.crash(),
                    7 => sim.append(Entry::Commanded(Command::Cancel { cause: CancelCause::Interrupt })),
                    _ => {}
                }
            }
            assert!(sim.over(), "the run never ended");
            let is_ask = |id: &EffectId| matches!(id, EffectId::Ask(_));
            assert!(!sim.in_flight.iter().any(is_ask), "a question stays open after the run");
            sim.check_view();
            let turns = sim.state.branch.run.as_ref().unwrap().turns;
            assert!(turns <= 12, "the bound on turns was overshot: {turns}");
            let run = sim.state.branch.run.as_ref().unwrap();
            assert_eq!(run.waited, sim.waited, "the time a person takes is theirs");
            let reason = &run.ended.as_ref().unwrap().reason;
            assert!(!reason.contains("time limit"), "without a person the run takes minutes: {reason}");
            let refolded = sim.records.iter().fold(State::default(), fold);
            assert_eq!(format!("{refolded:?}"), format!("{:?}", sim.state), "the log is the state");
        });
        assert!(outcome.is_ok(), "seed {seed}");
    }
}
