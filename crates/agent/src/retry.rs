//! When to ask the model again after a failed attempt.

use hames_protocol::{FailureKind, ModelFailure};

/// Attempts for one request, the first included.
const MAX_ATTEMPTS: u32 = 5;
/// The first wait without a hint, in milliseconds; it doubles from attempt to attempt.
const BASE_MS: u64 = 500;
/// The longest wait without a hint, in milliseconds.
const LONGEST_MS: u64 = 30_000;
/// A hint beyond this ends the run at once, in milliseconds: nobody waits that long without being told.
const PATIENCE_MS: u64 = 5 * 60 * 1000;

/// Failed attempts in a row and when the next one may be made.
#[derive(Debug, Clone, Default)]
pub struct Retry {
    /// Failed attempts since the last whole reply.
    failures: u32,
    /// What to do next.
    verdict: Option<Verdict>,
    /// Why the last attempt failed.
    reason: String,
}

/// What to do after a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Ask again at this tick.
    At(u64),
    /// Give up, for this reason.
    GiveUp(String),
}

/// The moment of a failure.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Active time, in milliseconds.
    pub tick: u64,
    /// Wall-clock time, in milliseconds since 1970.
    pub at: u64,
    /// The active time at which the run's time is up.
    pub deadline: u64,
    /// The random number drawn for this failure, 0..=999.
    pub jitter: u16,
}

impl Retry {
    /// What to do next; none when the last attempt succeeded.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// Why the last attempt failed, as a sentence.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// A whole reply came.
    pub fn succeed(&mut self) {
        *self = Self::default();
    }

    /// An attempt failed.
    pub fn fail(&mut self, failure: &ModelFailure, moment: Moment) {
        self.failures = self.failures.saturating_add(1);
        self.reason.clone_from(&failure.message);
        self.verdict = Some(self.decide(failure, moment));
    }

    fn decide(&self, failure: &ModelFailure, moment: Moment) -> Verdict {
        if failure.kind != FailureKind::Transient {
            return Verdict::GiveUp(failure.message.clone());
        }
        // Chance may lengthen a wait, but not decide whether the run waits at all.
        let least = failure.retry_after_ms.unwrap_or_else(|| self.backoff_ms() / 2);
        let longest = PATIENCE_MS.min(moment.deadline.saturating_sub(moment.tick.saturating_add(1)));
        if least > longest {
            let (asks, back) = (human(least), utc_minute(moment.at.saturating_add(least)));
            let asks = match failure.retry_after_ms {
                Some(_) => format!("The provider asks to wait {asks}"),
                None => format!("The next attempt would be in {asks}"),
            };
            return Verdict::GiveUp(format!(
                "{} {asks}, longer than this run waits. Resume the session after {back} UTC.",
                failure.message
            ));
        }
        if self.failures >= MAX_ATTEMPTS {
            return Verdict::GiveUp(format!("{} Gave up after {MAX_ATTEMPTS} attempts.", failure.message));
        }
        // A hint is kept to, and overstepped by at most a fifth; without one the wait is a half to a whole of the backoff.
        let jitter = u64::from(moment.jitter.min(999));
        let more = if failure.retry_after_ms.is_some() { least * jitter / 5_000 } else { least * jitter / 1_000 };
        Verdict::At(moment.tick.saturating_add((least + more).min(longest)))
    }

    /// The wait without a hint: it doubles from attempt to attempt.
    fn backoff_ms(&self) -> u64 {
        (BASE_MS << self.failures.saturating_sub(1).min(16)).min(LONGEST_MS)
    }
}

