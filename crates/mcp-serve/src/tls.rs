//! TLS of the listener, by a certificate, a key and a CA of clients in files that are followed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow, ensure};
use parking_lot::RwLock;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto::ring};

use crate::followed_files::FollowedFiles;

/// A larger file is no certificate.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The certificate of a listener. Connections that are open keep the one that they began with.
pub struct Tls {
    files: Files<PathBuf>,
    config: RwLock<Arc<ServerConfig>>,
    /// The contents of the first configuration.
    first: Files<Vec<u8>>,
}

/// The paths of files in PEM, or their contents.
#[derive(Clone, PartialEq)]
struct Files<T> {
    certificate: T,
    key: T,
    client_ca: Option<T>,
}

impl Tls {
    /// Reads the certificate with its chain and its key. With `client_ca` only clients with a certificate of
    /// one of its CAs can connect.
    ///
    /// # Errors
    /// If a file cannot be read or does not hold what it should; names the file and its option.
    pub fn read(
        certificate: PathBuf,
        key: PathBuf,
        client_ca: Option<PathBuf>,
    ) -> anyhow::Result<Self> {
        let files = Files {
            certificate,
            key,
            client_ca,
        };
        let first = files.read()?;
        let config = RwLock::new(Arc::new(first.config()?));
        Ok(Self {
            files,
            config,
            first,
        })
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&*self.config.read()))
    }

    /// Follows the files: within 2 s new connections get a renewed certificate. While the files are unusable,
    /// the last ones stay valid.
    pub(crate) async fn follow(self: Arc<Self>) {
        let tls = Arc::clone(&self);
        let read = move || tls.files.read().map_err(|error| format!("{error:#}"));
        // Not what a read finds now: the files may have changed since.
        let files = FollowedFiles::new(Ok(self.first.clone()), read);
        let sentences = [
            "the TLS certificate has changed and is used",
            "the files of TLS are unusable; the last certificate stays in use",
        ];
        let apply = |contents: Files<Vec<u8>>| {
            *self.config.write() = Arc::new(contents.config()?);
            Ok(())
        };
        files.follow(sentences, apply).await;
    }
}

impl Files<PathBuf> {
    fn read(&self) -> anyhow::Result<Files<Vec<u8>>> {
        let client_ca = self.client_ca.as_deref();
        Ok(Files {
            certificate: read("--tls-cert", &self.certificate)?,
            key: read("--tls-key", &self.key)?,
            client_ca: client_ca
                .map(|path| read("--tls-client-ca", path))
                .transpose()?,
        })
    }
}

impl Files<Vec<u8>> {
    fn config(&self) -> anyhow::Result<ServerConfig> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(text) => {
                let mut roots = RootCertStore::empty();
                for ca in certificates("--tls-client-ca", text)? {
                    let added = roots.add(ca);
                    added
                        .map_err(|_| anyhow!("--tls-client-ca has a certificate that is no CA"))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build()?)
            }
        };
        let chain = certificates("--tls-cert", &self.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key);
        let key =
            key.map_err(|_| anyhow!("--tls-key has no private key in PEM without a password"))?;
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| anyhow!("--tls-key is not the key of --tls-cert ({error})"))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn read(option: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    let unreadable = || format!("cannot read {} ({option})", path.display());
    let size = std::fs::metadata(path).with_context(unreadable)?.len();
    ensure!(
        size <= MAX_FILE_BYTES,
        "{} ({option}) is larger than 1 MiB",
        path.display()
    );
    std::fs::read(path).with_context(unreadable)
}

fn certificates(option: &str, text: &[u8]) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let found = mcp_client::tls::certificates(text);
    found.map_err(|why| anyhow!("{option} {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::followed_files::READ_INTERVAL;

    /// A certificate that was renewed while the server started would otherwise never be used.
    #[tokio::test(start_paused = true)]
    async fn change_before_the_files_are_followed_is_applied() {
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mcp-client/tests/it/tls");
        let (certificate, key) = (
            folder.path().join("cert.pem"),
            folder.path().join("key.pem"),
        );
        std::fs::copy(source.join("server.pem"), &certificate).unwrap();
        std::fs::copy(source.join("server.key.pem"), &key).unwrap();
        let tls = Arc::new(Tls::read(certificate.clone(), key, None).unwrap());
        let first = Arc::clone(&tls.config.read());
        let text = std::fs::read_to_string(&certificate).unwrap();
        std::fs::write(&certificate, format!("{text}\n")).unwrap();
        let following = tokio::spawn(Arc::clone(&tls).follow());
        tokio::time::sleep(4 * READ_INTERVAL).await;
        assert!(!Arc::ptr_eq(&first, &tls.config.read()));
        following.abort();
    }
}
