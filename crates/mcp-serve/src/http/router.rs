//! The paths of a server: authenticates a request, limits its rate, and routes it.

mod authenticate;

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderMap, HeaderValue, VARY};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Body;
use mcp_core::error::Error;
use mcp_core::server::Server;
use mcp_core::sign::Signer;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::connection::ClientConnection;
use super::guard::Guard;
use super::headers::{Head, SESSION};
use super::limits::Limits;
use super::mcp::{Authenticated, McpEndpoint};
use super::metrics::{self, Refusals, ServerMetrics};
use super::page::{self, Page, PageRequest};
use super::rate::RateLimit;
use super::reply::{self, Reply};
use super::{body, cors};
use crate::page_data::PageContent;
use crate::{OwnPaths, SharedSessions};

/// The reason of a refusal because of `Host` or `Origin`.
const FOREIGN_HOST: &str = "foreign_host";

pub(super) struct Router {
    guard: Guard,
    rate: Option<RateLimit>,
    mcp: Arc<McpEndpoint>,
    registry: Registry,
    refusals: Arc<Refusals>,
    paths: OnceLock<Arc<dyn OwnPaths>>,
    page: OnceLock<Page>,
    /// True once each response ends its connection.
    is_draining: AtomicBool,
}

impl Router {
    pub(super) fn new(
        server: Arc<Server>,
        guard: Guard,
        signer: Signer,
        limits: Limits,
        mut registry: Registry,
    ) -> Self {
        let oauth = guard.oauth().cloned();
        let mcp = Arc::new(McpEndpoint::new(server, signer, limits, oauth));
        let refusals: Arc<Refusals> = Arc::default();
        registry.register_collector(Box::new(ServerMetrics {
            mcp: Arc::clone(&mcp),
            refusals: Arc::clone(&refusals),
        }));
        Self {
            guard,
            rate: limits
                .max_requests_per_second
                .and_then(NonZeroU32::new)
                .map(RateLimit::new),
            mcp,
            registry,
            refusals,
            paths: OnceLock::new(),
            page: OnceLock::new(),
            is_draining: AtomicBool::default(),
        }
    }

    pub(super) fn drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    /// True if requests need a token.
    pub(super) fn needs_token(&self) -> bool {
        self.guard.needs_token()
    }

    pub(super) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// Serves the page at `url`, or at the origin that is known to OAuth clients, and says where it is. A second call
    /// has no effect.
    pub(super) fn serve_page(&self, url: Option<String>, content: PageContent) {
        let public = self.guard.oauth().map(|oauth| oauth.origin());
        let url = public.map(|origin| format!("{origin}/")).or(url);
        self.page.get_or_init(|| Page::new(content));
        let place = url.as_deref().unwrap_or("/, by HTTPS or localhost");
        match self.needs_token() {
            true => tracing::info!("the page is at {place}; sign in with a token"),
            false => tracing::info!("the page is at {place}"),
        }
    }

    /// Answers a request to the page. No page of another origin may read the response.
    async fn answer_page<B: Body<Data = Bytes> + Unpin>(
        &self,
        page: &Page,
        request: PageRequest<'_, B>,
    ) -> Response<Reply> {
        let fields = Head::read(&request.head.headers);
        let checked = self.guard.check_host(&request.head.uri, &fields);
        if let Err(error) = checked.and_then(|()| fields.check_unambiguous()) {
            let mut refused = self.mcp.refuse(&request.head.headers, &error, None);
            if matches!(error, Error::Forbidden(_)) {
                refused = reply::because(FOREIGN_HOST, refused);
            }
            return reply::before_body(refused, &request.head.headers, request.body);
        }
        let limit_rate = |client: &Authenticated, is_call| self.check_page(client, is_call);
        page.answer(&self.guard, &self.mcp, request, limit_rate)
            .await
    }

    pub(super) fn serve_paths(&self, paths: Arc<dyn OwnPaths>) {
        // A second call has no effect.
        let _ = self.paths.set(paths);
    }

    /// The service's own paths, if this is one of them.
    fn own_paths(&self, method: &Method, path: &str) -> Option<&Arc<dyn OwnPaths>> {
        let paths = self.paths.get().filter(|_| method == Method::POST);
        paths.filter(|paths| path.starts_with(paths.prefix()))
    }

    pub(super) fn share_sessions(&self, shared: Arc<dyn SharedSessions>) {
        self.mcp.share_sessions(shared);
    }

    pub(super) fn server(&self) -> &Server {
        self.mcp.server()
    }

    pub(super) fn limits(&self) -> &Limits {
        self.mcp.limits()
    }

    pub(super) fn serve_sse(&self) {
        self.mcp.serve_sse();
    }

