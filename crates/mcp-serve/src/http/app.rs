//! The state that the paths of a server share, and the checks in front of every path: host and origin, token, role,
//! view and rate.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::{FromRequest, Request};
use axum::response::Response;
use http::header::{HOST, HeaderValue, VARY};
use http::{Method, StatusCode};
use mcp_core::error::Error;
use mcp_core::server::Server;
use mcp_core::sign::Signer;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::http::events::ResumableStreams;
use crate::http::guard::Guard;
use crate::http::limits::{Limits, RateLimit, StreamSlots};
use crate::http::mcp::KIB;
use crate::http::metrics::{Refusals, ServerMetrics};
use crate::http::page::Page;
use crate::http::reply::Refusal;
use crate::http::request::HttpRequest;
use crate::http::session::Sessions;
use crate::http::sse::SseSessions;
use crate::http::{headers, reply};
use crate::{OwnPaths, SharedSessions};

/// State that the paths of a server share.
pub(super) struct App {
    pub(super) server: Arc<Server>,
    pub(super) guard: Guard,
    rate: Option<RateLimit>,
    pub(super) limits: Limits,
    pub(super) registry: Registry,
    pub(super) refusals: Refusals,
    pub(super) sessions: Sessions,
    pub(super) streams: Arc<ResumableStreams>,
    pub(super) slots: StreamSlots,
    /// One permit for each request in flight.
    pub(super) in_flight: Arc<Semaphore>,
    /// One permit for each KiB of large request bodies.
    pub(super) body_memory: Arc<Semaphore>,
    /// The sessions of `/sse`, which may not be served.
    pub(super) sse: Arc<SseSessions>,
    /// Set if other processes may serve the same sessions.
    pub(super) shared: Option<Arc<dyn SharedSessions>>,
    own_paths: Option<Arc<dyn OwnPaths>>,
    /// The page for people, if it is served.
    pub(super) page: Option<Page>,
    /// True once each response ends its connection.
    is_draining: AtomicBool,
}

/// Paths and texts that some servers have beside those of all.
#[derive(Default)]
pub(crate) struct Extras {
    /// HTTP+SSE, too: `GET /sse` and `POST /messages`, the transport of 2024-11-05, for clients that have no other.
    /// The checks and limits are those of `/mcp`.
    pub(crate) sse: bool,
    /// Paths of the service's own.
    pub(crate) own_paths: Option<Arc<dyn OwnPaths>>,
    /// The sessions that it shares with other processes.
    pub(crate) shared: Option<Arc<dyn SharedSessions>>,
    /// The file that keeps which sessions were ended.
    pub(crate) ended_sessions: Option<PathBuf>,
    /// The page for people, if it is served.
    pub(crate) page: Option<Page>,
}

impl App {
    pub(super) fn new(
        server: Arc<Server>,
        guard: Guard,
        signer: Signer,
        limits: Limits,
        mut registry: Registry,
        extras: Extras,
    ) -> Arc<Self> {
        let refusals = Refusals::default();
        // A counter that begins with 1 has no increase for an alert.
        for reason in [
            "busy",
            "foreign_host",
            "rate_limited",
            "too_many_streams",
            "unauthorized",
        ] {
            drop(refusals.get_or_create(&[("reason", reason)]));
        }
        let help = "Requests refused before they were read";
        registry.register("mcp_refused_requests", help, refusals.clone());
        let rate = limits.max_requests_per_second.and_then(NonZeroU32::new);
        Arc::new_cyclic(|app| {
            registry.register_collector(Box::new(ServerMetrics(app.clone())));
            Self {
                server,
                guard,
                rate: rate.map(RateLimit::new),
                limits,
                registry,
                refusals,
                sessions: Sessions::new(signer, extras.ended_sessions),
                streams: Arc::default(),
                slots: StreamSlots::default(),
                in_flight: Arc::new(Semaphore::new(limits.max_in_flight)),
                body_memory: Arc::new(Semaphore::new(limits.max_body_memory / KIB)),
                sse: Arc::default(),
                shared: extras.shared,
                own_paths: extras.own_paths,
                page: extras.page,
                is_draining: AtomicBool::default(),
            }
        })
    }

    pub(super) fn drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// The service's own paths, if this is one of them.
    pub(super) fn own_paths(&self, request: &HttpRequest) -> Option<&Arc<dyn OwnPaths>> {
        let paths = self
            .own_paths
            .as_ref()
            .filter(|_| request.method == Method::POST);
        paths.filter(|paths| request.uri.path().starts_with(paths.prefix()))
    }

