//! `next`: what should be going on now. Holds the order, the gates and the bounds of the loop.

use hames_policy::{WorkspaceAccess, decide};
use hames_protocol::{
    Block, CallId, CancelCause, Command, Decision, EffectClass, Ended, Entry, FINISH, Guard, Notice, NoticeKind,
    Outcome, RunEnded, Status, ToolResult, Verdict,
};

use crate::fold::next_proposal;
use crate::retry;
use crate::state::{Answer, CallState, Phase, Run, Stage, State, Turn};
use crate::stuck::Stall;
use crate::words;

/// Something that should be going on.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A consequence of the rules that needs no effect: append it.
    Append(Box<Entry>),
    /// An effect should be in flight.
    Do(EffectId),
    /// An effect should not be in flight any more.
    Stop(EffectId),
    /// Ask again at this tick.
    WakeAt(u64),
}

/// Names an effect; at most one of a name is in flight.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EffectId {
    /// Ask the model.
    Send,
    /// Keep the protected files and list the workspace.
    Baseline,
    /// Count the checks on the untouched copy.
    Count,
    /// Ask the tool what a call would touch.
    Examine(CallId),
    /// Run a call.
    Run(CallId),
    /// Ask a person what this call waits for.
    Ask(CallId),
    /// End the jobs that calls left running.
    EndJobs,
    /// Find out whether a call in doubt happened.
    Probe(CallId),
    /// Let the verifier judge, for this `finish`.
    Judge(CallId),
    /// Look at the workspace for the last time.
    Survey,
}

/// Says what should be going on at `now` (active time, in milliseconds). Pure, total and deterministic.
///
/// A [`Step::Append`] comes alone or after the stops that must precede it: carry them out, fold, and ask again.
pub fn next(state: &State, now: u64) -> Vec<Step> {
    let Some(run) = state.branch.run.as_ref().filter(|run| run.is_under_way()) else { return Vec::new() };
    let mut steps = wanted(state, run, now);
    // Whatever ends a run, no job outlives it, and what it did is looked at once more when nothing changes any longer.
    let last = match run {
        run if run.has_jobs => Some(EffectId::EndJobs),
        run if run.acted && run.baseline.is_some() && run.survey.is_none() => Some(EffectId::Survey),
        _ => None,
    };
    if let Some(last) = last {
        let is_end = |step: &&mut Step| matches!(step, Step::Append(entry) if matches!(**entry, Entry::RunEnded(_)));
        steps.iter_mut().filter(is_end).for_each(|step| *step = Step::Do(last.clone()));
    }
    steps
}

fn wanted(state: &State, run: &Run, now: u64) -> Vec<Step> {
    if let (true, Stage::Asking { in_flight: false }) = (run.accepted, &run.stage) {
        return vec![finished(run)];
    }
    if let Some(stop) = forced_stop(run, now) {
        return wind_down(state, run, &stop);
    }
    let mut steps = Vec::new();
    if run.asked().is_none() {
        steps.push(Step::WakeAt(run.deadline()));
    }
    if run.baseline.is_none() {
        steps.push(Step::Do(EffectId::Baseline));
    } else if run.counts.is_none() && !run.checks.is_empty() {
        steps.push(Step::Do(EffectId::Count));
    }
    let rest = match &run.stage {
        Stage::Asking { in_flight: true } => vec![Step::Do(EffectId::Send)],
        Stage::Asking { in_flight: false } => request(run, now),
        Stage::Answering(answer) => vec![answered(run, *answer)],
        Stage::Acting(turn) => act(state, run, turn),
    };
    if rest.iter().any(|step| matches!(step, Step::Append(_))) {
        return rest;
    }
    steps.extend(rest);
    steps
}

