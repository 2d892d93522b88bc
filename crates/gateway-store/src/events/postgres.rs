//! An event store in PostgreSQL, which several gateways can share.
//!
//! Blocks on a small runtime of its own, so that it has the same interface as SQLite.

mod connection;
mod find;
mod hosts;
mod retain;
mod schema;
mod tls;

use mcp_serve::process_id;
use tokio_postgres::types::{ToSql, Type};
use upstream::time::Timestamp;

pub(super) use self::connection::is_address;
pub(crate) use self::connection::{
    Notifications, PostgresConnection, connect_to_postgres, in_time,
};
use self::retain::TableSize;
use super::record::Record;
use super::store::{Query, Retention, Store, StoreError, StoreFault};

pub(super) struct Postgres {
    connection: PostgresConnection,
    size: Option<TableSize>,
}

impl Postgres {
    pub(super) fn new(connection: PostgresConnection) -> Self {
        let size = None;
        Self { connection, size }
    }
}

impl Store for Postgres {
    fn append(&mut self, records: &[Record]) -> Result<(), StoreError> {
        fn each<'a, T>(records: &'a [Record], column: impl Fn(&'a Record) -> T) -> Vec<T> {
            records.iter().map(column).collect()
        }
        let timestamps = each(records, Record::micros);
        let traces = each(records, |record| record.trace_id.to_bytes().to_vec());
        let types = each(records, |record| &*record.event_type);
        let statuses = each(records, |record| record.status.number());
        let sources = each(records, |record| &*record.source);
        let metadata = each(records, |record| record.metadata.as_str());
        let principals = each(records, |record| record.principal.as_deref());
        let replica = format!("{:08x}", process_id());
        let client = &self.connection.client;
        self.connection.within(async {
            let columns: [(&(dyn ToSql + Sync), Type); 8] = [
                (&timestamps, Type::INT8_ARRAY),
                (&traces, Type::BYTEA_ARRAY),
                (&types, Type::TEXT_ARRAY),
                (&statuses, Type::INT2_ARRAY),
                (&sources, Type::TEXT_ARRAY),
                (&metadata, Type::TEXT_ARRAY),
                (&principals, Type::TEXT_ARRAY),
                (&replica, Type::TEXT),
            ];
            client.execute_typed(schema::INSERT, &columns).await?;
            Ok(())
        })?;
        if let Some(size) = &mut self.size {
            size.add(records);
        }
        Ok(())
    }

    fn find(&mut self, query: &Query) -> Result<Vec<Record>, StoreError> {
        self.connection
            .within(find::find(&self.connection.client, query))
    }

    fn read(
        &mut self,
        after: i64,
        since: i64,
        limit: usize,
    ) -> Result<Vec<(i64, Record)>, StoreError> {
        self.connection
            .within(find::read(&self.connection.client, after, since, limit))
    }

    fn clock(&mut self) -> Result<Option<Timestamp>, StoreError> {
        self.connection
            .within(retain::clock(&self.connection.client))
    }

    fn retain(&mut self, retention: &Retention, now: Timestamp) -> Result<bool, StoreError> {
        let PostgresConnection {
            client, runtime, ..
        } = &mut self.connection;
        let removing = retain::remove_excess(client, &mut self.size, retention, now);
        PostgresConnection::block_on(runtime, removing)
    }
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(database) = error.as_db_error() else {
            let cause = std::error::Error::source(&error);
            let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
            return Self::unavailable(format!("{error}{cause}"));
        };
        // Classes of SQLSTATE: data exceptions (22) and violated constraints (23).
        let fault = match database.code().code().get(..2) {
            Some("22" | "23") => StoreFault::Rejected,
            _ => StoreFault::Unavailable,
        };
        Self {
            fault,
            reason: database.message().to_owned(),
        }
    }
}

#[cfg(test)]
impl Postgres {
    pub(super) fn open(address: &str) -> Result<Self, StoreError> {
        PostgresConnection::open(address).map(Self::new)
    }

    /// Runs any SQL.
    pub(super) fn run(&mut self, sql: &str) {
        let client = &self.connection.client;
        let done = self
            .connection
            .within(async { Ok(client.batch_execute(sql).await?) });
        done.unwrap();
    }

    /// Creates an empty schema and uses it.
    pub(super) fn enter(&mut self, schema: &str) {
        self.run(&format!(
            "drop schema if exists {schema} cascade; create schema {schema}; set search_path to {schema}"
        ));
        self.run(schema::TABLE);
    }
}
