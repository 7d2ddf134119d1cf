//! Which lines of a log are its records, and what is wrong with the others. Pure.
//!
//! Opening and verifying use the same judgement. A line with hashes that hold is a candidate; the chain then decides:
//! each record pins the one before it, and the anchor pins the last. So the walk goes backwards, and a record that was
//! replaced, its own hashes recomputed, is the one that is blamed, not the record after it.

use hames_protocol::Seq;

use crate::anchor::{Anchor, Anchored};
use crate::line::Sha;
use crate::verify::Finding;

/// What a record says of its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) seq: Seq,
    pub(crate) prev: Sha,
    pub(crate) hash: Sha,
}

/// A line as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scanned {
    /// Its own hashes hold.
    Whole(Link),
    /// It is not a record; the text ends a sentence that begins with the line.
    Damaged(String),
}

impl Scanned {
    fn link(&self) -> Option<Link> {
        match self {
            Self::Whole(link) => Some(*link),
            Self::Damaged(_) => None,
        }
    }
}

/// The judgement over a log.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    /// For each line, whether it is a record of this log.
    pub(crate) accepted: Vec<bool>,
    /// What is wrong, in file order.
    pub(crate) findings: Vec<Finding>,
    /// Whether the first record was written for another session.
    pub(crate) foreign: bool,
}

/// Why a line with good hashes is not accepted.
enum Rejected {
    OutOfPlace,
    Disowned { by: String },
}

/// Judges the lines of a log; `before_first` is what its first record must have as `prev`.
pub(crate) fn audit(before_first: Sha, lines: &[Scanned], anchored: Anchored) -> Audit {
    let mut audit = Audit { accepted: vec![false; lines.len()], ..Audit::default() };
    let anchor = anchored.anchor();
    let chain = in_order(lines);
    let mut disowned = Vec::new();
    let mut pinned: Option<(Seq, Sha)> = None;
    for &(index, link) in chain.iter().rev() {
        // A pin reaches the record just before it, not across a gap.
        let pin = pinned.filter(|(by, _)| by.0 == link.seq.0 + 1);
        let by = match (pin, anchor) {
            (Some((_, hash)), _) if hash == link.hash => None,
            (Some((by, _)), _) => Some(format!("is not the one that record {by} was written after")),
            (None, Some(anchor)) if anchor.seq == link.seq && anchor.hash != link.hash => {
                Some("is not the one that was synced in its place".to_owned())
            }
            (None, _) => None,
        };
        pinned = match by {
            None => Some((link.seq, link.prev)),
            Some(_) => None,
        };
        audit.accepted[index] = by.is_none();
        disowned.extend(by.map(|by| (index, by)));
    }
    let first = chain.first().filter(|(_, link)| link.seq == Seq(1));
    audit.foreign = first.is_some_and(|(_, link)| link.prev != before_first);
    if audit.foreign {
        audit.findings.push(Finding::new(Seq(1), "Record 1 was written for another session.".to_owned()));
    }
    disowned.reverse();
    let reasons = |index: usize| match disowned.binary_search_by_key(&index, |(index, _)| *index) {
        Ok(place) => Rejected::Disowned { by: disowned[place].1.clone() },
        Err(_) => Rejected::OutOfPlace,
    };
    explain(&mut audit, lines, reasons, anchor);
    explain_anchor(&mut audit, &chain, anchored);
    audit
}

/// The longest run of candidates whose places ascend: whatever must be left out for the places to make sense is left
/// out, and no more. (Patience sorting: `ends[n]` ends the run of length n + 1 with the lowest place.)
fn in_order(lines: &[Scanned]) -> Vec<(usize, Link)> {
    let candidates: Vec<(usize, Link)> =
        lines.iter().enumerate().filter_map(|(index, line)| Some((index, line.link()?))).collect();
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(candidates.len());
    for (here, (_, link)) in candidates.iter().enumerate() {
        let length = ends.partition_point(|&end| candidates[end].1.seq < link.seq);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = here,
            None => ends.push(here),
        }
    }
    let mut run: Vec<(usize, Link)> =
        std::iter::successors(ends.last().copied(), |&here| before[here]).map(|here| candidates[here]).collect();
    run.reverse();
    run
}

