//! The Docker Engine: finding it, asking it, and saying why it did not do what it was asked.
//!
//! Requests are bollard's typed calls ([`Engine::try_change`], [`Engine::call`], [`Engine::streams`]):
//! all that changes something (containers, images, networks, volumes, builds, pulls, commands), files
//! in and out, processes, and whatever has a small reply of a fixed form.
//!
//! A few go past bollard, through the same [`connector`], since bollard cannot do them:
//! * Lists and details of containers, images, networks and volumes, disk usage, the host, events:
//!   one value that bollard's types do not know (a state that a newer engine
//!   invented, Podman's type of event, a member that version 1.52 took away) fails the whole reply.
//!   We pick the members that we use, of types that any engine can fill.
//! * Logs: bollard keeps the line of a terminal until it ends, which it may never do; and it does
//!   not say which of its pieces begin a record.
//! * Creating a network: bollard's request has no `CheckDuplicate`, without which engines before
//!   version 25 give one name to two networks.
//! * Updating a container: bollard does not hand on the engine's warnings.
//!
//! Nothing that a caller writes can become another request either way: what is pasted into a path is
//! a checked type of `name`, and what is a query value is encoded.

mod action;
mod connector;
mod container;
mod context;
mod events;
mod failure;
mod log;
mod not_found;
mod object;
mod path;
pub(crate) mod self_container;
mod suggest;
mod target;
mod tls;

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use mcp_core::tool::ToolError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use action::{Action, Kind};
pub(crate) use container::{
    Details, Health, HostConfig, Mount, Port, PortBinding, State, Summary, is_anonymous,
};
pub(crate) use events::Event;
pub(crate) use failure::Failure;
pub(crate) use log::LogQuery;
pub(crate) use object::{Image, ImageDetails, Network, Volume};
pub(crate) use path::Path;
pub(crate) use target::Target;

use connector::Connector;

/// Most bytes of a list, or of a reply to bollard, that are read; an entry has about 1 KB.
const MAX_LIST_BYTES: u64 = 32 << 20;
/// Most bytes of one container's details that are read.
const MAX_OBJECT_BYTES: u64 = 4 << 20;

/// A Docker Engine. Holds no connection.
pub(crate) struct Engine {
    target: Target,
    connector: Connector,
    bollard: bollard::Docker,
    streams: bollard::Docker,
    timeout: Duration,
}

impl Engine {
    /// The engine at `target`, whose replies are waited for up to `timeout` each.
    /// Errors when no request could ever be made of its address.
    pub(crate) fn new(target: Target, timeout: Duration) -> anyhow::Result<Self> {
        let connector = Connector::new(&target)?;
        Ok(Self {
            bollard: connector.bollard(Some(MAX_LIST_BYTES))?,
            streams: connector.bollard(None)?,
            connector,
            target,
            timeout,
        })
    }

    /// Where it listens.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// How long one reply is waited for.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// bollard, for replies whose size has a limit; the caller watches the time.
    pub(crate) fn bounded(&self) -> &bollard::Docker {
        &self.bollard
    }

    /// bollard, for replies that are streams: they have no limit, and the caller watches the time.
    pub(crate) fn streams(&self) -> &bollard::Docker {
        &self.streams
    }

    /// The engine's version, waited for at most `limit`: the shortest reply by which a Docker
    /// Engine can be told from something else that speaks HTTP.
    pub(crate) async fn version(&self, limit: Duration) -> Result<String, ToolError> {
        let read = async {
            let version = self.bollard.version().await?;
            match (version.version, version.api_version) {
                (Some(version), Some(api)) => Ok(format!("{version}, API {api}")),
                _ => Err(Failure::unreadable("a version without a number")),
            }
        };
        within(limit, read)
            .await
            .map_err(|failure| self.explain(failure))
    }

