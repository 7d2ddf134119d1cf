//! What the model reads of a command that ran: its output within bounds, then a note in brackets for each thing that
//! it should know.

use hames_protocol::port::{Attempt, Capture, Exit};
use hames_protocol::{Appeared, Guard, Problem, SetAside};

use crate::bound::{Bounded, RESULT_LIMIT_BYTES, head_and_tail};
use crate::terminal::{Cut, plain};
use crate::text::{clipped, counted, escaped, shown, thousands};

/// How many protected paths are named in a text.
const NAMED_PATHS: usize = 10;

/// Output and notes, as they come together.
#[derive(Default)]
pub(super) struct Report {
    notes: Vec<String>,
}

impl Report {
    /// Adds a note.
    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Tells how the command ended; an exit with 0 needs no word.
    pub(super) fn note_exit(&mut self, exit: Exit, timed_out: &str) {
        self.notes.extend((exit != Exit::Code(0)).then(|| exit_sentence(exit, timed_out)));
    }

    /// Tells how many processes were ended with the command, and what to do about that.
    pub(super) fn note_strays(&mut self, strays: u32, remedy: &str) {
        if strays > 0 {
            let (number, were) =
                (counted(strays as usize, "background process"), if strays == 1 { "was" } else { "were" });
            self.notes.push(format!("{number} {were} ended with the command. {remedy}"));
        }
    }

    /// Tells of protected paths that the command tried to change: a guard that fired for each path.
    pub(super) fn note_attempts(&mut self, attempts: &[Attempt]) -> Vec<Problem> {
        let mut of_path: Vec<(&Attempt, Vec<&str>)> = Vec::new();
        for attempt in attempts {
            match of_path.iter_mut().find(|(first, _)| first.path == attempt.path) {
                Some((_, actions)) => actions.push(&attempt.action),
                None => of_path.push((attempt, vec![&attempt.action])),
            }
        }
        let sentences: Vec<String> = of_path.iter().map(|(first, actions)| protected(first, actions)).collect();
        self.notes.extend(sentences.iter().take(NAMED_PATHS).cloned());
        if sentences.len() > NAMED_PATHS {
            let more = counted(sentences.len() - NAMED_PATHS, "more protected path");
            self.notes.push(format!("{more} would have been changed as well."));
        }
        if !sentences.is_empty() {
            self.notes.push("Reach the goal without changing protected paths.".to_owned());
        }
        sentences.into_iter().map(|text| Problem { guard: Guard::Protected, text }).collect()
    }

    /// Tells of repositories that came into being: a guard that fired for each part that was set aside.
    pub(super) fn note_repositories(&mut self, appeared: &[Appeared]) -> Vec<Problem> {
        let new: Vec<String> =
            appeared.iter().filter(|one| one.is_new).map(|one| format!("`{}`", shown(&one.path))).collect();
        if !new.is_empty() {
            let more = new.len().saturating_sub(NAMED_PATHS);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let named = new.iter().take(NAMED_PATHS).cloned().collect::<Vec<_>>().join(", ");
            self.notes
                .push(format!("New git repositories: {named}{more}. Their hooks and settings are protected now."));
        }
        let set_aside = appeared.iter().flat_map(|one| &one.set_aside);
        let sentences: Vec<String> = set_aside.map(set_aside_sentence).collect();
        self.notes.extend(sentences.iter().take(NAMED_PATHS).cloned());
        if sentences.len() > NAMED_PATHS {
            let more = counted(sentences.len() - NAMED_PATHS, "more part");
            self.notes.push(format!("{more} of new repositories were set aside as well."));
        }
        sentences.into_iter().map(|text| Problem { guard: Guard::Protected, text }).collect()
    }

    /// The output and the notes, together within the limit, and how many bytes were left out; the whole output is in
    /// `kept`. `silence` stands for no output where there is no note either.
    pub(super) fn text(mut self, capture: &Capture, kept: &str, silence: &str) -> (String, u64) {
        let cut = capture.left_out > 0;
        let head = plain(&capture.head, if cut { Cut::End } else { Cut::Nowhere });
        let tail = plain(&capture.tail, if cut { Cut::Start } else { Cut::Nowhere });
        if head.replaced || tail.replaced {
            self.notes.push("Bytes that are not UTF-8 are shown as \u{fffd}.".to_owned());
        }
        if head.stripped || tail.stripped {
            self.notes.push("Control characters were left out.".to_owned());
        }
        let notes = self.notes.iter().map(|note| format!("[{note}]")).collect::<Vec<_>>().join("\n");
        let between = capture.left_out + (head.dropped + tail.dropped) as u64;
        let gap = |left_out| format!("[… {} bytes left out; the whole output is in {kept} …]", thousands(left_out));
        let room = RESULT_LIMIT_BYTES.saturating_sub(notes.len() + 1);
        let tail_text = tail.text.trim_end_matches('\n');
        let head_text = if tail.text.is_empty() { head.text.trim_end_matches('\n') } else { &head.text };
        let Bounded { text, left_out } = head_and_tail(head_text, tail_text, between, room, gap);
        let text = match (text.is_empty(), notes.is_empty()) {
            (true, true) => silence.to_owned(),
            (true, false) => notes,
            (false, true) => text,
            (false, false) => format!("{text}\n{notes}"),
        };
        (text, left_out)
    }
}

fn set_aside_sentence(part: &SetAside) -> String {
    let why = escaped(&clipped(&part.why, 400));
    SetAside { path: shown(&part.path), why, kept: shown(&part.kept) }.to_string()
}

/// What a command tried to do to a protected path, in a sentence.
fn protected(first: &Attempt, actions: &[&str]) -> String {
    let Attempt { path, rule, .. } = first;
    let (path, rule) = (shown(path), shown(rule));
    if actions.contains(&Attempt::CHANGED) {
        return format!(
            "`{path}` is protected ({rule}) and changed while the command ran; the checks do not use what it holds now."
        );
    }
    format!("`{path}` is protected ({rule}) and was not changed (tried: {}).", shown(&actions.join(", ")))
}

/// How a command ended, in a sentence; `timed_out` stands for a time-out.
pub(super) fn exit_sentence(exit: Exit, timed_out: &str) -> String {
    match exit {
        Exit::Code(code) => format!("Exit code {code}."),
        Exit::Signal(signal) => format!("Ended by signal {signal}{}.", signal_name(signal)),
        Exit::TimedOut => timed_out.to_owned(),
    }
}

/// The usual signals by name (numbers of Linux on x86-64 and arm64).
fn signal_name(signal: i32) -> &'static str {
    match signal {
        2 => " (SIGINT)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        _ => "",
    }
}
