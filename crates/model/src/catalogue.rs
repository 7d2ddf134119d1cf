//! One table of models: context windows, output limits and prices.
//!
//! Source: the model pages and the price list at <https://platform.claude.com/docs/en/about-claude/pricing>, read in
//! November 2026. Cache writes are those of the five-minute cache, the only one that Hames asks for.

use hames_protocol::Price;

/// The Anthropic model that is used when none is named.
pub const DEFAULT_ANTHROPIC: &str = "claude-sonnet-5-5";

/// What is known of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// The context window, in tokens.
    pub context_tokens: u64,
    /// The most that one reply may have, in tokens.
    pub output_tokens: u64,
    /// The price; none when it is not known, or not one number.
    pub price: Option<Price>,
}

/// What is assumed of a model that is not in the table: small enough for any, and no price.
const UNKNOWN: Entry = Entry { context_tokens: 200_000, output_tokens: 8_192, price: None };

/// Finds a model by its name, which may end in a date, `-latest` or `-0`.
pub fn find(name: &str) -> Entry {
    let listed = TABLE.iter().find(|(listed, _)| match name.strip_prefix(listed) {
        Some("" | "-latest" | "-0") => true,
        Some(rest) => rest
            .strip_prefix('-')
            .is_some_and(|date| date.len() == "20250929".len() && date.bytes().all(|byte| byte.is_ascii_digit())),
        None => false,
    });
    listed.map_or(UNKNOWN, |(_, entry)| *entry)
}

const M: u64 = 1_000_000;
const K: u64 = 1_000;

/// USD per million tokens, in the order of the price list: input, cache write, cache read, output.
const fn priced(context_tokens: u64, output_tokens: u64, usd: [f64; 4]) -> Entry {
    let [input, cache_write, cache_read, output] = usd;
    Entry { context_tokens, output_tokens, price: Some(Price { input, output, cache_read, cache_write }) }
}

const TABLE: &[(&str, Entry)] = &[
    ("claude-fable-5-2", priced(M, 128 * K, [8.0, 10.0, 0.20, 40.0])),
    ("claude-fable-5-1", priced(M, 128 * K, [10.0, 12.5, 0.25, 50.0])),
    ("claude-fable-5", priced(M, 128 * K, [10.0, 12.5, 1.0, 50.0])),
    ("claude-opus-5-5", priced(M, 128 * K, [4.0, 5.0, 0.20, 20.0])),
    ("claude-opus-5", priced(M, 128 * K, [5.0, 6.25, 0.50, 25.0])),
    ("claude-opus-4-8", priced(M, 128 * K, [5.0, 6.25, 0.50, 25.0])),
    ("claude-opus-4-7", priced(M, 128 * K, [5.0, 6.25, 0.50, 25.0])),
    ("claude-opus-4-6", priced(M, 128 * K, [5.0, 6.25, 0.50, 25.0])),
    ("claude-opus-4-5", priced(200 * K, 64 * K, [5.0, 6.25, 0.50, 25.0])),
    ("claude-opus-4-1", priced(200 * K, 32 * K, [15.0, 18.75, 1.50, 75.0])),
    ("claude-opus-4", priced(200 * K, 32 * K, [15.0, 18.75, 1.50, 75.0])),
    ("claude-sonnet-5-5", priced(M, 128 * K, [2.0, 2.5, 0.20, 10.0])),
    ("claude-sonnet-5", priced(M, 128 * K, [2.0, 2.5, 0.20, 10.0])),
    ("claude-sonnet-4-6", priced(M, 128 * K, [3.0, 3.75, 0.30, 15.0])),
    ("claude-sonnet-4-5", priced(200 * K, 64 * K, [3.0, 3.75, 0.30, 15.0])),
    ("claude-sonnet-4", priced(200 * K, 64 * K, [3.0, 3.75, 0.30, 15.0])),
    ("claude-3-7-sonnet", priced(200 * K, 64 * K, [3.0, 3.75, 0.30, 15.0])),
    // Its price depends on the length of the prompt (five times as much above 100,000 tokens): not one number.
    ("claude-haiku-5-5", Entry { context_tokens: M, output_tokens: 128 * K, price: None }),
    ("claude-haiku-4-5", priced(200 * K, 64 * K, [1.0, 1.25, 0.10, 5.0])),
    ("claude-3-5-haiku", priced(200 * K, 8_192, [0.80, 1.0, 0.08, 4.0])),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_with_and_without_a_date() {
        let dated = find("claude-haiku-4-5-20251001");
        assert_eq!(dated, find("claude-haiku-4-5"));
        assert_eq!(dated.price.unwrap().output, 5.0);
        assert_eq!(find("claude-opus-4-20250514"), find("claude-opus-4-0"));
        assert_ne!(find("claude-opus-4-1"), find("claude-opus-4-6"));
        assert_ne!(find(DEFAULT_ANTHROPIC), UNKNOWN);
    }

    #[test]
    fn an_unknown_name_gets_small_sizes_and_no_price() {
        for name in ["glm-9", "claude-sonnet-4-5x", "claude-opus-4-2025", "claude-sonnet-99", ""] {
            assert_eq!(find(name), UNKNOWN, "{name}");
        }
    }

    #[test]
    fn every_price_keeps_the_order_that_all_of_the_list_has() {
        for (name, entry) in TABLE {
            assert!(entry.output_tokens < entry.context_tokens, "{name}");
            let Some(price) = entry.price else { continue };
            assert!(price.cache_read < price.input && price.input < price.cache_write, "{name}");
            assert!((price.cache_write / price.input - 1.25).abs() < 1e-9, "{name}");
            assert!((price.output / price.input - 5.0).abs() < 1e-9, "{name}");
        }
    }
}
