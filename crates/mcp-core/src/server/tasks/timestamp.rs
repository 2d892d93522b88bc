//! Points in time as ISO 8601 has them.

use std::time::Duration;

use crate::date::civil_date;

const DAY: u64 = 86_400;

/// `since_1970` in UTC, to the millisecond: `2026-07-28T09:30:00.000Z`.
pub(super) fn timestamp(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs();
    let (year, month, day) = civil_date((seconds / DAY).cast_signed());
    let (hour, minute, second) = (seconds % DAY / 3600, seconds % 3600 / 60, seconds % 60);
    let millis = since_1970.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
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
