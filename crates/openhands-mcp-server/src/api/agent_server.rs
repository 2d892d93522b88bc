//! Requests to the agent server: its API key, a timeout, a bounded response.

use std::sync::Arc;
use std::time::Duration;

use mcp_serve::Secret;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use upstream::http::{
    Client, Method, Request as HttpRequest, RequestBuilder, Response, ServiceProfile, SetupError,
    StatusCode, Url,
};

use crate::api::failure::{ApiFailure, ApiResult, RequestTarget, WORDING};
use crate::api::task_id::TaskId;
use crate::api::version::{KnownVersion, ServerVersion};

/// The header that carries the API key.
const KEY_HEADER: &str = "X-Session-API-Key";
/// Timeout of calls that only read. They take milliseconds, unless many agents are being set up.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest response seen is a conversation with about a hundred model calls, below 1 MB.
pub(crate) const MAX_BODY: usize = 8 * 1024 * 1024;

static PROFILE: ServiceProfile = ServiceProfile {
    user_agent: concat!("openhands-mcp-server/", env!("CARGO_PKG_VERSION")),
    timeout: READ_TIMEOUT,
    max_body: MAX_BODY,
    wording: WORDING,
};

/// A client of an agent server: its address, its API key, its version.
#[derive(Clone)]
pub(crate) struct AgentServer {
    http: Client,
    /// Read before each request, since its file may change.
    key: Arc<Secret>,
    pub(crate) version: Arc<KnownVersion>,
}

/// One page of a list, and the cursor of the next one.
#[derive(Deserialize)]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    /// The cursor of the next page; `None` on the last one.
    pub(crate) next_page_id: Option<String>,
}

impl AgentServer {
    /// Does not connect.
    ///
    /// # Errors
    /// `base` is not a usable URL.
    pub(crate) fn new(base: Url, key: Secret) -> Result<Self, SetupError> {
        Ok(Self {
            http: Client::new(base, &PROFILE)?,
            key: Arc::new(key),
            version: Arc::default(),
        })
    }

    /// The address, safe to show.
    pub(crate) fn address(&self) -> &str {
        self.http.address()
    }

    /// A request with the API key. The segments of `path` are escaped.
    pub(crate) fn request(&self, method: Method, path: &[&str]) -> Request {
        let request = self.open_request(method, path);
        request.with_http(|http| http.credential(KEY_HEADER, self.key.get()))
    }

    /// A request without the API key, for endpoints that need none.
    pub(crate) fn open_request(&self, method: Method, path: &[&str]) -> Request {
        let http = self.http.request(method, path.iter().copied());
        Request { http, target: None }
    }

    /// A request that carries the API key as a bearer token, too: the OpenHands cloud wants it there.
    pub(crate) fn bearer_request(&self, method: Method, path: &[&str]) -> Request {
        let bearer = self.key.get();
        let bearer = bearer.map(|key| key.map(|key| format!("Bearer {key}")));
        let request = self.request(method, path);
        request.with_http(|http| http.credential("Authorization", bearer))
    }

    pub(crate) fn get(&self, path: &[&str]) -> Request {
        self.request(Method::GET, path)
    }

    pub(crate) fn post(&self, path: &[&str]) -> Request {
        self.request(Method::POST, path)
    }

    /// A request for one conversation; `rest` follows its id in the path.
    pub(crate) fn task_request(&self, method: Method, id: TaskId, rest: &[&str]) -> Request {
        let id_text = id.to_string();
        let mut path = vec!["api", "conversations", &*id_text];
        path.extend(rest);
        self.request(method, &path)
            .with_target(RequestTarget::Task(id))
    }
}

/// A request that is not sent yet.
#[must_use]
pub(crate) struct Request {
    http: HttpRequest,
    /// The object that a 404 reports as missing.
    target: Option<RequestTarget>,
}

impl Request {
    fn with_http(mut self, change: impl FnOnce(HttpRequest) -> HttpRequest) -> Self {
        self.http = change(self.http);
        self
    }

    /// Adds query parameters, which are escaped.
    pub(crate) fn query(self, query: &[(&str, &str)]) -> Self {
        self.with_http(|http| http.query(query))
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.with_http(|http| http.body(body))
    }

    /// Adds headers or a body of another kind.
    pub(crate) fn with(self, change: impl FnOnce(RequestBuilder) -> RequestBuilder) -> Self {
        self.with_http(|http| http.with(change))
    }

    /// Sets the timeout, from the connection to the last byte.
    pub(crate) fn timeout(self, timeout: Duration) -> Self {
        self.with_http(|http| http.timeout(timeout))
    }

    /// Reports a 404 as the absence of `target`.
    pub(crate) fn with_target(mut self, target: RequestTarget) -> Self {
        self.target = Some(target);
        self
    }

    /// Sends it and parses the response as JSON.
    pub(crate) async fn send<T: DeserializeOwned>(self) -> ApiResult<T> {
        self.send_for_status().await.map(|(_, body)| body)
    }

    /// Sends it and discards the response body.
    pub(crate) async fn run(self) -> ApiResult<()> {
        self.send::<IgnoredAny>().await.map(drop)
    }

    /// Sends it and returns the status, too, where there is more than one kind of success.
    pub(crate) async fn send_for_status<T: DeserializeOwned>(self) -> ApiResult<(StatusCode, T)> {
        let response = self.send_for_bytes().await?;
        Ok((response.status, response.json()?))
    }

    /// Sends it and returns the body as bytes.
    pub(crate) async fn send_for_bytes(self) -> ApiResult<Response> {
        let sent = self.http.send().await.map_err(ApiFailure::from);
        sent.map_err(|failure| failure.with_target(self.target))
    }
}

impl AgentServer {
    /// Asks the agent server for its version.
    pub(crate) async fn read_version(&self) -> ApiResult<ServerVersion> {
        #[derive(Deserialize)]
        struct ServerInfo {
            version: Option<String>,
        }
        let request = self.open_request(Method::GET, &["server_info"]);
        let version = match request.send::<ServerInfo>().await {
            Ok(info) => ServerVersion::new(info.version),
            Err(failure) if failure.is_transient() => return Err(failure),
            // Another program, or a version without this path.
            Err(_) => ServerVersion::new(None),
        };
        self.version.set(&version);
        Ok(version)
    }

    /// The version that was read last.
    pub(crate) async fn known_version(&self) -> ApiResult<ServerVersion> {
        match self.version.get() {
            Some(known) => Ok(known),
            None => self.read_version().await,
        }
    }

    /// Returns true if tasks start although an MCP server of theirs is down.
    pub(crate) async fn ignores_dead_servers(&self) -> ApiResult<bool> {
        Ok(self.known_version().await?.ignores_dead_servers())
    }

    /// The value of the `kind` parameter for events of `kind`.
    pub(crate) async fn kind_filter(&self, kind: &str) -> ApiResult<String> {
        Ok(self.known_version().await?.kind_filter(kind))
    }
}

#[cfg(test)]
mod tests {
    use mcp_core::tool::{ToolError, ToolErrorKind};

    use super::*;

    #[tokio::test]
    async fn missing_response_is_a_timeout() {
        // The system accepts the connection, but the test does not read from it.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = AgentServer::new(url.parse().unwrap(), Secret::new(None, None)).unwrap();
        let request = server.get(&["x"]).timeout(Duration::from_millis(50));
        let failure = request.send::<Value>().await.unwrap_err();
        assert!(failure.is_transient() && failure.is_ambiguous());
        assert_eq!(ToolError::from(failure).kind(), ToolErrorKind::Timeout);
    }
}
