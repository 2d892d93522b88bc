//! The Docker Engine: finding it, asking it, and saying why it did not do what it was asked.

mod call;
mod container;
mod context;
mod events;
mod failure;
mod lines;
mod missing;
mod nearest;
pub(crate) mod own;
mod path;
mod request;
mod target;

use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bytes::Bytes;
use futures_util::Stream;
use http::Method;
use http::uri::PathAndQuery;
use mcp_core::tool::ToolError;
use serde::Deserialize;

pub(crate) use container::{
    Details, Health, HostConfig, Mount, Port, PortBinding, State, Summary, is_anonymous,
};
pub(crate) use events::Event;
pub(crate) use failure::{Asked, Failure};
pub(crate) use lines::Lines;
pub(crate) use missing::Kind;
pub(crate) use path::Path;
pub(crate) use request::Body;
pub(crate) use target::Target;

use crate::name::ContainerName;

/// Most bytes of a list of containers that are read; an entry has about 1 KB.
const LIST_LIMIT: usize = 32 << 20;
/// Most bytes of one container's details, or of the engine's description, that are read.
const OBJECT_LIMIT: usize = 4 << 20;
/// How long the names of existing containers are waited for, to suggest one in an error.
const SUGGESTION_TIMEOUT: Duration = Duration::from_secs(2);

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
            until,
            tail,
            timestamps,
            follow,
        } = query;
        let mut path = Path::to("/containers")
            .id(container)
            .then("/logs")
            .query("stdout", stdout)
            .query("stderr", stderr)
            .query("since", since)
            .query("tail", tail)
            .query("timestamps", timestamps);
        if *until > 0 {
            path = path.query("until", until);
        }
        if *follow {
            path = path.query("follow", true);
        }
        self.follow(Method::GET, path, Body::None)
    }

    /// Starts a container; one that runs stays as it is.
    pub(crate) async fn start(&self, container: &ContainerName) -> Result<(), Failure> {
        let path = Path::to("/containers").id(container).then("/start");
        self.change(Method::POST, path, Body::None).await?;
        Ok(())
    }

    /// Stops a container: SIGTERM, and after `grace` seconds SIGKILL.
    pub(crate) async fn stop(&self, container: &ContainerName, grace: u32) -> Result<(), Failure> {
        let path = Path::to("/containers").id(container).then("/stop");
        self.change_after(grace, path).await
    }

    /// Stops a container as [`Engine::stop`] does, and starts it.
    pub(crate) async fn restart(
        &self,
        container: &ContainerName,
        grace: u32,
    ) -> Result<(), Failure> {
        let path = Path::to("/containers").id(container).then("/restart");
        self.change_after(grace, path).await
    }

    async fn change_after(&self, grace: u32, path: Path) -> Result<(), Failure> {
        let limit = Duration::from_secs(grace.into()) + self.timeout;
        let path = path.query("t", grace);
        self.change_within(limit, Method::POST, path, Body::None)
            .await?;
        Ok(())
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
        request::read(request::get(self.client()?, path(to)?), limit).await
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
}

/// Which part of a log is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogQuery {
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    /// Unix seconds.
    pub(crate) since: i64,
    /// Unix seconds; 0 for no end.
    pub(crate) until: i64,
    /// Records, counted from the newest.
    pub(crate) tail: u32,
    pub(crate) timestamps: bool,
    /// Goes on with what is yet to be written.
    pub(crate) follow: bool,
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
    done.unwrap_or_else(|error| Err(Failure::Unreadable(error.into())))
}

fn path(path: String) -> Result<PathAndQuery, Failure> {
    PathAndQuery::try_from(path).map_err(|error| Failure::Unreadable(error.into()))
}

fn unreadable(error: serde_json::Error) -> Failure {
    Failure::Unreadable(error.into())
}
