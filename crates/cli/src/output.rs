//! What is printed: data on standard output, everything else on standard error, no control character raw.

use std::io::Write;
use std::sync::{Arc, Mutex};

use hames::protocol::port::Observer;
use hames::protocol::{
    Arguments, AttemptResult, Call, CallId, ChangedFile, CheckEvidence, CheckKind, Command, Decision, Entry, Event,
    ModelInfo, Network, NoticeKind, Outcome, Probe, Record, RunResult, Status, ToolResult, Usage, Verdict,
};

use crate::args::OutputFormat;
use crate::duration;
use crate::exit::Failure;
use crate::outlet::Outlet;

/// Waits longer than this are shown, in milliseconds.
const SHOWN_WAIT_MS: u64 = 10_000;

/// How many ignored files are named.
const NAMED_IGNORED: usize = 3;

/// The tool whose result is shown whole: the model's to-do list is for the user.
const PLAN: &str = "plan";

/// Text that is safe on a terminal: control characters, line feeds and tabs aside, are shown as escapes.
pub(crate) fn plain(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if (character.is_control() && character != '\n' && character != '\t') || is_hidden(character) {
            safe.extend(character.escape_unicode());
        } else {
            safe.push(character);
        }
    }
    safe
}

/// Characters that show as nothing or turn the order of others around: joiners, direction marks, tags and the like.
fn is_hidden(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Prints a line of data.
pub(crate) fn print_line(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
    written.map_err(|error| Failure::output(&error))
}

/// Says something beside the data.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", plain(text));
}

/// Says what went wrong.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "hames: {}", plain(text));
}