/// What takes up a run that waits for a person, suspended or interrupted: what they now say is the answer, and without
/// a word they are asked again. None when no run waits for a person.
pub fn take_up(state: &State, said: &[Block]) -> Option<Entry> {
    let run = state.branch.run.as_ref().filter(|run| run.ended.is_none())?;
    let asked = run.asked()?;
    let (call, ask) = (asked.call.id.clone(), asked.ask.clone()?);
    if said.is_empty() {
        return Some(Entry::Asked(call, ask));
    }
    Some(Entry::Commanded(Command::Answer { call, answer: hames_protocol::Answer::Said(said.to_vec()) }))
}

/// Why a run must stop although something may be in flight.
struct ForcedStop {
    outcome: Outcome,
    reason: String,
    /// What calls that were running are told.
    running: &'static str,
}

fn forced_stop(run: &Run, now: u64) -> Option<ForcedStop> {
    if let Some(cause) = run.cancel {
        let signal = match cause {
            CancelCause::Interrupt => "Interrupted by the user.",
            CancelCause::Terminate => "Terminated by a signal.",
        };
        return Some(ForcedStop { outcome: Outcome::Cancelled, reason: signal.into(), running: words::CANCELLED });
    }
    if let Some(reason) = run.permanent.clone() {
        return Some(ForcedStop { outcome: Outcome::ToolFailed, reason, running: words::NOT_RUN });
    }
    if run.asked().is_none() && now >= run.deadline() {
        let limit = retry::human(run.limits.max_time_ms);
        let reason = format!("The time limit of {limit} was reached. Resume the session, with a larger `--max-time`.");
        return Some(ForcedStop { outcome: Outcome::Limit, reason, running: words::TIME_UP });
    }
    None
}

/// Stops what is in flight, gives every open call its result, then ends the run.
fn wind_down(state: &State, run: &Run, stop: &ForcedStop) -> Vec<Step> {
    let mut steps = [EffectId::Baseline, EffectId::Count].map(Step::Stop).to_vec();
    match &run.stage {
        Stage::Asking { in_flight: true } => steps.push(Step::Stop(EffectId::Send)),
        Stage::Acting(turn) => {
            if let Some(call) = next_proposal(state, turn) {
                return vec![append(Entry::Proposed(call))];
            }
            let open = |known: &&CallState| known.result.is_none() && known.call.twin_of.is_none();
            if let Some(known) = turn.calls.iter().find(open) {
                steps.extend(stop_call(known, stop.running));
                return steps;
            }
            steps.push(end(run, stop.outcome, stop.reason.clone()));
        }
        Stage::Asking { in_flight: false } | Stage::Answering(_) => {
            steps.push(end(run, stop.outcome, stop.reason.clone()));
        }
    }
    steps
}

/// Stops whatever goes on for a call and gives it its result.
fn stop_call(known: &CallState, running: &str) -> Vec<Step> {
    let id = &known.call.id;
    let effects = [EffectId::Examine, EffectId::Ask, EffectId::Run, EffectId::Probe, EffectId::Judge];
    let mut steps: Vec<Step> = effects.map(|effect| Step::Stop(effect(id.clone()))).to_vec();
    steps.push(match known.phase {
        Phase::Started => settle(id, Status::Cancelled, running),
        Phase::Doubtful => settle(id, Status::InDoubt, words::IN_DOUBT),
        Phase::Asked => settle(id, Status::Cancelled, words::NOT_ANSWERED),
        _ => settle(id, Status::Cancelled, words::NOT_RUN),
    });
    steps
}

/// The model's turn: first whatever ends the run or must be said, then the request.
fn request(run: &Run, now: u64) -> Vec<Step> {
    match run.progress.stall() {
        Some(Stall::End(reason)) => return vec![end(run, Outcome::Stuck, reason)],
        Some(Stall::Tell) => return vec![notice(NoticeKind::Repeating, words::REPEATING)],
        None => {}
    }
    if let Some(reason) = limit_reached(run) {
        return vec![end(run, Outcome::Limit, reason)];
    }
    match run.retry.verdict() {
        Some(retry::Verdict::GiveUp(reason)) => vec![end(run, Outcome::ModelFailed, reason.clone())],
        Some(retry::Verdict::At(at)) if *at > now => vec![Step::WakeAt(*at)],
        _ => vec![Step::Do(EffectId::Send)],
    }
}

