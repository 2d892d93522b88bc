//! Durations as people write them.

use std::time::Duration;

/// Parses a duration with its units: `500ms`, `90s`, `5m`, `1h30m`, `7d`, `2w`, `1y`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (mut rest, mut total) = (text, 0_u64);
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (count, tail) = rest.split_at(digits);
        let letters = tail.bytes().take_while(u8::is_ascii_lowercase).count();
        let (unit, tail) = tail.split_at(letters);
        let millis = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 7 * 86_400_000,
            "y" => 365 * 86_400_000,
            _ => return None,
        };
        let millis = count.parse::<u64>().ok()?.checked_mul(millis)?;
        total = total.checked_add(millis)?;
        if tail.is_empty() {
            return Some(Duration::from_millis(total));
        }
        rest = tail;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        for (text, millis) in [
            ("500ms", 500),
            ("0s", 0),
            ("30s", 30_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
            ("2w", 1_209_600_000),
            ("1y", 31_536_000_000),
            ("1h30m", 5_400_000),
        ] {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)));
        }
        let (large_count, large_product) = ("99999999999999999999s", "9999999999999999999d");
        for text in [
            "", "5", "s", "-1s", "+1s", "1.5s", "5 s", "5S", "äm", "１h", "1h30", "1h m",
        ]
        .into_iter()
        .chain([large_count, large_product])
        {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
