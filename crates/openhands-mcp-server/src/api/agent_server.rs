//! One request to the agent server: its key, its deadline, its bounded answer.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use mcp_serve::Secret;
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Upgraded, Url, redirect};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use super::failure::{Failure, Fault, Refusal, Subject};
use super::task_id::TaskId;

/// The header that carries the key.
const KEY_HEADER: &str = "X-Session-API-Key";
/// A loopback or LAN peer that does not accept a connection in this time is down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The agent server closes idle connections after 5 s; ours go first, so that no request meets a
/// closing one.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// For everything that only reads: such calls take milliseconds, unless many agents are just being
/// set up.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest answer seen is a conversation with some hundred model calls, below 1 MB.
pub(super) const MAX_BODY: usize = 8 * 1024 * 1024;

/// The agent server: where it is and how to be let in.
#[derive(Clone)]
pub(crate) struct AgentServer {
    http: Client,
    base: Url,
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
        let mut http = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .tls_backend_preconfigured(mcp_client::tls::config_for(base.scheme())?)
            // The key goes to the configured address and nowhere else.
            .redirect(redirect::Policy::none());
        if is_loopback(&base) {
            // A proxy cannot reach this machine's own loopback.
            http = http.no_proxy();
        }
        let http = http.build().context("cannot set up HTTP")?;
        let key = Arc::new(key);
        Ok(Self { http, base, key })
    }

    /// A request to `path`, whose segments are escaped, as are the pairs of `query`.
    pub(super) fn request(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Request<'_> {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Request {
            server: self,
            builder: self.http.request(method, url),
            timeout: READ_TIMEOUT,
            subject: None,
            bearer: false,
        }
    }

    /// A `GET` of `path`.
    pub(super) fn get(&self, path: &[&str], query: &[(&str, &str)]) -> Request<'_> {
        self.request(Method::GET, path, query)
    }

    /// A `POST` to `path`.
    pub(super) fn post(&self, path: &[&str], query: &[(&str, &str)]) -> Request<'_> {
        self.request(Method::POST, path, query)
    }

    /// A request about one conversation; `rest` follows its id in the path.
    pub(super) fn about_task(
        &self,
        method: Method,
        id: TaskId,
        rest: &[&str],
        query: &[(&str, &str)],
    ) -> Request<'_> {
        let id_text = id.to_string();
        let mut path = vec!["api", "conversations", &*id_text];
        path.extend(rest);
        self.request(method, &path, query).about(Subject::Task(id))
    }

    pub(super) fn failure(&self, fault: Fault) -> Failure {
        Failure::new(self.base.origin().ascii_serialization(), fault)
    }

    pub(super) fn key_text(&self) -> Result<Option<String>, Fault> {
        self.key.get().map_err(Fault::Key)
    }

    fn key(&self) -> Result<Option<HeaderValue>, Fault> {
        let Some(key) = self.key_text()? else {
            return Ok(None);
        };
        let mut header = HeaderValue::from_str(&key).map_err(|_| {
            let reason = "the key holds characters that no header can carry";
            Fault::Key(std::io::Error::other(reason))
        })?;
        header.set_sensitive(true);
        Ok(Some(header))
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    host == "localhost" || host == "[::1]" || host.starts_with("127.")
}

/// A request that is being put together.
#[must_use]
pub(super) struct Request<'a> {
    server: &'a AgentServer,
    builder: RequestBuilder,
    timeout: Duration,
    /// The thing whose absence a 404 means.
    subject: Option<Subject>,
    /// The key goes into a second header, too.
    bearer: bool,
}