    /// The name of the view in the path `/mcp/NAME` of a server with views. There may be no such view.
    pub(super) fn view_name<'a>(&self, path: &'a str) -> Option<&'a str> {
        let name = path.strip_prefix("/mcp/")?;
        self.server.has_views().then_some(name)
    }

    pub(super) fn unknown(&self, request: &HttpRequest) -> Response {
        let help = format!("{:#}\n", self.help(request));
        let mut response = reply::json(StatusCode::NOT_FOUND, help);
        if request.uri.path() == "/" {
            // Browsers get the page there.
            let accept = HeaderValue::from_static("accept");
            response.headers_mut().insert(VARY, accept);
        }
        response
    }

    /// The metadata for OAuth clients, if there is an issuer and this is their path.
    pub(super) fn metadata(&self, path: &str) -> Option<String> {
        let has_views = self.server.has_views();
        self.guard.oauth()?.metadata_at(path, has_views)
    }

    /// Describes this server and how to call it, for people with a browser or a bare `curl`.
    pub(super) fn help(&self, request: &HttpRequest) -> Value {
        let identity = self.server.identity();
        let host = request.headers.get(HOST);
        let host = host.and_then(|host| host.to_str().ok());
        let mut help = json!({
            "name": identity.name,
            "version": identity.version,
            "description": identity.description,
            "protocol": "Model Context Protocol, JSON-RPC 2.0: POST one message to /mcp",
            "example": format!(
                "curl http://{}/mcp -H 'Content-Type: application/json' -d '{}'",
                host.unwrap_or("localhost"),
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#
            ),
        });
        // Where tokens are required, this may be a reply to anybody.
        let views = match self.guard.needs_token() {
            true => Vec::new(),
            false => self.server.views(None),
        };
        if !views.is_empty() {
            let paths = views.iter().map(|name| format!("/mcp/{name}"));
            help["views"] = paths.collect();
        }
        help
    }
}

impl FromRequest<Arc<App>> for HttpRequest {
    type Rejection = Response;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Response> {
        let mut request = Self::new(request);
        let refused = match app.admit(&mut request).await {
            Err(refusal) => app.refuse(&request, app.view_name(request.uri.path()), refusal),
            Ok(()) if reply::is_preflight(&request.method, &request.headers) => {
                reply::preflight(&request.headers)
            }
            // A view that is not there for this client is an unknown path.
            Ok(()) if request.uri.path().starts_with("/mcp/") && request.view.is_none() => {
                app.unknown(&request)
            }
            Ok(()) => return Ok(request),
        };
        Err(request.unread(refused))
    }
}

impl App {
    /// Checks a request by its head, and fills in its client. `/mcp` without a message or a session and the health
    /// checks are public: they reveal nothing about the service.
    async fn admit(&self, request: &mut HttpRequest) -> Result<(), Refusal> {
        self.check_host(request)?;
        let (path, headers) = (request.uri.path(), &request.headers);
        let is_preflight = reply::is_preflight(&request.method, headers);
        let view = self.view_name(path);
        let is_public = match path {
            _ if is_preflight => true,
            // Whether there is such a view is not public.
            _ if view.is_some() => false,
            "/mcp" => request.method != Method::POST && headers::session_id(headers).is_none(),
            path => !matches!(path, "/metrics" | "/sse" | "/messages"),
        };
        let is_own = self.own_paths(request).is_some();
        if !is_public || is_own && headers::authorization(headers).is_some() {
            let checked = self.guard.check_token(headers, view, &request.connection);
            request.credential = checked.await?;
        }
        self.check_role(request)?;
        headers::check_unambiguous(headers)?;
        let principal = request.principal().map(|principal| &**principal);
        let found = view.and_then(|view| self.server.view(principal, view));
        // Health checks are not limited: a busy client must not make its server look dead.
        let is_limited = is_own || view.is_some() || matches!(path, "/mcp" | "/sse" | "/messages");
        if is_limited && !is_preflight {
            self.limit_rate(request, "")?;
        }
        request.view = found;
        Ok(())
    }

    pub(super) fn check_host(&self, request: &HttpRequest) -> Result<(), Refusal> {
        let checked = self.guard.check_host(&request.uri, &request.headers);
        checked.map_err(Refusal::Host)
    }

    /// Checks the role of a client of the page, and counts the request against its limit. What the page asks by itself
    /// has a limit of its own, and leaves that of calls alone.
    pub(super) fn check_page(&self, request: &HttpRequest, is_call: bool) -> Result<(), Refusal> {
        self.check_role(request)?;
        // No name has a line end.
        Ok(self.limit_rate(request, if is_call { "" } else { "page\n" })?)
    }

    fn check_role(&self, request: &HttpRequest) -> Result<(), Error> {
        let role = request.principal().and_then(|principal| principal.role());
        // Without roles it would allow more than the token file says.
        match role.is_some() && !self.server.has_roles() {
            true => Err(Error::Forbidden(
                "the token has a role, and this server has no roles".into(),
            )),
            false => Ok(()),
        }
    }

    /// Counts a request of some kind against the rate limit of its client.
    fn limit_rate(&self, request: &HttpRequest, kind: &str) -> Result<(), Error> {
        let Some(rate) = &self.rate else {
            return Ok(());
        };
        let key = format!("{kind}{}", request.limit_key());
        rate.admit(&key).map_err(|wait| {
            let error = Error::RateLimited(wait);
            let principal = request.principal().map(|principal| &principal.name);
            self.server.record_refusal(principal, error.kind());
            error
        })
    }
}
