//! The address of a server, with the headers and the TLS configuration for it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use url::Url;

use crate::proxy::is_link_local;
use crate::tls::TlsFiles;
use crate::{Error, Proxy};

/// The URL of an MCP server, with the headers that every request to it carries.
///
/// Has no `Debug`: headers hold tokens.
#[derive(Clone)]
#[must_use]
pub struct Endpoint {
    pub(super) url: Url,
    /// Scheme and authority, which may be shown and logged.
    pub(super) origin: Arc<str>,
    pub(super) headers: HeaderMap,
    pub(super) tls: TlsFiles,
    pub(super) proxy: Proxy,
    pub(super) authorization: Option<Arc<dyn Authorization>>,
}

impl Endpoint {
    /// The server at an `http` or `https` URL.
    ///
    /// # Errors
    /// [`Error::Invalid`] for anything else, and for a URL with a user name or password, which would
    /// end up in logs: use [`Endpoint::header`].
    pub fn new(url: &str) -> Result<Self, Error> {
        let invalid = |why: &str| Error::Invalid(format!("the URL of the MCP server {why}"));
        let has_scheme = |scheme: &str| {
            let start = url.get(..scheme.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        };
        if !has_scheme("http://") && !has_scheme("https://") {
            return Err(invalid(
                "must start with http:// or https:// and name a host",
            ));
        }
        let mut url: Url = url.parse().map_err(|_| invalid("is not a URL"))?;
        if has_user(&url) {
            return Err(invalid("must not contain a user name or password"));
        }
        url.set_fragment(None);
        let origin = url.origin().ascii_serialization().into();
        Ok(Self {
            url,
            origin,
            headers: HeaderMap::new(),
            tls: TlsFiles::default(),
            proxy: Proxy::default(),
            authorization: None,
        })
    }

    /// Returns true if the host is an address of the local link, where clouds serve the credentials of
    /// a machine (`169.254.169.254`). Names are not resolved.
    pub fn is_link_local(&self) -> bool {
        is_link_local(&self.url)
    }

    /// Sends `Authorization: Bearer <token>`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the token is not a valid header value.
    pub fn bearer(self, token: &str) -> Result<Self, Error> {
        self.header(header::AUTHORIZATION.as_str(), &format!("Bearer {token}"))
    }

    /// Sends a header with every request; headers of the protocol itself take precedence.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the name or the value is not valid.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, Error> {
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| Error::Invalid("a header name is not valid".to_owned()))?;
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| Error::Invalid(format!("the value of the header {name} is not valid")))?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(self)
    }

    /// Resolves the address that a server names for POSTs, against this URL; `None` for an address of another
    /// origin, which must not get the headers of this one.
    pub(super) fn resolve(&self, address: &str) -> Option<Url> {
        let url = self.url.join(address).ok()?;
        (url.origin() == self.url.origin() && !has_user(&url)).then_some(url)
    }

    /// Takes the CA and the client certificate from files, which are read again for every new
    /// connection.
    pub fn tls_files(mut self, files: TlsFiles) -> Self {
        self.tls = files;
        self
    }

    /// Takes the header `Authorization` of every request from there.
    pub fn authorization(mut self, authorization: Arc<dyn Authorization>) -> Self {
        self.authorization = Some(authorization);
        self
    }

    /// Another address with the same TLS and proxy, and without headers.
    pub(crate) fn beside(&self, url: &str) -> Result<Self, Error> {
        Ok(Self {
            tls: self.tls.clone(),
            proxy: self.proxy.clone(),
            ..Self::new(url)?
        })
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    pub(crate) fn peer(&self) -> &Arc<str> {
        &self.origin
    }

    /// Sets the proxy; that of the environment by default.
    pub fn proxy(mut self, proxy: Proxy) -> Self {
        self.proxy = proxy;
        self
    }
}

fn has_user(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// The source of the header `Authorization` of every request.
pub trait Authorization: Send + Sync {
    /// Returns the header of the next request; `None` to send it without.
    fn header(&self) -> BoxFuture<'_, Result<Option<HeaderValue>, Error>>;

    /// Receives the refusal of a request. The request is sent once more if this succeeds.
    ///
    /// # Errors
    /// The error of the request.
    fn refused(&self, refusal: TokenRefusal) -> BoxFuture<'_, Result<(), Error>>;
}

/// An answer with status 401, or 403 because the rights of the token do not suffice.
pub struct TokenRefusal {
    /// The status.
    pub status: StatusCode,
    /// The values of `WWW-Authenticate`.
    pub challenges: Vec<String>,
    /// The header that was refused.
    pub used: Option<HeaderValue>,
    /// True if this request was refused before, with another header.
    pub is_repeated: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_shows_no_secrets() {
        let endpoint = Endpoint::new("https://n8n.example:8443/mcp/s3cret?token=s3cret").unwrap();
        assert_eq!(&*endpoint.origin, "https://n8n.example:8443");
    }

    #[test]
    fn addresses_of_other_servers_are_not_used() {
        let endpoint = Endpoint::new("http://127.0.0.1:80/a/sse?x=1").unwrap();
        for (address, url) in [
            ("/messages?id=1", Some("http://127.0.0.1/messages?id=1")),
            ("messages?id=1", Some("http://127.0.0.1/a/messages?id=1")),
            (
                "http://127.0.0.1:80/m?id=1",
                Some("http://127.0.0.1/m?id=1"),
            ),
            ("http://user@127.0.0.1/m", None),
            ("http://127.0.0.1:8080/m", None),
            ("http://127.0.0.1:80@evil.com/m", None),
            ("https://127.0.0.1:80/m", None),
            ("//evil.com/m", None),
            ("http://evil.com/m", None),
        ] {
            let found = endpoint.resolve(address);
            assert_eq!(found.as_ref().map(Url::as_str), url, "{address}");
        }
    }

    #[test]
    fn errors_do_not_repeat_the_url() {
        for url in [
            "",
            "s3cret",
            "/s3cret",
            "ftp://s3cret/",
            "http://u:s3cret@host/",
            "http://a b/",
        ] {
            let error = Endpoint::new(url).map(|_| ()).unwrap_err();
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
        let endpoint = Endpoint::new("http://host/").unwrap();
        let error = endpoint.bearer("s3cret\n").map(|_| ()).unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}