    pub(super) async fn answer<B: Body<Data = Bytes> + Unpin>(
        &self,
        request: Request<B>,
        connection: &ClientConnection,
    ) -> Response<Reply> {
        let mut response = self.answer_uncounted(request, connection).await;
        self.refusals.count(&response);
        if self.is_draining() {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        response
    }

    async fn answer_uncounted<B: Body<Data = Bytes> + Unpin>(
        &self,
        request: Request<B>,
        connection: &ClientConnection,
    ) -> Response<Reply> {
        let (mut head, mut body) = request.into_parts();
        if let Some(page) = self.page.get().filter(|_| Page::is_asked(&head)) {
            let request = PageRequest {
                head,
                body: &mut body,
                connection,
            };
            return page::protect(self.answer_page(page, request).await);
        }
        let fields = Head::read(&head.headers);
        let client = self.authenticate(&head, &fields, connection).await;
        let is_forbidden = matches!(client, Err(Error::Forbidden(_)));
        let is_admitted = !is_forbidden && self.guard.allows_pages();
        let origin = fields.origin.filter(|_| is_admitted).cloned();
        let mut response = self.route(&mut head, &mut body, client).await;
        if let Some(origin) = origin {
            cors::allow(&mut response, origin);
        }
        response
    }

    /// Answers a request on a connection beyond the limit: health checks and metrics, so that a server at its
    /// limit is not taken for dead.
    pub(super) async fn answer_at_limit<B: Body<Data = Bytes> + Unpin>(
        &self,
        request: Request<B>,
        connection: &ClientConnection,
    ) -> Response<Reply> {
        match request.uri().path() {
            "/healthz" | "/readyz" | "/metrics" => self.answer(request, connection).await,
            _ => {
                let refused = reply::busy();
                self.refusals.count(&refused);
                refused
            }
        }
    }

    async fn route<B: Body<Data = Bytes> + Unpin>(
        &self,
        head: &mut Parts,
        body: &mut B,
        client: Result<Authenticated, Error>,
    ) -> Response<Reply> {
        let headers = &head.headers;
        let client = match client {
            Ok(client) => client,
            Err(error) => {
                tracing::debug!(kind = error.kind(), "refused");
                let view = self.view_name(head.uri.path());
                let mut refused = self.mcp.refuse(headers, &error, view);
                let is_foreign = || {
                    let checked = self.guard.check_host(&head.uri, &Head::read(headers));
                    checked.is_err()
                };
                if matches!(error, Error::Forbidden(_)) && is_foreign() {
                    refused = reply::because(FOREIGN_HOST, refused);
                }
                return reply::before_body(refused, headers, body);
            }
        };
        if let Some(response) = cors::preflight(&head.method, headers) {
            return response;
        }
        // A view that is not there for this client is an unknown path.
        let path = match client.view {
            Some(_) => "/mcp",
            None => head.uri.path(),
        };
        if (&head.method, path) == (&Method::POST, "/mcp") {
            let headers = std::mem::take(&mut head.headers);
            return self.mcp.post(headers, body, client).await;
        }
        if (&head.method, path) == (&Method::POST, "/messages") && self.mcp.serves_sse() {
            let headers = std::mem::take(&mut head.headers);
            return self.mcp.post_sse(&head.uri, headers, body, client).await;
        }
        if let Some(paths) = self.own_paths(&head.method, path) {
            let Ok(read) = body::read(&mut *body, self.limits()).await else {
                let status = StatusCode::BAD_REQUEST;
                let refused = reply::json(status, r#"{"error":"the body cannot be read"}"#);
                return reply::before_body(refused, headers, body);
            };
            let caller = client.principal();
            let (status, json) = paths
                .post(path, caller.map(|caller| &**caller), &read)
                .await;
            return reply::json(StatusCode::from_u16(status).unwrap_or_default(), json);
        }
        let response = match (&head.method, path) {
            (&Method::GET, "/mcp") if has_session_id(headers) && client.headers.accepts.events => {
                self.mcp.get(headers, &client).await
            }
            (&Method::DELETE, "/mcp") if has_session_id(headers) => {
                self.mcp.delete(headers, &client).await
            }
            (&Method::GET, "/sse") if self.mcp.serves_sse() => self.mcp.open_sse(&client),
            (_, "/mcp") => reply::method_not_allowed(&self.help(headers)),
            (&Method::GET | &Method::HEAD, "/healthz") => {
                reply::json(StatusCode::OK, r#"{"status":"ok"}"#)
            }
            (&Method::GET | &Method::HEAD, "/readyz") => self.ready(),
            (&Method::GET | &Method::HEAD, "/metrics") => metrics::reply(&self.registry, headers),
            (method, path) => {
                let is_read = matches!(method, &Method::GET | &Method::HEAD);
                match is_read.then(|| self.metadata(path)).flatten() {
                    Some(metadata) => reply::json(StatusCode::OK, metadata),
                    None => {
                        let help = format!("{:#}\n", self.help(headers));
                        let mut response = reply::json(StatusCode::NOT_FOUND, help);
                        if path == "/" {
                            // Browsers get the page there.
                            let accept = HeaderValue::from_static("accept");
                            response.headers_mut().insert(VARY, accept);
                        }
                        response
                    }
                }
            }
        };
        reply::before_body(response, headers, body)
    }

    /// The name of the view in the path `/mcp/NAME` of a server with views. There may be no such view.
    fn view_name<'a>(&self, path: &'a str) -> Option<&'a str> {
        let name = path.strip_prefix("/mcp/")?;
        self.server().has_views().then_some(name)
    }

    /// The metadata for OAuth clients, if there is an issuer and this is their path.
    fn metadata(&self, path: &str) -> Option<String> {
        self.guard
            .oauth()?
            .metadata_at(path, self.server().has_views())
    }

    fn ready(&self) -> Response<Reply> {
        if self.is_draining() {
            let body = r#"{"status":"stopping"}"#;
            return reply::json(StatusCode::SERVICE_UNAVAILABLE, body);
        }
        match self.server().degraded() {
            None => reply::json(StatusCode::OK, r#"{"status":"online"}"#),
            Some(reason) => {
                let body = json!({"status": "degraded", "reason": reason});
                reply::json(StatusCode::SERVICE_UNAVAILABLE, body.to_string())
            }
        }
    }

    /// Describes this server and how to call it, for people with a browser or a bare `curl`.
    fn help(&self, headers: &HeaderMap) -> Value {
        let identity = self.server().identity();
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
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

fn has_session_id(headers: &HeaderMap) -> bool {
    headers.contains_key(SESSION)
}
