//! TLS configurations for every outgoing connection of the workspace.

mod files;

use std::sync::Arc;

use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};

use crate::Error;

pub(crate) use self::files::FollowedFiles;
pub use self::files::TlsFiles;
pub use crate::unreachable::FileError;

/// The TLS configuration for URLs with this scheme: [`client_config`] for `https`; for others one
/// without root certificates, which reads no files.
///
/// `reqwest` is built without a TLS backend in this workspace. It panics when a client is built
/// without this configuration, even if it is only used for `http`:
///
/// ```text
/// let tls = mcp_client::tls::config_for(url.scheme())?;
/// let client = reqwest::Client::builder().tls_backend_preconfigured(tls).build()?;
/// ```
///
/// # Errors
/// The errors of [`client_config`].
pub fn config_for(scheme: &str) -> Result<ClientConfig, Error> {
    if scheme.eq_ignore_ascii_case("https") {
        return client_config();
    }
    config_with_roots(RootCertStore::empty())
}

/// TLS 1.2 and 1.3 by *ring* with the root certificates of this machine, or those in `SSL_CERT_FILE`
/// and `SSL_CERT_DIR`, by which a private CA can be added.
///
/// Reads files: call it once at start. Without any root certificate it logs a warning, and
/// connections fail.
///
/// # Errors
/// [`Error::Invalid`] if *ring* does not support the protocol versions, which it does.
pub fn client_config() -> Result<ClientConfig, Error> {
    config_with_roots(native_roots())
}

/// The same with other root certificates, for example those of a private CA only.
///
/// # Errors
/// The errors of [`client_config`].
pub fn config_with_roots(roots: RootCertStore) -> Result<ClientConfig, Error> {
    let config = builder()?.with_root_certificates(roots);
    Ok(config.with_no_client_auth())
}

fn native_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "some root certificates cannot be read");
    }
    let (usable, _) = roots.add_parsable_certificates(found.certs);
    if usable == 0 {
        tracing::warn!("no root certificates on this machine: https URLs will not work");
    }
    roots
}

fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Invalid(error.to_string()))
}
