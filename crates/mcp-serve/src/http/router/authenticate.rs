//! Checks of a request before it is routed: its token, its role and its rate.

use http::Method;
use http::request::Parts;
use mcp_core::error::Error;

use super::super::connection::ClientConnection;
use super::super::cors;
use super::super::headers::Head;
use super::super::mcp::{Authenticated, ViewOwner};
use super::{Router, has_session_id};

impl Router {
    /// Checks the role of a client of the page, and counts the request against its limit. What the page asks by itself
    /// has a limit of its own, and leaves that of calls alone.
    pub(super) fn check_page(&self, client: &Authenticated, is_call: bool) -> Result<(), Error> {
        self.check_role(client)?;
        // No name has a line end.
        self.limit_rate(client, if is_call { "" } else { "page\n" })
    }

    fn check_role(&self, client: &Authenticated) -> Result<(), Error> {
        let role = client.principal().and_then(|principal| principal.role());
        // Without roles it would allow more than the token file says.
        match role.is_some() && !self.server().has_roles() {
            true => Err(Error::Forbidden(
                "the token has a role, and this server has no roles".into(),
            )),
            false => Ok(()),
        }
    }

    /// Authenticates a request by its head. `/mcp` without a message or a session and the health checks
    /// are public: they reveal nothing about the service.
    ///
    /// # Errors
    /// `Forbidden`, `Unauthorized`, `InsufficientScope`, `HeaderMismatch` or `RateLimited`.
    pub(super) async fn authenticate(
        &self,
        head: &Parts,
        fields: &Head<'_>,
        connection: &ClientConnection,
    ) -> Result<Authenticated, Error> {
        let (path, headers) = (head.uri.path(), &head.headers);
        let is_preflight = cors::is_preflight(&head.method, headers);
        let view = self.view_name(path);
        let is_public = match path {
            _ if is_preflight => true,
            // Whether there is such a view is not public.
            _ if view.is_some() => false,
            "/mcp" => head.method != Method::POST && !has_session_id(headers),
            path => !matches!(path, "/metrics" | "/sse" | "/messages"),
        };
        let is_own = self.own_paths(&head.method, path).is_some();
        let needs_token = !is_public || is_own && fields.authorization.is_some();
        let credential = if !needs_token {
            self.guard.check_host(&head.uri, fields)?;
            None
        } else {
            self.guard
                .check(&head.uri, fields, view, connection)
                .await?
        };
        let mut client = Authenticated {
            credential,
            address: connection.address,
            headers: fields.facts(),
            view: None,
        };
        self.check_role(&client)?;
        fields.check_unambiguous()?;
        if let Some(view) = view {
            let principal = client.principal().map(|principal| &**principal);
            let found = self.server().view(principal, view);
            client.view = found.map(|name| ViewOwner::new(name, principal));
        }
        // Health checks are not limited: a busy client must not make its server look dead.
        let is_limited = is_own || view.is_some() || matches!(path, "/mcp" | "/sse" | "/messages");
        if is_limited && !is_preflight {
            self.limit_rate(&client, "")?;
        }
        Ok(client)
    }

    /// Counts a request of some kind against the rate limit of its client.
    fn limit_rate(&self, client: &Authenticated, kind: &str) -> Result<(), Error> {
        let Some(rate) = &self.rate else {
            return Ok(());
        };
        let share = format!("{kind}{}", client.share());
        rate.admit(&share).map_err(|wait| {
            let error = Error::RateLimited(wait);
            let caller = client.principal().map(|principal| &principal.name);
            self.server().record_refusal(caller, error.kind());
            error
        })
    }
}
