//! Placements: which replica runs a backend that runs only once, and the lists of that backend for the others.
//!
//! A placement is a row that one replica has taken. It holds it for a lease after each of its beats: a replica that does
//! not reach the database ends what it runs. Another one takes it from a replica that has left, or later than the end of
//! its lease ([`super::members`]). The row stays with its lists, which all offer until the next one has written its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use mcp_core::server::ReplicaId;
use parking_lot::Mutex;
use tokio_postgres::types::{ToSql, Type};

use super::members::{Adoption, LEASE, Members};
use crate::events::{PostgresConnection, StoreError, StoreFault};

/// Limit for the lists of one backend, in bytes; the others do not offer more.
const MAX_LISTS_BYTES: usize = 8 << 20;

/// Replicas with another key serve other clients: theirs are other backends.
pub(super) const TABLE: &str = "
    create table mcp_placements (
        key text,
        backend text,
        replica bigint not null references mcp_replicas (id) on delete cascade,
        revision bigint not null default 0,
        lists text,
        primary key (key, backend)
    );
";
/// A row stays when its replica leaves.
pub(super) const KEEP_LISTS: &str = "
    alter table mcp_placements drop constraint mcp_placements_replica_fkey;
    alter table mcp_placements add column taken timestamptz not null default now();
";
/// Of backends that no replica has any more.
pub(super) const CLEAN: &str = "
    delete from mcp_placements as placed where taken < now() - interval '1 day'
        and not exists (select from mcp_replicas as holder where holder.id = placed.replica);
";
const READ: &str = "
    select placed.backend, placed.replica, placed.revision, case when known.revision is null then placed.lists end
        from mcp_placements as placed left join unnest($3::text[], $4::bigint[], $5::bigint[])
            as known (backend, replica, revision)
            on known.backend = placed.backend and known.replica = placed.replica and known.revision = placed.revision
        where placed.key = $1 and placed.backend = any($2)
";
/// Only from the replica that was seen there, if it has written no beat since.
const TAKE: &str = "
    insert into mcp_placements (key, backend, replica) values ($1, $2, $3)
        on conflict (key, backend) do update set replica = excluded.replica, taken = now()
        where mcp_placements.replica = $4 and not exists (
            select from mcp_replicas as holder where holder.id = mcp_placements.replica
                and (extract(epoch from holder.beat) * 1000000)::bigint is distinct from $5
        )
";
const WRITE_LISTS: &str = "
    update mcp_placements set lists = $4, revision = revision + 1
        where key = $1 and backend = $2 and replica = $3
";

/// A backend that runs at one replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The replica that runs it.
    pub replica: ReplicaId,
    revision: i64,
    /// Its lists, as that replica has written them.
    pub lists: Option<Arc<str>>,
}

/// The placements as they were read last.
#[derive(Default)]
pub(super) struct Placements {
    /// The backends that this replica runs, or would run.
    wanted: Mutex<Vec<String>>,
    placed: Mutex<BTreeMap<String, Placed>>,
    /// The time before the last beat with which the own placements were read.
    confirmed: Mutex<Option<Instant>>,
    /// The lists of own backends that are to be written.
    unwritten: Mutex<BTreeMap<String, Arc<str>>>,
}

impl Placements {
    pub(super) fn set_wanted(&self, backends: Vec<String>) {
        *self.wanted.lock() = backends;
    }

    pub(super) fn write_lists(&self, backend: &str, lists: String) {
        if lists.len() <= MAX_LISTS_BYTES && !lists.contains('\0') {
            self.unwritten
                .lock()
                .insert(backend.to_owned(), lists.into());
        } else {
            tracing::warn!(backend, "its lists are too long for the other replicas");
        }
    }

    pub(super) fn find(&self, backend: &str) -> Option<Placed> {
        self.placed.lock().get(backend).cloned()
    }

    /// Returns the time until which this replica may run a backend; `None` if another one has it, or none.
    pub(super) fn held_until(&self, backend: &str, own: ReplicaId) -> Option<Instant> {
        let placed = self.placed.lock();
        placed.get(backend).filter(|placed| placed.replica == own)?;
        // While the placements are locked: the time is not that of a later reading.
        let confirmed = *self.confirmed.lock();
        confirmed.map(|confirmed| confirmed + LEASE)
    }

    /// Takes the placements that no replica has, reads all, and writes the lists of the own ones. `sent` is the time before
    /// the last beat was sent.
    pub(super) fn exchange(
        &self,
        connection: &PostgresConnection,
        own: ReplicaId,
        key: &str,
        members: &Members,
        sent: Instant,
    ) -> Result<(), StoreError> {
        let wanted = self.wanted.lock().clone();
        if wanted.is_empty() {
            return Ok(());
        }
        let exchanged = self.try_exchange(connection, own, key, &wanted, members);
        match exchanged {
            // The own row was removed a moment ago; the next beat writes it again.
            Err(error) if error.fault == StoreFault::Rejected => {
                tracing::debug!(reason = error.reason, "no backend is placed");
                Ok(())
            }
            exchanged => {
                exchanged?;
                *self.confirmed.lock() = Some(sent);
                Ok(())
            }
        }
    }

