//! Points in time as the caller, the engine and the answer write them.
//!
//! The engine takes and lists unix seconds; callers write `10m` or RFC 3339. Both conversions are a
//! few lines, which is less than a calendar crate.

use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use mcp_core::date::civil_date;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

const DAY: i64 = 86_400;

/// Where a log starts: an age (`90s`, `10m`, `2h`, `7d`), an RFC 3339 time, or unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// Seconds before now.
    Ago(i64),
    /// Unix seconds.
    At(i64),
}

impl Since {
    fn parse(text: &str) -> Option<Self> {
        if let Some(seconds) = unix_seconds(text) {
            return Some(Self::At(seconds));
        }
        let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let value = i64::from(digits(number)?);
        let unit = match &text[number.len()..] {
            "" => return Some(Self::At(value)),
            "s" => 1,
            "m" => 60,
            "h" => 3_600,
            "d" => DAY,
            _ => return None,
        };
        Some(Self::Ago(value * unit))
    }

    /// Unix seconds, with ages counted back from `now`. Never negative.
    pub(crate) fn unix_seconds(self, now: SystemTime) -> i64 {
        let seconds = match self {
            Self::Ago(age) => {
                let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
                i64::try_from(now.as_secs()).unwrap_or(i64::MAX) - age
            }
            Self::At(seconds) => seconds,
        };
        seconds.max(0)
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

/// Unix seconds as `2026-01-31T12:00:00Z`.
pub(crate) fn rfc3339(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = civil_date(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Unix seconds of an RFC 3339 time; a fraction of a second is dropped.
pub(crate) fn unix_seconds(text: &str) -> Option<i64> {
    let number = |from: usize, to: usize| digits(text.get(from..to)?).map(i64::from);
    let mark = |at: usize, marks: &str| text.get(at..=at).filter(|mark| marks.contains(*mark));
    mark(4, "-")?;
    mark(7, "-")?;
    mark(10, "Tt ")?;
    mark(13, ":")?;
    mark(16, ":")?;
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let in_range = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24;
    if !in_range || minute > 59 || second > 60 {
        return None;
    }
    let rest = text.get(19..)?;
    let zone = match rest.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => rest,
    };
    let (year, month_from_march) = (year - i64::from(month <= 2), (month + 9) % 12);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    Some(days * DAY + hour * 3_600 + minute * 60 + second - offset(zone)?)
}

/// Seconds east of UTC of `Z` or `+02:00`.
fn offset(zone: &str) -> Option<i64> {
    let (sign, clock) = match zone.get(..1)? {
        "Z" | "z" => return (zone.len() == 1).then_some(0),
        "+" => (1, &zone[1..]),
        "-" => (-1, &zone[1..]),
        _ => return None,
    };
    let (hours, minutes) = clock.split_once(':')?;
    if hours.len() != 2 || minutes.len() != 2 {
        return None;
    }
    let seconds = digits(hours)? * 3_600 + digits(minutes)? * 60;
    Some(sign * i64::from(seconds))
}

/// A number without a sign, which `u32::from_str` would accept.
fn digits(text: &str) -> Option<u32> {
    let only_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    only_digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn since_is_read_in_its_three_forms() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let at = |text| Since::parse(text).map(|since| since.unix_seconds(now));
        assert_eq!(at("90s"), Some(999_910));
        assert_eq!(at("2h"), Some(992_800));
        assert_eq!(at("1d"), Some(913_600));
        assert_eq!(at("9999d"), Some(0));
        assert_eq!(at("12345"), Some(12_345));
        assert_eq!(at("2026-11-21T07:35:17.420061867Z"), Some(1_795_246_517));
        assert_eq!(at("2026-11-21T09:35:17+02:00"), Some(1_795_246_517));
        assert_eq!(at("1970-01-01T00:00:00Z"), Some(0));
        for wrong in [
            "",
            "m",
            "-5m",
            "+5m",
            "5w",
            "1.5h",
            "now",
            "2026-11-21",
            "5 m",
            "äm",
        ] {
            assert_eq!(at(wrong), None, "{wrong}");
        }
        for wrong in [
            "2026-13-01T00:00:00Z",
            "2026-11-21T07:35:17",
            "2026-11-21T07:35:17Zx",
        ] {
            assert_eq!(at(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_are_written_as_they_are_read() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(1_795_246_517), "2026-11-21T07:35:17Z");
        for seconds in [951_782_399, 951_782_400, 951_868_800, 4_107_542_400, -1] {
            assert_eq!(unix_seconds(&rfc3339(seconds)), Some(seconds));
        }
    }
}
