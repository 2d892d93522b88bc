//! Tasks of replicas that have ended. One that another process can go on with is taken when its client asks for it, since
//! only then its backend can be called in the client's name; all others are lost, and every replica looks for them with each
//! beat. Replicas with another key have other clients, and leave them alone.

use mcp_core::server::{ReplicaId, TaskOwner};
use tokio::sync::oneshot;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use super::SharedTable;
use super::members::{Adoption, Beat};
use crate::events::{PostgresConnection, StoreError};

/// The row of the owner is locked, so that it writes no beat meanwhile. If it is only paused, its next beat comes after
/// this statement, and the tasks that it reads with that are no longer its own.
const OWNER: &str = "
    with owner as materialized (
        select (extract(epoch from beat) * 1000000)::bigint as beat from mcp_replicas where id = $1 for update
    )
    update mcp_tasks set replica = $2, moved = now(), is_lost = not can_move
        where not has_ended and not is_lost and (key is null or key = $4)
            and not exists (select from owner where beat is distinct from $3)
";
const ONE: &str = " and owner = $5 and id = $6 and (replica = $1 or replica is null)";
const LOST: &str = " and replica = $1 and not can_move";
/// The replicas with tasks that end with them.
const OWNERS: &str = "
    select distinct replica from mcp_tasks
        where not has_ended and not is_lost and not can_move and replica <> $1 and (key is null or key = $2)
";
/// Longer than a process pauses.
const MOVED: &str =
    "select id, replica from mcp_tasks where moved > now() - interval '1 hour' limit 10000";

/// A task that is to be taken.
pub(super) struct AdoptedTask {
    pub(super) owner: TaskOwner,
    pub(super) id: String,
    pub(super) from: ReplicaId,
    /// The last beat of that replica; `None` if it has none.
    pub(super) beat: Option<Beat>,
    pub(super) answer: oneshot::Sender<Result<(), StoreError>>,
}

/// The rows about tasks that a beat reads.
pub(super) struct TaskRows {
    owners: Vec<Row>,
    moved: Vec<Row>,
}

/// Returns the condition under which the tasks of a replica may be taken; `None` if never.
pub(super) fn condition(adoption: Adoption) -> Option<Option<Beat>> {
    match adoption {
        Adoption::Never => None,
        Adoption::IfBeat(beat) => Some(Some(beat)),
        Adoption::IfNoRow => Some(None),
    }
}

fn integer(id: &i64) -> (&(dyn ToSql + Sync), Type) {
    (id, Type::INT8)
}

impl AdoptedTask {
    /// Takes it, if its owner has ended.
    pub(super) fn take(
        &self,
        shared: &SharedTable,
        connection: &PostgresConnection,
    ) -> Result<(), StoreError> {
        let key = shared.key();
        let [from, own] = [self.from, shared.own].map(|id| i64::from(id.bits()));
        let owner = &self.owner[..];
        let values: [(&(dyn ToSql + Sync), Type); 6] = [
            integer(&from),
            integer(&own),
            (&self.beat, Type::INT8),
            (&key, Type::TEXT),
            (&owner, Type::BYTEA),
            (&self.id, Type::TEXT),
        ];
        let client = &connection.client;
        connection.within(async {
            let taking = format!("{OWNER}{ONE}");
            client.execute_typed(&taking, &values).await?;
            Ok(())
        })
    }
}

/// Reads which tasks have another owner than before, and who has tasks that end with it.
pub(super) async fn read(
    client: &Client,
    shared: &SharedTable,
) -> Result<TaskRows, tokio_postgres::Error> {
    let (own, key) = (i64::from(shared.own.bits()), shared.key());
    let own = [integer(&own), (&key, Type::TEXT)];
    let (owners, moved) = tokio::try_join!(
        client.query_typed(OWNERS, &own),
        client.query_typed(MOVED, &[])
    )?;
    Ok(TaskRows { owners, moved })
}

impl TaskRows {
    /// Remembers the tasks that have another owner than before.
    pub(super) fn set_moved(&self, shared: &SharedTable) -> Result<(), StoreError> {
        let moved = self.moved.iter().map(|row| {
            let (id, replica): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
            Ok((id, replica_id(replica)))
        });
        let moved = moved.collect::<Result<Vec<_>, StoreError>>()?;
        shared.set_moved(moved);
        Ok(())
    }

    /// Marks the tasks as lost that have ended with their replicas.
    pub(super) fn mark_lost(
        &self,
        shared: &SharedTable,
        connection: &PostgresConnection,
    ) -> Result<(), StoreError> {
        for row in &self.owners {
            let owner: i64 = row.try_get(0)?;
            let adoption = shared.peers.read().adoption(replica_id(owner));
            let Some(beat) = condition(adoption) else {
                continue;
            };
            let (own, key) = (i64::from(shared.own.bits()), shared.key());
            let values: [(&(dyn ToSql + Sync), Type); 4] = [
                integer(&owner),
                integer(&own),
                (&beat, Type::INT8),
                (&key, Type::TEXT),
            ];
            let client = &connection.client;
            let lost = connection.within(async {
                let losing = format!("{OWNER}{LOST}");
                Ok(client.execute_typed(&losing, &values).await?)
            })?;
            if lost > 0 {
                tracing::warn!(lost, "tasks have ended with their replica");
            }
        }
        Ok(())
    }
}

fn replica_id(bits: i64) -> ReplicaId {
    ReplicaId::new(u32::try_from(bits).unwrap_or_default())
}
