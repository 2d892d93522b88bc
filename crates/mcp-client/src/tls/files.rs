//! A TLS configuration from files, which are followed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::{builder, native_roots};
use crate::sync::lock;
use crate::unreachable::FileError;

/// A larger file is no certificate.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The CA and the client certificate for one server, as PEM files. They are read again for every new
/// connection, so that a renewed certificate needs no restart.
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

    fn read(&self) -> Result<Contents, FileError> {
        let client = match &self.client {
            Some((cert, key)) => Some((read("client_cert", cert)?, read("client_key", key)?)),
            None => None,
        };
        let ca = self.ca.as_deref().map(|path| read("ca", path));
        Ok(Contents {
            ca: ca.transpose()?,
            client,
        })
    }

    fn config(&self, contents: &Contents) -> Result<ClientConfig, FileError> {
        let wrong = |field, path: Option<&Path>, problem: &str| FileError {
            field,
            problem: match path {
                Some(path) => format!("{} {problem}", path.display()),
                None => problem.to_owned(),
            },
        };
        let roots = match &contents.ca {
            None => native_roots(),
            Some(text) => {
                let path = self.ca.as_deref();
                let mut roots = RootCertStore::empty();
                for ca in certificates(text).map_err(|text| wrong("ca", path, text))? {
                    let added = roots.add(ca);
                    added.map_err(|_| wrong("ca", path, "has a certificate that is no CA"))?;
                }
                roots
            }
        };
        let builder = builder().map_err(|error| wrong("ca", None, &error.to_string()))?;
        let builder = builder.with_root_certificates(roots);
        let (Some((cert, key)), Some((cert_path, key_path))) = (&contents.client, &self.client)
        else {
            return Ok(builder.with_no_client_auth());
        };
        let chain = certificates(cert);
        let chain = chain.map_err(|text| wrong("client_cert", Some(cert_path), text))?;
        let key = PrivateKeyDer::from_pem_slice(key);
        let key = key.map_err(|_| {
            let problem = "has no private key in PEM without a password";
            wrong("client_key", Some(key_path), problem)
        })?;
        builder.with_client_auth_cert(chain, key).map_err(|_| {
            let problem = format!("is not the key of the certificate {}", cert_path.display());
            wrong("client_key", Some(key_path), &problem)
        })
    }
}

/// The contents of the files.
#[derive(PartialEq)]
struct Contents {
    ca: Option<Vec<u8>>,
    client: Option<(Vec<u8>, Vec<u8>)>,
}

/// Follows the files: makes a new configuration only when one of them has changed, since sessions are
/// resumed by means of the old one.
pub(crate) struct FollowedFiles {
    files: TlsFiles,
    last: Mutex<Option<(Contents, Arc<ClientConfig>)>>,
}

impl FollowedFiles {
    pub(crate) fn new(files: TlsFiles) -> Self {
        let last = Mutex::default();
        Self { files, last }
    }

    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>, FileError> {
        let contents = self.files.read()?;
        let mut last = lock(&self.last);
        if let Some((known, config)) = &*last
            && *known == contents
        {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(self.files.config(&contents)?);
        *last = Some((contents, Arc::clone(&config)));
        Ok(config)
    }
}

fn read(field: &'static str, path: &Path) -> Result<Vec<u8>, FileError> {
    let failed = |why: &str| FileError {
        field,
        problem: format!("{} {why}", path.display()),
    };
    let unreadable = |error: std::io::Error| failed(&format!("cannot be read: {}", error.kind()));
    if std::fs::metadata(path).map_err(unreadable)?.len() > MAX_FILE_BYTES {
        return Err(failed("is larger than 1 MiB"));
    }
    std::fs::read(path).map_err(unreadable)
}

fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err("has no certificate in PEM (-----BEGIN CERTIFICATE-----)"),
    }
}
