//! The address of a server, with the headers and the TLS configuration for it.

use std::net::IpAddr;
use std::sync::Arc;

use http::uri::Scheme;
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use rustls::ClientConfig;

use super::connector::TlsSource;
use crate::tls::TlsFiles;
use crate::{Authorization, Error, Proxy};

/// Default limit of one message of a server, in bytes.
const MAX_MESSAGE: usize = 8 << 20;

/// The URL of an MCP server, with the headers that every request to it carries.
///
/// Has no `Debug`: headers hold tokens.
#[derive(Clone)]
#[must_use]
pub struct Endpoint {
    pub(super) url: Uri,
    /// Scheme and authority, which may be shown and logged.
    pub(super) origin: Arc<str>,
    pub(super) headers: HeaderMap,
    pub(super) max_message: usize,
    pub(super) tls: TlsSource,
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
        let url: Uri = url.parse().map_err(|_| invalid("is not a URL"))?;
        let (Some(scheme), Some(authority)) = (url.scheme(), url.authority()) else {
            return Err(invalid(
                "must start with http:// or https:// and name a host",
            ));
        };
        if *scheme != Scheme::HTTP && *scheme != Scheme::HTTPS {
            return Err(invalid("must start with http:// or https://"));
        }
        if authority.as_str().contains('@') {
            return Err(invalid("must not contain a user name or password"));
        }
        let origin = format!("{scheme}://{authority}").into();
        Ok(Self {
            url,
            origin,
            headers: HeaderMap::new(),
            max_message: MAX_MESSAGE,
            tls: TlsSource::Native,
            proxy: Proxy::default(),
            authorization: None,
        })
    }

    /// Returns true if the host is an address of the local link, where clouds serve the credentials of
    /// a machine (`169.254.169.254`). Names are not resolved.
    pub fn is_link_local(&self) -> bool {
        let host = self.url.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        match host.parse::<IpAddr>().map(|address| address.to_canonical()) {
            Ok(IpAddr::V4(address)) => address.is_link_local(),
            Ok(IpAddr::V6(address)) => address.is_unicast_link_local(),
            Err(_) => false,
        }
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

    /// Path and query of the URL.
    pub(super) fn path(&self) -> Uri {
        let path = self.url.path_and_query().cloned();
        path.map_or_else(Uri::default, Uri::from)
    }

    /// Resolves the address that a server names for POSTs, against this URL. Returns its path and query; `None`
    /// for an address of another origin, which must not get the headers of this one.
    pub(super) fn resolve(&self, address: &str) -> Option<Uri> {
        let own_origin = address.strip_prefix(&*self.origin);
        let path = match own_origin.unwrap_or(address) {
            path if path.starts_with("//") || path.contains("://") => return None,
            path if path.starts_with('/') => path.to_owned(),
            _ if own_origin.is_some() => return None,
            relative => {
                let (folder, _) = self.url.path().rsplit_once('/')?;
                format!("{folder}/{relative}")
            }
        };
        path.parse().ok()
    }

    /// The headers of every request, including `Host`.
    pub(super) fn all_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        let host = self.url.host().unwrap_or_default();
        let is_default = |port: &u16| match self.url.scheme_str() {
            Some("https") => *port == 443,
            _ => *port == 80,
        };
        let port = self.url.port_u16().filter(|port| !is_default(port));
        let host = port.map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        if let Ok(host) = HeaderValue::from_str(&host) {
            headers.entry(header::HOST).or_insert(host);
        }
        headers
    }

    /// Limits one message of the server to this many bytes; 8 MiB by default.
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.max_message = bytes;
        self
    }

    /// Replaces the TLS configuration, which is [`client_config`](crate::tls::client_config) by
    /// default: to share one between many clients, or to trust a private CA.
    pub fn tls(mut self, config: ClientConfig) -> Self {
        self.tls = TlsSource::Config(Arc::new(config));
        self
    }

    /// Takes the CA and the client certificate from files, which are read again for every new
    /// connection.
    pub fn tls_files(mut self, files: TlsFiles) -> Self {
        self.tls = TlsSource::Files(files);
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

    pub(crate) fn address(&self) -> String {
        self.url.to_string()
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
        for (address, path) in [
            ("/messages?id=1", Some("/messages?id=1")),
            ("messages?id=1", Some("/a/messages?id=1")),
            ("http://127.0.0.1:80/m?id=1", Some("/m?id=1")),
            ("http://127.0.0.1:8080/m", None),
            ("http://127.0.0.1:80@evil.com/m", None),
            ("https://127.0.0.1:80/m", None),
            ("//evil.com/m", None),
            ("http://evil.com/m", None),
        ] {
            let found = endpoint.resolve(address).map(|path| path.to_string());
            assert_eq!(found.as_deref(), path, "{address}");
        }
    }

    #[test]
    fn host_header_has_a_non_default_port() {
        for (url, host, path) in [
            ("http://n8n.example", "n8n.example", "/"),
            ("http://n8n.example:80/a?b=c", "n8n.example", "/a?b=c"),
            ("https://n8n.example:80/a", "n8n.example:80", "/a"),
            ("https://[::1]:443/a", "[::1]", "/a"),
            ("http://[::1]:3456/a", "[::1]:3456", "/a"),
        ] {
            let endpoint = Endpoint::new(url).unwrap();
            assert_eq!(endpoint.all_headers()["host"], host, "{url}");
            assert_eq!(endpoint.path(), path, "{url}");
        }
        let named = Endpoint::new("http://127.0.0.1:1/").unwrap();
        let named = named.header("Host", "n8n.example").unwrap();
        assert_eq!(named.all_headers()["host"], "n8n.example");
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
