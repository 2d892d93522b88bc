//! TLS configurations for every outgoing connection of the workspace.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};

use crate::Error;
pub use crate::error::FileError;

/// The TLS configuration for URLs with this scheme: for `https` TLS 1.2 and 1.3 by *ring* with the root certificates of
/// this machine, or those in `SSL_CERT_FILE` and `SSL_CERT_DIR`, by which a private CA can be added; for others one
/// without root certificates.
///
/// For `https` it reads files: call it once at start. Without any root certificate it logs a warning, and connections
/// fail.
///
/// `reqwest` is built without a TLS backend in this workspace. It panics when a client is built
/// without this configuration, even if it is only used for `http`: [`http_client`](crate::http_client) sets it.
///
/// # Errors
/// [`Error::Invalid`] if *ring* does not support the protocol versions, which it does.
pub fn config_for(scheme: &str) -> Result<ClientConfig, Error> {
    let roots = match scheme.eq_ignore_ascii_case("https") {
        true => native_roots(),
        false => RootCertStore::empty(),
    };
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

/// A larger file is no certificate.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The CA and the client certificate for one server, as PEM files. They are read again for every request, so
/// that a renewed certificate needs no restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TlsFiles {
    /// The only CAs that are trusted; without it those of this machine.
    pub ca: Option<PathBuf>,
    /// The client certificate with its chain, and its key.
    pub client: Option<(PathBuf, PathBuf)>,
}

impl TlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// If a file cannot be read or does not hold what it should.
    pub fn load(&self) -> Result<ClientConfig, FileError> {
        self.config(&self.read()?)
    }

    pub(crate) fn read(&self) -> Result<TlsContents, FileError> {
        let client = match &self.client {
            Some((cert, key)) => Some((read("client_cert", cert)?, read("client_key", key)?)),
            None => None,
        };
        let ca = self.ca.as_deref().map(|path| read("ca", path));
        Ok(TlsContents {
            ca: ca.transpose()?,
            client,
        })
    }

    pub(crate) fn config(&self, contents: &TlsContents) -> Result<ClientConfig, FileError> {
        let roots = match (&contents.ca, &self.ca) {
            (Some(text), Some(path)) => {
                let mut roots = RootCertStore::empty();
                for ca in certificates(text).map_err(|text| wrong("ca", path, text))? {
                    let added = roots.add(ca);
                    added.map_err(|_| wrong("ca", path, "has a certificate that is no CA"))?;
                }
                roots
            }
            _ => native_roots(),
        };
        let builder = builder().map_err(|error| FileError {
            field: "ca",
            problem: error.to_string(),
        })?;
        let builder = builder.with_root_certificates(roots);
        let (Some((cert, key)), Some((cert_path, key_path))) = (&contents.client, &self.client)
        else {
            return Ok(builder.with_no_client_auth());
        };
        let chain = certificates(cert).map_err(|text| wrong("client_cert", cert_path, text))?;
        let key = PrivateKeyDer::from_pem_slice(key);
        let no_key = "has no private key in PEM without a password";
        let key = key.map_err(|_| wrong("client_key", key_path, no_key))?;
        builder.with_client_auth_cert(chain, key).map_err(|_| {
            let problem = format!("is not the key of the certificate {}", cert_path.display());
            wrong("client_key", key_path, &problem)
        })
    }
}

/// The contents of the files.
#[derive(PartialEq)]
pub(crate) struct TlsContents {
    ca: Option<Vec<u8>>,
    client: Option<(Vec<u8>, Vec<u8>)>,
}

fn wrong(field: &'static str, path: &Path, problem: &str) -> FileError {
    FileError {
        field,
        problem: format!("{} {problem}", path.display()),
    }
}

fn read(field: &'static str, path: &Path) -> Result<Vec<u8>, FileError> {
    let unreadable = |error: std::io::Error| {
        let problem = format!("cannot be read: {}", error.kind());
        wrong(field, path, &problem)
    };
    if std::fs::metadata(path).map_err(unreadable)?.len() > MAX_FILE_BYTES {
        return Err(wrong(field, path, "is larger than 1 MiB"));
    }
    std::fs::read(path).map_err(unreadable)
}

/// Reads the certificates in a PEM file.
///
/// # Errors
/// The reason, after the name of the file, if there is none.
pub fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err("has no certificate in PEM (-----BEGIN CERTIFICATE-----)"),
    }
}
