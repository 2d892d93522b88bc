//! The paths of a server, and what their responses have in common.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use http::header::ORIGIN;
use http::{Method, StatusCode};
use serde_json::json;

use super::app::App;
use super::connections::ClientConnection;
use super::headers::{Accepts, session_id};
use super::page::Page;
use super::reply::{self, FOREIGN_HOST, Refused};
use super::request::HttpRequest;
use super::{body, cors, metrics};

/// The paths of a server.
pub(super) fn paths(app: &Arc<App>, page: Option<Arc<Page>>, serves_sse: bool) -> Router {
    let mcp = post(post_mcp)
        .get(get_mcp)
        .head(not_allowed)
        .delete(delete_mcp)
        .fallback(not_allowed);
    let sse = Router::new()
        .route("/sse", get(open_sse).head(unknown))
        .route("/messages", post(post_sse));
    let paths = Router::new()
        .route("/mcp", mcp.clone())
        .route("/mcp/{*view}", mcp)
        .route("/healthz", get(health))
        .route("/readyz", get(ready))
        .route("/metrics", get(show_metrics));
    let paths = if serves_sse { paths.merge(sse) } else { paths };
    paths
        .method_not_allowed_fallback(unknown)
        .fallback(unknown)
        .layer(from_fn_with_state((Arc::clone(app), page), around))
        .with_state(Arc::clone(app))
}

/// Answers a request: a page of an admitted origin may read the response, refusals are counted, and the end of the
/// connection is announced where the body of the request may still arrive.
async fn around(
    State((app, page)): State<(Arc<App>, Option<Arc<Page>>)>,
    request: Request,
    next: Next,
) -> Response {
    let (head, mut body) = request.into_parts();
    let connection = head.extensions.get::<Arc<ClientConnection>>().cloned();
    let is_reserved = connection.as_ref().is_some_and(|client| client.is_reserved);
    let origin = head.headers.get(ORIGIN).cloned();
    // The path of a `POST` reads its body.
    let is_read = head.method == Method::POST || body::has_arrived(&mut body, &head.headers);
    let page = page.filter(|_| Page::is_asked(&head));
    let is_of_health = matches!(head.uri.path(), "/healthz" | "/readyz" | "/metrics");
    let request = Request::from_parts(head, body);
    let mut response = match page {
        // So that a server at its limit is not taken for dead.
        _ if is_reserved && !is_of_health => reply::busy(),
        Some(ref page) => page.answer(&app, request).await,
        None => next.run(request).await,
    };
    let refused = response.extensions().get().map(|Refused(reason)| *reason);
    if let Some(reason) = refused {
        app.refusals.count(reason);
    }
    let is_admitted = !matches!(refused, Some(FOREIGN_HOST | "forbidden"));
    if let Some(origin) = origin.filter(|_| page.is_none() && is_admitted)
        && app.guard.allows_pages()
    {
        cors::allow(&mut response, origin);
    }
    if !is_read || app.is_draining() {
        reply::end_connection(&mut response);
    }
    if let Some(connection) = connection.filter(|_| !is_read) {
        connection.set_sending();
    }
    response
}

async fn post_mcp(State(app): State<Arc<App>>, request: HttpRequest) -> Response {
    app.mcp.post(request).await
}

async fn get_mcp(State(app): State<Arc<App>>, request: HttpRequest) -> Response {
    let has_session = session_id(&request.headers).is_some();
    match has_session && Accepts::of(&request.headers).events {
        true => app.mcp.get(&request).await,
        false => reply::method_not_allowed(&app.help(&request)),
    }
}

async fn delete_mcp(State(app): State<Arc<App>>, request: HttpRequest) -> Response {
    match session_id(&request.headers) {
        Some(_) => app.mcp.delete(&request).await,
        None => reply::method_not_allowed(&app.help(&request)),
    }
}

async fn not_allowed(State(app): State<Arc<App>>, request: HttpRequest) -> Response {
    reply::method_not_allowed(&app.help(&request))
}

async fn open_sse(State(app): State<Arc<App>>, request: HttpRequest) -> Response {
    app.mcp.open_sse(&request)
}

async fn post_sse(State(app): State<Arc<App>>, request: HttpRequest) -> Response {
    app.mcp.post_sse(request).await
}

async fn health(_: HttpRequest) -> Response {
    reply::json(StatusCode::OK, r#"{"status":"ok"}"#)
}

async fn ready(State(app): State<Arc<App>>, _: HttpRequest) -> Response {
    if app.is_draining() {
        return reply::json(StatusCode::SERVICE_UNAVAILABLE, r#"{"status":"stopping"}"#);
    }
    match app.server().degraded() {
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
async fn unknown(State(app): State<Arc<App>>, mut request: HttpRequest) -> Response {
    if let Some(paths) = app.own_paths(&request) {
        let Ok(read) = body::read(request.body(), app.limits()).await else {
            let refused = r#"{"error":"the body cannot be read"}"#;
            return request.unread(reply::json(StatusCode::BAD_REQUEST, refused));
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
