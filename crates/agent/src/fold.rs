//! `fold`: what a record does to the state. Total: a record that does not fit the state changes nothing but its head.

use std::sync::Arc;

use hames_protocol::{
    Arguments, Ask, AttemptEnded, AttemptResult, Call, CallId, CancelCause, Command, Decision, Dialect, EffectClass,
    Ended, Entry, FINISH, Guard, GuardFired, JobsEnded, Judgement, Leaves, Notice, NoticeKind, Opened, Probe, Problem,
    Record, Reply, RunStarted, Status, StopReason, ToolResult, Verdict, WireResult,
};

use crate::retry::{Moment, Retry};
use crate::state::{Answer, CallState, Phase, Run, Stage, State, Turn};
use crate::stuck::Progress;
use crate::words;

/// Takes a record into the state. Pure, total and deterministic.
pub fn fold(mut state: State, record: &Record) -> State {
    count_waiting(&mut state, record.tick);
    state.ledger.head = record.seq;
    state.ledger.tick = record.tick;
    state.ledger.at = record.at;
    match &record.entry {
        Entry::Opened(opened) => open(&mut state, opened, record),
        Entry::RunStarted(started) => start_run(&mut state, started, record.tick),
        Entry::Commanded(Command::Cancel { cause }) => cancel(&mut state, *cause),
        Entry::Commanded(Command::Answer { call, answer }) => hear(&mut state, call, answer),
        Entry::Baselined(baseline) => with_run(&mut state, |run| run.baseline = Some(Arc::new(baseline.clone()))),
        Entry::NotBaselined(reason) => with_run(&mut state, |run| run.permanent = Some(reason.clone())),
        Entry::Counted(counts) => with_run(&mut state, |run| run.counts = Some(Arc::new(counts.clone()))),
        Entry::AttemptStarted(_) => with_run(&mut state, |run| run.stage = Stage::Asking { in_flight: true }),
        Entry::AttemptEnded(ended) => end_attempt(&mut state, ended, record),
        Entry::Proposed(call) => propose(&mut state, call),
        Entry::Examined(id, examination) => with_call(&mut state, id, |call| {
            call.phase = Phase::Examined;
            call.examined = Some(examination.clone());
        }),
        Entry::Decided(id, decision) => decide(&mut state, id, decision),
        Entry::Asked(id, ask) => put(&mut state, id, ask),
        Entry::Answered(id, answer) => settle(&mut state, id, answered(answer)),
        Entry::Intended(id) => with_call(&mut state, id, |call| call.phase = Phase::Intended),
        Entry::Started(id) => start_call(&mut state, id),
        Entry::Stopped(_, changes) => with_run(&mut state, |run| run.changes.extend(changes.iter().cloned())),
        Entry::Probed(id, probe) => match &**probe {
            Probe::Settled(result) => settle(&mut state, id, result.clone()),
            Probe::DidNotHappen => with_call(&mut state, id, |call| call.phase = Phase::Intended),
        },
        Entry::Ended(ended) => end_call(&mut state, ended),
        Entry::JobsEnded(ended) => end_jobs(&mut state, ended),
        Entry::Judged(id, judgement) => judge(&mut state, id, judgement),
        Entry::Noticed(notice) => take_notice(&mut state, notice),
        Entry::Repaired(_) => {}
        Entry::Surveyed(survey) => with_run(&mut state, |run| {
            run.changes.extend(survey.changes.iter().cloned());
            run.survey = Some(Arc::new(survey.clone()));
        }),
        Entry::RunSuspended(suspended) => with_run(&mut state, |run| run.suspended = Some(suspended.clone())),
        Entry::RunEnded(ended) => with_run(&mut state, |run| {
            run.ended = Some(ended.clone());
            run.ended_at = record.tick;
        }),
    }
    state
}

