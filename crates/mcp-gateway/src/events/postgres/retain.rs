//! Removing what is too much.

use std::time::{Duration, Instant};

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Transaction};
use upstream::time::before;

use crate::events::{Failure, Record, Retention, Timestamp};

/// Rows removed at once.
const CHUNK: i64 = 10_000;

/// How long reckoned numbers are good for: others write too.
const RECOUNT: Duration = Duration::from_secs(60);

/// What a row takes beside its own data: its header and its places in five indexes.
const OVERHEAD: u64 = 220;

/// How much there is, as counted and then reckoned.
pub(super) struct Reckoned {
    rows: u64,
    /// An estimate: what the files take depends on when they are cleaned up.
    bytes: u64,
    at: Instant,
}

impl Reckoned {
    pub(super) fn add(&mut self, records: &[Record]) {
        let size = |record: &Record| OVERHEAD + record.metadata.len() as u64;
        self.rows += records.len() as u64;
        self.bytes += records.iter().map(size).sum::<u64>();
    }

    async fn count(client: &Transaction<'_>) -> Result<Self, Failure> {
        let count =
            "select count(*), coalesce(sum(pg_column_size(e.*)), 0)::bigint from mcp_events e";
        let counted = client.query_typed(count, &[]).await?;
        let number = |column| match counted.first() {
            Some(row) => row.try_get::<_, i64>(column).map(i64::unsigned_abs),
            None => Ok(0),
        };
        let rows = number(0)?;
        Ok(Self {
            rows,
            bytes: number(1)? + rows * OVERHEAD,
            at: Instant::now(),
        })
    }

    /// How many of the oldest are too many or too large.
    fn excess(&self, retention: &Retention) -> u64 {
        let too_many = self.rows.saturating_sub(retention.rows);
        let too_large = match self.bytes.saturating_sub(retention.bytes) {
            0 => 0,
            excess => 1 + self.rows.saturating_mul(excess) / self.bytes.max(1),
        };
        too_many.max(too_large.min(self.rows))
    }
}

pub(super) async fn remove_excess(
    client: &mut Client,
    reckoned: &mut Option<Reckoned>,
    retention: &Retention,
    now: Timestamp,
) -> Result<bool, Failure> {
    let known = reckoned
        .as_ref()
        .filter(|known| known.at.elapsed() < RECOUNT);
    let quiet = known.is_some_and(|known| known.excess(retention) == 0);
    let work = client.transaction().await?;
    // One gateway at a time: two that count the same would remove twice as much.
    let lock = "select pg_try_advisory_xact_lock(7881696731013112436)";
    let locked = work.query_typed(lock, &[]).await?;
    if !locked
        .first()
        .is_some_and(|row| row.try_get(0).unwrap_or(false))
    {
        return Ok(false);
    }
    let expire = format!(
        "delete from mcp_events where id in
            (select id from mcp_events where timestamp < $1 order by timestamp, id limit {CHUNK})"
    );
    let oldest_kept = before(now, retention.age).as_microsecond();
    let mut removed = work
        .execute_typed(&expire, &[(&oldest_kept, Type::INT8)])
        .await?;
    if !quiet || removed > 0 {
        let counted = Reckoned::count(&work).await?;
        let excess = i64::try_from(counted.excess(retention)).unwrap_or(CHUNK);
        if excess > 0 {
            let limit = excess.min(CHUNK);
            let oldest = format!(
                "delete from mcp_events where id in
                    (select id from mcp_events order by timestamp, id limit {limit})"
            );
            removed += work.execute_typed(&oldest, &[]).await?;
        }
        let left = Reckoned::count(&work).await?;
        *reckoned = Some(left);
    }
    work.commit().await?;
    let more = reckoned
        .as_ref()
        .is_some_and(|left| left.excess(retention) > 0);
    Ok(removed > 0 && (more || removed >= CHUNK.unsigned_abs()))
}
