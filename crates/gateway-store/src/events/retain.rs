//! Removes old events: those beyond the limit of age, and the oldest when there are too many. Of these go first the ones
//! of the principals with the most, so that no principal can push out what others have done.

use std::time::Duration;

use upstream::time::{Timestamp, before};

use super::table::{Usage, add_usage};
use crate::database::{Connection, StoreError, Value};

/// Limit for the rows of one removal: it takes about 20 ms, during which new events wait.
const MAX_REMOVED_ROWS: u64 = 2_000;

/// Limit for the pages that are given back to the disk at once.
const MAX_FREED_PAGES: u64 = 500;

/// Limit for the write-ahead log, which is a file of its own.
const MAX_WAL_BYTES: u64 = 8 << 20;

/// The limits of the event log. Beyond any of them the oldest events are removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The age of the oldest event.
    pub age: Duration,
    /// The number of events.
    pub rows: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            age: Duration::from_secs(30 * 86_400),
            rows: 1_000_000,
            bytes: 512 << 20,
        }
    }
}

/// Returns the number of rows to remove from `rows` rows of `bytes` bytes. Estimated by the average size of a row; the
/// next round corrects it.
fn excess(retention: &Retention, rows: u64, bytes: u64) -> u64 {
    let too_many = rows.saturating_sub(retention.rows);
    let too_large = match bytes.saturating_sub(retention.bytes) {
        0 => 0,
        excess => 1 + rows.saturating_mul(excess) / bytes.max(1),
    };
    too_many.max(too_large.min(rows))
}

/// Removes some of the oldest events beyond the limits. Returns true if there may be more of them.
pub(crate) fn retain(
    connection: &mut Connection,
    retention: &Retention,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let oldest_kept = before(now, retention.age).as_microsecond();
    // In a file ids are timestamps; see the table.
    let place = match connection.is_shared() {
        true => "timestamp",
        false => "id",
    };
    let is_expired = format!("select {place} from mcp_events where {place} < $1 limit 1");
    let has_expired = !connection
        .query(&is_expired, &[oldest_kept.into()])?
        .is_empty();
    let (rows, mut bytes) = usage(connection)?;
    let (mut file, mut limits) = (0, retention.clone());
    if let Connection::Sqlite(sqlite) = &connection {
        (file, bytes) = sqlite.size()?;
        limits.bytes = limits.bytes.saturating_sub(MAX_WAL_BYTES);
    }
    let excess = excess(&limits, rows, bytes);
    let mut removed = 0;
    if has_expired || excess > 0 {
        connection.in_transaction(false, |connection| {
            if !is_alone(connection)? {
                return Ok(false);
            }
            let expired = [oldest_kept.into()];
            removed += remove(
                connection,
                &format!("{place} < $1"),
                &expired,
                MAX_REMOVED_ROWS,
            )?;
            let excess = excess.saturating_sub(removed).min(MAX_REMOVED_ROWS);
            for (principal, rows) in surplus(&shares(connection)?, excess) {
                let of_principal = [Value::Text(Some(principal))];
                removed += remove(connection, "principal = $1", &of_principal, rows)?;
            }
            Ok(true)
        })?;
    }
    let is_too_large = removed > 0 && bytes > limits.bytes;
    let has_shrunk = file > limits.bytes && shrink(connection)?;
    Ok(removed >= MAX_REMOVED_ROWS || is_too_large || has_shrunk)
}

/// Gives free pages back to the disk. Returns true if the file has shrunk.
fn shrink(connection: &mut Connection) -> Result<bool, StoreError> {
    let Connection::Sqlite(sqlite) = connection else {
        return Ok(false);
    };
    let (before, _) = sqlite.size()?;
    sqlite.free_pages(MAX_FREED_PAGES)?;
    Ok(sqlite.size()?.0 < before)
}

/// Returns false if another gateway removes events at this moment: both would remove as many.
fn is_alone(connection: &mut Connection) -> Result<bool, StoreError> {
    if !connection.is_shared() {
        return Ok(true);
    }
    let lock = "select case when pg_try_advisory_xact_lock(7168882, hashtext(current_schema())) then 1 else 0 end::bigint";
    let locked = connection.query(lock, &[])?;
    Ok(locked.first().is_some_and(|row| row.integer(0) == 1))
}