/// `finish` was accepted: verified where checks are configured, an answer where there are none.
fn finished(run: &Run) -> Step {
    match run.verdict() {
        Some(Verdict::Pass) => end(run, Outcome::Done, "The checks pass.".into()),
        _ => end(run, Outcome::Answered, "Finished; no checks are configured.".into()),
    }
}

fn limit_reached(run: &Run) -> Option<String> {
    let limits = &run.limits;
    if run.turns >= limits.max_turns {
        let turns = if limits.max_turns == 1 { "turn" } else { "turns" };
        return Some(format!("The limit of {} {turns} was reached. Resume the session to go on.", limits.max_turns));
    }
    if run.usage.total() >= limits.max_tokens {
        let used = run.usage.total();
        return Some(format!("The limit of {} tokens was reached ({used} used).", limits.max_tokens));
    }
    let cost = run.model.price.map(|price| price.cost_usd(&run.usage));
    match (limits.max_cost_usd, cost) {
        (Some(limit), Some(cost)) if cost >= limit => {
            Some(format!("The limit of ${limit} was reached (${cost:.4} spent)."))
        }
        _ => None,
    }
}

/// A reply without calls.
fn answered(run: &Run, answer: Answer) -> Step {
    match answer {
        Answer::Empty => end(run, Outcome::ModelFailed, "The model replied with nothing, twice in a row.".into()),
        Answer::Declined => end(run, Outcome::ModelFailed, "The provider declined to answer this request.".into()),
        Answer::WindowFull => end(run, Outcome::Limit, "The model's context window is full.".into()),
        Answer::Cut => match run.progress.stall() {
            Some(Stall::End(reason)) => end(run, Outcome::Stuck, reason),
            _ => notice(NoticeKind::Continue, words::CONTINUE),
        },
        Answer::Whole if run.checks.is_empty() => end(run, Outcome::Answered, "The model answered.".into()),
        Answer::Whole if run.reminded => end(
            run,
            Outcome::Unverified,
            "The model stopped without a `finish` that passes; the work is not verified.".into(),
        ),
        Answer::Whole => notice(NoticeKind::Unfinished, words::UNFINISHED),
    }
}

/// Acts on the calls of a reply: in its order, `finish` last, pure ones beside each other, others one after another. A
/// person is asked one thing at a time, when nothing else is left that may go on before the answer.
fn act(state: &State, run: &Run, turn: &Turn) -> Vec<Step> {
    if let Some(call) = next_proposal(state, turn) {
        return vec![append(Entry::Proposed(call))];
    }
    let mut steps = Vec::new();
    let mut ask = None;
    let mut others_open = false;
    for known in in_run_order(turn).filter(|known| known.result.is_none()) {
        if let Some(reason) = &turn.incomplete {
            if known.call.twin_of.is_none() {
                let refusal = Decision::Refuse { guard: Guard::Complete, reason: reason.clone() };
                return vec![append(Entry::Decided(known.call.id.clone(), refusal))];
            }
            continue;
        }
        if known.call.twin_of.is_some() {
            continue;
        }
        match advance(run, known, others_open) {
            Advance::Now(steps) => return steps,
            Advance::Beside(step) => {
                steps.push(step);
                others_open = true;
            }
            Advance::Last(step) => {
                ask = ask.or(Some(step));
                others_open = true;
            }
            Advance::Alone(step) => {
                steps.extend(step);
                break;
            }
        }
    }
    if steps.is_empty() {
        steps.extend(ask);
    }
    steps
}

/// The calls of a reply, `finish` after all others.
fn in_run_order(turn: &Turn) -> impl Iterator<Item = &CallState> {
    let is_finish = |known: &&CallState| known.call.name == FINISH;
    turn.calls.iter().filter(move |known| !is_finish(known)).chain(turn.calls.iter().filter(is_finish))
}

