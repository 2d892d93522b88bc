//! Engines with mutual TLS. The engine is real; a TLS proxy is in front of it, since the tests cannot
//! reach the engine's network.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use tokio::io::copy_bidirectional;
use tokio::net::UnixStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use crate::docker::prelude::*;
use crate::docker::proxy::listen;

/// An engine behind TLS, on a free port of loopback.
struct Encrypted {
    /// In the form of `DOCKER_HOST`.
    host: String,
    /// The number of accepted clients.
    accepted: Arc<AtomicUsize>,
    _task: AbortOnDropHandle<()>,
}

impl Encrypted {
    /// In front of the engine at `unix://…`; accepts clients with a certificate of the authority.
    async fn start(
        engine: &str,
        authority: &Authority,
        version: &'static SupportedProtocolVersion,
    ) -> Self {
        let provider = Arc::new(ring::default_provider());
        let clients = WebPkiClientVerifier::builder_with_provider(
            Arc::new(authority.roots()),
            Arc::clone(&provider),
        );
        let (chain, key) = authority.server();
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_client_cert_verifier(clients.build().unwrap())
            .with_single_cert(chain, key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let socket = engine.strip_prefix("unix://").unwrap().to_owned();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        let (host, task) = listen(move |client| {
            let (acceptor, socket) = (acceptor.clone(), socket.clone());
            let count = Arc::clone(&count);
            async move {
                let Ok(mut client) = acceptor.accept(client).await else {
                    return;
                };
                count.fetch_add(1, Ordering::Relaxed);
                let mut engine = UnixStream::connect(socket).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut engine).await;
            }
        })
        .await;
        Self {
            host,
            accepted,
            _task: task,
        }
    }
}

async fn with_certificates(host: &str, dir: &Path) -> Server {
    let env = [
        ("DOCKER_TLS_VERIFY", "1"),
        ("DOCKER_CERT_PATH", dir.to_str().unwrap()),
    ];
    in_front_of(host, &env).await
}

/// Reads, changes and follows a container through this server.
async fn works(lab: &Lab, server: &Server, name: &str) {
    let name = lab.run_script(name, "echo hello; sleep 600").await;
    let listed = succeed!(*server, "list_containers", {"name": name});
    assert_eq!(listed["containers"][0]["name"], name, "{listed}");
    succeed!(*server, "get_container_logs", {"container": name, "until_match": "hello", "tail": 10,
        "follow_seconds": 120});
    let stopped = succeed!(*server, "stop_container", {"container": name, "timeout_seconds": 0});
    assert_eq!(stopped["after"], "exited", "{stopped}");
    let log = succeed!(*server, "get_container_logs", {"container": name});
    assert_contains(&log["log"], "hello");
    server.wait_for_status("online").await;
}

#[tokio::test]
async fn client_with_valid_certificate_is_accepted() {
    let Some(authority) = Authority::new() else {
        return;
    };
    let client = authority.client();
    for lab in labs(&[]).await {
        for (name, version) in [("tls12", &TLS12), ("tls13", &TLS13)] {
            let engine = Encrypted::start(&lab.host, &authority, version).await;
            let server = with_certificates(&engine.host, client.path()).await;
            works(&lab, &server, name).await;
        }
    }
}