/// While a person is asked nothing else of the run is in flight: the time from record to record is theirs.
fn count_waiting(state: &mut State, tick: u64) {
    let passed = tick.saturating_sub(state.ledger.tick);
    if let Some(run) = state.branch.run.as_mut().filter(|run| run.ended.is_none() && run.asked().is_some()) {
        run.waited = run.waited.saturating_add(passed);
    }
}

fn with_run(state: &mut State, change: impl FnOnce(&mut Run)) {
    if let Some(run) = &mut state.branch.run {
        change(run);
    }
}

fn turn_of(state: &mut State) -> Option<&mut Turn> {
    match state.branch.run.as_mut().map(|run| &mut run.stage) {
        Some(Stage::Acting(turn)) => Some(turn),
        _ => None,
    }
}

fn with_call(state: &mut State, id: &CallId, change: impl FnOnce(&mut CallState)) {
    if let Some(call) = turn_of(state).and_then(|turn| turn.call_mut(id)).filter(|call| call.result.is_none()) {
        change(call);
    }
}

fn cancel(state: &mut State, cause: CancelCause) {
    with_run(state, |run| {
        run.cancel = Some(cause);
        run.suspended = None;
    });
}

/// A person is asked; a run that was suspended goes on with that.
fn put(state: &mut State, id: &CallId, ask: &Ask) {
    with_run(state, |run| run.suspended = None);
    with_call(state, id, |call| {
        call.phase = Phase::Asked;
        call.ask = Some(ask.clone());
    });
}

/// An answer came from outside; one that nobody waits for changes nothing.
fn hear(state: &mut State, id: &CallId, answer: &hames_protocol::Answer) {
    let Some(call) = turn_of(state).and_then(|turn| turn.call_mut(id)).filter(|call| call.phase == Phase::Asked) else {
        return;
    };
    call.answer = Some(answer.clone());
    with_run(state, |run| run.suspended = None);
}

/// The answer to a question is the call's result, as the person gave it.
fn answered(answer: &hames_protocol::Answer) -> ToolResult {
    let hames_protocol::Answer::Said(blocks) = answer;
    ToolResult { blocks: blocks.clone(), ..ToolResult::ok("") }
}

/// A new process has the session: what was in flight is lost, or in doubt.
fn open(state: &mut State, opened: &Opened, record: &Record) {
    let same_boot = state.ledger.boot.as_ref() == Some(&opened.boot);
    state.ledger.session = Some(opened.session.clone());
    state.ledger.epoch = record.epoch;
    state.ledger.boot = Some(opened.boot.clone());
    let Some(run) = state.branch.run.as_mut().filter(|run| run.ended.is_none()) else { return };
    // A cancel that the old process did not live to carry out was meant for that process.
    run.cancel = None;
    match &mut run.stage {
        Stage::Asking { in_flight } => {
            if *in_flight {
                // What the lost attempt used will never be known.
                run.usage.estimated = true;
            }
            *in_flight = false;
        }
        Stage::Acting(turn) => turn.calls.iter_mut().for_each(|call| doubt(call, same_boot)),
        Stage::Answering(_) => {}
    }
}

fn doubt(state: &mut CallState, same_boot: bool) {
    // A record that was written before the process died is still there unless the machine went down as well.
    let may_have_begun = match state.phase {
        Phase::Started => true,
        Phase::Intended => !same_boot,
        _ => false,
    };
    if !may_have_begun {
        return;
    }
    let class = state.examined.as_ref().map_or(EffectClass::Once, |examined| examined.class);
    let repeatable = matches!(class, EffectClass::Pure | EffectClass::Idempotent) || state.call.name == FINISH;
    state.phase = if repeatable { Phase::Intended } else { Phase::Doubtful };
}

