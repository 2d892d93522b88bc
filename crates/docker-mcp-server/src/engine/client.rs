//! Requests to the engine and their replies.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use mcp_core::tool::ToolError;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::engine::address::{Address, AddressError};
use crate::engine::connector::Connector;
use crate::engine::error::EngineError;
use crate::engine::path::Path;
use crate::engine::self_container;

/// Most bytes of a list; an entry has about 1 KB.
const MAX_LIST_BYTES: u64 = 32 << 20;
/// Most bytes of one container's details.
pub(crate) const MAX_OBJECT_BYTES: u64 = 4 << 20;
/// The time for which Podman 5 waits for a container to end before it removes it by force.
const REMOVAL_GRACE: Duration = Duration::from_secs(10);

/// A client of one Docker Engine. Keeps no connection open.
#[derive(Clone)]
pub(crate) struct Engine {
    address: Address,
    pub(super) connector: Connector,
    /// For streamed replies of unlimited size.
    pub(crate) streams: bollard::Docker,
    timeout: Duration,
}

impl Engine {
    /// A client of the engine at `address`, with a `timeout` for each reply.
    /// Errors when the address can never work.
    pub(crate) fn new(address: Address, timeout: Duration) -> Result<Self, AddressError> {
        let connector = Connector::new(&address)?;
        Ok(Self {
            streams: connector
                .bollard()
                .map_err(AddressError::at("DOCKER_HOST"))?,
            connector,
            address,
            timeout,
        })
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Whether the engine's files and processes are visible to this program.
    pub(crate) fn is_beside_us(&self) -> bool {
        self.address.is_local() && !self_container::in_container()
    }

    /// The engine's version, with the timeout `limit`. It is the shortest reply that distinguishes a
    /// Docker Engine from any other HTTP server.
    pub(crate) async fn version(&self, limit: Duration) -> Result<String, ToolError> {
        let reply: Value = self.get_within(limit, Path::to("/version")).await?;
        match (reply["Version"].as_str(), reply["ApiVersion"].as_str()) {
            (Some(version), Some(api)) => Ok(format!("{version}, API {api}")),
            _ => Err(self.explain(EngineError::unreadable("a version without a number"))),
        }
    }

    /// The JSON at `path` as `T`.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: Path) -> Result<T, ToolError> {
        self.get_within(self.timeout, path).await
    }

    /// The JSON at `path` as `T`, with the timeout `limit`.
    pub(crate) async fn get_within<T: DeserializeOwned>(
        &self,
        limit: Duration,
        path: Path,
    ) -> Result<T, ToolError> {
        let read = within(limit, self.read(path, MAX_LIST_BYTES)).await;
        read.map_err(|failure| self.explain(failure))
    }

    /// As [`Engine::get`], for callers that handle the error.
    pub(crate) async fn try_get<T: DeserializeOwned>(&self, path: Path) -> Result<T, EngineError> {
        within(self.timeout, self.read(path, MAX_LIST_BYTES)).await
    }

    /// Posts `body`, or nothing. `duration` is the time that the change itself takes; it is added to
    /// the timeout of the reply. Returns `Null` if the reply is empty.
    pub(crate) async fn try_post(
        &self,
        path: Path,
        body: Option<&Value>,
        duration: Duration,
    ) -> Result<Value, EngineError> {
        let body = body.map_or_else(String::new, Value::to_string);
        let reply = self.try_change(Method::POST, path, body.into(), duration);
        match reply.await? {
            empty if empty.is_empty() => Ok(Value::Null),
            reply => serde_json::from_slice(&reply).map_err(EngineError::unreadable),
        }
    }

    pub(crate) async fn try_delete(&self, path: Path) -> Result<(), EngineError> {
        let change = self.try_change(Method::DELETE, path, Bytes::new(), REMOVAL_GRACE);
        change.await.map(drop)
    }

    /// Uploads an archive to `path`.
    pub(crate) async fn try_put(&self, path: Path, archive: Vec<u8>) -> Result<(), EngineError> {
        let change = self.try_change(Method::PUT, path, archive.into(), Duration::ZERO);
        change.await.map(drop)
    }

    /// Sends a change, and completes it even if the caller cancels: when the connection closes, some
    /// engines kill at once a container that they were asked to stop gracefully.
    async fn try_change(
        &self,
        method: Method,
        path: Path,
        content: Bytes,
        duration: Duration,
    ) -> Result<Bytes, EngineError> {
        let (connector, limit) = (self.connector.clone(), self.timeout + duration);
        let change = async move {
            let fetch = connector.fetch(method, path, content, MAX_LIST_BYTES);
            within(limit, fetch).await
        };
        let done = tokio::spawn(change).await;
        done.unwrap_or_else(|error| Err(EngineError::unreadable(error)))
    }

    /// The tool error of a request that concerns no particular object.
    pub(crate) fn explain(&self, failure: EngineError) -> ToolError {
        failure.explain(&self.address)
    }

    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        path: Path,
        limit: u64,
    ) -> Result<T, EngineError> {
        let fetch = self.connector.fetch(Method::GET, path, Bytes::new(), limit);
        let value = serde_json::from_slice(&fetch.await?).map_err(EngineError::unreadable)?;
        parse(value).map_err(EngineError::unreadable)
    }
}

/// Runs `future` with a timeout.
/// Errors with [`EngineError::Timeout`] when it takes longer than `limit`.
pub(crate) async fn within<T>(
    limit: Duration,
    future: impl Future<Output = Result<T, EngineError>>,
) -> Result<T, EngineError> {
    let done = tokio::time::timeout(limit, future).await;
    done.unwrap_or(Err(EngineError::Timeout(limit)))
}

/// Parses a reply. The engine writes null for an empty list and for a missing member.
pub(crate) fn parse<T: DeserializeOwned>(mut value: Value) -> serde_json::Result<T> {
    strip_nulls(&mut value);
    serde_json::from_value(value)
}

fn strip_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            // An exposed port that is not published has null for its bindings: keep the key.
            for (key, member) in members.iter_mut() {
                if member.is_null() && key.contains('/') {
                    *member = Value::Array(Vec::new());
                }
            }
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(strip_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_nulls),
        _ => {}
    }
}
