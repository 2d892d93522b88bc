//! Parses and formats timestamps and durations.

use std::borrow::Cow;
use std::time::Duration;

use jiff::civil::DateTime;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

pub use jiff::Timestamp;
pub use jiff::tz::Offset;
pub use mcp_core::duration::parse_duration;

/// Parses a date or a time in ISO 8601: RFC 3339, and also `2026-01-31` and `2026-01-31 12:00`. In UTC
/// unless it has another offset.
pub fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    // Rejects what jiff accepts beyond that: time zones in brackets, years of six digits.
    if !text.starts_with(|c: char| c.is_ascii_digit()) || text.contains('[') {
        return None;
    }
    text.parse().ok().or_else(|| {
        let civil: DateTime = text.parse().ok()?;
        Offset::UTC.to_timestamp(civil).ok()
    })
}

/// The time `age` before `now`; `Timestamp::MIN` if that is out of range.
pub fn before(now: Timestamp, age: Duration) -> Timestamp {
    now.checked_sub(age).unwrap_or(Timestamp::MIN)
}

/// The time since a service's timestamp; `None` if it cannot be parsed. Zero if the clock of the
/// service is ahead.
pub fn since(moment: &str) -> Option<Duration> {
    let passed = Timestamp::now().duration_since(parse_timestamp(moment)?);
    Some(Duration::try_from(passed).unwrap_or_default())
}

/// Parses the `Date` of a response, such as `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn parse_http_date(text: &str) -> Option<Timestamp> {
    let date = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(date.timestamp())
}

/// Formats Unix seconds as `2026-01-31T12:00:00Z`.
pub fn rfc3339(seconds: i64) -> String {
    match Timestamp::from_second(seconds) {
        Ok(timestamp) => timestamp.to_string(),
        Err(_) => seconds.to_string(),
    }
}

/// A point in time as an argument of a tool: an age (`90s`, `10m`, `2h`, `7d`), an RFC 3339 time, or unix
/// seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// This long before now.
    Ago(Duration),
    /// At this time.
    At(Timestamp),
}

impl Since {
    /// Parses an age, a time or Unix seconds.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(age) = parse_duration(text) {
            return Some(Self::Ago(age));
        }
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let at = match is_number {
            true => Timestamp::from_second(text.parse().ok()?).ok(),
            false => parse_timestamp(text),
        };
        at.map(Self::At)
    }

    /// The timestamp; ages are counted back from `now`.
    pub fn from(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Ago(age) => before(now, age),
            Self::At(at) => at,
        }
    }
}

impl<'de> Deserialize<'de> for Since {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            de::Error::custom(
                "not a time: write an age like `90s`, `10m`, `2h` or `7d`, or a time like \
                 `2026-01-31T12:00:00Z`",
            )
        })
    }
}

impl JsonSchema for Since {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Since".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_parsed_in_many_forms() {
        for (text, millis) in [
            ("1970-01-02", 86_400_000),
            ("1970-01-01T01:00Z", 3_600_000),
            ("1970-01-01T01:00:00.5Z", 3_600_500),
            ("1970-01-01t01:00:00+01:00", 0),
            ("1970-01-01 01:00:00-0130", 9_000_000),
            ("1970-01-01T01:00:00.1239999+01", 123),
            (" 1970-01-01T00:01 ", 60_000),
            ("2000-02-29", 951_782_400_000),
            ("2026-11-21T07:35:17.420061867Z", 1_795_246_517_420),
            ("2026-11-21T09:48:26.411985Z", 1_795_254_506_411),
        ] {
            let read = parse_timestamp(text).map(Timestamp::as_millisecond);
            assert_eq!(read, Some(millis), "{text}");
        }
        let invalid = "now, 2025-02-29, 2025-13-01, 2025-1-1, 2025-10-21T, 2025-10-21T25:00, \
            2025-10-21T10:00:00., 2025-10-21T10:00:00+26:00, 2025-10-21T10:00+, \
            2025-10-21X10:00, 2025-10-21T10:00:00Z[Europe/Berlin], 2026-11-21T07:35:17Zx, \
            +002026-11-21, ääääääääää";
        for text in invalid.split(", ").chain([""]) {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
    }

    #[test]
    fn formatted_timestamps_can_be_parsed() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(1_795_246_517), "2026-11-21T07:35:17Z");
        assert_eq!(rfc3339(i64::MAX), i64::MAX.to_string());
        let micros = Timestamp::from_microsecond(1_761_057_130_123_000).unwrap();
        let with_offset = format!("{:.6}", micros.display_with_offset(Offset::UTC));
        assert_eq!(with_offset, "2025-10-21T14:32:10.123000+00:00");
        for seconds in [951_782_399, 951_868_800, 4_107_542_400, -1] {
            let read = parse_timestamp(&rfc3339(seconds)).map(Timestamp::as_second);
            assert_eq!(read, Some(seconds));
        }
    }

    #[test]
    fn since_is_an_age_a_time_or_unix_seconds() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let at = |text| Since::parse(text).map(|since| since.from(now).as_second());
        assert_eq!(at("90s"), Some(999_910));
        assert_eq!(at("1d"), Some(913_600));
        assert_eq!(at("12345"), Some(12_345));
        assert_eq!(at("2026-11-21T09:35:17+02:00"), Some(1_795_246_517));
        assert_eq!(at("99999999y"), Some(Timestamp::MIN.as_second()));
        for text in ["", "-5m", "5 m", "now", "99999999999999999"] {
            assert_eq!(at(text), None, "{text}");
        }
    }

    #[test]
    fn time_since_a_timestamp_is_never_negative() {
        assert!(since("2020-01-01T00:00:00Z").unwrap() > Duration::from_secs(86_400));
        assert_eq!(since("2999-01-01T00:00:00Z"), Some(Duration::ZERO));
        assert_eq!(since("yesterday"), None);
    }
}
