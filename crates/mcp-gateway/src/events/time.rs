//! Points in time, as events carry them and as people ask for them.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcp_core::date::civil_date;

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

/// A point in time: microseconds since 1970-01-01 UTC. Shown in ISO 8601.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Now, by the clock of the machine.
    pub fn now() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let micros = now.unwrap_or_default().as_micros();
        Self(i64::try_from(micros).unwrap_or(i64::MAX))
    }

    /// So long before this one.
    pub fn before(self, span: Duration) -> Self {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(micros))
    }

    /// What `since` means: `90s`, `5m`, `1h`, `7d`, `2w` or `1y` before `now`, or a date or time in
    /// ISO 8601, in UTC unless it says otherwise. `None` for anything else.
    pub fn since(text: &str, now: Self) -> Option<Self> {
        let text = text.trim();
        relative(text).map_or_else(|| iso(text), |span| Some(Self(now.0.saturating_sub(span))))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_date(self.0.div_euclid(DAY));
        let of_day = self.0.rem_euclid(DAY);
        let (seconds, micros) = (of_day / SECOND, of_day % SECOND);
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}+00:00"
        )
    }
}

fn relative(text: &str) -> Option<i64> {
    let (count, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let unit = match unit {
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3_600 * SECOND,
        "d" => DAY,
        "w" => 7 * DAY,
        "y" => 365 * DAY,
        _ => return None,
    };
    digits(count, 1..=9)?.checked_mul(unit)
}

/// `YYYY-MM-DD`, then perhaps `T` or a space and `hh:mm[:ss[.fraction]]`, then perhaps `Z` or an
/// offset.
fn iso(text: &str) -> Option<Timestamp> {
    let (date, time) = text.split_at_checked(10)?;
    let days = match date.split('-').collect::<Vec<_>>()[..] {
        [year, month, day] => {
            let (year, month, day) = (
                digits(year, 4..=4)?,
                digits(month, 2..=2)?,
                digits(day, 2..=2)?,
            );
            let days = days(year, month, day);
            // A day that the month does not have would come back as another one.
            (civil_date(days) == (year, month, day)).then_some(days)?
        }
        _ => return None,
    };
    let Some(time) = time.strip_prefix(['T', 't', ' ']) else {
        return time.is_empty().then_some(Timestamp(days * DAY));
    };
    let (time, offset) = match time.find(['Z', 'z', '+', '-']) {
        Some(at) => (&time[..at], offset(&time[at..])?),
        None => (time, 0),
    };
    Some(Timestamp(days * DAY + clock(time)? - offset))
}

/// `hh:mm[:ss[.fraction]]` in microseconds.
fn clock(text: &str) -> Option<i64> {
    let (time, fraction) = text.split_once('.').unwrap_or((text, ""));
    let (hour, minute, second) = match time.split(':').collect::<Vec<_>>()[..] {
        [hour, minute] if fraction.is_empty() => (hour, minute, "00"),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    let within = |text, limit| digits(text, 2..=2).filter(|&number| number < limit);
    let seconds = within(hour, 24)? * 3_600 + within(minute, 60)? * 60 + within(second, 61)?;
    let micros = match fraction.len() {
        0 => (!text.ends_with('.')).then_some(0)?,
        _ if !fraction.bytes().all(|byte| byte.is_ascii_digit()) => return None,
        _ => format!("{fraction:0<6}")[..6].parse().ok()?,
    };
    Some(seconds * SECOND + micros)
}

/// `Z`, `+hh:mm`, `+hhmm` or `+hh` in microseconds.
fn offset(text: &str) -> Option<i64> {
    if text.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (sign, text) = text.split_at_checked(1)?;
    let (hours, minutes) = match text.len() {
        2 => (text, "00"),
        4 => text.split_at_checked(2)?,
        5 => text.split_once(':')?,
        _ => return None,
    };
    let within = |text, limit| digits(text, 2..=2).filter(|&number| number < limit);
    let minutes = within(hours, 24)? * 60 + within(minutes, 60)?;
    Some(if sign == "-" { -minutes } else { minutes } * 60 * SECOND)
}

fn digits(text: &str, len: std::ops::RangeInclusive<usize>) -> Option<i64> {
    let all = len.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| all)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar, counted like [`civil_date`] does.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let from_march = (month + 9) % 12;
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_shown_with_microseconds_and_read_again() {
        let time = Timestamp(1_761_057_130_123_456);
        assert_eq!(time.to_string(), "2025-10-21T14:32:10.123456+00:00");
        for micros in [0, time.0, -1, 951_782_400_000_000, 4_102_444_799_999_999] {
            let time = Timestamp(micros);
            assert_eq!(
                Timestamp::since(&time.to_string(), Timestamp(0)),
                Some(time)
            );
        }
    }

    #[test]
    fn people_say_it_in_many_ways() {
        let now = Timestamp(1_761_057_130_123_456);
        let hour = 3_600 * SECOND;
        for (text, expected) in [
            ("1h", now.0 - hour),
            ("24h", now.0 - DAY),
            ("7d", now.0 - 7 * DAY),
            ("30d", now.0 - 30 * DAY),
            ("1y", now.0 - 365 * DAY),
            (" 90s ", now.0 - 90 * SECOND),
            ("1970-01-02", DAY),
            ("1970-01-01T01:00Z", hour),
            ("1970-01-01T01:00:00.5Z", hour + SECOND / 2),
            ("1970-01-01t01:00:00+01:00", 0),
            ("1970-01-01 01:00:00-0130", hour * 5 / 2),
            ("1970-01-01T01:00:00.1234567+01", 123_456),
            ("2000-02-29", 951_782_400_000_000),
        ] {
            assert_eq!(
                Timestamp::since(text, now),
                Some(Timestamp(expected)),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "h",
            "1",
            "-1h",
            "1H",
            "1.5h",
            "9999999999y",
            "yesterday",
            "2025-02-29",
            "2025-13-01",
            "2025-1-1",
            "2025-10-21T",
            "2025-10-21T25:00",
            "2025-10-21T10:00:00.",
            "2025-10-21T10:00:00+25:00",
            "2025-10-21T10:00+",
            "2025-10-21X10:00",
            "ääääääääää",
            "１h",
        ] {
            assert_eq!(Timestamp::since(text, Timestamp(0)), None, "{text}");
        }
    }
}
