//! One table of models: context windows, output limits and prices.
//!
//! Sources, read in November 2026: the model pages and the price list at
//! <https://platform.claude.com/docs/en/about-claude/pricing> (cache writes are those of the five-minute cache, the only
//! one that Hames asks for), <https://developers.openai.com/api/docs/models>, <https://ai.google.dev/gemini-api/docs/models>
//! and <https://api-docs.deepseek.com/quick_start/pricing>. A price that depends on the length of the prompt, the hour or
//! the date is not one number, and stands as not known: a sum with a wrong price would be a wrong sum.

use hames_protocol::Price;

/// The Anthropic model that is used when none is named.
pub const DEFAULT_ANTHROPIC: &str = "claude-sonnet-5-5";

/// The OpenAI model that is used when none is named.
pub const DEFAULT_OPENAI: &str = "gpt-6.2-sol";

/// The Gemini model that is used when none is named.
pub const DEFAULT_GEMINI: &str = "gemini-3.8-flash";

/// The DeepSeek model that is used when none is named.
pub const DEFAULT_DEEPSEEK: &str = "deepseek-flash";

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

/// Finds a model by its name, which may begin with its maker's (`openai/`) and end in a date, `-latest` or `-0`.
pub fn find(name: &str) -> Entry {
    let name = name.rsplit('/').next().unwrap_or(name);
    let listed = TABLE.iter().find(|(listed, _)| match name.strip_prefix(listed) {
        Some("" | "-latest" | "-0") => true,
        Some(rest) => rest.strip_prefix('-').is_some_and(is_date),
        None => false,
    });
    listed.map_or(UNKNOWN, |(_, entry)| *entry)
}

/// `20250929`, or `2025-09-29`.
fn is_date(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    digits == 8 && (text.len() == 8 || (text.len() == 10 && text.matches('-').count() == 2))
}

const M: u64 = 1_000_000;
const K: u64 = 1_000;

/// USD per million tokens, in the order of the price list: input, cache write, cache read, output.
const fn priced(context_tokens: u64, output_tokens: u64, usd: [f64; 4]) -> Entry {
    let [input, cache_write, cache_read, output] = usd;
    Entry { context_tokens, output_tokens, price: Some(Price { input, output, cache_read, cache_write }) }
}

/// Sizes without a price.
const fn unpriced(context_tokens: u64, output_tokens: u64) -> Entry {
    Entry { context_tokens, output_tokens, price: None }
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
    ("claude-haiku-5-5", unpriced(M, 128 * K)),
    ("claude-haiku-4-5", priced(200 * K, 64 * K, [1.0, 1.25, 0.10, 5.0])),
    ("claude-3-5-haiku", priced(200 * K, 8_192, [0.80, 1.0, 0.08, 4.0])),
    // Above 272,000 tokens of input a request costs more.
    ("gpt-6.2-sol", unpriced(1_050 * K, 128 * K)),
    ("gpt-6.1-sol", unpriced(1_050 * K, 128 * K)),
    ("gpt-6-astra", unpriced(1_050 * K, 128 * K)),
    ("gpt-5.6-sol", unpriced(1_050 * K, 128 * K)),
    ("gpt-5.5", unpriced(1_050 * K, 128 * K)),
    // OpenAI's older models charge nothing for cache writes beyond the input.
    ("gpt-5-codex", priced(400 * K, 128 * K, [1.25, 1.25, 0.125, 10.0])),
    ("gpt-5", priced(400 * K, 128 * K, [1.25, 1.25, 0.125, 10.0])),
    ("gemini-3.8-flash", unpriced(1_048_576, 65_536)),
    ("gemini-3.5-flash", unpriced(1_048_576, 65_536)),
    ("deepseek-flash", unpriced(M, 384 * K)),
    ("deepseek-v4-pro", unpriced(M, 384 * K)),
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
        assert_eq!(find("openai/gpt-5-2025-08-07"), find("gpt-5"));
        for default in [DEFAULT_ANTHROPIC, DEFAULT_OPENAI, DEFAULT_GEMINI, DEFAULT_DEEPSEEK] {
            assert_ne!(find(default), UNKNOWN, "{default}");
        }
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
            assert!(price.cache_read < price.input && price.input <= price.cache_write, "{name}");
            if !name.starts_with("claude-") {
                continue;
            }
            assert!((price.cache_write / price.input - 1.25).abs() < 1e-9, "{name}");
            assert!((price.output / price.input - 5.0).abs() < 1e-9, "{name}");
        }
    }
}
