//! The checks in front of every path: host and origin, token, role, view and rate.

use std::sync::Arc;

use axum::extract::{FromRequest, Request};
use axum::response::Response;
use http::Method;
use mcp_core::error::Error;

use super::app::App;
use super::reply::Refusal;
use super::request::HttpRequest;
use super::{cors, headers};

impl FromRequest<Arc<App>> for HttpRequest {
    type Rejection = Response;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Response> {
        let mut request = Self::new(request);
        let refused = match app.admit(&mut request).await {
            Err(refusal) => app.refuse(&request, refusal),
            Ok(()) if cors::is_preflight(&request.method, &request.headers) => {
                cors::preflight(&request.headers)
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
        let is_preflight = cors::is_preflight(&request.method, headers);
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
        let found = view.and_then(|view| self.server().view(principal, view));
        // Health checks are not limited: a busy client must not make its server look dead.
        let is_limited = is_own || view.is_some() || matches!(path, "/mcp" | "/sse" | "/messages");
        if is_limited && !is_preflight {
            self.limit_rate(request, "")?;
        }
        request.view = found;
        Ok(())
    }

    /// Checks the host and the origin of a request.
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
        match role.is_some() && !self.server().has_roles() {
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
        let share = format!("{kind}{}", request.share());
        rate.admit(&share).map_err(|wait| {
            let error = Error::RateLimited(wait);
            let caller = request.principal().map(|principal| &principal.name);
            self.server().record_refusal(caller, error.kind());
            error
        })
    }
}
