//! The paths of a server as a tower service.

use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Body;
use mcp_core::server::Server;
use mcp_core::sign::Signer;
use prometheus_client::registry::Registry;
use tower_service::Service;

use super::connection::ClientConnection;
use super::guard::Guard;
use super::limits::Limits;
use super::router::Router;
use crate::page_data::PageContent;
use crate::{OwnPaths, SharedSessions};

/// The paths `/mcp`, `/healthz`, `/readyz` and `/metrics` of a server. [`Listener`](crate::Listener)
/// serves it; it is also a tower service, for the router of another program (axum).
///
/// It checks tokens, hosts and origins, and applies the rate limit and the limits of bodies and of requests
/// in flight. The program around it provides:
///
/// - the limits of connections ([`Limits::max_connections`], [`Limits::head_timeout`],
///   [`Limits::write_timeout`], [`Limits::shutdown_grace`]), and TLS;
/// - the `Host` header as the client sent it;
/// - the address of the client as the request extension [`SocketAddr`]. Clients without a token are
///   limited by it; if it is missing, they share the rate limit and the limit of streams;
/// - at the end a call of [`HttpService::close`], which ends the streams that wait for changes.
#[derive(Clone)]
pub struct HttpService(pub(super) Arc<Router>);

impl HttpService {
    /// The paths of `server`. `/metrics` shows the content of `registry`.
    pub fn new(
        server: Arc<Server>,
        guard: Guard,
        signer: Signer,
        limits: Limits,
        registry: Registry,
    ) -> Self {
        let router = Router::new(server, guard, signer, limits, registry);
        Self(Arc::new(router))
    }

    /// Serves HTTP+SSE, too: `GET /sse` and `POST /messages`, the transport of 2024-11-05, for clients that have
    /// no other. The checks and limits are those of `/mcp`.
    pub fn serve_sse(&self) {
        self.0.serve_sse();
    }

    /// Serves paths of the service's own, too. Only the first call has an effect.
    pub fn serve_paths(&self, paths: Arc<dyn OwnPaths>) {
        self.0.serve_paths(paths);
    }

    /// Shares its sessions with other processes. Only the first call has an effect.
    pub(crate) fn share_sessions(&self, shared: Arc<dyn SharedSessions>) {
        self.0.share_sessions(shared);
    }

    /// Serves the page for people at `url`, which ends with a slash, and prints where it is. `content` is what it
    /// shows beside the tools. Only the first call has an effect.
    pub(crate) fn serve_page(&self, url: Option<String>, content: PageContent) {
        self.0.serve_page(url, content);
    }

    /// Says in `/readyz` that this process ends, and in each response that its connection ends with it.
    pub(crate) fn drain(&self) {
        self.0.drain();
    }

    /// Ends the streams that wait for changes, so that their connections can be closed.
    pub fn close(&self) {
        self.0.server().close();
    }
}

impl<B> Service<Request<B>> for HttpService
where
    B: Body<Data = Bytes, Error: Send> + Send + Unpin + 'static,
{
    type Response = Response<UnsyncBoxBody<Bytes, Infallible>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let router = Arc::clone(&self.0);
        let peer = request.extensions().get().map(SocketAddr::ip);
        let connection = ClientConnection::new(peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)));
        Box::pin(async move {
            let response = router.answer(request, &connection).await;
            Ok(response.map(BodyExt::boxed_unsync))
        })
    }
}
