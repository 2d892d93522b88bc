//! The tables of the replicas in PostgreSQL. A new version of the gateway brings new steps; the first replica that
//! starts makes them, the others wait for it.

use tokio_postgres::Client;

use crate::events::StoreError;

/// The steps from each version to the next. Replicas of the version before must go on with the tables of the next one:
/// while replicas are replaced one by one, both run.
const STEPS: [&str; 8] = [
    "
    create table mcp_replicas (
        id bigint primary key,
        address text,
        version text not null,
        key text not null,
        started timestamptz not null default now(),
        beat timestamptz not null default now()
    );
    create table mcp_tasks (
        owner bytea,
        id text,
        task text not null,
        created timestamptz not null default now(),
        expires timestamptz not null,
        primary key (owner, id)
    );
    create index mcp_tasks_by_expiry on mcp_tasks (expires);
    create table mcp_rates (
        client text,
        replica bigint,
        demand double precision not null,
        beat timestamptz not null default now(),
        primary key (client, replica)
    );
    create table mcp_ended_sessions (
        session bytea primary key,
        ended timestamptz not null default now()
    );
    create index mcp_ended_sessions_by_time on mcp_ended_sessions (ended);
",
    "
    alter table mcp_tasks add column replica bigint;
    alter table mcp_tasks add column has_ended boolean not null default false;
    alter table mcp_tasks add column can_move boolean not null default false;
    alter table mcp_tasks add column moved timestamptz;
    alter table mcp_tasks add column is_lost boolean not null default false;
    create index mcp_tasks_that_run on mcp_tasks (replica) where not has_ended and not is_lost;
    create index mcp_tasks_that_moved on mcp_tasks (moved) where moved is not null;
",
    "alter table mcp_replicas add column signature text not null default ''",
    super::reports::TABLE,
    super::placements::TABLE,
    super::news::TRIGGERS,
    "alter table mcp_tasks add column key text",
    super::placements::KEEP_LISTS,
];

/// The table with the version, under a lock that replicas which start together wait for.
const VERSION: &str = "
    select pg_advisory_xact_lock(7881696731013112437);
    create table if not exists mcp_replica_schema (
        id integer primary key check (id = 1),
        version bigint not null
    );
    insert into mcp_replica_schema (id, version) values (1, 0) on conflict do nothing;
";

/// Creates or changes the tables.
///
/// # Errors
/// When they are of a newer gateway, or cannot be changed.
pub(super) async fn migrate(client: &mut Client) -> Result<(), StoreError> {
    let known = STEPS.len();
    let transaction = client.transaction().await?;
    transaction.batch_execute(VERSION).await?;
    let version = "select version from mcp_replica_schema";
    let rows = transaction.query_typed(version, &[]).await?;
    let version: Option<i64> = rows.first().map(|row| row.try_get(0)).transpose()?;
    let version = version.unwrap_or_default();
    let done = usize::try_from(version).unwrap_or(usize::MAX);
    let Some(missing) = STEPS.get(done..) else {
        return Err(StoreError::unavailable(format!(
            "the tables of the replicas have version {version}, of a newer gateway; this one knows {known}"
        )));
    };
    for step in missing {
        transaction.batch_execute(step).await?;
    }
    if !missing.is_empty() {
        let changed = format!("update mcp_replica_schema set version = {known}");
        transaction.batch_execute(&changed).await?;
    }
    transaction.commit().await?;
    Ok(())
}