/// A wall-clock time in UTC, to the second.
pub(crate) fn moment(at_ms: u64) -> String {
    let at = i64::try_from(at_ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    at.map_or_else(|| "?".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%SZ").to_string())
}

/// The name of an outcome, as in JSON.
pub(crate) fn outcome_name(outcome: Outcome) -> String {
    serde_json::to_value(outcome).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Prints the one result of a run.
pub(crate) fn result(format: OutputFormat, result: &RunResult) -> Result<(), Failure> {
    match format {
        OutputFormat::Text => print_line(&text_result(result)),
        OutputFormat::Json | OutputFormat::StreamJson => {
            print_object(format, serde_json::to_value(result).map_err(Failure::internal)?)
        }
    }
}

/// Prints what stands in for the result when no run began: the same object, with nulls for what there is not. People
/// read the failure itself on standard error.
pub(crate) fn no_result(format: OutputFormat, reason: &str) -> Result<(), Failure> {
    let nothing = RunResult {
        session_id: String::new(),
        run_id: String::new(),
        outcome: Outcome::Cancelled,
        reason: reason.to_owned(),
        summary: String::new(),
        verdict: None,
        turns: 0,
        tool_calls: 0,
        guards: Vec::new(),
        usage: Usage::default(),
        cost_usd: None,
        duration_ms: 0,
        files_changed: Vec::new(),
        files_not_listed: 0,
        evidence: Vec::new(),
        sandbox: String::new(),
        network: Network::None,
    };
    let mut value = serde_json::to_value(nothing).map_err(Failure::internal)?;
    for name in ["session_id", "run_id", "outcome", "sandbox", "network"] {
        value[name] = serde_json::Value::Null;
    }
    print_object(format, value)
}

fn print_object(format: OutputFormat, mut value: serde_json::Value) -> Result<(), Failure> {
    match (format, value.as_object_mut()) {
        (OutputFormat::Text, _) => return Ok(()),
        (OutputFormat::StreamJson, Some(map)) => {
            map.shift_insert(0, "type".into(), "result".into());
        }
        (OutputFormat::StreamJson | OutputFormat::Json, _) => {}
    }
    print_line(&value.to_string())
}

fn text_result(result: &RunResult) -> String {
    let mut lines = Vec::new();
    if !result.summary.trim().is_empty() {
        lines.push(format!("{}\n", result.summary.trim()));
    }
    let verdict = match result.verdict {
        Some(Verdict::Pass) => ", verified",
        Some(Verdict::Fail) => ", a check fails",
        Some(Verdict::Unverifiable) => ", the checks show nothing",
        None => "",
    };
    lines.push(format!("{}{verdict}: {}", outcome_name(result.outcome), result.reason));
    lines.extend(result.evidence.iter().map(evidence_line));
    let counted = result.guards.len();
    if counted > 0 {
        lines.push(format!("  {counted} guard{} fired", if counted == 1 { "" } else { "s" }));
    }
    let (ignored, changed): (Vec<_>, Vec<_>) = result.files_changed.iter().partition(|file| file.ignored);
    for file in changed {
        let change = serde_json::to_value(file.change).unwrap_or_default();
        lines.push(format!("  {} {}", change.as_str().unwrap_or_default(), file.path));
    }
    lines.extend(ignored_line(&ignored, result.files_not_listed));
    let cost = result.cost_usd.map(|usd| format!(", ${usd:.4}")).unwrap_or_default();
    let sandbox = match (result.sandbox.as_str(), result.network) {
        ("off", _) => ", WITHOUT a sandbox",
        (_, Network::Full) => ", with the full network",
        (_, Network::None) => "",
    };
    let about = if result.usage.estimated { "about " } else { "" };
    lines.push(format!(
        "  {} turn{}, {about}{} tokens{cost}, {}{sandbox}, session {}",
        result.turns,
        if result.turns == 1 { "" } else { "s" },
        result.usage.total(),
        duration::human(result.duration_ms),
        result.session_id
    ));
    if !matches!(result.outcome, Outcome::Done | Outcome::Answered | Outcome::NeedsApproval) {
        lines.push(format!("  go on with: hames run --resume {}", result.session_id));
    }
    plain(&lines.join("\n"))
}

/// All ignored files in a line: how many, and the first by name.
fn ignored_line(files: &[&ChangedFile], not_listed: u64) -> Option<String> {
    let total = files.len() as u64 + not_listed;
    let names: Vec<&str> = files.iter().take(NAMED_IGNORED).map(|file| file.path.as_str()).collect();
    let more = if total > names.len() as u64 { ", …" } else { "" };
    let plural = if total == 1 { "" } else { "s" };
    (total > 0).then(|| format!("  {total} ignored file{plural} created or changed: {}{more}", names.join(", ")))
}

fn evidence_line(check: &CheckEvidence) -> String {
    let kind = match &check.kind {
        CheckKind::Tests { runner, ran, .. } => format!("{runner}, {ran} tests"),
        CheckKind::ExitCode => format!("no tests; exit code {}", check.exit_code),
    };
    format!("  `{}` ({kind}): {}", check.command, check.reason)
}

/// Prints every event as a line of JSON.
pub(crate) struct Stream(pub(crate) Arc<Outlet>);

impl Observer for Stream {
    fn observe(&self, event: &Event) {
        let line = match event {
            Event::Committed(record) => serde_json::to_value(record).map(|mut value| {
                if let Some(map) = value.as_object_mut() {
                    map.shift_insert(0, "type".into(), "committed".into());
                }
                value
            }),
            Event::TextDelta(text) => Ok(serde_json::json!({"type": "text_delta", "text": text})),
            Event::ReasoningDelta(text) => Ok(serde_json::json!({"type": "reasoning_delta", "text": text})),
            Event::CallDelta { name } => Ok(serde_json::json!({"type": "call_delta", "name": name})),
            Event::Waiting { ms, reason } => Ok(serde_json::json!({"type": "waiting", "ms": ms, "reason": reason})),
            Event::Output { call, text } => Ok(serde_json::json!({"type": "output", "call": call, "text": text})),
        };
        if let Ok(line) = line {
            self.0.write(format!("{line}\n").as_bytes());
        }
    }
}

/// Tells on standard error what goes on, a line for each thing that happened.
pub(crate) struct Progress {
    calls: Mutex<Vec<Call>>,
    model: String,
}

impl Progress {
    pub(crate) fn new(model: &ModelInfo) -> Self {
        let scripted =
            if model.provider == "scripted" { " (scripted: replies from a file, no model is asked)" } else { "" };
        Self { calls: Mutex::default(), model: format!("{}/{}{scripted}", model.provider, model.name) }
    }

    fn record(&self, record: &Record) {
        match &record.entry {
            Entry::RunStarted(started) => {
                let open = started.sandbox != "off" && started.network == Network::Full;
                let network = if open { ", full network" } else { "" };
                note(&format!("model {}, sandbox {}{network}", self.model, started.sandbox));
            }
            Entry::Proposed(call) => {
                if let Ok(mut calls) = self.calls.lock() {
                    calls.push(call.clone());
                }
            }
            Entry::Decided(id, Decision::Refuse { guard, reason }) => {
                self.line(id, &format!("refused ({}): {}", guard.as_str(), first_line(reason)));
            }
            Entry::Probed(id, probe) => {
                if let Probe::Settled(result) = &**probe {
                    self.line(id, &format!("{} (Hames was interrupted while it ran)", status_words(result.status)));
                }
            }
            Entry::Ended(ended) => {
                let is_plan = self.is_plan(&ended.call);
                self.line(&ended.call, &ending(&ended.result));
                for fired in &ended.result.fired {
                    note(&format!("    guard ({}): {}", fired.guard.as_str(), first_line(&fired.text)));
                }
                if is_plan && ended.result.status == Status::Ok {
                    ended.result.text().lines().for_each(|item| note(&format!("    {item}")));
                }
            }
            Entry::JobsEnded(ended) => {
                if !ended.jobs.is_empty() {
                    note(&format!("  ended {}", ended.jobs.join(", ")));
                }
                for fired in &ended.fired {
                    note(&format!("    guard ({}): {}", fired.guard.as_str(), first_line(&fired.reason)));
                }
            }
            Entry::Commanded(Command::Answer { .. }) => {
                note("  the prompt is taken as the answer to the model's question")
            }
            Entry::Answered(id, _) => self.line(id, "answered"),
            Entry::Judged(id, judgement) if judgement.verdict == Verdict::Pass => self.line(id, "verified"),
            Entry::Judged(id, judgement) => {
                let reasons = judgement.evidence.iter().filter(|check| check.verdict != Verdict::Pass);
                let reasons: Vec<&str> = reasons.map(|check| check.reason.as_str()).collect();
                self.line(id, &format!("refused (finish): {}", reasons.join(" ")));
            }
            Entry::AttemptEnded(ended) => {
                match &ended.result {
                    AttemptResult::Failure(failure) => {
                        note(&format!("  attempt {} failed: {}", ended.attempt, failure.message));
                    }
                    // The last words of a run are its summary.
                    AttemptResult::Reply(reply)
                        if reply.calls().next().is_some() && !reply.text().trim().is_empty() =>
                    {
                        note(reply.text().trim());
                    }
                    AttemptResult::Reply(_) | AttemptResult::Cancelled { .. } => {}
                }
            }
            Entry::Noticed(notice) => note(match notice.kind {
                NoticeKind::Repeating => "  told the model that it repeats itself",
                NoticeKind::Continue => "  the reply was cut; asked the model to go on",
                NoticeKind::Unfinished => "  reminded the model to call finish",
            }),
            Entry::Repaired(repaired) => note(&format!("  repaired the log: {}", repaired.text)),
            _ => {}
        }
    }

    fn is_plan(&self, id: &CallId) -> bool {
        self.calls.lock().is_ok_and(|calls| calls.iter().any(|call| &call.id == id && call.name == PLAN))
    }

    fn line(&self, id: &CallId, what: &str) {
        let Ok(mut calls) = self.calls.lock() else { return };
        let Some(at) = calls.iter().position(|call| &call.id == id) else { return };
        note(&format!("  {}: {what}", told(&calls[at])));
        // Whatever is said of a call is the last: it was refused, or it has ended.
        calls.remove(at);
    }
}

/// How a call ended; of a failure with the last thing that it said.
fn ending(result: &ToolResult) -> String {
    let status = status_words(result.status);
    if result.status != Status::Failed {
        return status.to_owned();
    }
    let text = result.text();
    // Notes in brackets come after the output, that on the exit first.
    let (notes, output): (Vec<&str>, Vec<&str>) =
        text.lines().filter(|line| !line.trim().is_empty()).partition(|line| line.starts_with('['));
    let said = [output.last(), notes.first()].into_iter().flatten().map(|line| shortened(line, 100));
    format!("{status}: {}", said.collect::<Vec<_>>().join(" "))
}

impl Observer for Progress {
    fn observe(&self, event: &Event) {
        match event {
            Event::Committed(record) => self.record(record),
            Event::Waiting { ms, reason } if *ms > SHOWN_WAIT_MS => {
                note(&format!("  waiting {} before the next attempt: {reason}", duration::human(*ms)));
            }
            _ => {}
        }
    }
}

/// A call in a line: its name and what it is mostly about.
fn told(call: &Call) -> String {
    let Arguments::Whole(arguments) = &call.arguments else { return call.name.clone() };
    if let Some(patch) = arguments.get("patch").and_then(|patch| patch.as_str()) {
        let files: Vec<&str> = patch.lines().filter_map(patched_file).collect();
        return format!("{} {}", call.name, shortened(&files.join(", "), 100));
    }
    let about = ["command", "path", "pattern", "job", "summary", "question"]
        .iter()
        .find_map(|key| arguments.get(*key)?.as_str());
    match about.map(first_line) {
        Some(about) => format!("{} {}", call.name, shortened(about, 100)),
        None => call.name.clone(),
    }
}

/// The file that a line of a patch names.
fn patched_file(line: &str) -> Option<&str> {
    let headers = ["*** Add File:", "*** Update File:", "*** Move to:", "*** Delete File:"];
    headers.iter().find_map(|header| line.strip_prefix(header)).map(str::trim)
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn shortened(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

pub(crate) fn status_words(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Failed => "failed",
        Status::Refused => "refused",
        Status::Cancelled => "cancelled",
        Status::InDoubt => "in doubt",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_reaches_a_terminal_raw() {
        let safe = plain("a\x1b[2J\u{9b}31m\r\u{202e}b\tc\nd");
        assert_eq!(plain("\u{2066}\u{e0100}\u{feff}é🐎"), "\\u{2066}\\u{e0100}\\u{feff}é🐎");
        assert!(safe.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'), "{safe}");
        assert!(safe.contains("\\u{1b}[2J") && safe.contains("\\u{202e}b\tc\nd"));
    }

    #[test]
    fn long_text_is_shortened_at_a_character() {
        assert_eq!(shortened("äöü", 2), "äö…");
        assert_eq!(shortened("äö", 2), "äö");
    }
}
