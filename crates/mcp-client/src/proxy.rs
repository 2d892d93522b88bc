//! The HTTP proxy to a server, and the addresses of which the environment names none.

use std::net::IpAddr;

use http::uri::Scheme;
use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::Matcher;
use mcp_core::host;
use url::{Host, Url};

use crate::Error;

/// The HTTP proxy to a server. Has no `Debug`: its URL may hold a password.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Proxy {
    /// The proxy that `HTTPS_PROXY`, `HTTP_PROXY` or `ALL_PROXY` names, unless `NO_PROXY` excepts the
    /// server. Never for an address of this machine.
    #[default]
    Environment,
    /// None.
    Direct,
    /// The proxy at this URL, for every address: `http://[USER:PASSWORD@]HOST:PORT`.
    Url(String),
}

#[derive(Clone)]
pub(crate) struct UsedProxy {
    url: Uri,
    authorization: Option<HeaderValue>,
}

impl UsedProxy {
    /// Its host and port.
    pub(crate) fn name(&self) -> &str {
        self.url.authority().map_or("", |name| name.as_str())
    }

    /// The same for `reqwest`, for every address.
    pub(crate) fn of_reqwest(&self) -> reqwest::Result<reqwest::Proxy> {
        let proxy = reqwest::Proxy::all(self.url.to_string())?;
        Ok(match &self.authorization {
            Some(authorization) => proxy.custom_http_auth(authorization.clone()),
            None => proxy,
        })
    }
}

impl Proxy {
    /// Returns true if the text is the URL of a proxy.
    #[must_use]
    pub fn is_url(text: &str) -> bool {
        Self::Url(text.to_owned()).of_url(text).is_ok()
    }

    /// The host and port of the proxy to `server`, if there is one.
    #[must_use]
    pub fn name_for(&self, server: &Url) -> Option<String> {
        let used = self.to(server).ok()??;
        Some(used.name().to_owned())
    }

    pub(crate) fn to(&self, server: &Url) -> Result<Option<UsedProxy>, Error> {
        match self {
            Self::Direct => Ok(None),
            Self::Url(url) => self.of_url(url).map(Some),
            Self::Environment if is_loopback(server) => Ok(None),
            Self::Environment => find(&Matcher::from_env(), server.as_str()),
        }
    }

    fn of_url(&self, url: &str) -> Result<UsedProxy, Error> {
        let matcher = Matcher::builder().all(url.to_owned()).build();
        let found = find(&matcher, "http://any.invalid")?;
        // The matcher takes a text without a scheme for a host.
        let found = found.filter(|_| url.starts_with("http://"));
        found.ok_or_else(|| unusable("proxy"))
    }
}

fn find(matcher: &Matcher, server: &str) -> Result<Option<UsedProxy>, Error> {
    let server: Uri = server.parse().map_err(|_| unusable("the URL"))?;
    let Some(found) = matcher.intercept(&server) else {
        return Ok(None);
    };
    if found.uri().scheme() != Some(&Scheme::HTTP) || found.uri().host().is_none() {
        return Err(unusable(
            "the proxy of the environment (HTTPS_PROXY, HTTP_PROXY)",
        ));
    }
    Ok(Some(UsedProxy {
        url: found.uri().clone(),
        authorization: found.basic_auth().cloned(),
    }))
}

fn unusable(name: &str) -> Error {
    Error::Invalid(format!("{name} must be http://[USER:PASSWORD@]HOST:PORT"))
}

/// The address in a URL, as of IPv4 where it stands for one; `None` for a name, which is not resolved.
pub(crate) fn address_of(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.to_canonical()),
        Host::Domain(_) => None,
    }
}

/// Returns true for this machine, by any name below `localhost`, too (RFC 6761).
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_end_matches('.');
    host.ends_with(".localhost") || host::is_loopback(host)
}

/// Returns true for an address of the local link.
pub(crate) fn is_link_local(url: &Url) -> bool {
    address_of(url).is_some_and(|address| match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_proxies_are_accepted() {
        for (text, accepted) in [
            ("http://proxy.example:3128", true),
            ("http://user:pass@proxy.example:3128/", true),
            ("https://proxy.example", false),
            ("socks5://proxy.example", false),
            ("proxy.example:3128", false),
            ("http://", false),
            ("", false),
        ] {
            assert_eq!(Proxy::is_url(text), accepted, "{text:?}");
        }
        let used = Proxy::Url("http://user:pass@proxy.example:3128".to_owned());
        let used = used.to(&Url::parse("http://127.0.0.1").unwrap()).unwrap();
        let used = used.unwrap();
        assert_eq!(used.name(), "proxy.example:3128");
        assert_eq!(used.authorization.unwrap(), "Basic dXNlcjpwYXNz");
    }

    #[test]
    fn variables_exclude_this_machine_and_what_no_proxy_names() {
        for (url, local) in [
            ("http://localhost:1/", true),
            ("http://a.LOCALHOST./", true),
            ("http://127.8.9.1/", true),
            ("https://[::1]:8/", true),
            ("https://[::ffff:127.0.0.1]:8/", true),
            ("http://10.0.0.1/", false),
            ("http://localhost.example/", false),
            ("http://127.evil.com/", false),
        ] {
            assert_eq!(is_loopback(&url.parse().unwrap()), local, "{url}");
        }
        let matcher = Matcher::builder()
            .https("http://secure:1")
            .http("http://plain:2")
            .no("example.org,10.0.0.0/8,.lan")
            .build();
        for (url, proxy) in [
            ("https://a.example.com/", Some("secure")),
            ("http://a.example.com/", Some("plain")),
            ("https://a.example.org/", None),
            ("https://10.1.2.3/", None),
            ("http://box.lan/", None),
        ] {
            let found = find(&matcher, url).unwrap();
            let found = found.map(|used| used.url.host().unwrap().to_owned());
            assert_eq!(found.as_deref(), proxy, "{url}");
        }
    }
}