#[tokio::test]
async fn invalid_certificate_is_explained() {
    let (Some(authority), Some(stranger)) = (Authority::new(), Authority::new()) else {
        return;
    };
    let Some(host) = real::docker() else { return };
    let (theirs, unknown, distrustful) =
        (stranger.client(), authority.client(), authority.client());
    // Certified by an authority that the engine does not trust.
    for file in ["cert.pem", "key.pem"] {
        fs::copy(theirs.path().join(file), unknown.path().join(file)).unwrap();
    }
    // This client does not trust the authority of the engine.
    let ca = distrustful.path().join("ca.pem");
    fs::copy(theirs.path().join("ca.pem"), ca).unwrap();
    let mut cases = vec![("unknown", unknown), ("distrustful", distrustful)];
    for file in ["ca.pem", "cert.pem", "key.pem"] {
        let (missing, broken) = (authority.client(), authority.client());
        fs::remove_file(missing.path().join(file)).unwrap();
        fs::write(broken.path().join(file), "-----BEGIN NOTHING-----\n").unwrap();
        cases.extend([("missing", missing), ("broken", broken)]);
    }
    for version in [&TLS12, &TLS13] {
        let engine = Encrypted::start(&host, &authority, version).await;
        for (case, dir) in &cases {
            let server = with_certificates(&engine.host, dir.path()).await;
            let said = fail(&server, "list_containers", json!({})).await;
            assert!(said.contains("TLS connection"), "{case}: {said}");
            assert!(said.contains("DOCKER_CERT_PATH"), "{case}: {said}");
            assert!(!said.contains(dir.str()), "{case}: {said}");
            server.wait_for_status("degraded").await;
        }
        assert_eq!(engine.accepted.load(Ordering::Relaxed), 0);
    }
}

/// A docker configuration with one context whose engine wants certificates.
fn context(folder: &Folder, certificates: &Folder, host: &str, name: &str) {
    let dir = |part: &str| -> PathBuf { folder.path().join("contexts").join(part).join("abc") };
    let (meta, tls) = (dir("meta"), dir("tls").join("docker"));
    fs::create_dir_all(&meta).unwrap();
    fs::create_dir_all(&tls).unwrap();
    let endpoint = json!({"Host": host, "SkipTLSVerify": false});
    let context = json!({"Name": name, "Metadata": {}, "Endpoints": {"docker": endpoint}});
    fs::write(meta.join("meta.json"), context.to_string()).unwrap();
    for file in ["ca.pem", "cert.pem", "key.pem"] {
        fs::copy(certificates.path().join(file), tls.join(file)).unwrap();
    }
    let config = json!({"currentContext": name}).to_string();
    fs::write(folder.path().join("config.json"), config).unwrap();
}

#[tokio::test]
async fn docker_context_has_its_own_certificates() {
    let Some(authority) = Authority::new() else {
        return;
    };
    let Some(lab) = lab().await else { return };
    let engine = Encrypted::start(&lab.host, &authority, &TLS13).await;
    let (config, shop) = (Folder::new(), Folder::new());
    context(&config, &authority.client(), &engine.host, "remote");
    shop.write("compose.yml", &web_project("init: true", ""));
    let env = [
        ("DOCKER_CONFIG", config.str()),
        ("DOCKER_MCP_PROJECT_DIR", shop.str()),
    ];
    // An empty one is none.
    for (name, context) in [("current", ""), ("named", "remote")] {
        let env = [&env[..], &[("DOCKER_CONTEXT", context)]].concat();
        let server = in_front_of("", &env).await;
        works(&lab, &server, name).await;
        // Its programs use the same engine.
        let project = lab.name(name);
        let up = succeed!(server, "compose_up", {"directory": shop.path(), "project": project});
        assert_eq!(up["running"], 1, "{up}");
        assert_eq!(lab.state(&format!("{project}-web-1")).await, "running");
    }
}

/// Commands that make a certificate authority, and the keys and certificates of an engine and a client.
const CERTIFY: &str = r#"set -e
req="openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
$req -x509 -days 2 -subj '/CN=mcp test ca' -keyout ca.key -out ca.crt
echo 'subjectAltName=IP:127.0.0.1,DNS:localhost' > extensions
for who in server client; do
    $req -subj "/CN=mcp test $who" -keyout $who.key -out request
    echo "extendedKeyUsage=${who}Auth" >> extensions
    openssl x509 -req -in request -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 \
        -extfile extensions -out $who.crt
    : > extensions
done
"#;

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
        let mut openssl = Command::new("sh");
        openssl
            .args(["-c", CERTIFY])
            .current_dir(authority.0.path());
        let output = openssl.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
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
}
