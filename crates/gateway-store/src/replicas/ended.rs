//! The sessions that have ended, at any replica.

use std::collections::{HashSet, VecDeque};

use tokio_postgres::Row;

use crate::events::StoreError;

/// Ended sessions in memory. Fewer end in the seven days that a session is valid.
const MAX_SESSIONS: usize = 1_000_000;

/// The sessions that ended last. The oldest are forgotten first.
#[derive(Default)]
pub(super) struct EndedSessions {
    sessions: HashSet<u128>,
    /// The same, oldest first.
    order: VecDeque<u128>,
}

impl EndedSessions {
    pub(super) fn insert(&mut self, session: u128) {
        self.insert_within(session, MAX_SESSIONS);
    }

    /// Adds those of a query, oldest first.
    pub(super) fn add(&mut self, rows: &[Row]) -> Result<(), StoreError> {
        for row in rows {
            handle(row)?
                .into_iter()
                .for_each(|handle| self.insert(handle));
        }
        Ok(())
    }

    pub(super) fn contains(&self, session: u128) -> bool {
        self.sessions.contains(&session)
    }

    fn insert_within(&mut self, session: u128, max: usize) {
        if !self.sessions.insert(session) {
            return;
        }
        self.order.push_back(session);
        if self.order.len() > max
            && let Some(oldest) = self.order.pop_front()
        {
            self.sessions.remove(&oldest);
        }
    }
}

/// Returns the handles in the rows of a query.
pub(super) fn handles(rows: &[Row]) -> Result<HashSet<u128>, StoreError> {
    let handles = rows.iter().map(handle);
    handles.filter_map(Result::transpose).collect()
}

fn handle(row: &Row) -> Result<Option<u128>, StoreError> {
    let bytes: &[u8] = row.try_get(0)?;
    Ok(bytes.try_into().ok().map(u128::from_be_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_oldest_sessions_are_forgotten() {
        let mut ended = EndedSessions::default();
        for session in [1, 2, 2, 3, 1, 4] {
            ended.insert_within(session, 3);
        }
        let found = (1..=4).filter(|session| ended.contains(*session));
        assert_eq!(found.collect::<Vec<_>>(), [2, 3, 4]);
        assert_eq!(ended.order.len(), ended.sessions.len());
    }
}
