//! Points in time as ISO 8601 has them.

use std::time::Duration;

use jiff::Timestamp;

/// `since_1970` in UTC, to the millisecond: `2026-07-28T09:30:00.000Z`.
pub(super) fn timestamp(since_1970: Duration) -> String {
    let millis = i64::try_from(since_1970.as_millis()).ok();
    let timestamp = millis.and_then(|millis| Timestamp::from_millisecond(millis).ok());
    format!("{:.3}", timestamp.unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_have_milliseconds() {
        for (millis, expected) in [
            (7, "1970-01-01T00:00:00.007Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_785_231_000_120, "2026-07-28T09:30:00.120Z"),
        ] {
            assert_eq!(timestamp(Duration::from_millis(millis)), expected);
        }
        assert_eq!(timestamp(Duration::MAX), "9999-12-30T22:00:00.999Z");
    }
}
