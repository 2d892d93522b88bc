//! The part of the thread of the database that the other gateways are about.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Known;
use super::tables::{CANCEL, ENDED, Tables};
use crate::database::{Connection, StoreError};

/// Longest time between two attempts to connect, and between two looks at the locks.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of removing what has expired.
const SWEEP_INTERVAL: Duration = Duration::from_secs(600);

/// Holds the lock of this gateway, and hears the others.
pub(crate) struct Follower {
    known: Arc<Known>,
    is_locked: bool,
    /// When it has looked at the others; `None` until then through this connection.
    looked: Option<Instant>,
    swept: Option<Instant>,
}

impl Follower {
    pub(super) fn new(known: Arc<Known>) -> Self {
        Self {
            known,
            is_locked: false,
            looked: None,
            swept: None,
        }
    }

    /// Follows the other gateways; called in short intervals.
    pub(crate) fn follow(&mut self, database: &mut Connection) -> Result<(), StoreError> {
        let known = Arc::clone(&self.known);
        let own = known.own;
        let mut tables = Tables { database, own };
        if !*known.is_connected.borrow() {
            tables.listen()?;
            self.is_locked = tables.lock()?;
            // Notifications of the time without a connection are lost.
            let ended = tables.ended_sessions()?;
            *known.ended_sessions.write() = ended.into_iter().collect();
            known.is_connected.send_replace(true);
        }
        let is_due =
            |last: Option<Instant>, interval| last.is_none_or(|last| last.elapsed() >= interval);
        if is_due(self.looked, LOOK_INTERVAL) {
            if !self.is_locked {
                self.is_locked = tables.lock()?;
            }
            known.others.store(tables.others()?, Ordering::Relaxed);
            self.looked = Some(Instant::now());
        }
        if is_due(self.swept, SWEEP_INTERVAL) {
            tables.sweep()?;
            self.swept = Some(Instant::now());
        }
        for text in tables.database.notifications() {
            self.hear(&text);
        }
        Ok(())
    }

    /// Reads a notification of another gateway. That of a later version means nothing.
    fn hear(&self, text: &str) {
        if let Some(session) = text.strip_prefix(ENDED) {
            let session = u128::from_str_radix(session, 16);
            self.known.ended_sessions.write().extend(session);
        } else if let Some(id) = text.strip_prefix(CANCEL) {
            // An error means that no task runs here.
            let _ = self.known.cancelled.send(id.into());
        }
    }

    /// Notes that the connection has failed.
    pub(crate) fn disconnect(&mut self) {
        self.known.is_connected.send_replace(false);
        self.looked = None;
    }

    /// Gives up the sessions of this gateway, so that the others serve them.
    pub(crate) fn close(&self, database: &mut Connection) -> Result<(), StoreError> {
        let own = self.known.own;
        Tables { database, own }.give_up_sessions()
    }
}
