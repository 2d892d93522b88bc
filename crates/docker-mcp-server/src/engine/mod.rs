//! The Docker Engine: finding it, asking it, and saying why it did not do what it was asked.

mod container;
mod context;
mod failure;
mod nearest;
pub(crate) mod own;
mod request;
mod target;

use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::{
    RestartContainerOptions, StartContainerOptions, StopContainerOptions,
};
use bytes::Bytes;
use futures_util::Stream;
use http::uri::PathAndQuery;
use mcp_core::tool::ToolError;
use serde::Deserialize;

pub(crate) use container::{Details, Health, HostConfig, Mount, Port, PortBinding, State, Summary};
pub(crate) use failure::{Asked, Failure};
pub(crate) use target::Target;

use crate::name::ContainerName;

/// Most bytes of a list of containers that are read; an entry has about 1 KB.
const LIST_LIMIT: usize = 32 << 20;
/// Most bytes of one container's details, or of the engine's description, that are read.
const OBJECT_LIMIT: usize = 4 << 20;
/// How long the names of existing containers are waited for, to suggest one in an error.
const SUGGESTION_TIMEOUT: Duration = Duration::from_secs(2);

const NO_OPTIONS: Option<StartContainerOptions> = None;

/// A Docker Engine. Holds no connection: each request opens one, so that a restarted engine is
/// simply there again.
pub struct Engine {
    target: Target,
    client: OnceLock<Docker>,
    timeout: Duration,
}

impl Engine {
    /// The engine at `target`, whose answers are waited for up to `timeout` each.
    pub(crate) fn new(target: Target, timeout: Duration) -> Self {
        Self {
            target,
            client: OnceLock::new(),
            timeout,
        }
    }

