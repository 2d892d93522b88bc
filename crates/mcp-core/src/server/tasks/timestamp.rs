//! Points in time as ISO 8601 has them.

use std::time::Duration;

const DAY: u64 = 86_400;

/// `since_1970` in UTC, to the millisecond: `2026-07-28T09:30:00.000Z`.
pub(super) fn timestamp(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs();
    let (year, month, day) = date(seconds / DAY);
    let (hour, minute, second) = (seconds % DAY / 3600, seconds % 3600 / 60, seconds % 60);
    let millis = since_1970.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// The Gregorian date that many days after 1970-01-01. Counted from 0000-03-01, so that the leap
/// day is the last of its year.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(seconds: u64, expected: &str) {
        let found = timestamp(Duration::from_millis(seconds * 1000 + 7));
        assert_eq!(found, format!("{expected}.007Z"));
    }

    #[test]
    fn leap_days_and_the_ends_of_years_are_right() {
        check(0, "1970-01-01T00:00:00");
        check(951_782_399, "2000-02-28T23:59:59");
        check(951_782_400, "2000-02-29T00:00:00");
        check(951_868_800, "2000-03-01T00:00:00");
        check(1_735_689_599, "2024-12-31T23:59:59");
        check(1_785_231_000, "2026-07-28T09:30:00");
        check(4_107_542_400, "2100-03-01T00:00:00");
    }
}