/// The number of all events, and their bytes.
fn usage(connection: &mut Connection) -> Result<(u64, u64), StoreError> {
    let sum = "select cast(coalesce(sum(events), 0) as bigint), cast(coalesce(sum(bytes), 0) as bigint) from mcp_usage";
    let rows = connection.query(sum, &[])?;
    let number = |at| rows.first().map_or(0, |row| row.integer(at).unsigned_abs());
    Ok((number(0), number(1)))
}

fn shares(connection: &mut Connection) -> Result<Shares, StoreError> {
    let shares = connection.query("select principal, events from mcp_usage", &[])?;
    let shares = shares.iter().map(|row| {
        let principal = row.text(0).unwrap_or_default();
        (principal.into(), row.integer(1).unsigned_abs())
    });
    Ok(shares.collect())
}

/// Removes the oldest events for which `condition` is true, and returns their number.
fn remove(
    connection: &mut Connection,
    condition: &str,
    values: &[Value],
    limit: u64,
) -> Result<u64, StoreError> {
    let order = match connection.is_shared() {
        true => "timestamp, id",
        false => "id",
    };
    let sql = format!(
        "delete from mcp_events where id in
            (select id from mcp_events where {condition} order by {order} limit {limit})
            returning principal, bytes"
    );
    let removed = connection.query(&sql, values)?;
    let mut usage = Usage::new();
    for row in &removed {
        let principal = row.text(0).unwrap_or_default();
        let (events, bytes) = usage.entry(principal.into()).or_default();
        (*events, *bytes) = (*events - 1, *bytes - row.integer(1));
    }
    add_usage(connection, &usage)?;
    connection.execute("delete from mcp_usage where events <= 0", &[Vec::new()])?;
    Ok(removed.len() as u64)
}

/// The number of events of each principal. Events without a principal, such as the gateway's own, are together.
type Shares = Vec<(Box<str>, u64)>;

/// Returns how many of the oldest events of which principals to remove, so that `excess` go: all of them keep at most
/// the same number.
fn surplus(shares: &Shares, excess: u64) -> Shares {
    let beyond = |level: u64| {
        shares
            .iter()
            .map(move |(_, rows)| rows.saturating_sub(level))
    };
    // The highest number of events that all may keep, bit by bit.
    let level = (0..u64::BITS).rev().fold(0, |level, bit| {
        let higher = level | (1 << bit);
        match beyond(higher).sum::<u64>() >= excess {
            true => higher,
            false => level,
        }
    });
    let mut left = excess;
    let mut found = Vec::new();
    for ((principal, _), rows) in shares.iter().zip(beyond(level)) {
        let removed = rows.min(left);
        if removed > 0 {
            found.push((principal.clone(), removed));
            left -= removed;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principals_with_the_most_events_lose_theirs() {
        for (shares, excess, expected) in [
            (vec![("a", 1), ("m", 100)], 10, vec![("m", 10)]),
            (
                vec![("a", 10), ("b", 20), ("m", 22)],
                6,
                vec![("b", 2), ("m", 4)],
            ),
            (vec![("a", 5), ("b", 5)], 4, vec![("a", 2), ("b", 2)]),
            (vec![("a", 5), ("b", 3)], 100, vec![("a", 5), ("b", 3)]),
            (vec![("a", 5)], 0, vec![]),
            (vec![], 5, vec![]),
        ] {
            let of = |shares: Vec<(&str, u64)>| -> Shares {
                let shares = shares.into_iter();
                shares.map(|(name, rows)| (name.into(), rows)).collect()
            };
            let mut found = surplus(&of(shares), excess);
            found.sort();
            assert_eq!(found, of(expected));
        }
        let one: Shares = (0..7).map(|n| (n.to_string().into(), 10)).collect();
        let removed: u64 = surplus(&one, 3).iter().map(|(_, rows)| rows).sum();
        assert_eq!(removed, 3);
    }
}
