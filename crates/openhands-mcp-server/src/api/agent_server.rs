//! One request to the agent server: its key, its deadline, its bounded answer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use mcp_serve::Secret;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use upstream::http::header::HeaderMap;
use upstream::http::{
    Client, Method, Request as HttpRequest, RequestBuilder, Response, ServiceProfile, StatusCode,
    Upgraded, Url,
};

use super::failure::{Failure, Subject, WORDING};
use super::task_id::TaskId;

/// The header that carries the key.
const KEY_HEADER: &str = "X-Session-API-Key";
/// For everything that only reads: such calls take milliseconds, unless many agents are just being
/// set up.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest answer seen is a conversation with some hundred model calls, below 1 MB.
pub(super) const MAX_BODY: usize = 8 * 1024 * 1024;

static PROFILE: ServiceProfile = ServiceProfile {
    user_agent: concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")),
    timeout: READ_TIMEOUT,
    max_body: MAX_BODY,
    wording: WORDING,
};

/// The agent server: where it is and how to be let in.
#[derive(Clone)]
pub(crate) struct AgentServer {
    http: Client,
    key: Arc<Secret>,
}

impl AgentServer {
    /// Does not connect.
    ///
    /// # Errors
    /// When `base` is not an address that can be used.
    pub(crate) fn new(base: Url, key: Secret) -> anyhow::Result<Self> {
        ensure!(
            matches!(base.scheme(), "http" | "https") && base.has_host(),
            "OPENHANDS_URL must look like http://127.0.0.1:8000"
        );
        ensure!(
            base.username().is_empty() && base.password().is_none(),
            "OPENHANDS_URL must not hold a password: the key belongs into OPENHANDS_API_KEY"
        );
        Ok(Self {
            http: Client::new(base, &PROFILE)?,
            key: Arc::new(key),
        })
    }

    /// Where it is, as it may be shown.
    pub(super) fn address(&self) -> &str {
        self.http.address()
    }

    pub(super) fn key(&self) -> io::Result<Option<String>> {
        self.key.get()
    }

    /// A request to `path`, whose segments are escaped, as are the pairs of `query`.
    pub(super) fn request(&self, method: Method, path: &[&str], query: &[(&str, &str)]) -> Request {
        let request = self.open_request(method, path, query);
        request.with_http(|http| http.credential(KEY_HEADER, self.key.get()))
    }

    /// The same without the key: for what the agent server tells everybody.
    pub(super) fn open_request(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Request {
        let mut http = self.http.request(method, path.iter().copied());
        if !query.is_empty() {
            http = http.query(query);
        }
        Request {
            http,
            subject: None,
        }
    }

    /// The same with the key as a bearer token, too: OpenHands' cloud wants it there.
    pub(super) fn bearer_request(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Request {
        let bearer = self.key.get();
        let bearer = bearer.map(|key| key.map(|key| format!("Bearer {key}")));
        let request = self.request(method, path, query);
        request.with_http(|http| http.credential("Authorization", bearer))
    }

    /// A `GET` of `path`.
    pub(super) fn get(&self, path: &[&str], query: &[(&str, &str)]) -> Request {
        self.request(Method::GET, path, query)
    }

    /// A `POST` to `path`.
    pub(super) fn post(&self, path: &[&str], query: &[(&str, &str)]) -> Request {
        self.request(Method::POST, path, query)
    }

    /// A request about one conversation; `rest` follows its id in the path.
    pub(super) fn about_task(
        &self,
        method: Method,
        id: TaskId,
        rest: &[&str],
        query: &[(&str, &str)],
    ) -> Request {
        let id_text = id.to_string();
        let mut path = vec!["api", "conversations", &*id_text];
        path.extend(rest);
        self.request(method, &path, query).about(Subject::Task(id))
    }
}

/// A request that is being put together.
#[must_use]
pub(super) struct Request {
    http: HttpRequest,
    /// The thing whose absence a 404 means.
    subject: Option<Subject>,
}

impl Request {
    fn with_http(mut self, change: impl FnOnce(HttpRequest) -> HttpRequest) -> Self {
        self.http = change(self.http);
        self
    }

    /// Adds a JSON body.
    pub(super) fn json(self, body: &Value) -> Self {
        self.with_http(|http| http.body(body))
    }

    /// Adds headers or a body of another kind.
    pub(super) fn with(self, change: impl FnOnce(RequestBuilder) -> RequestBuilder) -> Self {
        self.with_http(|http| http.with(change))
    }

    /// Gives up after `timeout`, from the connection to the last byte.
    pub(super) fn within(self, timeout: Duration) -> Self {
        self.with_http(|http| http.timeout(timeout))
    }

    /// Has a 404 told as the absence of `subject`.
    pub(super) fn about(mut self, subject: Subject) -> Self {
        self.subject = Some(subject);
        self
    }

    /// Sends it and reads the answer as JSON.
    pub(super) async fn send<T: DeserializeOwned>(self) -> Result<T, Failure> {
        self.send_for_status().await.map(|(_, answer)| answer)
    }

    /// Sends it for its effect only.
    pub(super) async fn run(self) -> Result<(), Failure> {
        self.send::<IgnoredAny>().await.map(drop)
    }

    /// Sends it; the status tells one kind of success from another.
    pub(super) async fn send_for_status<T: DeserializeOwned>(
        self,
    ) -> Result<(StatusCode, T), Failure> {
        let response = self.send_for_bytes().await?;
        Ok((response.status, response.json()?))
    }

    /// Sends it; the body is whatever it is.
    pub(super) async fn send_for_bytes(self) -> Result<Response, Failure> {
        let sent = self.http.send().await.map_err(Failure::from);
        sent.map_err(|failure| failure.about(self.subject))
    }

    /// Sends it and goes on in another protocol: what the answer says, and the connection.
    pub(super) async fn upgrade(self) -> Result<(HeaderMap, Upgraded), Failure> {
        Ok(self.http.upgrade().await?)
    }
}

#[cfg(test)]
mod tests {
    use mcp_core::tool::{ToolError, ToolErrorKind};

    use super::*;

    #[tokio::test]
    async fn an_answer_that_never_comes() {
        // The system takes the connection, and nobody reads from it.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let server = AgentServer::new(url.parse().unwrap(), Secret::new(None, None)).unwrap();
        let request = server.get(&["x"], &[]).within(Duration::from_millis(50));
        let failure = request.send::<Value>().await.unwrap_err();
        assert!(failure.is_transient() && failure.is_ambiguous());
        assert_eq!(ToolError::from(failure).kind(), ToolErrorKind::Timeout);
    }
}
