//! Points in time, as n8n writes them.

use std::time::{SystemTime, UNIX_EPOCH};

use mcp_core::date::civil_date;

/// The second that was `ago` seconds before `now`, as RFC 3339 in UTC.
pub(crate) fn rfc3339(now: SystemTime, ago: u64) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let seconds = seconds.saturating_sub(ago);
    let days = i64::try_from(seconds / 86_400).unwrap_or_default();
    let (year, month, day) = civil_date(days);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}
