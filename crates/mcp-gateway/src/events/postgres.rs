//! Events in PostgreSQL: one log of several gateways.
//!
//! The log's thread blocks on a small runtime of its own, so that both stores look alike to it.

mod find;
mod retain;
mod schema;

use std::future::Future;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;
use upstream::time::Timestamp;

use self::retain::Reckoned;
use super::query::Query;
use super::record::Record;
use super::store::{Failure, Fault, Retention, Store};

/// What one conversation with the database may take.
const LIMIT: Duration = Duration::from_secs(4);

/// True for an address that can be used as far as can be seen.
pub(super) fn is_address(text: &str) -> bool {
    text.parse::<Config>().is_ok()
}

pub(super) struct Postgres {
    runtime: Runtime,
    client: Client,
    reckoned: Option<Reckoned>,
}

impl Postgres {
    /// Connects, and makes the table where it is missing.
    pub(super) fn open(address: &str) -> Result<Self, Failure> {
        // The reason might repeat a part of the address.
        let config: Result<Config, _> = address.parse();
        let mut config = config.map_err(|_| Failure::unavailable("the address is not valid"))?;
        config.connect_timeout(LIMIT);
        if config.get_application_name().is_none() {
            config.application_name("mcp-gateway");
        }
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::unavailable(error.to_string()))?;
        let client = within(&runtime, async {
            let (client, connection) = config.connect(tls()?).await?;
            // Ends with the client.
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "the connection of the event log ended");
                }
            });
            client.batch_execute(schema::CONNECTION).await?;
            client.batch_execute(schema::TABLE).await?;
            Ok(client)
        })?;
        Ok(Self {
            runtime,
            client,
            reckoned: None,
        })
    }
}

impl Store for Postgres {
    fn append(&mut self, records: &[Record]) -> Result<(), Failure> {
        fn each<'a, T>(records: &'a [Record], of: impl Fn(&'a Record) -> T) -> Vec<T> {
            records.iter().map(of).collect()
        }
        let timestamps = each(records, Record::micros);
        let traces = each(records, |record| record.trace_id.to_bytes().to_vec());
        let types = each(records, |record| &*record.event_type);
        let statuses = each(records, |record| record.status.number());
        let sources = each(records, |record| &*record.source);
        let metadata = each(records, |record| record.metadata.as_str());
        within(&self.runtime, async {
            let columns: [(&(dyn ToSql + Sync), Type); 6] = [
                (&timestamps, Type::INT8_ARRAY),
                (&traces, Type::BYTEA_ARRAY),
                (&types, Type::TEXT_ARRAY),
                (&statuses, Type::INT2_ARRAY),
                (&sources, Type::TEXT_ARRAY),
                (&metadata, Type::TEXT_ARRAY),
            ];
            self.client.execute_typed(schema::INSERT, &columns).await?;
            Ok(())
        })?;
        if let Some(reckoned) = &mut self.reckoned {
            reckoned.add(records);
        }
        Ok(())
    }

    fn find(&mut self, query: &Query) -> Result<Vec<Record>, Failure> {
        within(&self.runtime, find::find(&self.client, query))
    }

    fn retain(&mut self, retention: &Retention, now: Timestamp) -> Result<bool, Failure> {
        let (client, reckoned) = (&mut self.client, &mut self.reckoned);
        let removing = retain::remove_excess(client, reckoned, retention, now);
        within(&self.runtime, removing)
    }
}

/// TLS by the same configuration as everywhere in the workspace: certificates are verified whenever
/// there is TLS; `sslmode=disable` in the address goes without, `sslmode=require` insists on it.
fn tls() -> Result<MakeRustlsConnect, Failure> {
    let config = mcp_client::tls::client_config();
    let config = config.map_err(|error| Failure::unavailable(error.to_string()))?;
    Ok(MakeRustlsConnect::new(config))
}

fn within<T>(
    runtime: &Runtime,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let done = runtime.block_on(async { tokio::time::timeout(LIMIT, work).await });
    done.unwrap_or_else(|_| Err(Failure::unavailable("the database does not answer in time")))
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(database) = error.as_db_error() else {
            let cause = std::error::Error::source(&error);
            let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
            return Self::unavailable(format!("{error}{cause}"));
        };
        // Data that it does not take (22), and data that contradicts other data (23).
        let refused = ["22", "23"]
            .iter()
            .any(|class| database.code().code().starts_with(class));
        Self {
            fault: if refused {
                Fault::Rejected
            } else {
                Fault::Unavailable
            },
            reason: database.message().to_owned(),
        }
    }
}

#[cfg(test)]
impl Postgres {
    /// Does something with the database that no store does.
    pub(super) fn run(&mut self, sql: &str) {
        within(&self.runtime, async {
            Ok(self.client.batch_execute(sql).await?)
        })
        .unwrap();
    }

    /// Goes to a schema of its own.
    pub(super) fn enter(&mut self, schema: &str) {
        let anew = format!("drop schema if exists {schema} cascade; create schema {schema}");
        self.run(&format!("{anew}; set search_path to {schema}"));
        self.run(schema::TABLE);
    }
}
