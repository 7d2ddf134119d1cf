//! Reads how long a provider asks to wait, wherever it says so.
//!
//! Sources: RFC 9110 section 10.2.3 (`retry-after` in seconds or as a date), the official clients' `retry-after-ms`,
//! the `RetryInfo` detail of Google's APIs, and the sentences in which gateways tell of a quota. What makes no sense
//! is no hint: the loop then backs off on its own.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;
use serde_json::Value;

/// A longer wait than this is taken for nonsense.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// The wait that headers and body ask for, in milliseconds, rounded up.
pub(crate) fn retry_after_ms(headers: &HeaderMap, body: &str, now: SystemTime) -> Option<u64> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let from_ms = || sensible(header("retry-after-ms")?.parse::<f64>().ok()? / 1000.0);
    let from_header = || {
        let text = header("retry-after")?;
        match text.parse::<f64>() {
            Ok(seconds) => sensible(seconds),
            Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(now).ok(),
        }
    };
    from_ms().or_else(from_header).and_then(in_ms).or_else(|| retry_after_ms_in(body))
}

/// The wait that a body or an error event asks for, in milliseconds, rounded up.
pub(crate) fn retry_after_ms_in(body: &str) -> Option<u64> {
    let detail = serde_json::from_str(body).ok().and_then(|json| retry_delay(&json));
    detail.or_else(|| spoken(body)).and_then(in_ms)
}

fn in_ms(wait: Duration) -> Option<u64> {
    let ms = u64::try_from(wait.as_nanos().div_ceil(1_000_000)).ok()?;
    (ms > 0 && wait <= LONGEST).then_some(ms)
}

fn sensible(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok().filter(|wait| *wait <= LONGEST)
}

/// Finds `"retryDelay": "2s"` at any depth.
fn retry_delay(json: &Value) -> Option<Duration> {
    match json {
        Value::Object(fields) => match fields.get("retryDelay").and_then(Value::as_str) {
            Some(text) => duration(text),
            None => fields.values().find_map(retry_delay),
        },
        Value::Array(elements) => elements.iter().find_map(retry_delay),
        _ => None,
    }
}

/// Finds a duration after the words that announce one: `quota will reset after 12h34m16s`, `try again in 1.5s`.
fn spoken(text: &str) -> Option<Duration> {
    let text = text.to_ascii_lowercase();
    ["reset after ", "resets in ", "reset in ", "retry after ", "retry in ", "try again in "]
        .iter()
        .filter_map(|words| text.split_once(words))
        .find_map(|(_, rest)| duration(rest))
}

/// Reads the duration at the start of a text, such as `12h34m16s`, `1.5s`, `700ms`, `20 seconds`.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim_start();
    let mut seconds = None;
    loop {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let Ok(number) = rest[..number_end].parse::<f64>() else { break };
        let after = rest[number_end..].trim_start();
        let unit_end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let unit = match &after[..unit_end] {
            "d" | "day" | "days" => 86_400.0,
            "h" | "hour" | "hours" => 3_600.0,
            "m" | "min" | "minute" | "minutes" => 60.0,
            "s" | "sec" | "second" | "seconds" => 1.0,
            "ms" => 0.001,
            _ => break,
        };
        seconds = Some(seconds.unwrap_or(0.0) + number * unit);
        rest = after[unit_end..].trim_start();
    }
    sensible(seconds?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(name: &'static str, value: &str, body: &str) -> Option<u64> {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        retry_after_ms(&headers, body, SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000))
    }

    #[test]
    fn headers_give_seconds_dates_and_milliseconds() {
        assert_eq!(hint("retry-after", "2", ""), Some(2_000));
        assert_eq!(hint("retry-after", "1.5", ""), Some(1_500));
        assert_eq!(hint("retry-after", "86400", ""), Some(86_400_000));
        assert_eq!(hint("retry-after", "Sun, 09 Sep 2001 01:46:42 GMT", ""), Some(2_000));
        assert_eq!(hint("retry-after-ms", "700", ""), Some(700));
        assert_eq!(hint("retry-after-ms", "0.2", ""), Some(1));
    }

    #[test]
    fn bodies_give_durations_in_details_and_in_sentences() {
        let detail = r#"{"error":{"details":[{"@type":"x"},{"@type":"RetryInfo","retryDelay":"2s"}]}}"#;
        assert_eq!(hint("x", "", detail), Some(2_000));
        assert_eq!(hint("x", "", "Your quota will reset after 12h34m16s."), Some(45_256_000));
        assert_eq!(hint("x", "", "Please try again in 1.5s."), Some(1_500));
        assert_eq!(hint("x", "", "Retry after 20 seconds"), Some(20_000));
        assert_eq!(hint("x", "", "try again in 6m0s"), Some(360_000));
        assert_eq!(hint("x", "", "try again in 250ms"), Some(250));
    }

    #[test]
    fn nonsense_is_no_hint() {
        for value in ["banana", "-1", "0", "nan", "inf", "1e300", "", "99999999999", "Sun, 09 Sep 2001 01:46:39 GMT"] {
            assert_eq!(hint("retry-after", value, ""), None, "{value}");
        }
        for body in ["try again in a while", "retry in 5 apples", r#"{"retryDelay":"soon"}"#, "reset after "] {
            assert_eq!(hint("x", "", body), None, "{body}");
        }
    }

    #[test]
    fn a_header_that_makes_no_sense_does_not_hide_the_body() {
        assert_eq!(hint("retry-after", "banana", "try again in 3s"), Some(3_000));
    }
}
