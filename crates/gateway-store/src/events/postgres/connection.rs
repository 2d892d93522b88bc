//! A connection to the database, with a small runtime of its own.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client, Config, Connection};

use super::tls::{EncryptedStream, Socket};
use super::{hosts, schema};
use crate::events::StoreError;

/// Timeout of one operation, connecting included.
pub(super) const DATABASE_TIMEOUT: Duration = Duration::from_secs(4);

/// Returns true if `text` is a valid URL of a database.
pub(in crate::events) fn is_address(text: &str) -> bool {
    text.parse::<Config>().is_ok()
}

/// A connection to a database in which the tables of the events are.
pub(crate) struct PostgresConnection {
    pub(crate) runtime: Runtime,
    pub(crate) client: Client,
    pub(crate) news: Arc<News>,
}

/// Notifications of other connections to this one, and its end.
#[derive(Default)]
pub(crate) struct News {
    /// The process of this connection in the database, which gets its own notifications, too.
    own: AtomicI32,
    arrived: Notify,
}

impl News {
    /// Completes when a notification has come, or the connection has ended. Several count as one.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }
}

impl PostgresConnection {
    /// Connects, and creates the tables if they are missing.
    pub(in crate::events) fn open(address: &str) -> Result<Self, StoreError> {
        // The error is not shown: it may quote a part of the address.
        let config: Result<Config, _> = address.parse();
        let mut config = config.map_err(|_| StoreError::unavailable("the address is not valid"))?;
        if config.get_application_name().is_none() {
            config.application_name("mcp-gateway");
        }
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| StoreError::unavailable(error.to_string()))?;
        let news = Arc::<News>::default();
        let client = Self::block_on(&runtime, async {
            let (client, connection) = hosts::connect(&config, DATABASE_TIMEOUT).await?;
            // Ends when the client is dropped.
            tokio::spawn(drive(connection, Arc::clone(&news)));
            client.batch_execute(schema::CONNECTION).await?;
            client.batch_execute(schema::TABLE).await?;
            Ok(client)
        })?;
        Ok(Self {
            runtime,
            client,
            news,
        })
    }

    /// Gets the notifications of other connections from now on, by a statement that listens.
    pub(crate) fn listen(&self, statement: &str) -> Result<(), StoreError> {
        self.within(async {
            let own = "select pg_backend_pid()";
            let own = self.client.query_typed(own, &[] as &[(_, Type)]).await?;
            let own = own.first().map(|row| row.try_get(0)).transpose()?;
            self.news
                .own
                .store(own.unwrap_or_default(), Ordering::Relaxed);
            Ok(self.client.batch_execute(statement).await?)
        })
    }

    /// Waits for `work`, but not for long.
    pub(crate) fn within<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        Self::block_on(&self.runtime, work)
    }

    /// The same, for work that changes the client.
    pub(crate) fn block_on<T>(
        runtime: &Runtime,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let done = runtime.block_on(async { tokio::time::timeout(DATABASE_TIMEOUT, work).await });
        let late = |_| StoreError::unavailable("the database does not answer in time");
        done.map_err(late)?
    }
}

/// Reads what the database sends, until the end of the connection.
async fn drive<S: Socket>(mut connection: Connection<S, EncryptedStream<S>>, news: Arc<News>) {
    loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notification(notification))) => {
                if notification.process_id() != news.own.load(Ordering::Relaxed) {
                    news.arrived.notify_one();
                }
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                tracing::debug!(%error, "a connection to the database has ended");
                break;
            }
            None => break,
        }
    }
    news.arrived.notify_one();
}
