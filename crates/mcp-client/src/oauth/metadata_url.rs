//! The addresses that a server may make us ask.

use url::{Host, Url};

/// The addresses that may be asked because of what a server says: `https` on another machine; on this
/// machine, or with `http`, only what the operator has named.
pub(super) struct AllowedUrls {
    server: Url,
    issuer: Option<Url>,
}

impl AllowedUrls {
    pub(super) fn new(server: Url, issuer: Option<&str>) -> Self {
        let issuer = issuer.and_then(|issuer| issuer.parse().ok());
        Self { server, issuer }
    }

    /// Returns the URL if it may be asked.
    pub(super) fn check(&self, text: &str) -> Option<Url> {
        let url: Url = text.parse().ok()?;
        let is_plain = url.username().is_empty() && url.password().is_none();
        let mut named = [Some(&self.server), self.issuer.as_ref()]
            .into_iter()
            .flatten();
        let is_named = named.any(|named| named.origin() == url.origin());
        let may_be_local = is_loopback(&self.server);
        let allowed = match url.scheme() {
            "https" => !is_link_local(&url) && (!is_loopback(&url) || may_be_local),
            "http" => is_loopback(&url) && may_be_local,
            _ => false,
        };
        (is_plain && (allowed || is_named)).then_some(url)
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
        None => false,
    }
}

fn is_link_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_link_local() || address.is_unspecified(),
        Some(Host::Ipv6(address)) => match address.to_ipv4_mapped() {
            Some(address) => address.is_link_local() || address.is_unspecified(),
            None => address.is_unicast_link_local() || address.is_unspecified(),
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_cannot_point_into_this_machine_or_its_link() {
        let remote = "https://mcp.example/mcp";
        let local = "http://127.0.0.1:1/mcp";
        let plain = "http://mcp.lan/mcp";
        for (server, issuer, url, allowed) in [
            (remote, None, "https://login.example/x", true),
            (remote, None, "http://login.example/x", false),
            (remote, None, "https://127.0.0.1/x", false),
            (remote, None, "https://[::1]/x", false),
            (remote, None, "https://localhost/x", false),
            (remote, None, "https://2130706433/x", false),
            (remote, None, "https://169.254.169.254/x", false),
            (remote, None, "https://[::ffff:169.254.169.254]/x", false),
            (remote, None, "https://user@login.example/x", false),
            (remote, None, "file:///etc/passwd", false),
            (
                remote,
                Some("http://keycloak:8080/realms/a"),
                "http://keycloak:8080/b",
                true,
            ),
            (
                remote,
                Some("http://keycloak:8080/realms/a"),
                "http://keycloak:81/b",
                false,
            ),
            (plain, None, "http://mcp.lan/x", true),
            (plain, None, "http://127.0.0.1/x", false),
            (local, None, "http://localhost:2/x", true),
            (local, None, "http://10.0.0.1/x", false),
        ] {
            let urls = AllowedUrls::new(server.parse().unwrap(), issuer);
            assert_eq!(
                urls.check(url).is_some(),
                allowed,
                "{server} {issuer:?} {url}"
            );
        }
    }
}
