//! Which events share a part of the index of traces.

use rusqlite::Connection;

/// Events in a part: few enough that their index stays small, enough that there are few parts.
const EVENTS: u64 = 512;

/// The part to which the next event belongs.
pub(super) struct Part {
    number: i64,
    events: u64,
}

impl Part {
    /// The newest part in the file, with what is in it.
    pub(super) fn last(connection: &Connection) -> rusqlite::Result<Self> {
        let (_, number) = last(connection)?;
        let count = "select count(*) from events where part = ?1";
        let events: i64 = connection.query_row(count, [number], |row| row.get(0))?;
        Ok(Self {
            number,
            events: events.unsigned_abs(),
        })
    }

    /// Somebody else may have written meanwhile, and begun another part.
    pub(super) fn go_on(&mut self, last: i64) {
        if self.number != last {
            *self = Self {
                number: last,
                events: 0,
            };
        }
    }

    /// Takes one place.
    pub(super) fn next(&mut self) -> i64 {
        if self.events >= EVENTS {
            self.number += 1;
            self.events = 0;
        }
        self.events += 1;
        self.number
    }
}

/// Id and part of the newest event.
pub(super) fn last(connection: &Connection) -> rusqlite::Result<(i64, i64)> {
    let last = "select id, part from events order by id desc limit 1";
    let mut last = connection.prepare_cached(last)?;
    let mut rows = last.query([])?;
    match rows.next()? {
        Some(row) => Ok((row.get(0)?, row.get(1)?)),
        None => Ok((0, 0)),
    }
}
