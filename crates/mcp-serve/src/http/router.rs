//! The paths of a server, for a listener or for the router of another program.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use futures_util::FutureExt as _;
use http::header::ORIGIN;
use http::{Method, StatusCode};
use mcp_core::server::Server;
use mcp_core::sign::Signer;
use prometheus_client::registry::Registry;
use serde_json::json;
use tower_service::Service as _;

use crate::http::app::{App, Extras};
use crate::http::connections::ClientConnection;
use crate::http::guard::Guard;
use crate::http::headers::{Accepts, session_id};
use crate::http::limits::Limits;
use crate::http::page::Page;
use crate::http::reply::{FOREIGN_HOST, Refused};
use crate::http::request::{HttpRequest, is_over, read_small_body};
use crate::http::{metrics, reply, sse};

pub(super) fn paths(app: &Arc<App>, serves_sse: bool) -> Router {
    let mcp = post(post_mcp)
        .get(get_mcp)
        .head(not_allowed)
        .delete(delete_mcp)
        .fallback(not_allowed);
    let sse = Router::new()
        .route("/sse", get(sse::open).head(other_path))
        .route("/messages", post(sse::post));
    let paths = Router::new()
        .route("/mcp", mcp.clone())
        .route("/mcp/{*view}", mcp)
        .route("/healthz", get(health))
        .route("/readyz", get(ready))
        .route("/metrics", get(show_metrics));
    let paths = if serves_sse { paths.merge(sse) } else { paths };
    paths
        .method_not_allowed_fallback(other_path)
        .fallback(other_path)
        .with_state(Arc::clone(app))
}

async fn post_mcp(State(app): State<Arc<App>>, request: HttpRequest) -> Response {
    app.post(request).await
}

async fn get_mcp(State(app): State<Arc<App>>, request: HttpRequest) -> Response {
    let has_session = session_id(&request.headers).is_some();
    match has_session && Accepts::of(&request.headers).events {
        true => app.get(&request).await,
        false => reply::method_not_allowed(&app.help(&request)),
    }
}

async fn delete_mcp(State(app): State<Arc<App>>, request: HttpRequest) -> Response {
    match session_id(&request.headers) {
        Some(_) => app.delete(&request).await,
        None => reply::method_not_allowed(&app.help(&request)),
    }
}

async fn not_allowed(State(app): State<Arc<App>>, request: HttpRequest) -> Response {
    reply::method_not_allowed(&app.help(&request))
}

