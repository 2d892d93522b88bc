//! Reads a JSON document of an authorization server: without redirects, bounded in size and time.

use anyhow::{Context as _, bail, ensure};
use http::Uri;
use mcp_client::Endpoint;
use serde::de::DeserializeOwned;

/// Checks that a URL is `https`, or `http` on this machine.
pub(super) fn check_url(url: &str) -> anyhow::Result<Uri> {
    let uri: Uri = url.parse().context("is not a URL")?;
    let host = uri.host().context("is not a URL with a host")?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_local = host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    match uri.scheme_str() {
        Some("https") => {}
        Some("http") if is_local => {}
        _ => bail!("must be https, or http on this machine"),
    }
    ensure!(
        !url.contains(['#', '"', '\\', ' ']),
        "has a fragment or a quote"
    );
    Ok(uri)
}

/// Gets a document.
pub(super) async fn json<T: DeserializeOwned>(url: &str) -> anyhow::Result<T> {
    check_url(url)?;
    let body = Endpoint::new(url)?.get_document().await?;
    serde_json::from_slice(&body).context("the answer is not the JSON that was expected")
}