    /// The JSON at `path` as `T`.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: Path) -> Result<T, ToolError> {
        self.get_within(self.timeout, path).await
    }

    /// The JSON at `path` as `T`, which takes the engine longer than most.
    pub(crate) async fn get_within<T: DeserializeOwned>(
        &self,
        limit: Duration,
        path: Path,
    ) -> Result<T, ToolError> {
        let read = within(limit, self.read(path, MAX_LIST_BYTES)).await;
        read.map_err(|failure| self.explain(failure))
    }

    /// The JSON at `path`, which is about one object, as `T`.
    pub(crate) async fn get_object<T: DeserializeOwned>(
        &self,
        object: (Kind, &str),
        path: Path,
    ) -> Result<T, ToolError> {
        match self.try_get(path).await {
            Ok(read) => Ok(read),
            Err(failure) => Err(self.explain_about(failure, object, None).await),
        }
    }

    /// As [`Engine::get`], for callers that know what a failure means.
    pub(crate) async fn try_get<T: DeserializeOwned>(&self, path: Path) -> Result<T, Failure> {
        within(self.timeout, self.read(path, MAX_LIST_BYTES)).await
    }

    /// Asks something by a typed call.
    pub(crate) async fn call<T, C>(
        &self,
        call: impl FnOnce(bollard::Docker) -> C,
    ) -> Result<T, ToolError>
    where
        C: Future<Output = Result<T, bollard::errors::Error>>,
    {
        let done = self.try_call(call).await;
        done.map_err(|failure| self.explain(failure))
    }

    /// As [`Engine::call`], for callers that know what a failure means.
    pub(crate) async fn try_call<T, C>(
        &self,
        call: impl FnOnce(bollard::Docker) -> C,
    ) -> Result<T, Failure>
    where
        C: Future<Output = Result<T, bollard::errors::Error>>,
    {
        let call = call(self.bollard.clone());
        within(self.timeout, async { Ok(call.await?) }).await
    }

    /// Makes a change by a typed call, and brings it to its end also when the caller gives up. The
    /// change itself takes `duration`, beside the time that any reply may take.
    pub(crate) async fn try_change<T, C>(
        &self,
        duration: Duration,
        call: impl FnOnce(bollard::Docker) -> C,
    ) -> Result<T, Failure>
    where
        T: Send + 'static,
        C: Future<Output = Result<T, bollard::errors::Error>> + Send + 'static,
    {
        let call = call(self.bollard.clone());
        finish(self.timeout + duration, async { Ok(call.await?) }).await
    }

    /// As [`Engine::try_change`], where bollard has no call. `Null` where the engine says nothing.
    pub(crate) async fn try_post(
        &self,
        path: Path,
        body: &impl Serialize,
    ) -> Result<Value, Failure> {
        let body = serde_json::to_vec(body).map_err(Failure::unreadable)?;
        let connector = self.connector.clone();
        let post = async move {
            let body = body.into();
            connector
                .fetch(Method::POST, path, body, MAX_OBJECT_BYTES)
                .await
        };
        let receipt = finish(self.timeout, post).await?;
        if receipt.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&receipt).map_err(Failure::unreadable)
    }

    /// `failure` of a question that is about no object in particular.
    pub(crate) fn explain(&self, failure: Failure) -> ToolError {
        failure.explain(&self.target, None)
    }

    /// `failure` of a change.
    pub(crate) async fn explain_action(&self, failure: Failure, action: Action<'_>) -> ToolError {
        let needs = action.needs;
        self.explain_about(failure, needs, Some(&action)).await
    }

    async fn read<T: DeserializeOwned>(&self, path: Path, limit: u64) -> Result<T, Failure> {
        let json = self
            .connector
            .fetch(Method::GET, path, Bytes::new(), limit)
            .await?;
        let value = serde_json::from_slice(&json).map_err(Failure::unreadable)?;
        parse(value).map_err(Failure::unreadable)
    }
}

/// `future`, or [`Failure::Deadline`] when it takes longer than `limit`.
pub(crate) async fn within<T>(
    limit: Duration,
    future: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let done = tokio::time::timeout(limit, future).await;
    done.unwrap_or(Err(Failure::Deadline(limit)))
}

/// `change`, brought to its end or to its limit also when the caller gives up: some engines take a
/// closed connection as a reason to kill at once what they were to stop gently.
async fn finish<T: Send + 'static>(
    limit: Duration,
    change: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::spawn(within(limit, change)).await;
    done.unwrap_or_else(|error| Err(Failure::unreadable(error)))
}

/// Null is how the engine writes an empty list, and what a member that is missing means.
fn parse<T: DeserializeOwned>(mut value: Value) -> serde_json::Result<T> {
    strip_nulls(&mut value);
    serde_json::from_value(value)
}

fn strip_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            // A port that is exposed and not published has null for its bindings: the key counts.
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
