//! An issuer of this process, with its keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{RESOURCE, build};
use crate::clock::unix_time;
use crate::oauth::ResourceServer;

/// A key of the issuer.
pub(super) struct Key(pub(super) EcdsaKeyPair);

impl Key {
    pub(super) fn new() -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self(EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap())
    }

    pub(super) fn jwk(&self, id: &str) -> Value {
        let point = self.0.public_key().as_ref();
        let (x, y) = (BASE64.encode(&point[1..33]), BASE64.encode(&point[33..]));
        json!({"kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": id, "use": "sig", "alg": "ES256"})
    }

    pub(super) fn sign(&self, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| BASE64.encode(value.to_string());
        let message = format!("{}.{}", part(header), part(claims));
        let signature = self
            .0
            .sign(&SystemRandom::new(), message.as_bytes())
            .unwrap();
        format!("{message}.{}", BASE64.encode(signature.as_ref()))
    }
}

/// An issuer that serves its metadata and keys.
pub(super) struct Issuer {
    pub(super) url: String,
    /// The answer for the keys: a status and a body.
    keys: Arc<Mutex<(&'static str, String)>>,
    pub(super) fetched: Arc<AtomicUsize>,
}

impl Issuer {
    pub(super) async fn start(keys: &[Value]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/tenant", listener.local_addr().unwrap());
        let issuer = Self {
            keys: Arc::new(Mutex::new(("200 OK", json!({"keys": keys}).to_string()))),
            url: url.clone(),
            fetched: Arc::default(),
        };
        let (keys, fetched) = (Arc::clone(&issuer.keys), Arc::clone(&issuer.fetched));
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = [0; 2000];
                let length = stream.read(&mut head).await.unwrap();
                let head = String::from_utf8_lossy(&head[..length]).into_owned();
                let path = head.split(' ').nth(1).unwrap();
                let (status, body) = match path {
                    "/.well-known/oauth-authorization-server/tenant" => {
                        let body = json!({"issuer": url, "jwks_uri": format!("{url}/keys")});
                        ("200 OK", body.to_string())
                    }
                    "/tenant/keys" => {
                        fetched.fetch_add(1, Ordering::Relaxed);
                        keys.lock().clone()
                    }
                    _ => ("404 Not Found", String::new()),
                };
                let length = body.len();
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        issuer
    }

    pub(super) fn set(&self, status: &'static str, keys: &[Value]) {
        *self.keys.lock() = (status, json!({"keys": keys}).to_string());
    }

    pub(super) fn claims(&self) -> Value {
        let now = unix_time().as_secs();
        json!({
            "iss": self.url, "sub": "alice", "aud": RESOURCE, "iat": now, "exp": now + 600,
            "scope": "tools:read tools:write", "groups": ["ops", "dev"],
        })
    }

    /// A server that has no keys yet.
    pub(super) fn new_server(&self, more: &[&str]) -> ResourceServer {
        let own = ["--auth-issuer", &self.url, "--auth-resource", RESOURCE];
        build(&[&own, more].concat()).unwrap().unwrap()
    }

    pub(super) async fn resource_server(&self, more: &[&str]) -> ResourceServer {
        let server = self.new_server(more);
        for issuer in &server.issuers {
            issuer.refresh().await;
        }
        server
    }
}