fn start_run(state: &mut State, started: &RunStarted, tick: u64) {
    state.ledger.runs += 1;
    let surroundings = (state.branch.surroundings != started.surroundings).then_some(started.surroundings.as_str());
    state.branch.view.prompt(surroundings, &started.prompt);
    state.branch.surroundings.clone_from(&started.surroundings);
    state.branch.run = Some(Run {
        id: started.run.clone(),
        limits: started.limits,
        model: started.model.clone(),
        sandbox: started.sandbox.clone(),
        network: started.network,
        checks: started.checks.clone(),
        started: tick,
        stage: Stage::Asking { in_flight: false },
        baseline: None,
        counts: None,
        turns: 0,
        tool_calls: 0,
        usage: Default::default(),
        guards: Vec::new(),
        changes: Vec::new(),
        has_jobs: false,
        jobs_ended: Vec::new(),
        retry: Retry::default(),
        progress: Progress::default(),
        acted: false,
        survey: None,
        reminded: false,
        accepted: false,
        judgement: None,
        summary: String::new(),
        cancel: None,
        permanent: None,
        waited: 0,
        suspended: None,
        ended: None,
        ended_at: tick,
    });
}

fn end_attempt(state: &mut State, ended: &AttemptEnded, record: &Record) {
    state.ledger.attempts = state.ledger.attempts.max(ended.attempt.0);
    let Some(run) = &mut state.branch.run else { return };
    run.stage = Stage::Asking { in_flight: false };
    match &ended.result {
        AttemptResult::Reply(reply) => take_reply(state, reply),
        AttemptResult::Failure(failure) => {
            if let Some(usage) = &failure.usage {
                run.usage.add(usage);
            }
            let deadline = run.deadline();
            let moment = Moment { tick: record.tick, at: record.at, deadline, jitter: ended.jitter };
            run.retry.fail(failure, moment);
        }
        AttemptResult::Cancelled { usage, text } => {
            usage.iter().for_each(|usage| run.usage.add(usage));
            run.usage.estimated = true;
            if !text.trim().is_empty() {
                run.summary = words::cut_off(text);
            }
        }
    }
}

fn take_reply(state: &mut State, reply: &Reply) {
    let Some(run) = &mut state.branch.run else { return };
    run.turns += 1;
    run.retry.succeed();
    match &reply.usage {
        Some(usage) => run.usage.add(usage),
        None => run.usage.estimated = true,
    }
    let calls = reply.calls().count();
    let text = reply.text();
    let cut = matches!(reply.stop, StopReason::OutputLimit);
    run.progress.reply(cut);
    if !text.trim().is_empty() {
        run.summary.clone_from(&text);
    }
    if calls > 0 {
        run.progress.empties = 0;
        let incomplete = incompleteness(reply);
        let turn = Turn { reply: Arc::new(reply.clone()), incomplete, calls: Vec::new(), expected: calls };
        run.stage = Stage::Acting(turn);
        return;
    }
    let may_be_empty = match reply.stop {
        StopReason::EndTurn | StopReason::ToolUse | StopReason::Other(_) => false,
        StopReason::OutputLimit | StopReason::ContextWindow | StopReason::Refusal | StopReason::Pause => true,
    };
    if text.trim().is_empty() && !may_be_empty {
        run.progress.empties += 1;
        if run.progress.empties > 1 {
            run.stage = Stage::Answering(Answer::Empty);
        }
        return;
    }
    run.progress.empties = 0;
    run.stage = match (final_answer(&reply.stop), &reply.stop) {
        (Some(answer), _) => Stage::Answering(answer),
        (None, StopReason::Pause) => Stage::Asking { in_flight: false },
        (None, StopReason::OutputLimit) => Stage::Answering(Answer::Cut),
        (None, _) => Stage::Answering(Answer::Whole),
    };
    if !reply.parts.is_empty() {
        state.branch.view.reply(Arc::new(reply.clone()), Vec::new());
    }
}

/// What a stop amounts to after which asking again cannot help, with or without calls in the reply.
fn final_answer(stop: &StopReason) -> Option<Answer> {
    match stop {
        StopReason::ContextWindow => Some(Answer::WindowFull),
        StopReason::Refusal => Some(Answer::Declined),
        _ => None,
    }
}

