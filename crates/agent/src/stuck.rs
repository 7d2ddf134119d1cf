//! Notices that nothing moves: the same turns, the same failing edit, the same failing `finish`.

use std::collections::VecDeque;

use hames_protocol::{Arguments, Digest, EffectClass, FINISH, Guard, Status};

use crate::state::{CallState, Turn};

/// Repetitions after which the model is told.
const NOTICE_AT: usize = 3;
/// Repetitions after which the run ends.
const END_AT: usize = 5;
/// The longest cycle of turns that counts as a repetition.
const LONGEST_CYCLE: usize = 4;
/// How often an edit may fail the same way, and `finish` without a change between.
const FAILURES: u32 = 3;
/// Replies cut in a row.
const CUTS: u32 = 3;

/// What has been going on without progress.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// Signatures of the turns since the workspace last changed.
    turns: VecDeque<Digest>,
    /// Whether the model was told of the current repetition.
    told: bool,
    /// Failing edits by signature, since an edit of that kind last succeeded.
    edits: Vec<(Digest, u32)>,
    /// Failed `finish` calls since the workspace last changed.
    finishes: u32,
    /// Cut replies in a row.
    cuts: u32,
    /// Empty replies in a row.
    pub(crate) empties: u32,
}

/// What should follow from a lack of progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stall {
    /// Tell the model.
    Tell,
    /// End the run for this reason.
    End(String),
}

impl Progress {
    /// A reply came that the output limit cut, or one that it did not.
    pub fn reply(&mut self, cut: bool) {
        self.cuts = if cut { self.cuts + 1 } else { 0 };
    }

    /// The model was told that it repeats itself.
    pub fn told(&mut self) {
        self.told = true;
    }

    /// All calls of a turn have their results.
    pub fn turn(&mut self, turn: &Turn) {
        let results = || turn.calls.iter().filter_map(|state| state.result.as_ref());
        if results().any(|result| !result.changes.is_empty()) {
            self.turns.clear();
            self.told = false;
            self.finishes = 0;
        }
        self.turns.push_back(turn_signature(turn));
        if self.turns.len() > LONGEST_CYCLE * END_AT {
            self.turns.pop_front();
        }
        // Another repetition than the one that the model was told of is told as well.
        self.told &= repetitions(&self.turns) >= NOTICE_AT;
        // A twin did not run, so that it failed no second time.
        for state in turn.calls.iter().filter(|state| state.call.twin_of.is_none()) {
            self.call(state);
        }
    }

    fn call(&mut self, state: &CallState) {
        let Some(result) = &state.result else { return };
        if state.call.name == FINISH && result.status == Status::Refused {
            self.finishes += 1;
        }
        let is_edit = state.examined.as_ref().is_some_and(|examined| examined.class == EffectClass::Reconcilable);
        if !is_edit {
            return;
        }
        if result.status == Status::Ok {
            self.edits.clear();
            return;
        }
        let refused_as_invalid =
            state.examined.as_ref().is_some_and(|e| e.problems.iter().any(|p| p.guard == Guard::Valid));
        if result.status != Status::Failed && !refused_as_invalid {
            return;
        }
        let path = state.call.whole_arguments().and_then(|map| map.get("path")).map(ToString::to_string);
        let signature = Digest::of(format!("{}\0{}\0{}", state.call.name, path.unwrap_or_default(), result.text()));
        match self.edits.iter_mut().find(|(known, _)| *known == signature) {
            Some((_, count)) => *count += 1,
            None => self.edits.push((signature, 1)),
        }
    }

    /// What should follow.
    pub fn stall(&self) -> Option<Stall> {
        if self.cuts >= CUTS {
            return Some(Stall::End(format!("The output limit cut {CUTS} replies in a row.")));
        }
        if self.edits.iter().any(|(_, count)| *count >= FAILURES) {
            return Some(Stall::End(format!("The same edit failed the same way {FAILURES} times.")));
        }
        if self.finishes >= FAILURES {
            return Some(Stall::End(format!("`finish` failed {FAILURES} times without a change between.")));
        }
        let repetitions = repetitions(&self.turns);
        if repetitions >= END_AT {
            return Some(Stall::End(format!(
                "The same calls gave the same results {END_AT} times without a change of the workspace."
            )));
        }
        (repetitions >= NOTICE_AT && !self.told).then_some(Stall::Tell)
    }
}

/// How often the last cycle of at most four turns stands at the end, one after another.
fn repetitions(turns: &VecDeque<Digest>) -> usize {
    let from_end = |back: usize| turns.len().checked_sub(back + 1).and_then(|index| turns.get(index));
    let of_cycle = |cycle: usize| {
        let same =
            (0..turns.len().saturating_sub(cycle)).take_while(|back| from_end(*back) == from_end(back + cycle)).count();
        same / cycle + 1
    };
    (1..=LONGEST_CYCLE).map(of_cycle).max().filter(|_| !turns.is_empty()).unwrap_or(0)
}

/// The list of (name, arguments, result) of a turn; whatever text stands beside it does not count.
fn turn_signature(turn: &Turn) -> Digest {
    let mut text = String::new();
    for state in &turn.calls {
        let arguments = match &state.call.arguments {
            Arguments::Whole(map) => serde_json::to_string(map).unwrap_or_default(),
            Arguments::Broken { text, .. } => text.clone(),
        };
        let result = state.result.as_ref().map(|result| without_durations(&result.text())).unwrap_or_default();
        text.push_str(&format!("{}\0{arguments}\0{result}\0", state.call.name));
    }
    Digest::of(text)
}

/// Leaves out what differs between two runs of the same thing: numbers followed by a unit of time, and the names of
/// kept outputs.
fn without_durations(text: &str) -> String {
    const UNITS: [&str; 8] = ["milliseconds", "seconds", "second", "secs", "sec", "ms", "s", "µs"];
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        kept.push_str(before);
        let end = from.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(from.len());
        let (number, after) = from.split_at(end);
        let unit = after.strip_prefix(' ').unwrap_or(after);
        let named = UNITS.iter().find(|name| {
            unit.strip_prefix(**name).is_some_and(|tail| !tail.starts_with(|c: char| c.is_alphanumeric()))
        });
        let kept_output = kept.ends_with("/tmp/outputs/call-");
        if named.is_none() && !kept_output {
            kept.push_str(number);
        }
        rest = after;
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digests(letters: &str) -> VecDeque<Digest> {
        letters.bytes().map(|letter| Digest::of([letter])).collect()
    }

    #[test]
    fn cycles_of_up_to_four_turns_are_counted() {
        assert_eq!(repetitions(&digests("")), 0);
        assert_eq!(repetitions(&digests("abc")), 1);
        assert_eq!(repetitions(&digests("xaaa")), 3);
        assert_eq!(repetitions(&digests("xababab")), 3);
        assert_eq!(repetitions(&digests("abcdabcdabcd")), 3);
        assert_eq!(repetitions(&digests("abcdeabcdeabcde")), 1);
    }

    #[test]
    fn durations_and_names_of_kept_outputs_do_not_count() {
        assert_eq!(without_durations("Ran 2 tests in 0.013s"), without_durations("Ran 2 tests in 0.002s"));
        assert_eq!(without_durations("took 15 ms."), without_durations("took 9 ms."));
        assert_ne!(without_durations("Ran 2 tests in 0.013s"), without_durations("Ran 3 tests in 0.013s"));
        assert_eq!(without_durations("/tmp/outputs/call-3.txt"), without_durations("/tmp/outputs/call-14.txt"));
        assert_ne!(without_durations("2 sheep"), without_durations("3 sheep"));
    }
}
