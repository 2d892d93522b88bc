//! The time of day, where a promise must outlive this process.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

/// Seconds since a moment as the agent server writes it (`2026-11-21T09:48:26.411985Z`); none where
/// it is written otherwise. Zero where its clock is ahead.
pub(crate) fn seconds_since(moment: &str) -> Option<u64> {
    Some(now().saturating_sub(unix(moment)?))
}

fn unix(moment: &str) -> Option<u64> {
    let number = |from: usize, to: usize| moment.get(from..to)?.parse::<u64>().ok();
    if !moment.ends_with('Z') || moment.as_bytes().get(10) != Some(&b'T') {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Counted from March, so that the leap day is the last of its year.
    let shifted = if month > 2 { year } else { year - 1 };
    let from_march = (month + 9) % 12;
    let days = 365 * shifted + shifted / 4 - shifted / 100
        + shifted / 400
        + (153 * from_march + 2) / 5
        + day
        - 1;
    Some((days.checked_sub(719_468)?) * 86_400 + hour * 3_600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::unix;

    #[test]
    fn moments_are_seconds() {
        assert_eq!(unix("1970-01-01T00:00:00.000000Z"), Some(0));
        assert_eq!(unix("2000-02-29T12:00:00Z"), Some(951_825_600));
        assert_eq!(unix("2026-11-21T09:48:26.411985Z"), Some(1_795_254_506));
        for odd in [
            "",
            "2026-11-21T09:48:26",
            "yesterday",
            "2026-13-01T00:00:00Z",
            "é026-11-21T0Z",
        ] {
            assert_eq!(unix(odd), None, "{odd}");
        }
    }
}
