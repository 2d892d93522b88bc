//! Points in time as callers give them: a date, or how long ago.

use std::time::SystemTime;

use mcp_core::tool::ToolError;

use crate::time::rfc3339;

/// `90s`, `30m`, `24h`, `7d`, or RFC 3339, as RFC 3339 in UTC.
pub(super) fn parse(text: &str, now: SystemTime) -> Result<String, ToolError> {
    let text = text.trim();
    if let Some(seconds) = ago(text) {
        return Ok(rfc3339(now, seconds));
    }
    let bytes = text.as_bytes();
    let is_date = bytes.len() >= 10
        && bytes.iter().take(10).enumerate().all(|(at, byte)| {
            if at == 4 || at == 7 {
                *byte == b'-'
            } else {
                byte.is_ascii_digit()
            }
        });
    match (is_date, bytes.len()) {
        (true, 10) => Ok(format!("{text}T00:00:00Z")),
        (true, 20..=35) if bytes.get(10) == Some(&b'T') => Ok(text.to_owned()),
        _ => Err(ToolError::invalid_argument(format!(
            "`since` is {text:?}: give how long ago (`30m`, `24h`, `7d`) or a time such as \
             2026-01-31T12:00:00Z."
        ))),
    }
}

fn ago(text: &str) -> Option<u64> {
    let (count, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    count.parse::<u64>().ok()?.checked_mul(seconds)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn times_are_given_in_two_ways() {
        let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let parse = |text| super::parse(text, now);
        assert_eq!(parse("0s").unwrap(), "2023-11-14T22:13:20Z");
        assert_eq!(parse("2h").unwrap(), "2023-11-14T20:13:20Z");
        assert_eq!(parse("7d").unwrap(), "2023-11-07T22:13:20Z");
        assert_eq!(parse("2026-01-31").unwrap(), "2026-01-31T00:00:00Z");
        assert_eq!(
            parse("2026-01-31T12:00:00.5+02:00").unwrap(),
            "2026-01-31T12:00:00.5+02:00"
        );
        for bad in [
            "",
            "yesterday",
            "h",
            "-1h",
            "2026/01/31",
            "2026-01-31 12:00:00Z",
            "é",
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
