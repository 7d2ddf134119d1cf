//! Bounds on what the model reads: head and tail of a long text, with what was left out between them.

use crate::text::thousands;

/// The most that a result shows the model, in bytes.
pub(crate) const RESULT_LIMIT_BYTES: usize = 30_000;

/// What was cut out of a text, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bounded {
    /// The text that is shown.
    pub(crate) text: String,
    /// How many bytes of the output it does not show.
    pub(crate) left_out: u64,
}

/// Joins the head and the tail of an output between which `between` bytes were not captured, and cuts more out of the
/// middle until the whole is at most `limit` bytes. `note` writes the line that stands in the gap.
pub(crate) fn head_and_tail(
    head: &str,
    tail: &str,
    between: u64,
    limit: usize,
    note: impl Fn(u64) -> String,
) -> Bounded {
    if between == 0 && head.len() + tail.len() <= limit {
        return Bounded { text: format!("{head}{tail}"), left_out: 0 };
    }
    // The note is longest for the largest count; its number only shrinks from here.
    let room = limit.saturating_sub(note(between + (head.len() + tail.len()) as u64).len() + 2);
    let whole;
    let (head, tail) = if between == 0 {
        // One text that is too long: its halves are taken from its own ends.
        whole = format!("{head}{tail}");
        (whole.as_str(), whole.as_str())
    } else {
        (head, tail)
    };
    let (first, last) = shares(head.len(), tail.len(), room);
    let kept_head = &head[..head.floor_char_boundary(first)];
    let kept_tail = &tail[tail.ceil_char_boundary(tail.len() - last)..];
    let total = if between == 0 { head.len() as u64 } else { between + (head.len() + tail.len()) as u64 };
    let left_out = total - (kept_head.len() + kept_tail.len()) as u64;
    let open = if kept_head.is_empty() || kept_head.ends_with('\n') { "" } else { "\n" };
    Bounded { text: format!("{kept_head}{open}{}\n{kept_tail}", note(left_out)), left_out }
}

/// Half of the room for each side; what one side does not need, the other gets.
fn shares(head: usize, tail: usize, room: usize) -> (usize, usize) {
    let half = room / 2;
    let last = tail.min(half.max(room.saturating_sub(head)));
    (head.min(room - last), last)
}

/// The line in the gap of a cut output.
pub(crate) fn gap(left_out: u64) -> String {
    format!("[… {} bytes left out …]", thousands(left_out))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_short_output_is_shown_whole() {
        assert_eq!(head_and_tail("ab", "", 0, 10, gap), Bounded { text: "ab".to_owned(), left_out: 0 });
    }

    #[test]
    fn what_was_never_captured_is_counted_even_when_the_rest_is_short() {
        let bounded = head_and_tail("ab", "yz", 1_000, 100, gap);
        assert_eq!(bounded.text, "ab\n[… 1,000 bytes left out …]\nyz");
        assert_eq!(bounded.left_out, 1_000);
    }

    proptest! {
        #[test]
        fn a_cut_output_keeps_the_bound_and_counts_every_byte(
            head in "[aé😀\n]{0,200}", tail in "[aé😀\n]{0,200}", between in 0u64..5_000, limit in 80usize..300,
        ) {
            let bounded = head_and_tail(&head, &tail, between, limit, gap);
            prop_assert!(bounded.text.len() <= limit, "{} > {limit}", bounded.text.len());
            let total = between + (head.len() + tail.len()) as u64;
            if bounded.left_out == 0 {
                prop_assert_eq!(bounded.text, format!("{head}{tail}"));
            } else {
                let note = gap(bounded.left_out);
                let (before, after) = bounded.text.split_once(&note).unwrap();
                let after = after.strip_prefix('\n').unwrap();
                let shown = before.len() + after.len();
                let added = usize::from(!before.is_empty() && shown as u64 + bounded.left_out > total);
                prop_assert_eq!((shown - added) as u64 + bounded.left_out, total);
            }
        }
    }
}