impl Request<'_> {
    /// Adds a JSON body.
    pub(super) fn json(self, body: &Value) -> Self {
        self.with(|builder| builder.json(body))
    }

    /// Adds headers or a body of another kind.
    pub(super) fn with(mut self, change: impl FnOnce(RequestBuilder) -> RequestBuilder) -> Self {
        self.builder = change(self.builder);
        self
    }

    /// Has a 404 told as the absence of `subject`.
    pub(super) fn about(mut self, subject: Subject) -> Self {
        self.subject = Some(subject);
        self
    }

    /// Sends the key as a bearer token, too: OpenHands' cloud wants it there.
    pub(super) fn with_bearer(mut self) -> Self {
        self.bearer = true;
        self
    }

    /// Gives up after `timeout`, from the connection to the last byte.
    pub(super) fn within(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sends it with the key and reads the answer as JSON.
    pub(super) async fn send<T: DeserializeOwned>(self) -> Result<T, Failure> {
        self.send_for_status().await.map(|(_, answer)| answer)
    }

    /// Sends it with the key, for its effect only.
    pub(super) async fn run(self) -> Result<(), Failure> {
        self.send::<IgnoredAny>().await.map(drop)
    }

    /// Sends it with the key; the status tells one kind of success from another.
    pub(super) async fn send_for_status<T: DeserializeOwned>(
        self,
    ) -> Result<(StatusCode, T), Failure> {
        let server = self.server;
        let (status, _, body) = self.exchange().await?;
        let answer = serde_json::from_slice(&body).map_err(Fault::Unreadable);
        Ok((status, answer.map_err(|fault| server.failure(fault))?))
    }

    /// Sends it with the key; the body is whatever it is.
    pub(super) async fn send_for_bytes(self) -> Result<(HeaderMap, Vec<u8>), Failure> {
        self.exchange()
            .await
            .map(|(_, headers, body)| (headers, body))
    }

    async fn exchange(self) -> Result<(StatusCode, HeaderMap, Vec<u8>), Failure> {
        let (server, subject) = (self.server, self.subject);
        let answer = async {
            let key = server.key()?;
            let keyed = key.is_some();
            let mut builder = self.builder;
            if let Some(key) = key {
                if self.bearer
                    && let Ok(key) = key.to_str()
                {
                    builder = builder.bearer_auth(key);
                }
                builder = builder.header(KEY_HEADER, key);
            }
            exchange(builder, self.timeout, keyed).await
        };
        answer
            .await
            .map_err(|fault| server.failure(fault).about(subject))
    }

    /// Sends it without the key: for what the agent server tells everybody.
    pub(super) async fn send_open<T: DeserializeOwned>(self) -> Result<T, Failure> {
        let answer = async {
            let (_, _, body) = exchange(self.builder, self.timeout, true).await?;
            serde_json::from_slice(&body).map_err(Fault::Unreadable)
        };
        answer.await.map_err(|fault| self.server.failure(fault))
    }

    /// Sends it without the key and goes on in another protocol: what the answer says, and the
    /// connection.
    pub(super) async fn upgrade(self) -> Result<(HeaderMap, Upgraded), Failure> {
        let broken = broken(self.timeout);
        let switch = async {
            let mut response = self.builder.send().await.map_err(&broken)?;
            let status = response.status();
            if status != StatusCode::SWITCHING_PROTOCOLS {
                return Err(Fault::Refused(Refusal::new(status, false, &[])));
            }
            let headers = std::mem::take(response.headers_mut());
            Ok((headers, response.upgrade().await.map_err(&broken)?))
        };
        // Not a timeout of the request: the connection lives longer than that.
        let switched = tokio::time::timeout(self.timeout, switch).await;
        let switched = switched.unwrap_or(Err(Fault::Slow(self.timeout)));
        switched.map_err(|fault| self.server.failure(fault))
    }
}

/// What goes wrong between the two sides.
fn broken(timeout: Duration) -> impl Fn(reqwest::Error) -> Fault {
    move |error| {
        if error.is_timeout() && !error.is_connect() {
            Fault::Slow(timeout)
        } else {
            // Without the address: it is named in the message, without its path.
            Fault::Unreachable(error.without_url())
        }
    }
}

async fn exchange(
    builder: RequestBuilder,
    timeout: Duration,
    keyed: bool,
) -> Result<(StatusCode, HeaderMap, Vec<u8>), Fault> {
    let broken = broken(timeout);
    let mut response = builder.timeout(timeout).send().await.map_err(&broken)?;
    let status = response.status();
    let body = read(&mut response).await?.map_err(&broken)?;
    if !status.is_success() {
        return Err(Fault::Refused(Refusal::new(status, keyed, &body)));
    }
    Ok((status, std::mem::take(response.headers_mut()), body))
}

/// The body, unless it is too large.
async fn read(response: &mut Response) -> Result<reqwest::Result<Vec<u8>>, Fault> {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > MAX_BODY => return Err(Fault::TooLarge),
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok(Ok(body)),
            Err(error) => return Ok(Err(error)),
        }
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