/// The complete gate (promise P2): why none of the reply's calls may run.
fn incompleteness(reply: &Reply) -> Option<String> {
    match reply.stop {
        StopReason::OutputLimit => return Some(words::CUT.to_owned()),
        StopReason::ContextWindow => return Some(words::WINDOW_FULL.to_owned()),
        StopReason::Refusal => return Some(words::DECLINED.to_owned()),
        _ => {}
    }
    reply.calls().find_map(|call| match &call.arguments {
        Arguments::Whole(_) => None,
        Arguments::Broken { problem, .. } => Some(words::broken(problem)),
    })
}

/// The next call of the reply with its ids; the state must be acting on a reply with a call that is not proposed yet.
pub(crate) fn next_proposal(state: &State, turn: &Turn) -> Option<Call> {
    let raw = turn.reply.calls().nth(turn.calls.len())?;
    let id = CallId::new(format!("call-{}", state.ledger.calls + 1));
    let usable = |wire: &&String| {
        Dialect::accepts_call_id(turn.reply.dialect, wire) && !state.ledger.wire_ids.contains(wire.as_str())
    };
    let wire_id = match raw.provider_id.as_ref().filter(usable) {
        Some(provider) => provider.clone(),
        None => unused_wire_id(state, &id),
    };
    let is_twin = |known: &&CallState| known.call.name == raw.name && known.call.arguments == raw.arguments;
    let twin_of = turn.calls.iter().find(is_twin).map(|known| known.call.id.clone());
    let (provider_id, name, arguments) = (raw.provider_id.clone(), raw.name.clone(), raw.arguments.clone());
    Some(Call { id, provider_id, wire_id, name, arguments, twin_of })
}

/// Hames's own id, unless a provider was so rude as to use it before.
fn unused_wire_id(state: &State, id: &CallId) -> String {
    let mut wire_id = id.as_str().to_owned();
    while state.ledger.wire_ids.contains(&wire_id) {
        wire_id.push('x');
    }
    wire_id
}

fn propose(state: &mut State, call: &Call) {
    let Some(turn) = turn_of(state) else { return };
    turn.calls.push(CallState::new(call.clone()));
    let all_proposed = turn.calls.len() == turn.expected;
    let reply = Arc::clone(&turn.reply);
    let wire_ids = turn.calls.iter().map(|known| known.call.wire_id.clone()).collect();
    state.ledger.calls += 1;
    state.ledger.wire_ids.insert(call.wire_id.clone());
    with_run(state, |run| run.tool_calls += 1);
    if all_proposed {
        state.branch.view.reply(reply, wire_ids);
    }
}

fn start_call(state: &mut State, id: &CallId) {
    with_call(state, id, |call| call.phase = Phase::Started);
    let examined = turn_of(state).and_then(|turn| turn.call(id)).and_then(|call| call.examined.as_ref());
    let is_pure = examined.is_some_and(|examined| examined.class == EffectClass::Pure);
    with_run(state, |run| run.acted |= !is_pure);
}

fn decide(state: &mut State, id: &CallId, decision: &Decision) {
    match decision {
        Decision::Allow { .. } => with_call(state, id, |call| call.phase = Phase::Allowed),
        Decision::Ask(ask) => with_call(state, id, |call| {
            call.phase = Phase::ToAsk;
            call.ask = Some(ask.clone());
        }),
        Decision::Refuse { guard, reason } => {
            fire(state, id, *guard, reason);
            settle(state, id, ToolResult::new(Status::Refused, reason.clone()));
        }
    }
}

fn fire(state: &mut State, id: &CallId, guard: Guard, reason: &str) {
    let Some(call) = turn_of(state).and_then(|turn| turn.call(id)).map(|known| known.call.clone()) else { return };
    let call_id = call.shown_id().to_owned();
    with_run(state, |run| {
        run.guards.push(GuardFired { guard, tool: call.name, call_id, reason: reason.to_owned() });
    });
}

fn end_call(state: &mut State, ended: &Ended) {
    for Problem { guard, text } in &ended.result.fired {
        fire(state, &ended.call, *guard, text);
    }
    settle(state, &ended.call, ended.result.clone());
}

