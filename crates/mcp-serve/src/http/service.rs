//! The paths of a server, for a listener or for the router of another program.

use std::sync::Arc;

use axum::Router;
use mcp_core::server::Server;
use mcp_core::sign::Signer;
use prometheus_client::registry::Registry;

use super::app::{App, Extras};
use super::guard::Guard;
use super::limits::Limits;
use super::page::Page;
use super::router;

/// The paths `/mcp`, `/healthz`, `/readyz` and `/metrics` of a server. [`Listener`](crate::Listener)
/// serves them; [`HttpService::router`] is for another program with axum.
///
/// They check tokens, hosts and origins, and apply the rate limit and the limits of bodies and of requests
/// in flight. The program around them provides:
///
/// - the limits of connections ([`Limits::max_connections`], [`Limits::head_timeout`],
///   [`Limits::write_timeout`], [`Limits::shutdown_grace`]), and TLS;
/// - the `Host` header as the client sent it;
/// - the address of the client as the request extension [`SocketAddr`](std::net::SocketAddr). Clients without a token
///   are limited by it; if it is missing, they share the rate limit and the limit of streams;
/// - at the end a call of [`HttpService::close`], which ends the streams that wait for changes.
#[derive(Clone)]
pub struct HttpService {
    pub(super) app: Arc<App>,
    router: Router,
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
        let app = Arc::new(App::new(server, guard, signer, limits, registry, &extras));
        let page = extras.page.map(|content| Arc::new(Page::new(content)));
        let router = router::paths(&app, page, extras.sse);
        Self { app, router }
    }

    /// The paths, for the router of another program.
    pub fn router(&self) -> Router {
        self.router.clone()
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
        self.app.server().close();
    }
}
