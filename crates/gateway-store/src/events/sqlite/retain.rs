//! Removes old events beyond the limits.

use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension as _, params};
use upstream::time::{Timestamp, before};

use super::{Sqlite, trace_index};
use crate::events::shares::{Shares, surplus};
use crate::events::{Retention, StoreError};

/// Limit for the rows of one removal: it takes about 20 ms, during which new events wait.
const MAX_REMOVED_ROWS: u64 = 2_000;

/// Limit for the pages that are given back to the disk at once.
const MAX_FREED_PAGES: u64 = 500;

/// Limit for the write-ahead log, which is a file of its own.
const MAX_WAL_BYTES: u64 = 8 << 20;

/// The time of the last removal. Created when it is needed, since files of earlier versions do not have it.
const CLOCK_TABLE: &str = "
    create table if not exists clock (
        id integer primary key check (id = 1),
        time integer not null
    ) strict;
";

/// The rows are counted again after this time, since other processes may write.
const RECOUNT_INTERVAL: Duration = Duration::from_secs(300);

pub(super) fn count(connection: &Connection) -> rusqlite::Result<u64> {
    number(connection, "select count(*) from events")
}

fn count_shares(connection: &Connection) -> rusqlite::Result<Shares> {
    let shares = "select principal, count(*) from events group by principal";
    let mut shares = connection.prepare_cached(shares)?;
    let rows = shares.query_map([], |row| {
        Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()))
    })?;
    rows.collect()
}

/// Returns the time of the last removal; `None` in a file without one, also of an earlier version.
pub(super) fn clock(connection: &Connection) -> rusqlite::Result<Option<Timestamp>> {
    let exists = "select count(*) from sqlite_schema where name = 'clock'";
    if number(connection, exists)? == 0 {
        return Ok(None);
    }
    let time: Option<i64> = connection
        .query_row("select time from clock", [], |row| row.get(0))
        .optional()?;
    Ok(time.and_then(|time| Timestamp::from_microsecond(time).ok()))
}

/// Stores the time of a removal.
pub(super) fn set_clock(connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    connection.execute_batch(CLOCK_TABLE)?;
    let set = "insert into clock (id, time) values (1, ?1)
        on conflict (id) do update set time = excluded.time";
    let mut set = connection.prepare_cached(set)?;
    set.execute([now.as_microsecond()]).map(drop)
}

impl Sqlite {
    pub(super) fn remove_excess(
        &mut self,
        retention: &Retention,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        if self.counted_at.elapsed() > RECOUNT_INTERVAL {
            self.rows = count(&self.database.connection)?;
            self.shares = None;
            self.counted_at = Instant::now();
        }
        let size = FileSize::new(&self.database.connection)?;
        let limit = retention.bytes.saturating_sub(MAX_WAL_BYTES);
        let excess = retention.excess(self.rows, size.used, limit);
        let expired = before(now, retention.age);
        let removed = self.remove(excess.min(MAX_REMOVED_ROWS))? + self.expire(expired)?;
        if removed > 0 {
            trace_index::remove_unused(&self.database.connection)?;
        }
        self.rows = self.rows.saturating_sub(removed);
        let has_shrunk = size.file > limit && self.shrink()?;
        let is_too_large = size.used > limit && removed > 0;
        Ok(removed >= MAX_REMOVED_ROWS || is_too_large || has_shrunk)
    }

    /// Gives free pages back to the disk. Returns true if the file has shrunk.
    fn shrink(&self) -> rusqlite::Result<bool> {
        let before = FileSize::new(&self.database.connection)?;
        let pages = format!("pragma incremental_vacuum({MAX_FREED_PAGES})");
        self.database.connection.execute_batch(&pages)?;
        Ok(FileSize::new(&self.database.connection)?.file < before.file)
    }

    /// Removes `excess` events: the oldest of the principals with the most.
    fn remove(&mut self, excess: u64) -> rusqlite::Result<u64> {
        if excess == 0 {
            return Ok(0);
        }
        let connection = &self.database.connection;
        let shares = match &mut self.shares {
            Some(shares) => shares,
            None => self.shares.insert(count_shares(connection)?),
        };
        let remove = "delete from events where id in
            (select id from events where principal is ?1 order by id limit ?2)";
        let mut remove = connection.prepare_cached(remove)?;
        let mut all = 0;
        for (principal, rows) in surplus(shares, excess) {
            let removed = remove.execute(params![principal, rows as i64])? as u64;
            all += removed;
            // With fewer rows than expected the number was wrong: other processes remove, too.
            let left = if removed < rows {
                0
            } else {
                shares[&principal] - removed
            };
            match left {
                0 => drop(shares.remove(&principal)),
                left => drop(shares.insert(principal, left)),
            }
        }
        Ok(all)
    }

    fn expire(&mut self, before: Timestamp) -> rusqlite::Result<u64> {
        let expire = "delete from events where id in
            (select id from events where id < ?1 order by id limit ?2) returning principal";
        let mut expire = self.database.connection.prepare_cached(expire)?;
        let limits = [before.as_microsecond(), MAX_REMOVED_ROWS as i64];
        let expired = expire.query_map(limits, |row| row.get::<_, Option<Box<str>>>(0))?;
        let mut removed = 0;
        for principal in expired {
            let principal = principal?;
            removed += 1;
            if let Some(rows) = self
                .shares
                .as_mut()
                .and_then(|shares| shares.get_mut(&principal))
            {
                *rows = rows.saturating_sub(1);
            }
        }
        Ok(removed)
    }
}

/// The size of the database, in bytes.
struct FileSize {
    file: u64,
    used: u64,
}

impl FileSize {
    fn new(connection: &Connection) -> rusqlite::Result<Self> {
        let page = number(connection, "pragma page_size")?;
        let pages = number(connection, "pragma page_count")?;
        let free = number(connection, "pragma freelist_count")?;
        Ok(Self {
            file: page * pages,
            used: page * pages.saturating_sub(free),
        })
    }
}

fn number(connection: &Connection, sql: &str) -> rusqlite::Result<u64> {
    let number = connection
        .prepare_cached(sql)?
        .query_row([], |row| row.get::<_, i64>(0))?;
    Ok(number.unsigned_abs())
}
