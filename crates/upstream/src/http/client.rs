//! A client of one service: its connections and its address.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, Url, redirect, retry};

use super::failure::{Fault, HttpFailure, Peer};
use super::profile::ServiceProfile;
use super::request::Request;
use super::url::{display_url, is_loopback};

/// Timeout of opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Idle time after which a connection is closed. Services such as n8n and uvicorn close theirs after
/// 5 s; ours must be shorter, so that no request meets a closing connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// A client of one service. Clones share their connections.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Arc<Url>,
    peer: Peer,
    profile: &'static ServiceProfile,
}

impl Client {
    /// Makes a client of the service at `base`. Does not connect.
    ///
    /// # Errors
    /// When `base` is not an `http` or `https` URL with a host, or TLS cannot be set up.
    pub fn new(base: Url, profile: &'static ServiceProfile) -> Result<Self, SetupError> {
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return Err(SetupError("not an http or https URL with a host".into()));
        }
        let tls = mcp_client::tls::config_for(base.scheme());
        let mut builder = reqwest::Client::builder()
            .user_agent(profile.user_agent)
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            // A redirected POST would become a GET or a second POST, and the key would be sent to
            // another address.
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .tls_backend_preconfigured(tls.map_err(|error| SetupError(error.into()))?);
        if is_loopback(&base) {
            // A proxy cannot reach this machine's own loopback.
            builder = builder.no_proxy();
        }
        Ok(Self {
            http: builder.build().map_err(|error| SetupError(error.into()))?,
            peer: Peer::new(display_url(&base), &profile.wording),
            base: Arc::new(base),
            profile,
        })
    }

    /// The URL of the service, with its credentials.
    pub fn base(&self) -> &Url {
        &self.base
    }

    /// The URL of the service without credentials, which may be shown.
    pub fn address(&self) -> &str {
        self.peer.address()
    }

    /// Makes a failure of this service that does not come from a request.
    pub fn failure(&self, fault: Fault) -> HttpFailure {
        self.peer.failure(fault)
    }

    /// Makes a request to a path, whose segments are escaped.
    pub fn request<S: Into<String>>(
        &self,
        method: Method,
        path: impl IntoIterator<Item = S>,
    ) -> Request {
        let path = path.into_iter().map(Into::into).collect();
        let url = super::url::join_path(&self.base, &path);
        let builder = self.http.request(method.clone(), url);
        Request::new(builder, self.peer.clone(), self.profile, (method, path))
    }

    /// Makes a `GET` request.
    pub fn get<S: Into<String>>(&self, path: impl IntoIterator<Item = S>) -> Request {
        self.request(Method::GET, path)
    }

    /// Makes a `POST` request.
    pub fn post<S: Into<String>>(&self, path: impl IntoIterator<Item = S>) -> Request {
        self.request(Method::POST, path)
    }
}

/// The reason why a client cannot be made.
#[derive(Debug)]
pub struct SetupError(Box<dyn Error + Send + Sync>);

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot set up HTTP: {}", self.0)
    }
}

impl Error for SetupError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}
