//! Engines with mutual TLS. The engine is real; a TLS proxy is in front of it, since the tests cannot
//! reach the engine's network.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
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

/// A certificate that the tests of `mcp-client` use.
fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/mcp-client/tests/it/tls");
    folder.join(name)
}

/// The files of a client that trusts this authority, named as in `DOCKER_CERT_PATH`.
fn client(authority: &str) -> Folder {
    let folder = Folder::new();
    for (from, to) in [
        (authority, "ca.pem"),
        ("mutual-client.pem", "cert.pem"),
        ("leaf.key.pem", "key.pem"),
    ] {
        fs::copy(file(from), folder.path().join(to)).unwrap();
    }
    folder
}

impl Encrypted {
    /// In front of the engine at `unix://…`; accepts clients with a certificate of its authority.
    async fn start(engine: &str) -> Self {
        let provider = Arc::new(ring::default_provider());
        let certificate = |name: &str| CertificateDer::from_pem_file(file(name)).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate("mutual-ca.pem")).unwrap();
        let roots = Arc::new(roots);
        let clients = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider));
        let key = PrivateKeyDer::from_pem_file(file("leaf.key.pem")).unwrap();
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients.build().unwrap())
            .with_single_cert(vec![certificate("mutual-server.pem")], key)
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
async fn invalid_certificate_is_explained() {
    let Some(host) = real::docker() else { return };
    // One client does not trust the authority of the engine, and one has no key.
    let (distrustful, keyless) = (client("ca.pem"), client("mutual-ca.pem"));
    fs::remove_file(keyless.path().join("key.pem")).unwrap();
    let engine = Encrypted::start(&host).await;
    for dir in [distrustful, keyless] {
        let server = with_certificates(&engine.host, dir.path()).await;
        let said = fail(&server, "list_containers", json!({})).await;
        assert_contains(&said, "TLS connection");
        assert_contains(&said, "DOCKER_CERT_PATH");
        assert_lacks(&said, dir.str());
        server.wait_for_status("degraded").await;
    }
    assert_eq!(engine.accepted.load(Ordering::Relaxed), 0);
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

/// By variables, and by a context, which has certificates of its own.
#[tokio::test]
async fn client_with_valid_certificate_is_accepted() {
    let Some(lab) = lab().await else { return };
    let engine = Encrypted::start(&lab.host).await;
    let (certificates, config, shop) = (client("mutual-ca.pem"), Folder::new(), Folder::new());
    context(&config, &certificates, &engine.host, "remote");
    shop.write("compose.yml", &web_project("init: true", ""));
    let directory = ("DOCKER_MCP_PROJECT_DIR", shop.str());
    let path = ("DOCKER_CERT_PATH", certificates.str());
    let config = ("DOCKER_CONFIG", config.str());
    for (name, host, env) in [
        ("direct", &*engine.host, [("DOCKER_TLS_VERIFY", "1"), path]),
        // An empty one is none.
        ("current", "", [config, ("DOCKER_CONTEXT", "")]),
        ("named", "", [config, ("DOCKER_CONTEXT", "remote")]),
    ] {
        let server = in_front_of(host, &[&env[..], &[directory]].concat()).await;
        works(&lab, &server, name).await;
        // Its programs use the same engine.
        let project = lab.name(&format!("{name}-shop"));
        let up = succeed!(server, "compose_up", {"directory": shop.path(), "project": project});
        assert_eq!(up["running"], 1, "{up}");
        assert_eq!(lab.state(&format!("{project}-web-1")).await, "running");
    }
}