    /// Where it listens.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// How long one answer is waited for.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Asks for the engine's version, for at most `limit`: the shortest answer by which a Docker
    /// Engine can be told from something else that speaks HTTP.
    pub(crate) async fn version(&self, limit: Duration) -> Result<String, ToolError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Version {
            version: String,
            api_version: String,
        }
        let read = async {
            let json = self.read("/version".to_owned(), OBJECT_LIMIT).await?;
            serde_json::from_slice::<Version>(&json).map_err(unreadable)
        };
        let version = within(limit, read)
            .await
            .map_err(|failure| self.explain(failure))?;
        Ok(format!("{}, API {}", version.version, version.api_version))
    }

    /// The running containers, or `all`, in the engine's order.
    pub(crate) async fn list(&self, all: bool) -> Result<Vec<Summary>, ToolError> {
        let listed = within(self.timeout, self.try_list(all)).await;
        listed.map_err(|failure| self.explain(failure))
    }

    /// The details of one container.
    pub(crate) async fn inspect(&self, container: &ContainerName) -> Result<Details, ToolError> {
        match self.try_inspect(container).await {
            Ok(details) => Ok(details),
            Err(failure) => Err(self.explain_about(failure, container, Asked::Read).await),
        }
    }

    /// The details of one container, for callers that expect it to be gone.
    pub(crate) async fn try_inspect(&self, container: &ContainerName) -> Result<Details, Failure> {
        let read = async {
            let path = format!("/containers/{container}/json");
            let json = self.read(path, OBJECT_LIMIT).await?;
            container::parse_details(&json).map_err(unreadable)
        };
        within(self.timeout, read).await
    }

    /// The log of a container as the engine frames it, from `since` (unix seconds, 0 for all), the
    /// newest `tail` records. The caller watches the time.
    pub(crate) fn logs(
        &self,
        container: &ContainerName,
        query: &LogQuery,
    ) -> Result<impl Stream<Item = Result<Bytes, Error>> + Send + Unpin + use<>, Failure> {
        let LogQuery {
            stdout,
            stderr,
            since,
            tail,
            timestamps,
        } = query;
        let path = path(format!(
            "/containers/{container}/logs?stdout={stdout}&stderr={stderr}&since={since}\
             &tail={tail}&timestamps={timestamps}"
        ))?;
        Ok(request::get(self.client()?, path))
    }

    /// Starts a container; one that runs stays as it is.
    pub(crate) async fn start(&self, container: &ContainerName) -> Result<(), Failure> {
        let (client, name) = (self.client()?.clone(), container.to_string());
        let start = async move { client.start_container(&name, NO_OPTIONS).await };
        finish(self.timeout, start).await
    }

    /// Stops a container: SIGTERM, and after `grace` seconds SIGKILL.
    pub(crate) async fn stop(&self, container: &ContainerName, grace: u32) -> Result<(), Failure> {
        let (client, name) = (self.client()?.clone(), container.to_string());
        let options = StopContainerOptions {
            t: i32::try_from(grace).ok(),
            ..Default::default()
        };
        let stop = async move { client.stop_container(&name, Some(options)).await };
        finish(self.timeout_after(grace), stop).await
    }

    /// Stops a container as [`Engine::stop`] does, and starts it.
    pub(crate) async fn restart(
        &self,
        container: &ContainerName,
        grace: u32,
    ) -> Result<(), Failure> {
        let (client, name) = (self.client()?.clone(), container.to_string());
        let options = RestartContainerOptions {
            t: i32::try_from(grace).ok(),
            ..Default::default()
        };
        let restart = async move { client.restart_container(&name, Some(options)).await };
        finish(self.timeout_after(grace), restart).await
    }

    /// `failure` about `container` as a tool's error. Where there is no such container, says which
    /// ones are called nearly so.
    pub(crate) async fn explain_about(
        &self,
        failure: Failure,
        container: &ContainerName,
        asked: Asked<'_>,
    ) -> ToolError {
        if !failure.is_no_such_container() {
            return failure.explain(&self.target, asked);
        }
        let known = within(SUGGESTION_TIMEOUT, self.try_list(true)).await;
        let names: Vec<String> = known
            .unwrap_or_default()
            .iter()
            .filter_map(|known| Some(known.names.first()?.trim_start_matches('/').to_owned()))
            .collect();
        let suggestion = match nearest::nearest(container.as_str(), &names).as_slice() {
            [] => "list_containers with all: true shows which ones exist.".to_owned(),
            near => format!("Did you mean {}?", near.join(" or ")),
        };
        ToolError::not_found(format!("There is no container `{container}`. {suggestion}"))
    }

    /// `failure` of a question that is about no container in particular.
    pub(crate) fn explain(&self, failure: Failure) -> ToolError {
        failure.explain(&self.target, Asked::Read)
    }

    async fn try_list(&self, all: bool) -> Result<Vec<Summary>, Failure> {
        let path = format!("/containers/json?all={all}");
        let json = self.read(path, LIST_LIMIT).await?;
        container::parse_list(&json).map_err(unreadable)
    }

    async fn read(&self, to: String, limit: usize) -> Result<Vec<u8>, Failure> {
        request::read(self.client()?, path(to)?, limit).await
    }

    /// The client, made when it is first possible: a socket that does not exist yet is an error of
    /// the call, not of the start.
    fn client(&self) -> Result<&Docker, Failure> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = self.target.connect()?;
        Ok(self.client.get_or_init(|| client))
    }

    fn timeout_after(&self, grace: u32) -> Duration {
        Duration::from_secs(grace.into()) + self.timeout
    }
}

/// Which part of a log is asked for.
pub(crate) struct LogQuery {
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    /// Unix seconds.
    pub(crate) since: i64,
    /// Records, counted from the newest.
    pub(crate) tail: u32,
    pub(crate) timestamps: bool,
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
async fn finish(
    limit: Duration,
    change: impl Future<Output = Result<(), Error>> + Send + 'static,
) -> Result<(), Failure> {
    let change = async move { Ok(change.await?) };
    let done = tokio::spawn(within(limit, change)).await;
    done.unwrap_or_else(|error| Err(Failure::Unreadable(error.into())))
}

fn path(path: String) -> Result<PathAndQuery, Failure> {
    PathAndQuery::try_from(path).map_err(|error| Failure::Unreadable(error.into()))
}

fn unreadable(error: serde_json::Error) -> Failure {
    Failure::Unreadable(error.into())
}
