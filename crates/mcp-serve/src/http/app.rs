//! State that the paths of a server share.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::response::Response;
use http::header::{HOST, HeaderValue, VARY};
use http::{Method, StatusCode};
use mcp_core::server::Server;
use mcp_core::sign::Signer;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::guard::Guard;
use super::limits::Limits;
use super::mcp::McpEndpoint;
use super::metrics::{Refusals, ServerMetrics};
use super::rate::RateLimit;
use super::reply::{self, Refusal};
use super::request::HttpRequest;
use crate::page_data::PageContent;
use crate::{OwnPaths, SharedSessions};

/// State that the paths of a server share.
pub(super) struct App {
    pub(super) guard: Guard,
    pub(super) rate: Option<RateLimit>,
    pub(super) mcp: Arc<McpEndpoint>,
    pub(super) registry: Registry,
    pub(super) refusals: Arc<Refusals>,
    paths: Option<Arc<dyn OwnPaths>>,
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
    pub(crate) paths: Option<Arc<dyn OwnPaths>>,
    /// The sessions that it shares with other processes.
    pub(crate) shared: Option<Arc<dyn SharedSessions>>,
    /// Facts that the page for people shows beside the tools.
    pub(crate) page: Option<PageContent>,
}

impl App {
    pub(super) fn new(
        server: Arc<Server>,
        guard: Guard,
        signer: Signer,
        limits: Limits,
        mut registry: Registry,
        extras: &Extras,
    ) -> Self {
        let oauth = guard.oauth().cloned();
        let mcp = McpEndpoint::new(server, signer, limits, oauth, extras.shared.clone());
        let (mcp, refusals) = (Arc::new(mcp), Arc::<Refusals>::default());
        registry.register_collector(Box::new(ServerMetrics {
            mcp: Arc::clone(&mcp),
            refusals: Arc::clone(&refusals),
        }));
        let rate = limits.max_requests_per_second.and_then(NonZeroU32::new);
        Self {
            guard,
            rate: rate.map(RateLimit::new),
            mcp,
            registry,
            refusals,
            paths: extras.paths.clone(),
            is_draining: AtomicBool::default(),
        }
    }

    pub(super) fn drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    pub(super) fn server(&self) -> &Server {
        self.mcp.server()
    }

    pub(super) fn limits(&self) -> &Limits {
        self.mcp.limits()
    }

    /// The service's own paths, if this is one of them.
    pub(super) fn own_paths(&self, request: &HttpRequest) -> Option<&Arc<dyn OwnPaths>> {
        let paths = self
            .paths
            .as_ref()
            .filter(|_| request.method == Method::POST);
        paths.filter(|paths| request.uri.path().starts_with(paths.prefix()))
    }

    /// The name of the view in the path `/mcp/NAME` of a server with views. There may be no such view.
    pub(super) fn view_name<'a>(&self, path: &'a str) -> Option<&'a str> {
        let name = path.strip_prefix("/mcp/")?;
        self.server().has_views().then_some(name)
    }

    /// Returns the response to a request that is refused.
    pub(super) fn refuse(&self, request: &HttpRequest, refusal: Refusal) -> Response {
        let view = self.view_name(request.uri.path());
        self.mcp.refuse(request, view, refusal)
    }

    /// The response to an unknown path.
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
        let has_views = self.server().has_views();
        self.guard.oauth()?.metadata_at(path, has_views)
    }

    /// Describes this server and how to call it, for people with a browser or a bare `curl`.
    pub(super) fn help(&self, request: &HttpRequest) -> Value {
        let identity = self.server().identity();
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
            false => self.server().views(None),
        };
        if !views.is_empty() {
            let paths = views.iter().map(|name| format!("/mcp/{name}"));
            help["views"] = paths.collect();
        }
        help
    }
}
