//! Tokens towards a server: an MCP server and its authorization server, both at one address.

use std::any::Any;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use mcp_client::oauth::{GrantType, OAuth, OAuthConfig, TokenStore};
use mcp_client::tls::TlsFiles;
use mcp_client::{Client, Error};
use serde_json::{Value, json};

use crate::server::{
    Received, Reply, Server, builder, json as json_reply, reply, result, with_header,
};

/// Tokens are `t1`, `t2` …, each with a refresh token `r1`, `r2` … that is valid once.
#[derive(Default)]
struct Tokens {
    /// The number of the last one.
    last: AtomicU64,
    /// Tokens before this one are refused.
    first_valid: AtomicU64,
    lifetime: AtomicU64,
    /// The last one that was used.
    used: AtomicU64,
    /// Number of requests for tokens.
    requests: AtomicU64,
    is_down: AtomicBool,
}

impl Tokens {
    fn new(last: u64, lifetime: u64) -> Arc<Self> {
        let tokens = Self::default();
        tokens.last.store(last, Ordering::Relaxed);
        tokens.lifetime.store(lifetime, Ordering::Relaxed);
        Arc::new(tokens)
    }

    fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    fn revoke(&self) {
        let next = self.last.load(Ordering::Relaxed) + 1;
        self.first_valid.store(next, Ordering::Relaxed);
    }

    fn answer(&self, request: &Received) -> Reply {
        let origin = format!("http://{}", request.header("host").unwrap());
        let metadata = match request.path.as_str() {
            "/mcp" => return self.answer_mcp(request),
            "/token" => return self.answer_token(request),
            "/.well-known/oauth-protected-resource/mcp" => {
                json!({"resource": format!("{origin}/mcp"), "authorization_servers": [origin]})
            }
            "/.well-known/oauth-authorization-server" => {
                json!({"issuer": origin, "token_endpoint": format!("{origin}/token")})
            }
            _ => return reply(404, "text/plain", ""),
        };
        json_reply(metadata.to_string())
    }

    fn answer_mcp(&self, request: &Received) -> Reply {
        let token = request.header("authorization").unwrap_or_default();
        let number = token.strip_prefix("Bearer t").unwrap_or("0");
        let number: u64 = number.parse().unwrap();
        self.used.store(number, Ordering::Relaxed);
        match number > 0 && number >= self.first_valid.load(Ordering::Relaxed) {
            true => result(request, "{}"),
            false => with_header(reply(401, "text/plain", ""), "www-authenticate", "Bearer"),
        }
    }

    fn answer_token(&self, request: &Received) -> Reply {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if self.is_down.load(Ordering::Relaxed) {
            return reply(503, "text/plain", "");
        }
        let last = self.last.load(Ordering::Relaxed);
        let is_refresh = request.body.contains("grant_type=refresh_token");
        if is_refresh && !request.body.contains(&format!("refresh_token=r{last}&")) {
            return reply(400, "application/json", "{\"error\":\"invalid_grant\"}");
        }
        self.last.store(last + 1, Ordering::Relaxed);
        let mut tokens = json!({
            "access_token": format!("t{}", last + 1),
            "token_type": "Bearer",
            "expires_in": self.lifetime.load(Ordering::Relaxed),
        });
        if is_refresh {
            tokens["refresh_token"] = format!("r{}", last + 1).into();
        }
        json_reply(tokens.to_string())
    }
}

/// A store in memory, which several processes share.
#[derive(Default)]
struct Store {
    text: Mutex<Option<Vec<u8>>>,
    is_broken: AtomicBool,
    lock: Arc<tokio::sync::Mutex<()>>,
}

impl Store {
    fn refresh_token(&self) -> String {
        let text = self.text.lock().unwrap().clone().unwrap();
        let stored: Value = serde_json::from_slice(&text).unwrap();
        stored["refresh"].as_str().unwrap().to_owned()
    }
}

/// Waits for the effect of a renewal: no request waits for it while its token is valid.
async fn until(is_done: impl Fn() -> bool) {
    while !is_done() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

impl TokenStore for Store {
    fn load(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.text.lock().unwrap().clone())
    }

    fn save(&self, tokens: &[u8]) -> io::Result<()> {
        if self.is_broken.load(Ordering::Relaxed) {
            return Err(io::Error::other("the disk is full"));
        }
        *self.text.lock().unwrap() = Some(tokens.to_vec());
        Ok(())
    }

    fn try_lock(&self) -> io::Result<Option<Box<dyn Any + Send>>> {
        let held = Arc::clone(&self.lock).try_lock_owned().ok();
        Ok(held.map(|held| Box::new(held) as Box<dyn Any + Send>))
    }
}

async fn server(tokens: &Arc<Tokens>) -> Server {
    let tokens = Arc::clone(tokens);
    Server::start(move |request| tokens.answer(request)).await
}

fn config(server: &Server, grant: GrantType) -> OAuthConfig {
    OAuthConfig {
        server: server.endpoint(),
        grant,
        client_id: Some("me".to_owned()),
        client_secret: Some("s3cret".to_owned()),
        client_metadata: None,
        scope: None,
        issuer: None,
        tls: TlsFiles::default(),
        redirect_port: 0,
        how_to_login: "LOG IN".to_owned(),
    }
}

fn client(config: OAuthConfig, store: Option<&Arc<Store>>) -> Client {
    let store = store.map(|store| Arc::clone(store) as Arc<dyn TokenStore>);
    let oauth = Arc::new(OAuth::new(config, store));
    builder().http(oauth.endpoint()).unwrap()
}

