//! Durations as people write them: `90s`, `5m`, `1h30m`.

/// Reads a duration, in milliseconds; zero is refused, since it would bound nothing.
pub(crate) fn parse_ms(text: &str) -> Result<u64, String> {
    let expected = || "expected a time above zero such as 90s, 5m or 1h30m".to_owned();
    let mut rest = text.trim();
    let mut total: u64 = 0;
    let mut largest_allowed = u64::MAX;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(expected)?;
        let (number, after) = rest.split_at(digits);
        let unit_end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, tail) = after.split_at(unit_end);
        let unit_ms = match unit.trim() {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(expected()),
        };
        if unit_ms >= largest_allowed {
            return Err(expected());
        }
        largest_allowed = unit_ms;
        let number: u64 = number.parse().map_err(|_| expected())?;
        total = number.checked_mul(unit_ms).and_then(|ms| total.checked_add(ms)).ok_or_else(expected)?;
        rest = tail;
    }
    if total == 0 { Err(expected()) } else { Ok(total) }
}

/// A duration for people, to a tenth of a second below a minute.
pub(crate) fn human(ms: u64) -> String {
    match ms {
        0..60_000 => format!("{}.{}s", ms / 1000, ms % 1000 / 100),
        60_000..3_600_000 => format!("{}m{}s", ms / 60_000, ms / 1000 % 60),
        _ => format!("{}h{}m", ms / 3_600_000, ms / 60_000 % 60),
    }
}

/// A duration as [`parse_ms`] reads it.
pub(crate) fn written(ms: u64) -> String {
    let parts = [(ms / 3_600_000, "h"), (ms / 60_000 % 60, "m"), (ms / 1_000 % 60, "s"), (ms % 1_000, "ms")];
    parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, ms) in
            [("90s", 90_000), ("5m", 300_000), ("1h30m", 5_400_000), ("1h2m3s", 3_723_000), ("250ms", 250)]
        {
            assert_eq!(parse_ms(text), Ok(ms), "{text}");
            assert_eq!(parse_ms(&written(ms)), Ok(ms), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "0s", "5", "-5m", "m", "5x", "30m1h", "1m1m", "1.5h", "99999999999999999999h"] {
            assert!(parse_ms(text).is_err(), "{text}");
        }
    }
}