async fn health(_: HttpRequest) -> Response {
    reply::json(StatusCode::OK, r#"{"status":"ok"}"#)
}

async fn ready(State(app): State<Arc<App>>, _: HttpRequest) -> Response {
    if app.is_draining() {
        return reply::json(StatusCode::SERVICE_UNAVAILABLE, r#"{"status":"stopping"}"#);
    }
    match app.server.degraded() {
        None => reply::json(StatusCode::OK, r#"{"status":"online"}"#),
        Some(reason) => {
            let body = json!({"status": "degraded", "reason": reason});
            reply::json(StatusCode::SERVICE_UNAVAILABLE, body.to_string())
        }
    }
}

async fn show_metrics(State(app): State<Arc<App>>, request: HttpRequest) -> Response {
    metrics::reply(&app.registry, &request.headers)
}

/// Answers a request to any other path: one of the service's own, or of OAuth clients, or an unknown one.
async fn other_path(State(app): State<Arc<App>>, mut request: HttpRequest) -> Response {
    if let Some(paths) = app.own_paths(&request) {
        let read = match read_small_body(&mut request, app.limits).await {
            Ok(read) => read,
            Err(refusal) => return app.refuse_unread(request, refusal),
        };
        // After the body: a slow body must not take the permit of another request.
        let Some(_permit) = app.permit() else {
            return reply::busy();
        };
        let caller = request.principal().map(|caller| &**caller);
        let (status, json) = paths.post(request.uri.path(), caller, &read).await;
        return reply::json(StatusCode::from_u16(status).unwrap_or_default(), json);
    }
    if request.method == Method::POST {
        let response = app.unknown(&request);
        return request.unread(response);
    }
    let is_read = matches!(request.method, Method::GET | Method::HEAD);
    match is_read.then(|| app.metadata(request.uri.path())).flatten() {
        Some(metadata) => reply::json(StatusCode::OK, metadata),
        None => app.unknown(&request),
    }
}

/// The paths `/mcp`, `/healthz`, `/readyz` and `/metrics` of a server. [`Listener`](crate::Listener)
/// serves them; [`HttpService::router`] is for another program with axum.
///
/// They check tokens, hosts and origins, and apply the rate limit and the limits of bodies and of requests
/// in flight. The program around them provides:
///
/// - the limits of connections ([`Limits::max_connections`], [`Limits::head_timeout`],
///   [`Limits::write_timeout`], [`Limits::linger_timeout`], [`Limits::shutdown_grace`]), and TLS;
/// - the `Host` header as the client sent it;
/// - the address of the client as the request extension [`SocketAddr`](std::net::SocketAddr). Clients without a token
///   are limited by it; if it is missing, they share the rate limit and the limit of streams;
/// - at the end a call of [`HttpService::close`], which ends the streams that wait for changes.
#[derive(Clone)]
pub struct HttpService {
    pub(super) app: Arc<App>,
    paths: Router,
}

impl HttpService {
    /// The paths of `server`. `/metrics` shows the content of `registry`.
    pub fn new(
        server: Arc<Server>,
        guard: Guard,
        signer: Signer,
        limits: Limits,
        registry: Registry,
    ) -> Self {
        Self::with(server, guard, signer, limits, registry, Extras::default())
    }

    pub(crate) fn with(
        server: Arc<Server>,
        guard: Guard,
        signer: Signer,
        limits: Limits,
        registry: Registry,
        extras: Extras,
    ) -> Self {
        let serves_sse = extras.sse;
        let app = App::new(server, guard, signer, limits, registry, extras);
        let paths = paths(&app, serves_sse);
        Self { app, paths }
    }

    /// The paths, for the router of another program.
    pub fn router(&self) -> Router {
        let service = self.clone();
        Router::new().fallback(move |request: Request| async move { service.answer(request).await })
    }

    /// Answers a request: a page of an admitted origin may read the response, refusals are counted, and the end of the
    /// connection is announced where the body of the request may still arrive.
    pub(super) async fn answer(&self, mut request: Request) -> Response {
        let app = &self.app;
        let connection = request.extensions().get::<Arc<ClientConnection>>().cloned();
        let is_reserved = connection.as_ref().is_some_and(|client| client.is_reserved);
        let origin = request.headers().get(ORIGIN).cloned();
        // The path of a `POST` reads its body.
        let is_read = request.method() == Method::POST || is_over(&mut request);
        let page = app.page.as_ref().filter(|_| Page::is_asked(&request));
        let path = request.uri().path().to_owned();
        let is_of_health = matches!(&*path, "/healthz" | "/readyz" | "/metrics");
        let answering = async {
            match page {
                // So that a server at its limit is not taken for dead.
                _ if is_reserved && !is_of_health => reply::busy(),
                // Boxed: it is most of what each open connection would hold for its next request.
                Some(page) => Box::pin(page.answer(app, request)).await,
                None => self.paths.clone().call(request).await.into_response(),
            }
        };
        let answered = AssertUnwindSafe(answering).catch_unwind().await;
        let mut response = answered.unwrap_or_else(|_| {
            tracing::error!(%path, "panicked");
            let reason = "an internal error; the log of the server has its place";
            reply::failure(StatusCode::INTERNAL_SERVER_ERROR, reason)
        });
        let refused = response.extensions().get().map(|Refused(reason)| *reason);
        if let Some(reason) = refused {
            app.refusals.get_or_create(&[("reason", reason)]).inc();
        }
        let is_admitted = !matches!(refused, Some(FOREIGN_HOST | "forbidden"));
        if let Some(origin) = origin.filter(|_| page.is_none() && is_admitted)
            && app.guard.allows_pages()
        {
            reply::allow(&mut response, origin);
        }
        if !is_read || app.is_draining() {
            reply::end_connection(&mut response);
        }
        if let Some(connection) = connection.filter(|_| !is_read) {
            connection.set_sending();
        }
        response
    }

    /// Says where the page for people is: at `url`, or at the origin that is known to OAuth clients.
    pub(crate) fn tell_page(&self, url: Option<String>) {
        let public = self.app.guard.oauth().map(|oauth| oauth.origin());
        let url = public.map(|origin| format!("{origin}/")).or(url);
        let place = url.as_deref().unwrap_or("/, by HTTPS or localhost");
        match self.app.guard.needs_token() {
            true => tracing::info!("the page is at {place}; sign in with a token"),
            false => tracing::info!("the page is at {place}"),
        }
    }

    /// Says in `/readyz` that this process ends, and in each response that its connection ends with it.
    pub(crate) fn drain(&self) {
        self.app.drain();
    }

    /// Ends the streams that wait for changes, so that their connections can be closed.
    pub fn close(&self) {
        self.app.server.close();
    }
}