/// Writes a finding for every line that is not accepted and for every place that no line fills.
fn explain(audit: &mut Audit, lines: &[Scanned], reason: impl Fn(usize) -> Rejected, anchor: Option<Anchor>) {
    let mut next = 1;
    for (index, line) in lines.iter().enumerate() {
        let number = index + 1;
        match line {
            Scanned::Whole(link) if audit.accepted[index] => {
                missing(&mut audit.findings, next, link.seq.0);
                next = link.seq.0 + 1;
            }
            Scanned::Whole(link) => match reason(index) {
                Rejected::Disowned { by } => {
                    missing(&mut audit.findings, next, link.seq.0);
                    let text = format!("Record {} (line {number}) {by}.", link.seq);
                    audit.findings.push(Finding::new(link.seq, text));
                    next = link.seq.0 + 1;
                }
                Rejected::OutOfPlace => {
                    let text = format!("Line {number} holds record {}, which does not belong there.", link.seq);
                    audit.findings.push(Finding::new(Seq(link.seq.0.min(next)), text));
                }
            },
            Scanned::Damaged(why) => {
                // It fills the next place, unless the record after it already has that place.
                let following = lines[number..].iter().zip(&audit.accepted[number..]).find(|(_, accepted)| **accepted);
                let room = following.and_then(|(line, _)| line.link()).is_none_or(|link| link.seq.0 > next);
                let text = if room {
                    format!("Record {next} (line {number}) {why}.")
                } else {
                    format!("Line {number}, before record {next}, {why}.")
                };
                audit.findings.push(Finding::new(Seq(next), text));
                next += u64::from(room);
            }
        }
    }
    if let Some(anchor) = anchor.filter(|anchor| anchor.seq.0 >= next) {
        let text = format!(
            "{} missing although synced: the end of the log was cut, or the log is an old copy.",
            places(next, anchor.seq.0)
        );
        audit.findings.push(Finding::new(Seq(next), text));
    }
}

/// Compares the anchor with the record that it names.
fn explain_anchor(audit: &mut Audit, chain: &[(usize, Link)], anchored: Anchored) {
    match anchored {
        Anchored::Nothing => {}
        Anchored::Damaged => {
            let last = chain.last().map_or(Seq(0), |(_, link)| link.seq);
            let text = "The anchor `heads` is damaged, so that a cut end of the log would not show.".to_owned();
            audit.findings.push(Finding::new(last, text));
        }
        Anchored::At(anchor) => {
            let named = chain.iter().find(|(_, link)| link.seq == anchor.seq);
            if named.is_some_and(|(index, link)| audit.accepted[*index] && link.hash != anchor.hash) {
                let text = format!("The anchor `heads` names another record {} than the log holds.", anchor.seq);
                audit.findings.push(Finding::new(anchor.seq, text));
            }
        }
    }
}

/// Writes a finding when the places from `from` up to `before` are not filled.
fn missing(findings: &mut Vec<Finding>, from: u64, before: u64) {
    if from < before {
        findings.push(Finding::new(Seq(from), format!("{} missing.", places(from, before - 1))));
    }
}