/// What a call wants next, and what that means for the calls after it.
enum Advance {
    /// A consequence to append before anything else, after what must stop for it.
    Now(Vec<Step>),
    /// It is under way, and later calls may be as well.
    Beside(Step),
    /// It waits for a person: later calls that change nothing go first, all others after it.
    Last(Step),
    /// Nothing after it may begin before it has ended; it may itself have to wait.
    Alone(Option<Step>),
}

fn advance(run: &Run, known: &CallState, others_open: bool) -> Advance {
    let id = known.call.id.clone();
    let class = known.examined.as_ref().map_or(EffectClass::Once, |examined| examined.class);
    let is_finish = known.call.name == FINISH;
    if is_finish && run.accepted {
        return Advance::Now(vec![settle(&id, Status::Cancelled, words::ALREADY_FINISHED)]);
    }
    if is_finish && others_open {
        return Advance::Alone(None);
    }
    match known.phase {
        Phase::Proposed => Advance::Alone(Some(Step::Do(EffectId::Examine(id)))),
        Phase::Examined => match &known.examined {
            Some(examined) => Advance::Now(vec![append(Entry::Decided(id, decide(examined, access(run))))]),
            None => Advance::Alone(Some(Step::Do(EffectId::Examine(id)))),
        },
        Phase::ToAsk | Phase::Asked => ask(known, id),
        Phase::Allowed if class == EffectClass::Pure && !is_finish => Advance::Now(vec![append(Entry::Intended(id))]),
        Phase::Allowed if others_open || run.baseline.is_none() => Advance::Alone(None),
        Phase::Allowed => Advance::Now(vec![append(Entry::Intended(id))]),
        Phase::Intended | Phase::Started if is_finish => finish(run, id),
        Phase::Intended | Phase::Started if class == EffectClass::Pure => Advance::Beside(Step::Do(EffectId::Run(id))),
        Phase::Intended | Phase::Started => Advance::Alone(Some(Step::Do(EffectId::Run(id)))),
        Phase::Doubtful => Advance::Alone(Some(Step::Do(EffectId::Probe(id)))),
        Phase::Ended => Advance::Alone(None),
    }
}

/// A call that waits for a person. An answer may also come from outside: then nobody needs to be asked any more.
fn ask(known: &CallState, id: CallId) -> Advance {
    match (known.phase, &known.ask, &known.answer) {
        (Phase::Asked, _, Some(answer)) => {
            let answered = append(Entry::Answered(id.clone(), answer.clone()));
            Advance::Now(vec![Step::Stop(EffectId::Ask(id)), answered])
        }
        (Phase::ToAsk, Some(ask), _) => Advance::Last(append(Entry::Asked(id, ask.clone()))),
        _ => Advance::Last(Step::Do(EffectId::Ask(id))),
    }
}

fn access(run: &Run) -> WorkspaceAccess {
    if run.sandbox == "read-only" { WorkspaceAccess::ReadOnly } else { WorkspaceAccess::ReadWrite }
}

/// `finish`: the verdict is the verifier's. It waits for the count of the untouched copy, and no job lives to see it.
fn finish(run: &Run, id: CallId) -> Advance {
    if run.checks.is_empty() {
        return Advance::Now(vec![settle(&id, Status::Ok, words::FINISHED)]);
    }
    if run.has_jobs {
        return Advance::Alone(Some(Step::Do(EffectId::EndJobs)));
    }
    Advance::Alone(run.counts.is_some().then_some(Step::Do(EffectId::Judge(id))))
}

fn append(entry: Entry) -> Step {
    Step::Append(Box::new(entry))
}

fn settle(id: &CallId, status: Status, text: &str) -> Step {
    append(Entry::Ended(Box::new(Ended { call: id.clone(), result: ToolResult::new(status, text), ms: 0 })))
}

fn notice(kind: NoticeKind, text: &str) -> Step {
    append(Entry::Noticed(Notice { kind, text: text.to_owned() }))
}

fn end(run: &Run, outcome: Outcome, reason: String) -> Step {
    append(Entry::RunEnded(RunEnded { run: run.id.clone(), outcome, reason }))
}
