//! A connection to the database, with a small runtime of its own.

use std::future::{Future, poll_fn};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{Receiver, Sender, channel};
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
}

/// The texts that other connections send to the one that listens. Ends with the connection.
pub(crate) type Notifications = Receiver<String>;

/// Notifications that wait to be read; more are lost.
const MAX_NOTIFICATIONS: usize = 1_000;

/// Connects to the first host of the address that takes writes.
pub(crate) async fn connect_to_postgres(
    address: &str,
) -> Result<(Client, Notifications), StoreError> {
    // The error is not shown: it may quote a part of the address.
    let config: Result<Config, _> = address.parse();
    let mut config = config.map_err(|_| StoreError::unavailable("the address is not valid"))?;
    if config.get_application_name().is_none() {
        config.application_name("mcp-gateway");
    }
    let (client, connection) = hosts::connect(&config, DATABASE_TIMEOUT).await?;
    let (sender, notifications) = channel(MAX_NOTIFICATIONS);
    // Ends when the client is dropped.
    tokio::spawn(drive(connection, sender));
    client.batch_execute(schema::CONNECTION).await?;
    Ok((client, notifications))
}

impl PostgresConnection {
    /// Connects, and creates the tables if they are missing.
    pub(in crate::events) fn open(address: &str) -> Result<Self, StoreError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| StoreError::unavailable(error.to_string()))?;
        let client = Self::block_on(&runtime, async {
            let (client, _) = connect_to_postgres(address).await?;
            client.batch_execute(schema::TABLE).await?;
            Ok(client)
        })?;
        Ok(Self { runtime, client })
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
        runtime.block_on(in_time(work))
    }
}

/// Waits for `work`, but not for long.
pub(crate) async fn in_time<T>(
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    within_limit(DATABASE_TIMEOUT, work).await
}

/// The same within `limit`.
pub(super) async fn within_limit<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let late = |_| StoreError::unavailable("the database does not answer in time");
    tokio::time::timeout(limit, work).await.map_err(late)?
}

/// Reads what the database sends, until the end of the connection.
async fn drive<S: Socket>(
    mut connection: Connection<S, EncryptedStream<S>>,
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
