//! Mutual TLS with the engine.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

/// The files of a TLS endpoint, named as the docker CLI names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificates {
    ca: PathBuf,
    cert: PathBuf,
    key: PathBuf,
}

impl Certificates {
    /// The files in `dir`, which need not exist yet.
    pub(super) fn in_dir(dir: &Path) -> Self {
        Self {
            ca: dir.join("ca.pem"),
            cert: dir.join("cert.pem"),
            key: dir.join("key.pem"),
        }
    }

    /// Their directory.
    pub(super) fn dir(&self) -> Option<&Path> {
        self.ca.parent()
    }

    /// Reads the files. Trusts the system's certificate authorities and that of `ca.pem`.
    /// Errors when a file is missing or invalid.
    pub(super) fn connector(&self) -> Result<TlsConnector, Box<dyn Error + Send + Sync>> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        for certificate in CertificateDer::pem_file_iter(&self.ca)? {
            roots.add(certificate?)?;
        }
        let chain = CertificateDer::pem_file_iter(&self.cert)?.collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_file(&self.key)?;
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)?;
        Ok(TlsConnector::from(Arc::new(config)))
    }
}
