//! Removing what is too much.

use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension as _};
use upstream::time::before;

use super::{Sqlite, part};
use crate::events::{Failure, Retention, Timestamp};

/// Rows removed at once: some 20 ms, during which new events wait.
const CHUNK: u64 = 2_000;

/// Pages given back at once.
const CHUNK_PAGES: u64 = 500;

/// What the write-ahead log may take beside the file.
const WAL: u64 = 8 << 20;

/// How long a reckoned number of rows is good for.
const RECOUNT: Duration = Duration::from_secs(300);

pub(super) fn count(connection: &Connection) -> rusqlite::Result<u64> {
    number(connection, "select count(*) from events")
}

impl Sqlite {
    pub(super) fn remove_excess(
        &mut self,
        retention: &Retention,
        now: Timestamp,
    ) -> Result<bool, Failure> {
        if self.counted.elapsed() > RECOUNT {
            self.rows = count(&self.connection)?;
            self.counted = Instant::now();
        }
        let size = Size::of(&self.connection)?;
        let limit = retention.bytes.saturating_sub(WAL);
        let too_many = self.rows.saturating_sub(retention.rows);
        // By the average size of a row; the next round corrects.
        let too_large = match size.used.saturating_sub(limit) {
            0 => 0,
            excess => self
                .rows
                .min(1 + self.rows.saturating_mul(excess) / size.used.max(1)),
        };
        let expired = before(now, retention.age);
        let removed = self.remove(too_many.max(too_large).min(CHUNK))? + self.expire(expired)?;
        if removed > 0 {
            part::tidy(&self.connection)?;
        }
        self.rows = self.rows.saturating_sub(removed);
        let shrunk = size.file > limit && self.shrink()?;
        Ok(removed >= CHUNK || (too_large > 0 && removed > 0) || shrunk)
    }

    /// Gives free pages back to the disk; true if there were any.
    fn shrink(&self) -> rusqlite::Result<bool> {
        let before = Size::of(&self.connection)?;
        let pages = format!("pragma incremental_vacuum({CHUNK_PAGES})");
        self.connection.execute_batch(&pages)?;
        Ok(Size::of(&self.connection)?.file < before.file)
    }

    fn remove(&self, oldest: u64) -> rusqlite::Result<u64> {
        let Some(offset) = oldest.checked_sub(1) else {
            return Ok(0);
        };
        let last = "select id from events order by id limit 1 offset ?1";
        let last: Option<i64> = self
            .connection
            .prepare_cached(last)?
            .query_row([offset as i64], |row| row.get(0))
            .optional()?;
        let remove = "delete from events where id <= ?1";
        // Fewer rows than reckoned: the next count tells.
        let Some(last) = last else {
            return Ok(0);
        };
        Ok(self.connection.prepare_cached(remove)?.execute([last])? as u64)
    }

    fn expire(&self, before: Timestamp) -> rusqlite::Result<u64> {
        let expire = "delete from events where id in
            (select id from events where id < ?1 order by id limit ?2)";
        let mut expire = self.connection.prepare_cached(expire)?;
        Ok(expire.execute([before.as_microsecond(), CHUNK as i64])? as u64)
    }
}

/// Bytes.
struct Size {
    file: u64,
    used: u64,
}

impl Size {
    fn of(connection: &Connection) -> rusqlite::Result<Self> {
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
