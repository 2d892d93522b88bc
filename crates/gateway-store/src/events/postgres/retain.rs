//! Removes old events beyond the limits.

use std::time::{Duration, Instant};

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Transaction};
use upstream::time::{Timestamp, before};

use crate::events::shares::{Shares, surplus};
use crate::events::{Record, Retention, StoreError};

/// Limit for the rows that one statement removes.
const MAX_REMOVED_ROWS: i64 = 10_000;

/// The size is counted again after this time, since other gateways write too.
const RECOUNT_INTERVAL: Duration = Duration::from_secs(60);

/// Estimated bytes of a row in addition to its data: its header and its entries in five indexes.
const ROW_OVERHEAD_BYTES: u64 = 220;

/// The size of the table: counted, and then updated with each write.
pub(super) struct TableSize {
    rows: u64,
    /// An estimate: the size of the files depends on the last vacuum.
    bytes: u64,
    /// The rows of each principal, at the last count.
    shares: Shares,
    counted_at: Instant,
}

impl TableSize {
    pub(super) fn add(&mut self, records: &[Record]) {
        let size = |record: &Record| ROW_OVERHEAD_BYTES + record.metadata.len() as u64;
        self.rows += records.len() as u64;
        self.bytes += records.iter().map(size).sum::<u64>();
    }

    async fn count(client: &Transaction<'_>) -> Result<Self, StoreError> {
        let count = "select principal, count(*), coalesce(sum(pg_column_size(e.*)), 0)::bigint
            from mcp_events e group by principal";
        let (mut rows, mut bytes, mut shares) = (0, 0, Shares::new());
        for counted in client.query_typed(count, &[]).await? {
            let principal: Option<&str> = counted.try_get(0)?;
            let count = counted.try_get::<_, i64>(1)?.unsigned_abs();
            rows += count;
            bytes += counted.try_get::<_, i64>(2)?.unsigned_abs();
            shares.insert(principal.map(Into::into), count);
        }
        Ok(Self {
            rows,
            bytes: bytes + rows * ROW_OVERHEAD_BYTES,
            shares,
            counted_at: Instant::now(),
        })
    }

    /// Notes that so many rows were removed: with them went their part of the bytes.
    fn remove(&mut self, removed: u64) {
        let left = self.rows.saturating_sub(removed);
        self.bytes = self.bytes.saturating_mul(left) / self.rows.max(1);
        self.rows = left;
    }

    /// Returns the number of oldest rows to remove.
    fn excess(&self, retention: &Retention) -> u64 {
        retention.excess(self.rows, self.bytes, retention.bytes)
    }
}

/// Stores the time of a removal.
const SET_CLOCK: &str = "
    insert into mcp_events_clock (id, time) values (1, $1)
    on conflict (id) do update set time = excluded.time
";

/// Returns the time of the last removal; `None` if there was none.
pub(super) async fn clock(client: &Client) -> Result<Option<Timestamp>, StoreError> {
    let rows = client
        .query_typed("select time from mcp_events_clock", &[])
        .await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    Ok(Timestamp::from_microsecond(row.try_get(0)?).ok())
}

/// Removes the oldest events of a principal, or the oldest without one.
async fn remove_oldest(
    work: &Transaction<'_>,
    principal: Option<&str>,
    rows: u64,
) -> Result<u64, StoreError> {
    // An index serves each of these two, and not `is not distinct from`.
    let is_of = match principal {
        Some(_) => "principal = $1",
        None => "principal is null and $1::text is null",
    };
    let oldest = format!(
        "delete from mcp_events where id in
            (select id from mcp_events where {is_of} order by timestamp, id limit {rows})"
    );
    Ok(work
        .execute_typed(&oldest, &[(&principal, Type::TEXT)])
        .await?)
}

pub(super) async fn remove_excess(
    client: &mut Client,
    size: &mut Option<TableSize>,
    retention: &Retention,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let is_small = |known: &TableSize| {
        known.counted_at.elapsed() < RECOUNT_INTERVAL && known.excess(retention) == 0
    };
    let is_known_small = size.as_ref().is_some_and(is_small);
    let work = client.transaction().await?;
    // Only one gateway at a time: two of them would remove twice as much.
    let lock = "select pg_try_advisory_xact_lock(7881696731013112437)";
    let locked = work.query_typed(lock, &[]).await?;
    let mut locked = locked.iter().map(|row| row.try_get(0));
    if !matches!(locked.next(), Some(Ok(true))) {
        return Ok(false);
    }
    let expire = format!(
        "delete from mcp_events where id in
            (select id from mcp_events where timestamp < $1 order by timestamp, id limit {MAX_REMOVED_ROWS})"
    );
    let oldest_kept = before(now, retention.age).as_microsecond();
    let mut removed = work
        .execute_typed(&expire, &[(&oldest_kept, Type::INT8)])
        .await?;
    if !is_known_small || removed > 0 {
        let mut counted = TableSize::count(&work).await?;
        let excess = counted.excess(retention);
        let excess = excess.min(MAX_REMOVED_ROWS.unsigned_abs());
        for (principal, rows) in surplus(&counted.shares, excess) {
            let gone = remove_oldest(&work, principal.as_deref(), rows).await?;
            counted.remove(gone);
            removed += gone;
        }
        *size = Some(counted);
    }
    work.execute_typed(SET_CLOCK, &[(&now.as_microsecond(), Type::INT8)])
        .await?;
    work.commit().await?;
    let more = size.as_ref().is_some_and(|left| left.excess(retention) > 0);
    Ok(removed > 0 && (more || removed >= MAX_REMOVED_ROWS.unsigned_abs()))
}
