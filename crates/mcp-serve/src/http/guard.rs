//! Checks host, origin and token of a request, by its headers alone, before its body is read.

use std::sync::Arc;

use http::Uri;
use http::header::{HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use mcp_core::error::{Credentials, Error};
use mcp_core::host::is_loopback;

use super::connections::ClientConnection;
use super::headers::{authorization, has_ambiguous_end};
use crate::Tokens;
use crate::oauth::ResourceServer;
use crate::tokens::Credential;

/// The checks in front of every path.
///
/// Foreign `Host` and `Origin` are refused because a web page can make a browser call a loopback
/// address (DNS rebinding; specification, "Transports", security warning).
pub struct Guard {
    tokens: Arc<Tokens>,
    /// `None` if only tokens of the token file are valid.
    oauth: Option<Arc<ResourceServer>>,
    /// Lower case, without port, IPv6 without brackets.
    hosts: Vec<String>,
    any_host: bool,
}

impl Guard {
    /// Admits requests with one of `tokens`, if there are any, to a loopback name or one of `hosts`; the host
    /// `*` allows all names.
    pub fn new(tokens: impl Into<Arc<Tokens>>, hosts: &[String]) -> Self {
        let any_host = hosts.iter().any(|host| host == "*");
        let hosts = hosts
            .iter()
            .map(|host| without_port(host).to_ascii_lowercase())
            .collect();
        Self {
            tokens: tokens.into(),
            oauth: None,
            hosts,
            any_host,
        }
    }

    /// Admits requests with an access token of an issuer, too, and to the host for which they are made.
    pub(crate) fn with_oauth(mut self, oauth: Option<Arc<ResourceServer>>) -> Self {
        let host = oauth.as_ref().map(|oauth| without_port(oauth.host()));
        self.hosts.extend(host.map(str::to_ascii_lowercase));
        self.oauth = oauth;
        self
    }

    pub(super) fn oauth(&self) -> Option<&Arc<ResourceServer>> {
        self.oauth.as_ref()
    }

    /// Checks the host and the origin of a request.
    ///
    /// # Errors
    /// `Forbidden` if one is foreign, `InvalidRequest` for a body whose end is ambiguous.
    pub(super) fn check_host(&self, target: &Uri, headers: &HeaderMap) -> Result<(), Error> {
        // HTTP/2 has the authority instead of the header.
        let host = single(headers, HOST)?
            .or(target.authority().map(http::uri::Authority::as_str))
            .ok_or_else(|| Error::Forbidden("the Host header is missing".into()))?;
        // A target that is a whole URL takes precedence over the header (RFC 9112, 3.2.2).
        let is_known = |authority: &http::uri::Authority| self.knows(authority.as_str());
        if !self.knows(host) || !target.authority().is_none_or(is_known) {
            return Err(Error::Forbidden(
                "this Host is not allowed here; add it with --allowed-hosts".into(),
            ));
        }
        // Only browsers send an origin; `null` is a page that hides its origin.
        if let Some(origin) = single(headers, ORIGIN)? {
            let authority = origin
                .strip_prefix("http://")
                .or_else(|| origin.strip_prefix("https://"));
            if !authority.is_some_and(|authority| self.knows(authority)) {
                return Err(Error::Forbidden(
                    "this Origin is not allowed here; add its host with --allowed-hosts".into(),
                ));
            }
        }
        if has_ambiguous_end(headers) {
            let detail = "Transfer-Encoding must be chunked, once".to_owned();
            return Err(Error::InvalidRequest {
                detail,
                field: None,
            });
        }
        Ok(())
    }

    /// Returns true if pages of admitted origins may read responses: not where every page of the web could,
    /// without a token.
    pub(super) fn allows_pages(&self) -> bool {
        !self.any_host || self.needs_token()
    }

    pub(super) fn needs_token(&self) -> bool {
        !self.tokens.is_empty() || self.oauth.is_some()
    }

    /// Checks the token of a request to the server, or to one of its views. Returns its credential, or `None` where no
    /// token is required.
    ///
    /// # Errors
    /// `Unauthorized` for a missing or wrong token, `InsufficientScope` for one with too few scopes.
    pub(super) async fn check_token(
        &self,
        headers: &HeaderMap,
        view: Option<&str>,
        connection: &ClientConnection,
    ) -> Result<Option<Arc<Credential>>, Error> {
        if !self.needs_token() {
            return Ok(None);
        }
        let missing = Error::Unauthorized(Credentials::Missing);
        let given = authorization(headers).ok_or(missing)?;
        let given = bearer(given).ok_or(Error::Unauthorized(Credentials::NotBearer))?;
        let credential = match (self.tokens.credential(given), &self.oauth) {
            (Some(credential), _) => credential,
            (None, Some(oauth)) => oauth.credential_in(given, view).await?,
            (None, None) => return Err(Error::Unauthorized(Credentials::Invalid)),
        };
        connection.set_authenticated();
        Ok(Some(credential))
    }

    fn knows(&self, authority: &str) -> bool {
        let host = without_port(authority);
        self.any_host
            || is_loopback(host)
            || self
                .hosts
                .iter()
                .any(|known| known.eq_ignore_ascii_case(host))
    }
}

/// Returns the token of an `Authorization` header.
pub(super) fn bearer(authorization: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = authorization.split_at_checked("Bearer ".len())?;
    let is_bearer = scheme.eq_ignore_ascii_case(b"Bearer ");
    is_bearer.then(|| token.trim_ascii())
}

/// Returns the value of a header that is there at most once, as text.
fn single(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Error> {
    let mut values = headers.get_all(&name).iter();
    let text = values.next().map(HeaderValue::to_str).transpose();
    match (text, values.next()) {
        (_, Some(_)) => Err(Error::Forbidden(format!("the {name} header is repeated"))),
        (Err(_), _) => Err(Error::Forbidden(format!("the {name} header is not ASCII"))),
        (Ok(text), None) => Ok(text),
    }
}

/// Removes port and brackets from `name:port` or `[v6]:port`. Returns any other form unchanged, which
/// matches no name.
fn without_port(authority: &str) -> &str {
    let name = match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => authority,
    };
    let v6 = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    match v6 {
        Some(v6) => v6,
        // The last part of an IPv6 address without brackets is not a port.
        None if name.contains(':') => authority,
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    /// Else the address that clients are told for OAuth answers them 403.
    #[test]
    fn host_of_the_oauth_resource_is_allowed() {
        let command = crate::Command::<crate::NoOptions>::try_parse_from([
            "x",
            "--auth-issuer=https://issuer.test",
            "--auth-resource=https://Agents.example:8443/mcp",
        ]);
        let oauth = command.unwrap().common.tokens().unwrap().oauth;
        let guard = Guard::new(Tokens::default(), &[]).with_oauth(oauth);
        for (host, is_allowed) in [
            ("agents.example:8443", true),
            ("agents.example", true),
            ("issuer.test", false),
        ] {
            let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
            let checked = guard.check_host(&Uri::from_static("/mcp"), &headers);
            assert_eq!(checked.is_ok(), is_allowed, "{host}");
        }
    }
}
