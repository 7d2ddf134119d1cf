//! What has arrived of a reply that is still streaming, and what its tokens come to where the provider counts none.

use hames_context::text_tokens;
use hames_protocol::{AttemptResult, Delta, Reply, Usage};

/// What has arrived of a reply so far.
#[derive(Debug, Default)]
pub(super) struct Arrived {
    usage: Option<Usage>,
    text: String,
    /// Text and reasoning, in bytes.
    bytes: usize,
}

impl Arrived {
    /// Takes in what has just arrived.
    pub(super) fn take(&mut self, delta: &Delta) {
        match delta {
            Delta::Text(text) => {
                self.text.push_str(text);
                self.bytes += text.len();
            }
            Delta::Reasoning(text) => self.bytes += text.len(),
            Delta::Usage(usage) => self.usage = Some(*usage),
            Delta::Call { .. } => {}
        }
    }

    /// The end of an attempt that is stopped now: the words so far are kept, half a call is not.
    pub(super) fn cancelled(&self) -> AttemptResult {
        // The last count of the provider may be older than its last words.
        let usage = self.usage.map(|usage| Usage {
            output_tokens: usage.output_tokens.max(text_tokens(self.bytes)),
            estimated: true,
            ..usage
        });
        AttemptResult::Cancelled { usage, text: self.text.clone() }
    }

    /// The same result with an estimate of its tokens, where a provider that has written something reported none.
    pub(super) fn counted(&self, result: AttemptResult, request_tokens: u64) -> AttemptResult {
        let estimate = |bytes: usize| Usage {
            input_tokens: request_tokens,
            output_tokens: text_tokens(bytes),
            estimated: true,
            ..Usage::default()
        };
        match result {
            AttemptResult::Reply(reply) if reply.usage.is_none_or(|usage| usage.total() == 0) => {
                let bytes = reply.parts.iter().map(|part| part.native.as_str().len()).sum();
                AttemptResult::Reply(Reply { usage: Some(estimate(bytes)), ..reply })
            }
            AttemptResult::Failure(mut failure) if failure.usage.is_none() && self.bytes > 0 => {
                failure.usage = Some(estimate(self.bytes));
                AttemptResult::Failure(failure)
            }
            result => result,
        }
    }
}

#[cfg(test)]
mod tests {
    use hames_protocol::{Dialect, FailureKind, ModelFailure, StopReason};

    use super::*;

    fn failure(usage: Option<Usage>) -> AttemptResult {
        AttemptResult::Failure(ModelFailure {
            kind: FailureKind::Transient,
            message: "Cut.".to_owned(),
            retry_after_ms: None,
            usage,
        })
    }

    fn usage_of(result: &AttemptResult) -> Option<Usage> {
        match result {
            AttemptResult::Reply(reply) => reply.usage,
            AttemptResult::Failure(failure) => failure.usage,
            AttemptResult::Cancelled { usage, .. } => *usage,
        }
    }

    #[test]
    fn only_what_was_written_and_not_counted_is_estimated() {
        let reported = Usage { input_tokens: 7, output_tokens: 1, ..Usage::default() };
        let mut arrived = Arrived::default();
        assert_eq!(usage_of(&arrived.counted(failure(None), 100)), None, "a request that was refused costs nothing");
        arrived.take(&Delta::Reasoning("12345678".to_owned()));
        let estimate = Usage { input_tokens: 100, output_tokens: 2, estimated: true, ..Usage::default() };
        assert_eq!(usage_of(&arrived.counted(failure(None), 100)), Some(estimate));
        assert_eq!(usage_of(&arrived.counted(failure(Some(reported)), 100)), Some(reported));
        for (usage, counted) in [(None, 100), (Some(Usage::default()), 100), (Some(reported), 7)] {
            let (dialect, stop) = (Dialect::Anthropic, StopReason::EndTurn);
            let reply = Reply { dialect, model: "m".to_owned(), provider_id: None, parts: Vec::new(), stop, usage };
            let found = usage_of(&arrived.counted(AttemptResult::Reply(reply), 100)).unwrap();
            assert_eq!((found.input_tokens, found.estimated), (counted, counted == 100));
        }
    }

    #[test]
    fn a_cancel_counts_what_was_reported_and_what_came_after_it() {
        let mut arrived = Arrived::default();
        assert_eq!(usage_of(&arrived.cancelled()), None);
        arrived.take(&Delta::Usage(Usage { input_tokens: 25, output_tokens: 1, ..Usage::default() }));
        arrived.take(&Delta::Text("x".repeat(40)));
        let usage = usage_of(&arrived.cancelled()).unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens, usage.estimated), (25, 10, true));
        arrived.take(&Delta::Usage(Usage { input_tokens: 25, output_tokens: 15, ..Usage::default() }));
        assert_eq!(usage_of(&arrived.cancelled()).unwrap().output_tokens, 15);
    }
}
