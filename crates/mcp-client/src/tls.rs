//! TLS for everything that leaves this workspace.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

use crate::Error;

/// The TLS configuration of a connection to a URL with this scheme: [`client_config`] for `https`;
/// for anything else one that trusts nobody and costs nothing.
///
/// `reqwest` has no cryptography of its own in this workspace. It must be given this one even where
/// it only ever speaks `http`, or it panics when a client is built:
///
/// ```text
/// let tls = mcp_client::tls::config_for(url.scheme())?;
/// let client = reqwest::Client::builder().tls_backend_preconfigured(tls).build()?;
/// ```
///
/// # Errors
/// Those of [`client_config`].
pub fn config_for(scheme: &str) -> Result<ClientConfig, Error> {
    if scheme.eq_ignore_ascii_case("https") {
        return client_config();
    }
    config_with_roots(RootCertStore::empty())
}

/// TLS 1.2 and 1.3 by *ring*, trusting the certificates that this machine trusts, or those that
/// `SSL_CERT_FILE` and `SSL_CERT_DIR` name: this is how a private CA is added.
///
/// Reads files: call it once at start. A machine without certificates gets a configuration that
/// trusts nobody; connections then fail, and the log says why.
///
/// # Errors
/// [`Error::Invalid`] when *ring* does not support the protocol versions, which it does.
pub fn client_config() -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "some root certificates cannot be read");
    }
    let (usable, _) = roots.add_parsable_certificates(found.certs);
    if usable == 0 {
        tracing::warn!("no root certificates on this machine: https URLs will not work");
    }
    config_with_roots(roots)
}

/// The same with roots of one's own, for example a private CA and nothing else.
///
/// # Errors
/// Those of [`client_config`].
pub fn config_with_roots(roots: RootCertStore) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Invalid(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}