    fn try_exchange(
        &self,
        connection: &PostgresConnection,
        own: ReplicaId,
        key: &str,
        wanted: &Vec<String>,
        members: &Members,
    ) -> Result<(), StoreError> {
        let id = i64::from(own.bits());
        self.read(connection, key, wanted)?;
        let mut is_changed = false;
        for backend in wanted {
            let before = self.find(backend).map(|placed| placed.replica);
            let beat = match before.map(|holder| members.takeover(holder)) {
                _ if before == Some(own) => continue,
                Some(Adoption::Never) => continue,
                Some(Adoption::IfBeat(beat)) => Some(beat),
                Some(Adoption::IfNoRow) | None => None,
            };
            let before = before.map(|holder| i64::from(holder.bits()));
            let values: [(&(dyn ToSql + Sync), Type); 5] = [
                (&key, Type::TEXT),
                (backend, Type::TEXT),
                (&id, Type::INT8),
                (&before, Type::INT8),
                (&beat, Type::INT8),
            ];
            let client = &connection.client;
            let taken =
                connection.within(async { Ok(client.execute_typed(TAKE, &values).await?) })?;
            if taken > 0 {
                tracing::info!(backend, "runs at this replica from now on");
            }
            is_changed = true;
        }
        let unwritten = std::mem::take(&mut *self.unwritten.lock());
        for (backend, lists) in unwritten {
            let lists = &*lists;
            let values: [(&(dyn ToSql + Sync), Type); 4] = [
                (&key, Type::TEXT),
                (&backend, Type::TEXT),
                (&id, Type::INT8),
                (&lists, Type::TEXT),
            ];
            let client = &connection.client;
            connection.within(async { Ok(client.execute_typed(WRITE_LISTS, &values).await?) })?;
        }
        match is_changed {
            true => self.read(connection, key, wanted),
            false => Ok(()),
        }
    }

    fn read(
        &self,
        connection: &PostgresConnection,
        key: &str,
        wanted: &Vec<String>,
    ) -> Result<(), StoreError> {
        let known = self.placed.lock().clone();
        let backends: Vec<&String> = known.keys().collect();
        let replicas: Vec<i64> = known
            .values()
            .map(|one| i64::from(one.replica.bits()))
            .collect();
        let revisions: Vec<i64> = known.values().map(|one| one.revision).collect();
        let values: [(&(dyn ToSql + Sync), Type); 5] = [
            (&key, Type::TEXT),
            (wanted, Type::TEXT_ARRAY),
            (&backends, Type::TEXT_ARRAY),
            (&replicas, Type::INT8_ARRAY),
            (&revisions, Type::INT8_ARRAY),
        ];
        let client = &connection.client;
        let rows = connection.within(async { Ok(client.query_typed(READ, &values).await?) })?;
        let mut placed = BTreeMap::new();
        for row in &rows {
            let backend: String = row.try_get(0)?;
            let replica: i64 = row.try_get(1)?;
            let lists: Option<String> = row.try_get(3)?;
            let before = known.get(&backend).and_then(|before| before.lists.clone());
            let found = Placed {
                replica: ReplicaId::new(u32::try_from(replica).unwrap_or_default()),
                revision: row.try_get(2)?,
                // Those of the replica before, until the new one has written its own.
                lists: lists.map(Arc::from).or(before),
            };
            placed.insert(backend, found);
        }
        *self.placed.lock() = placed;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replicas::ReplicaTable;
    use crate::replicas::tests::{execute, joined, location, until};

    fn place(table: &ReplicaTable) {
        table.place_backends(vec!["b".to_owned()]);
    }

    async fn until_placed(table: &ReplicaTable, id: u32, lists: Option<&str>) {
        let expected = Some((ReplicaId::new(id), lists.map(str::to_owned)));
        let placed = || {
            let placed = table.placed("b")?;
            Some((placed.replica, placed.lists.map(|lists| lists.to_string())))
        };
        until(table, || placed() == expected).await;
    }

    #[tokio::test]
    async fn backend_is_at_one_replica_and_moves_when_that_leaves() {
        let Some(location) = location("replicas_placements").await else {
            return;
        };
        let [first, second] = [joined(&location, 1).await, joined(&location, 2).await];
        place(&first);
        until_placed(&first, 1, None).await;
        place(&second);
        until_placed(&second, 1, None).await;
        first.show_lists("b", "lists".to_owned());
        until_placed(&second, 1, Some("lists")).await;
        // Only the holder's lists count.
        second.show_lists("b", "others".to_owned());
        first.show_lists("b", "newer".to_owned());
        until_placed(&second, 1, Some("newer")).await;
        let close = tokio::task::spawn_blocking(move || first.close());
        close.await.unwrap();
        // Until it has written its own, the lists stay: also for one that starts now.
        until_placed(&second, 2, Some("newer")).await;
        let third = joined(&location, 3).await;
        place(&third);
        until_placed(&third, 2, Some("newer")).await;
        second.show_lists("b", "own".to_owned());
        until_placed(&third, 2, Some("own")).await;
    }

    #[tokio::test]
    async fn placement_is_taken_from_a_silent_replica_only() {
        let Some(location) = location("replicas_silent_placement").await else {
            return;
        };
        // The row of another one, with its beats as long as this test writes them.
        let placed = "
            insert into mcp_replicas (id, address, version, key) values (7, 'http://127.0.0.1:7', '1', 'x');
            insert into mcp_placements (key, backend, replica) values ('0', 'b', 7);
        ";
        let table = joined(&location, 1).await;
        execute(&location, placed).await;
        place(&table);
        for _ in 0..8 {
            execute(
                &location,
                "update mcp_replicas set beat = now() where id = 7",
            )
            .await;
            tokio::time::sleep(crate::replicas::members::GONE_AFTER / 6).await;
            let holder = table.placed("b").map(|placed| placed.replica);
            assert!(holder.is_none_or(|holder| holder == ReplicaId::new(7)));
        }
        let silent = Instant::now();
        until_placed(&table, 1, None).await;
        // Its lease has ended long before, and this replica has one of its own.
        assert!(silent.elapsed() > LEASE);
        assert!(table.held_until("b").is_some_and(|until| until > silent));
    }
}