fn places(from: u64, to: u64) -> String {
    if from == to { format!("Record {from} is") } else { format!("Records {from} to {to} are") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sha(text: &str) -> Sha {
        Sha::of(text.as_bytes())
    }

    /// A good log of `length` records.
    fn log(length: u64) -> Vec<Scanned> {
        (1..=length).map(|seq| record(seq, &format!("hash {}", seq - 1), &format!("hash {seq}"))).collect()
    }

    fn record(seq: u64, prev: &str, hash: &str) -> Scanned {
        Scanned::Whole(Link { seq: Seq(seq), prev: sha(prev), hash: sha(hash) })
    }

    fn anchored(seq: u64) -> Anchored {
        Anchored::At(Anchor { seq: Seq(seq), hash: sha(&format!("hash {seq}")) })
    }

    #[track_caller]
    fn check(lines: &[Scanned], anchored: Anchored, accepted: &[u8], findings: &[&str]) {
        let audit = audit(sha("hash 0"), lines, anchored);
        let texts: Vec<_> = audit.findings.iter().map(|finding| finding.text.as_str()).collect();
        assert_eq!(texts, findings);
        assert_eq!(audit.accepted.iter().map(|yes| u8::from(*yes)).collect::<Vec<_>>(), accepted);
    }

    #[test]
    fn a_good_log_has_no_finding_wherever_its_anchor_stands() {
        for at in 1..=4 {
            check(&log(4), anchored(at), &[1, 1, 1, 1], &[]);
        }
        check(&log(4), Anchored::Nothing, &[1, 1, 1, 1], &[]);
        check(&[], Anchored::Nothing, &[], &[]);
    }

    #[test]
    fn a_replaced_record_with_hashes_of_its_own_is_disowned_by_the_one_after_it() {
        let mut lines = log(4);
        lines[1] = record(2, "hash 1", "forged");
        let text = "Record 2 (line 2) is not the one that record 3 was written after.";
        check(&lines, anchored(4), &[1, 0, 1, 1], &[text]);
    }

    #[test]
    fn a_record_of_another_log_is_blamed_rather_than_its_neighbours() {
        let mut lines = log(4);
        lines[1] = record(2, "elsewhere", "elsewhere 2");
        let text = "Record 2 (line 2) is not the one that record 3 was written after.";
        check(&lines, anchored(4), &[1, 0, 1, 1], &[text]);
    }

    #[test]
    fn a_replaced_last_record_is_disowned_by_the_anchor() {
        let mut lines = log(3);
        lines[2] = record(3, "hash 2", "forged");
        check(&lines, anchored(3), &[1, 1, 0], &["Record 3 (line 3) is not the one that was synced in its place."]);
    }

    #[test]
    fn swapped_records_are_named_from_the_first_wrong_place_on() {
        let mut lines = log(5);
        lines.swap(2, 3);
        let texts = ["Line 3 holds record 4, which does not belong there.", "Record 4 is missing."];
        check(&lines, anchored(5), &[1, 1, 0, 1, 1], &texts);
        assert_eq!(audit(sha("hash 0"), &lines, anchored(5)).findings[0].seq, Seq(3));
    }

    #[test]
    fn a_repeated_record_does_not_push_out_the_others() {
        let mut lines = log(4);
        lines.insert(3, lines[1].clone());
        check(&lines, anchored(4), &[1, 1, 1, 0, 1], &["Line 4 holds record 2, which does not belong there."]);
    }

    #[test]
    fn a_record_from_far_ahead_does_not_push_out_the_others() {
        let mut lines = log(4);
        lines.insert(2, record(900, "hash 899", "hash 900"));
        check(&lines, anchored(4), &[1, 1, 0, 1, 1], &["Line 3 holds record 900, which does not belong there."]);
    }

    #[test]
    fn damaged_and_missing_lines_are_told_apart() {
        let mut lines = log(6);
        lines[1] = Scanned::Damaged("is broken".to_owned());
        lines.remove(3);
        let texts = ["Record 2 (line 2) is broken.", "Record 4 is missing."];
        check(&lines, anchored(6), &[1, 0, 1, 1, 1], &texts);
    }

    #[test]
    fn a_line_too_many_takes_no_place() {
        let mut lines = log(3);
        lines.insert(1, Scanned::Damaged("is broken".to_owned()));
        check(&lines, anchored(3), &[1, 0, 1, 1], &["Line 2, before record 2, is broken."]);
    }

    #[test]
    fn a_cut_end_shows_by_the_anchor() {
        let text = "Records 3 to 5 are missing although synced: the end of the log was cut, or the log is an old copy.";
        check(&log(2), anchored(5), &[1, 1], &[text]);
    }

    #[test]
    fn an_anchor_that_disagrees_does_not_cost_a_record_that_the_chain_holds() {
        let wrong = Anchored::At(Anchor { seq: Seq(2), hash: sha("wrong") });
        let text = "The anchor `heads` names another record 2 than the log holds.";
        check(&log(3), wrong, &[1, 1, 1], &[text]);
        let text = "The anchor `heads` is damaged, so that a cut end of the log would not show.";
        check(&log(3), Anchored::Damaged, &[1, 1, 1], &[text]);
    }

    #[test]
    fn the_first_record_binds_the_log_to_its_session() {
        let audit = audit(sha("another session"), &log(2), Anchored::Nothing);
        assert!(audit.foreign);
    }
}
