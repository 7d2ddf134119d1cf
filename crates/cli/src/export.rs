//! `hames session export`: a session as Markdown, for people.
//!
//! What was written by others stands in quotes or between fences longer than any it holds, so that nothing in it can
//! pass for a part of the transcript.

use hames::context::fenced;
use hames::protocol::{
    Answer, Arguments, Ask, AttemptResult, Block, Call, CallId, Decision, Entry, Judgement, PartKind, Probe, Record,
    Reply, RunStarted, ToolResult, Verdict,
};

use crate::output::{outcome_name, plain, status_words};

/// Turns the records of a session, one after another, into Markdown.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    calls: Vec<(CallId, String)>,
}

impl Transcript {
    /// The section that a record adds; none for what only the machine needs.
    pub(crate) fn section(&mut self, record: &Record) -> Option<String> {
        match &record.entry {
            Entry::Opened(opened) if record.seq.0 == 1 => {
                Some(format!("# Session {}\n\nWorkspace: {}", opened.session, inline(&opened.workspace)))
            }
            Entry::RunStarted(started) => Some(self.run(started)),
            Entry::AttemptEnded(ended) => match &ended.result {
                AttemptResult::Reply(reply) => reply_section(reply),
                AttemptResult::Failure(failure) => Some(format!("**Attempt failed:** {}", inline(&failure.message))),
                AttemptResult::Cancelled { .. } => Some("**Attempt cancelled.**".to_owned()),
            },
            Entry::Proposed(call) => Some(self.call(call)),
            Entry::Decided(id, Decision::Refuse { guard, reason }) => {
                let title = format!("**Refused** ({}): {}", guard.as_str(), self.name(id));
                Some(format!("{title}\n\n{}", fence("", reason)))
            }
            Entry::Ended(ended) => Some(self.result(&ended.call, &ended.result)),
            Entry::Probed(id, probe) => match &**probe {
                Probe::Settled(result) => Some(self.result(id, result)),
                Probe::DidNotHappen => None,
            },
            Entry::JobsEnded(ended) if !ended.jobs.is_empty() => {
                Some(format!("**Jobs ended:** {}", inline(&ended.jobs.join(", "))))
            }
            Entry::Asked(_, Ask::Question(question)) => Some(format!("**Question:**\n\n{}", quote(question))),
            Entry::Answered(_, Answer::Said(blocks)) => {
                Some(format!("**Answer:**\n\n{}", blocks.iter().map(said).collect::<Vec<_>>().join("\n\n")))
            }
            Entry::Judged(_, judgement) => Some(verdict(judgement)),
            Entry::Noticed(notice) => Some(format!("**Hames:**\n\n{}", quote(&notice.text))),
            Entry::NotBaselined(reason) => Some(format!("**Not begun:** {}", inline(reason))),
            Entry::Repaired(repaired) => Some(format!("**Log repaired:** {}", inline(&repaired.text))),
            Entry::RunSuspended(_) => Some("**Suspended:** nobody was there to answer.".to_owned()),
            Entry::RunEnded(ended) => {
                Some(format!("**Ended: {}.** {}", outcome_name(ended.outcome), inline(&ended.reason)))
            }
            _ => None,
        }
    }

    fn result(&self, call: &CallId, result: &ToolResult) -> String {
        let title = format!("**Result** ({}): {}", status_words(result.status), self.name(call));
        let fired = result
            .fired
            .iter()
            .map(|problem| format!("**Guard** ({}): {}", problem.guard.as_str(), inline(&problem.text)));
        let blocks = result.blocks.iter().map(block);
        std::iter::once(title).chain(fired).chain(blocks).collect::<Vec<_>>().join("\n\n")
    }

    fn run(&self, started: &RunStarted) -> String {
        let mut parts = vec![format!("## {}", inline(started.run.as_str()))];
        let (provider, name) = (inline(&started.model.provider), inline(&started.model.name));
        let checks = started.checks.iter().map(|check| format!("\n- check: {}", inline(check))).collect::<String>();
        parts.push(format!("- model: {provider} {name}\n- sandbox: {}{checks}", inline(&started.sandbox)));
        parts.push("**Prompt:**".to_owned());
        parts.extend(started.prompt.iter().map(said));
        parts.join("\n\n")
    }

    fn call(&mut self, call: &Call) -> String {
        self.calls.push((call.id.clone(), inline(&call.name)));
        let arguments = match &call.arguments {
            Arguments::Whole(map) => fence("json", &serde_json::to_string_pretty(map).unwrap_or_default()),
            Arguments::Broken { text, .. } => fence("", text),
        };
        format!("**Call:** {}\n\n{arguments}", inline(&call.name))
    }

    fn name(&self, id: &CallId) -> &str {
        self.calls.iter().rev().find(|(call, _)| call == id).map_or("a call", |(_, name)| name)
    }
}

/// The text and the reasoning; calls have sections of their own.
fn reply_section(reply: &Reply) -> Option<String> {
    let parts = reply.parts.iter().filter_map(|part| match &part.kind {
        PartKind::Text(text) if !text.trim().is_empty() => Some(format!("**Reply:**\n\n{}", quote(text))),
        PartKind::Reasoning { text, .. } if !text.trim().is_empty() => {
            Some(format!("**Reasoning:**\n\n{}", quote(text)))
        }
        _ => None,
    });
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

fn verdict(judgement: &Judgement) -> String {
    let word = |verdict: Verdict| match verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "fail",
        Verdict::Unverifiable => "unverifiable",
    };
    let mut parts = vec![format!("**Verdict: {}**", word(judgement.verdict))];
    for check in &judgement.evidence {
        let (command, verdict) = (inline(&check.command), word(check.verdict));
        parts.push(format!("- {command}: {verdict}, exit code {}. {}", check.exit_code, inline(&check.reason)));
        if !check.output.trim().is_empty() {
            parts.push(fence("", &check.output));
        }
    }
    parts.join("\n\n")
}

/// What the user gave.
fn said(part: &Block) -> String {
    match part {
        Block::Text(text) => quote(text),
        image => block(image),
    }
}

fn block(block: &Block) -> String {
    match block {
        Block::Text(text) => fence("", text),
        Block::Image { media_type, data } => {
            format!("(an image, {}, {} bytes in base64)", inline(media_type), data.len())
        }
    }
}

fn fence(language: &str, text: &str) -> String {
    fenced(language, &plain(text))
}

/// Text in a quote: whatever it opens ends with the quote.
fn quote(text: &str) -> String {
    plain(text).lines().map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n")
}

/// Text as code on one line.
fn inline(text: &str) -> String {
    let text = plain(text).split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "'");
    if text.is_empty() { "(empty)".to_owned() } else { format!("`{text}`") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_stays_where_it_stands() {
        assert_eq!(quote("a\n```\n# b\x1b[2J"), "> a\n> ```\n> # b\\u{1b}[2J");
        assert_eq!(inline("a`\n# b"), "`a' # b`");
        assert_eq!(fence("", "```\n\x07"), "````\n```\n\\u{7}\n````");
    }
}