fn end_jobs(state: &mut State, ended: &JobsEnded) {
    with_run(state, |run| {
        run.has_jobs = false;
        run.jobs_ended.clone_from(&ended.jobs);
        run.changes.extend(ended.changes.iter().cloned());
        run.guards.extend(ended.fired.iter().cloned());
    });
}

fn judge(state: &mut State, id: &CallId, judgement: &Judgement) {
    let mut jobs = Vec::new();
    with_run(state, |run| {
        run.judgement = Some(judgement.clone());
        jobs = std::mem::take(&mut run.jobs_ended);
    });
    let text = words::verdict(judgement, &jobs);
    let status = if judgement.verdict == Verdict::Pass { Status::Ok } else { Status::Refused };
    if status == Status::Refused {
        let lines = judgement.evidence.iter().filter(|check| check.verdict != Verdict::Pass);
        let reasons: Vec<String> = lines.map(|check| format!("`{}`: {}", check.command, check.reason)).collect();
        fire(state, id, Guard::Finish, &reasons.join(" "));
    }
    settle(state, id, ToolResult::new(status, text));
}

/// Gives a call its one result; twins share it. The last result of a turn completes the turn.
fn settle(state: &mut State, id: &CallId, result: ToolResult) {
    with_run(state, |run| {
        run.changes.extend(result.changes.iter().cloned());
        run.has_jobs |= result.leaves == Leaves::Job;
        if result.permanent.is_some() {
            run.permanent.clone_from(&result.permanent);
        }
    });
    let Some(turn) = turn_of(state) else { return };
    let finish = turn.call(id).filter(|known| known.call.name == FINISH).cloned();
    let twin_result = ToolResult { changes: Vec::new(), fired: Vec::new(), ..result.clone() };
    for known in &mut turn.calls {
        if known.result.is_some() {
            continue;
        }
        if &known.call.id == id {
            known.result = Some(result.clone());
        } else if known.call.twin_of.as_ref() == Some(id) {
            known.result = Some(twin_result.clone());
        } else {
            continue;
        }
        known.phase = Phase::Ended;
    }
    if let Some(finish) = finish {
        with_run(state, |run| {
            // A second `finish` of the same reply says nothing about what was accepted.
            if !run.accepted {
                run.summary = finish_summary(&finish).unwrap_or_else(|| run.summary.clone());
            }
            run.accepted |= result.status == Status::Ok;
        });
    }
    complete_turn(state);
}

fn finish_summary(known: &CallState) -> Option<String> {
    let summary = known.call.whole_arguments()?.get("summary")?.as_str()?;
    (!summary.trim().is_empty()).then(|| summary.to_owned())
}

fn complete_turn(state: &mut State) {
    let Some(run) = &mut state.branch.run else { return };
    let Stage::Acting(turn) = &run.stage else { return };
    if !turn.is_settled() {
        return;
    }
    let results = turn.calls.iter().filter_map(wire_result).collect();
    run.progress.turn(turn);
    let answer = final_answer(&turn.reply.stop);
    run.stage = answer.map_or(Stage::Asking { in_flight: false }, Stage::Answering);
    state.branch.view.results(results);
}

fn wire_result(known: &CallState) -> Option<WireResult> {
    let result = known.result.as_ref()?;
    Some(WireResult {
        wire_id: known.call.wire_id.clone(),
        name: known.call.name.clone(),
        status: result.status,
        blocks: result.blocks.clone(),
    })
}

fn take_notice(state: &mut State, notice: &Notice) {
    state.branch.view.notice(&notice.text);
    with_run(state, |run| match notice.kind {
        NoticeKind::Repeating => run.progress.told(),
        NoticeKind::Continue => run.stage = Stage::Asking { in_flight: false },
        NoticeKind::Unfinished => {
            run.reminded = true;
            run.stage = Stage::Asking { in_flight: false };
        }
    });
}