/// A store with a login, whose token `t1` is due, and ends after so many seconds.
fn store(server: &Server, ends_after: u64) -> Arc<Store> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = now.as_secs();
    let origin = server.url.trim_end_matches("/mcp");
    let tokens = json!({
        "server": server.url,
        "resource": server.url,
        "issuer": origin,
        "token_endpoint": format!("{origin}/token"),
        "client": {"id": "me", "secret": "s3cret", "method": "client_secret_post"},
        "access": "t1",
        "refresh": "r1",
        "expires_at": now + ends_after,
        "renew_at": now - 1,
        "scope": null,
        "wanted_scope": null,
    });
    let store = Store::default();
    store.save(tokens.to_string().as_bytes()).unwrap();
    Arc::new(store)
}

async fn ping(client: &Client) -> Result<(), Error> {
    client.request("ping", &json!({})).await.map(drop)
}

#[tokio::test]
async fn client_credentials_are_asked_for_once_and_renewed_without_a_refusal() {
    let tokens = Tokens::new(0, 60);
    let mut server = server(&tokens).await;
    let client = client(config(&server, GrantType::ClientCredentials), None);
    // One token is enough, although it ends soon.
    for answer in join_all((0..20).map(|_| ping(&client))).await {
        answer.unwrap();
    }
    assert_eq!(tokens.requests(), 1);
    tokens.lifetime.store(2, Ordering::Relaxed);
    tokens.revoke();
    ping(&client).await.unwrap();
    let requests = tokens.requests();
    tokio::time::sleep(Duration::from_millis(3100)).await;
    while !server.nothing_received() {}
    ping(&client).await.unwrap();
    assert_eq!(tokens.requests(), requests + 1);
    let paths = [server.next().await.path, server.next().await.path];
    assert_eq!(paths, ["/token", "/mcp"]);
}

#[tokio::test]
async fn login_is_renewed_when_due_and_when_refused_and_its_refresh_token_rotates() {
    let tokens = Tokens::new(1, 3600);
    let server = server(&tokens).await;
    let store = store(&server, 600);
    let client = client(config(&server, GrantType::Login), Some(&store));
    for answer in join_all((0..20).map(|_| ping(&client))).await {
        answer.unwrap();
    }
    until(|| store.refresh_token() != "r1").await;
    assert_eq!((tokens.requests(), store.refresh_token()), (1, "r2".into()));
    tokens.revoke();
    for answer in join_all((0..20).map(|_| ping(&client))).await {
        answer.unwrap();
    }
    assert_eq!((tokens.requests(), store.refresh_token()), (2, "r3".into()));
}

#[tokio::test]
async fn processes_with_one_login_renew_it_once() {
    let tokens = Tokens::new(1, 3600);
    let server = server(&tokens).await;
    let store = store(&server, 600);
    let new = || client(config(&server, GrantType::Login), Some(&store));
    let clients = [new(), new(), new()];
    for answer in join_all(clients.iter().map(ping)).await {
        answer.unwrap();
    }
    until(|| store.refresh_token() != "r1").await;
    assert_eq!((tokens.requests(), store.refresh_token()), (1, "r2".into()));
}

#[tokio::test]
async fn renewed_login_that_cannot_be_saved_is_used_and_saved_later() {
    let tokens = Tokens::new(1, 3600);
    let server = server(&tokens).await;
    let store = store(&server, 600);
    let client = client(config(&server, GrantType::Login), Some(&store));
    store.is_broken.store(true, Ordering::Relaxed);
    while tokens.used.load(Ordering::Relaxed) < 2 {
        ping(&client).await.unwrap();
    }
    for _ in 0..2 {
        tokens.revoke();
        ping(&client).await.unwrap();
    }
    assert_eq!((tokens.requests(), store.refresh_token()), (3, "r1".into()));
    store.is_broken.store(false, Ordering::Relaxed);
    tokens.revoke();
    ping(&client).await.unwrap();
    assert_eq!((tokens.requests(), store.refresh_token()), (4, "r5".into()));
}

#[tokio::test]
async fn outage_of_the_authorization_server_leaves_the_token_in_use() {
    let tokens = Tokens::new(1, 3600);
    let server = server(&tokens).await;
    let store = store(&server, 600);
    let client = client(config(&server, GrantType::Login), Some(&store));
    tokens.is_down.store(true, Ordering::Relaxed);
    for _ in 0..5 {
        ping(&client).await.unwrap();
    }
    until(|| tokens.requests() > 0).await;
    tokens.revoke();
    let error = ping(&client).await.unwrap_err();
    assert_error!(error, Error::Unreachable { .. });
    assert!(!error.to_string().contains("LOG IN"), "{error}");
    assert_eq!(tokens.requests(), 1);
}

#[tokio::test]
async fn login_of_another_issuer_or_client_is_not_used() {
    let tokens = Tokens::new(1, 3600);
    let server = server(&tokens).await;
    let store = store(&server, 600);
    let mut other_issuer = config(&server, GrantType::Login);
    other_issuer.issuer = Some("https://login.example".to_owned());
    let mut other_client = config(&server, GrantType::Login);
    other_client.client_id = Some("other".to_owned());
    for config in [other_issuer, other_client] {
        let error = ping(&client(config, Some(&store))).await.unwrap_err();
        assert!(error.to_string().contains("needs a login"), "{error}");
    }
    assert_eq!(tokens.requests(), 0);
}
