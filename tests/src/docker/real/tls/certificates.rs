//! Certificates for one test, made by the program `openssl`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::docker::lab::Folder;

/// A certificate authority for one engine and one client.
pub(super) struct Authority(Folder);

impl Authority {
    /// `None` if there is no `openssl`.
    pub(super) fn new() -> Option<Self> {
        let version = Command::new("openssl")
            .arg("version")
            .stdout(Stdio::null())
            .status();
        if !version.is_ok_and(|status| status.success()) {
            eprintln!("skipped: there is no openssl to make certificates with");
            return None;
        }
        let authority = Self(Folder::new());
        authority.make("ca", &["-x509", "-days", "2"]);
        authority.certify(
            "server",
            "serverAuth",
            "subjectAltName=IP:127.0.0.1,DNS:localhost\n",
        );
        authority.certify("client", "clientAuth", "");
        Some(authority)
    }

    /// The authority that the engine trusts.
    pub(super) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate("ca")).unwrap();
        roots
    }

    /// The certificate and the key of the engine.
    pub(super) fn server(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = PrivateKeyDer::from_pem_file(self.file("server.key")).unwrap();
        (vec![self.certificate("server")], key)
    }

    /// The files of a client, named as in `DOCKER_CERT_PATH`.
    pub(super) fn client(&self) -> Folder {
        let folder = Folder::new();
        for (from, to) in [
            ("ca.crt", "ca.pem"),
            ("client.crt", "cert.pem"),
            ("client.key", "key.pem"),
        ] {
            fs::copy(self.file(from), folder.path().join(to)).unwrap();
        }
        folder
    }

    fn certificate(&self, who: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(self.file(&format!("{who}.crt"))).unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A key, and a certificate or the request for one.
    fn make(&self, who: &str, more: &[&str]) {
        let subject = format!("/CN=mcp test {who}");
        let args = format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {who}.key -out {who}.crt"
        );
        let args: Vec<&str> = args.split(' ').chain(["-subj", &subject]).collect();
        self.openssl(&[&args[..], more].concat());
    }

    fn certify(&self, who: &str, purpose: &str, names: &str) {
        self.make(who, &[]);
        let request = self.file("request");
        fs::rename(self.file(&format!("{who}.crt")), request).unwrap();
        let extensions = format!("extendedKeyUsage={purpose}\n{names}");
        fs::write(self.file("extensions"), extensions).unwrap();
        let args = format!(
            "x509 -req -in request -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 \
             -extfile extensions -out {who}.crt"
        );
        self.openssl(&args.split(' ').collect::<Vec<_>>());
    }

    fn openssl(&self, args: &[&str]) {
        let output = Command::new("openssl")
            .args(args)
            .current_dir(self.0.path())
            .output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl {args:?}: {said}");
    }
}
