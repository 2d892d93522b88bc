//! A connection to PostgreSQL, which several gateways can share.
//!
//! Blocks on a small runtime of its own, so that it has the same interface as SQLite.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config};
use tokio_rustls::TlsConnector;

use super::connection::{Row, Value};
use super::tls::{EncryptedStream, PostgresTls, Socket};
use super::{StoreError, StoreFault, schema};

/// Timeout of one operation, connecting included.
const DATABASE_TIMEOUT: Duration = Duration::from_secs(4);

/// Timeout of a search through all events: less than the timeout of a query of events.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(15);

/// Without waiting for the disk: the newest events can be lost if the database server crashes.
const SETTINGS: &str = "
    set synchronous_commit = off;
    set statement_timeout = '4s';
    set lock_timeout = '2s';
";

/// Gateways that start together do not create the tables twice. Databases may have several gateways in different schemas.
const LOCK: &str = "begin; select pg_advisory_xact_lock(7168881, hashtext(current_schema()))";

const HAS_TABLES: &str = "select to_regclass('mcp_database') is not null";

/// A connection to a database in which the tables are.
pub(crate) struct PostgresConnection {
    /// `None` while it is dropped.
    runtime: Option<Runtime>,
    client: Client,
    timeout: Duration,
    /// The texts that other connections send.
    notifications: Receiver<String>,
}

/// Notifications that wait to be read; more are lost.
const MAX_NOTIFICATIONS: usize = 10_000;

/// Returns true if `text` is a valid URL of a database.
pub(super) fn is_address(text: &str) -> bool {
    text.parse::<Config>().is_ok()
}

/// Connects to the first host of the address that takes writes, and creates the tables if they are missing. Also returns
/// the texts that other connections send to the one that listens; they end with the connection.
async fn connect_to_postgres(address: &str) -> Result<(Client, Receiver<String>), StoreError> {
    // The error is not shown: it may quote a part of the address.
    let config: Result<Config, _> = address.parse();
    let mut config = config.map_err(|_| StoreError::unavailable("the address is not valid"))?;
    if config.get_application_name().is_none() {
        config.application_name("mcp-gateway");
    }
    let hosts = config.get_hosts().len().max(config.get_hostaddrs().len());
    if let Ok(hosts @ 2..) = u32::try_from(hosts) {
        // One part of the time is left for the statements after that.
        config.connect_timeout(DATABASE_TIMEOUT / (hosts + 1));
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    // Always verifies certificates. `sslmode=disable` in the address turns TLS off, `sslmode=require` makes it required.
    let tls = mcp_client::tls::config_for("https");
    let tls = tls.map_err(|error| StoreError::unavailable(error.to_string()))?;
    let tls = PostgresTls(TlsConnector::from(Arc::new(tls)));
    let (client, connection) = config.connect(tls).await?;
    let (sender, notifications) = channel(MAX_NOTIFICATIONS);
    // Ends when the client is dropped.
    tokio::spawn(drive(connection, sender));
    client.batch_execute(SETTINGS).await?;
    client.batch_execute(LOCK).await?;
    let found = client.query_typed(HAS_TABLES, &[]).await?;
    let has_tables: bool = found.first().map_or(Ok(false), |row| row.try_get(0))?;
    if !has_tables {
        client.batch_execute(&schema::for_postgres()).await?;
    }
    let version = client.query_typed("select version from mcp_database", &[]);
    let version = version.await?.first().map_or(Ok(0), |row| row.try_get(0))?;
    client.batch_execute("commit").await?;
    schema::check(version)?;
    Ok((client, notifications))
}

impl PostgresConnection {
    pub(super) fn open(address: &str) -> Result<Self, StoreError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| StoreError::unavailable(error.to_string()))?;
        let connecting = in_time(DATABASE_TIMEOUT, connect_to_postgres(address));
        let (client, notifications) = runtime.block_on(connecting)?;
        Ok(Self {
            runtime: Some(runtime),
            client,
            timeout: DATABASE_TIMEOUT,
            notifications,
        })
    }

    /// The notifications that have come, the last of them with the answer to the last statement.
    pub(super) fn notifications(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.notifications.try_recv().ok()).collect()
    }

    pub(super) fn allow_searches(&mut self) -> Result<(), StoreError> {
        self.timeout = SEARCH_TIMEOUT;
        let seconds = SEARCH_TIMEOUT.as_secs();
        self.batch(&format!("set statement_timeout = '{seconds}s'"))
    }

    pub(super) fn query(&self, sql: &str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        let found = async { Ok(self.client.query_typed(sql, &typed(values)).await?) };
        self.within(found)?.iter().map(row).collect()
    }

    /// Sends all statements before it waits for the first result.
    pub(super) fn execute(&self, sql: &str, rows: &[Vec<Value>]) -> Result<Vec<u64>, StoreError> {
        let each = rows.iter().map(async |values| {
            let changed = self.client.execute_typed(sql, &typed(values)).await?;
            Ok::<_, StoreError>(changed)
        });
        self.within(try_join_all(each))
    }

    pub(super) fn batch(&self, sql: &str) -> Result<(), StoreError> {
        self.within(async { Ok(self.client.batch_execute(sql).await?) })
    }

    fn within<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match &self.runtime {
            Some(runtime) => runtime.block_on(in_time(self.timeout, work)),
            None => Err(StoreError::unavailable("the connection is closed")),
        }
    }
}

impl Drop for PostgresConnection {
    /// A runtime that waits for its tasks must not be dropped by a task of another one.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn typed(values: &[Value]) -> Vec<(&(dyn ToSql + Sync), Type)> {
    let typed = values.iter().map(|value| match value {
        Value::Integer(integer) => (integer as &(dyn ToSql + Sync), Type::INT8),
        Value::Text(text) => (text as _, Type::TEXT),
        Value::Bytes(bytes) => (bytes as _, Type::BYTEA),
    });
    typed.collect()
}

fn row(found: &tokio_postgres::Row) -> Result<Row, StoreError> {
    let columns = found.columns().iter().enumerate();
    let values = columns.map(|(at, column)| {
        Ok(match *column.type_() {
            Type::INT8 => Value::Integer(found.try_get(at)?),
            Type::BYTEA => Value::Bytes(found.try_get(at)?),
            _ => Value::Text(found.try_get::<_, Option<&str>>(at)?.map(Into::into)),
        })
    });
    values.collect::<Result<_, StoreError>>().map(Row)
}

/// Waits for `work`, but not for longer than `limit`.
async fn in_time<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let late = |_| StoreError::unavailable("the database does not answer in time");
    tokio::time::timeout(limit, work).await.map_err(late)?
}

/// Reads what the database sends, until the end of the connection.
async fn drive<S: Socket>(
    mut connection: tokio_postgres::Connection<S, EncryptedStream<S>>,
    notifications: Sender<String>,
) {
    loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notification(notification))) => {
                // An error means that there is no reader, or that too many wait.
                let _ = notifications.try_send(notification.payload().to_owned());
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                tracing::debug!(%error, "a connection to the database has ended");
                return;
            }
            None => return,
        }
    }
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(database) = error.as_db_error() else {
            let cause = std::error::Error::source(&error);
            let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
            return Self::unavailable(format!("{error}{cause}"));
        };
        if *database.code() == SqlState::QUERY_CANCELED {
            let text = "the database has not finished in time; of a large log, search a shorter time with `since`";
            return Self::unavailable(text);
        }
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
