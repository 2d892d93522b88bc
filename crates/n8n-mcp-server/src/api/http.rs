//! HTTP as it is used towards n8n: no redirects, no repetition, no unbounded bodies.

use std::time::Duration;

use anyhow::Context as _;
use reqwest::{Client, Response, Url, redirect, retry};

use super::Failure;

/// A peer that does not take a connection for this long is down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// n8n closes idle connections after 5 s; ours go first, so that no request meets a closing one.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// A client for the service at `base`.
pub(crate) fn client(base: &Url) -> anyhow::Result<Client> {
    let mut builder = Client::builder()
        .user_agent(concat!("n8n-mcp-server/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        // A redirected POST becomes a GET or a second POST: neither is what was asked.
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .tls_backend_preconfigured(mcp_client::tls::config_for(base.scheme())?);
    // A proxy cannot reach this machine's own loopback.
    let loopback = match base.host_str() {
        Some(host) => host == "localhost" || host.starts_with("127.") || host == "[::1]",
        None => false,
    };
    if loopback {
        builder = builder.no_proxy();
    }
    builder.build().context("cannot set up HTTP")
}

/// `base` with more path segments, each of them escaped.
pub(crate) fn under<S: AsRef<str>>(base: &Url, segments: impl IntoIterator<Item = S>) -> Url {
    let mut url = base.clone();
    // Only URLs without a host have no segments, and those are not let in.
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(segments);
    }
    url
}

/// The URL as it may be shown: without credentials.
pub(crate) fn shown(base: &Url) -> String {
    let mut url = base.clone();
    // Both fail only for URLs without a host, which are not let in.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.as_str().trim_end_matches('/').to_owned()
}

/// The body, if it is not longer than `cap` bytes.
pub(crate) async fn read_capped(mut response: Response, cap: usize) -> Result<Vec<u8>, Failure> {
    let announced = response.content_length().unwrap_or_default();
    if announced > cap as u64 {
        return Err(Failure::TooLarge(cap));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(Failure::cut)? {
        if body.len() + chunk.len() > cap {
            return Err(Failure::TooLarge(cap));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_slashes_do_not_matter() {
        for (base, expected) in [
            ("http://h:5678", "http://h:5678/api/v1/workflows"),
            ("http://h:5678/", "http://h:5678/api/v1/workflows"),
            ("http://h/n8n", "http://h/n8n/api/v1/workflows"),
            ("http://h/n8n/", "http://h/n8n/api/v1/workflows"),
        ] {
            let url = under(&Url::parse(base).unwrap(), ["api", "v1", "workflows"]);
            assert_eq!(url.as_str(), expected);
        }
        let url = under(&Url::parse("http://h").unwrap(), ["a/b", "c?d#e", "ä"]);
        assert_eq!(url.as_str(), "http://h/a%2Fb/c%3Fd%23e/%C3%A4");
    }

    #[test]
    fn credentials_are_not_shown() {
        let url = Url::parse("https://user:secret@n8n.example/p/").unwrap();
        assert_eq!(shown(&url), "https://n8n.example/p");
    }
}