/// A duration for people, rounded up to seconds.
pub(crate) fn human(ms: u64) -> String {
    let seconds = ms.div_ceil(1000);
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut text = String::new();
    for (amount, unit) in [(hours, 'h'), (minutes, 'm'), (rest, 's')] {
        if amount > 0 {
            text.push_str(&format!("{amount}{unit}"));
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// A wall-clock time as `YYYY-MM-DD HH:MM`, rounded up to a minute. The civil date follows Howard Hinnant's
/// `civil_from_days`; a date library would bring a clock into this crate.
fn utc_minute(at_ms: u64) -> String {
    let minutes = at_ms.div_ceil(60_000);
    let (day, minute) = (minutes / 1440, minutes % 1440);
    let shifted = day + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day_of_month:02} {:02}:{:02}", minute / 60, minute % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: FailureKind, hint: Option<u64>) -> ModelFailure {
        ModelFailure { kind, message: "It failed.".into(), retry_after_ms: hint, usage: None }
    }

    fn moment(jitter: u16) -> Moment {
        Moment { tick: 1_000, at: 1_772_366_399_000, deadline: 1_000_000, jitter }
    }

    #[test]
    fn a_hint_is_never_undercut_and_overstepped_by_at_most_a_quarter() {
        for hint in [700, 1_500, 2_000, 60_000] {
            for jitter in [0, 500, 999] {
                let mut retry = Retry::default();
                retry.fail(&failure(FailureKind::Transient, Some(hint)), moment(jitter));
                let Some(Verdict::At(at)) = retry.verdict() else { panic!("gave up") };
                assert!((1_000 + hint..=1_000 + hint + hint / 4).contains(at), "{hint} {jitter} {at}");
            }
        }
    }

    #[test]
    fn waits_without_a_hint_grow_and_stop_after_five_attempts() {
        let mut retry = Retry::default();
        let mut last = 0;
        for _ in 0..4 {
            retry.fail(&failure(FailureKind::Transient, None), moment(0));
            let Some(Verdict::At(at)) = retry.verdict() else { panic!("gave up") };
            assert!(*at > last);
            last = *at;
        }
        retry.fail(&failure(FailureKind::Transient, None), moment(0));
        assert!(matches!(retry.verdict(), Some(Verdict::GiveUp(text)) if text.contains("5 attempts")));
    }

    #[test]
    fn a_long_wait_ends_the_run_and_says_when_to_come_back() {
        let mut retry = Retry::default();
        retry.fail(&failure(FailureKind::Transient, Some(45_256_000)), moment(0));
        let Some(Verdict::GiveUp(text)) = retry.verdict() else { panic!("waits") };
        assert!(text.contains("12h34m16s") && text.contains("2026-03-02 00:35 UTC"), "{text}");
    }

    #[test]
    fn chance_does_not_decide_whether_the_run_waits() {
        for jitter in [0, 500, 999] {
            for (hint, waits) in [(290_000, true), (300_000, true), (300_001, false)] {
                let mut retry = Retry::default();
                retry.fail(&failure(FailureKind::Transient, Some(hint)), moment(jitter));
                assert_eq!(matches!(retry.verdict(), Some(Verdict::At(_))), waits, "{hint} {jitter}");
            }
            let mut retry = Retry::default();
            let tight = Moment { deadline: 3_500, ..moment(jitter) };
            retry.fail(&failure(FailureKind::Transient, Some(2_400)), tight);
            assert!(matches!(retry.verdict(), Some(Verdict::At(3_400..3_500))), "{:?}", retry.verdict());
        }
    }

    #[test]
    fn the_wait_that_is_named_is_the_one_that_the_provider_asked_for() {
        let mut retry = Retry::default();
        retry.fail(&failure(FailureKind::Transient, Some(45_256_000)), moment(999));
        assert!(matches!(retry.verdict(), Some(Verdict::GiveUp(text)) if text.contains("12h34m16s")));
    }

    #[test]
    fn a_wait_beyond_the_deadline_ends_the_run() {
        let mut retry = Retry::default();
        let soon = Moment { deadline: 2_500, ..moment(0) };
        retry.fail(&failure(FailureKind::Transient, Some(2_000)), soon);
        assert!(matches!(retry.verdict(), Some(Verdict::GiveUp(_))));
    }

    #[test]
    fn what_cannot_succeed_is_not_tried_again() {
        for kind in [FailureKind::Credential, FailureKind::Rejected, FailureKind::Setup] {
            let mut retry = Retry::default();
            retry.fail(&failure(kind, Some(1)), moment(0));
            assert_eq!(retry.verdict(), Some(&Verdict::GiveUp("It failed.".into())));
        }
    }
}
