//! Tests of the resource server with an issuer of this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::routing::get;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use clap::{Args, FromArgMatches};
use futures_util::FutureExt as _;
use http::StatusCode;
use http::header::LOCATION;
use mcp_core::clock::unix_time;
use mcp_core::server::Principal;
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::*;

const RESOURCE: &str = "https://mcp.test/mcp";

fn build(arguments: &[&str]) -> anyhow::Result<Option<ResourceServer>> {
    let command = OauthOptions::augment_args(clap::Command::new("x").no_binary_name(true));
    let matches = command.try_get_matches_from(arguments).unwrap();
    OauthOptions::from_arg_matches(&matches).unwrap().build()
}

fn header() -> Value {
    json!({"alg": "ES256", "typ": "at+jwt", "kid": "one"})
}

/// `value` with another member; `null` removes it.
fn with(mut value: Value, name: &str, member: Value) -> Value {
    value[name] = member;
    value
        .as_object_mut()
        .unwrap()
        .retain(|_, member| !member.is_null());
    value
}

/// An issuer with the key `one`, and a server that has fetched it.
async fn start() -> (Key, Issuer, ResourceServer) {
    let key = Key::new();
    let issuer = Issuer::start(&[key.jwk("one")]).await;
    let server = issuer.resource_server(&[]).await;
    (key, issuer, server)
}

async fn kind(server: &ResourceServer, token: &str) -> &'static str {
    match server.credential_in(token.as_bytes(), None).await {
        Ok(_) => "ok",
        Err(error) => error.kind(),
    }
}

#[tokio::test]
async fn token_of_the_issuer_is_a_principal_with_claims() {
    let key = Key::new();
    let issuer = Issuer::start(&[key.jwk("one")]).await;
    let server = issuer.new_server(&[]);
    let token = key.sign(&header(), &issuer.claims());
    // The first requests at the same time share one credential.
    let first = || server.credential_in(token.as_bytes(), None);
    let (one, two) = tokio::join!(first(), first());
    let credential = one.unwrap();
    assert!(Arc::ptr_eq(&credential, &two.unwrap()));
    let Principal { name, claims, .. } = &*credential.principal;
    assert_eq!(**name, format!("{} alice", issuer.url));
    let claims: Vec<&str> = claims.iter().map(|claim| &**claim).collect();
    let short = [
        "sub:alice",
        "group:ops",
        "group:dev",
        "scope:tools:read",
        "scope:tools:write",
    ];
    let long = short.map(|claim| format!("{} {claim}", issuer.url));
    assert_eq!(claims[..5], short);
    assert_eq!(claims[5..], long);
    // The second time it is known.
    let again = server.credential_in(token.as_bytes(), None).await.unwrap();
    assert!(Arc::ptr_eq(&again, &credential));
    assert_eq!(issuer.fetched.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn wrong_tokens_are_refused() {
    let (key, other) = (Key::new(), Key::new());
    let issuer = Issuer::start(&[key.jwk("one"), other.jwk("two")]).await;
    let server = issuer.resource_server(&[]).await;
    let now = unix_time().as_secs();
    let claims = || issuer.claims();
    let good = key.sign(&header(), &claims());
    let with_header =
        |name, member: &Value| key.sign(&with(header(), name, member.clone()), &claims());
    let with_claim =
        |name, member: &Value| key.sign(&header(), &with(claims(), name, member.clone()));
    for (name, members) in [
        ("typ", json!(["JWT", "id+jwt", null])),
        ("alg", json!(["none", "HS256", "RS256", "ES384"])),
        // Without a name it is unknown which of the two keys is meant.
        ("kid", json!(["two", "three", null])),
        ("crit", json!([["exp"]])),
    ] {
        for member in members.as_array().unwrap() {
            let found = kind(&server, &with_header(name, member)).await;
            assert_eq!(found, "unauthorized", "{name} {member}");
        }
    }
    let own = format!("{}/", issuer.url);
    let elsewhere = "https://mcp.test/other";
    for (name, members) in [
        (
            "iss",
            json!(["https://issuer.test", own, [issuer.url], null]),
        ),
        (
            "aud",
            json!([elsewhere, "https://mcp.test/mcp/", [], {RESOURCE: 1}, null]),
        ),
        ("exp", json!([now - 31, format!("{}", now + 600), -1, null])),
        ("nbf", json!([now + 60, "soon"])),
        (
            "cnf",
            json!([{"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}]),
        ),
        // The name `group:ops` would be a group of its issuer.
        (
            "sub",
            json!(["", 7, "a\nb", "group:ops", "x".repeat(256), null]),
        ),
    ] {
        for member in members.as_array().unwrap() {
            let found = kind(&server, &with_claim(name, member)).await;
            assert_eq!(found, "unauthorized", "{name} {member}");
        }
    }
    for (name, member) in [
        ("aud", json!(["https://other.test", RESOURCE])),
        ("exp", json!(now - 5)),
        ("exp", json!(u64::MAX)),
        ("nbf", json!(now + 20)),
        ("scope", Value::Null),
    ] {
        let found = kind(&server, &with_claim(name, &member)).await;
        assert_eq!(found, "ok", "{name} {member}");
    }
    let [head, body, signature] = good.split('.').collect::<Vec<_>>()[..] else {
        unreachable!()
    };
    let none = BASE64.encode(with(header(), "alg", json!("none")).to_string());
    let huge = with(claims(), "x", json!("x".repeat(20_000)));
    for token in [
        String::new(),
        "a.b".to_owned(),
        "a.b.c".to_owned(),
        format!("{none}.{body}."),
        format!("{head}.{body}."),
        format!("{head}.{body}.{signature}.x"),
        format!("{head}.{}.{signature}", BASE64.encode(claims().to_string())),
        key.sign(&header(), &huge),
        other.sign(&header(), &claims()),
        hmac_signed(&key, &claims()),
    ] {
        let found = kind(&server, &token).await;
        // The claims may be the same ones.
        assert!(found == "unauthorized" || token == good, "{token}");
    }
    assert_eq!(kind(&server, &good).await, "ok");
}

/// A token that the public key of the issuer signs as the secret of an HMAC.
fn hmac_signed(key: &Key, claims: &Value) -> String {
    let header = with(header(), "alg", json!("HS256")).to_string();
    let claims = BASE64.encode(claims.to_string());
    let message = format!("{}.{claims}", BASE64.encode(header));
    let signature = hmac_sha256::HMAC::mac(message.as_bytes(), key.0.public_key().as_ref());
    format!("{message}.{}", BASE64.encode(signature))
}

#[tokio::test]
async fn token_that_ends_ends_its_streams() {
    let (key, issuer, server) = start().await;
    let server = Arc::new(server);
    let following = tokio::spawn(Arc::clone(&server).follow());
    let soon = unix_time().as_secs() - 27;
    let token = key.sign(&header(), &with(issuer.claims(), "exp", json!(soon)));
    let credential = server.credential_in(token.as_bytes(), None).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(60), credential.revoked.cancelled());
    assert!(ended.await.is_ok());
    assert_eq!(kind(&server, &token).await, "unauthorized");
    following.abort();
}

/// A group of one issuer must not match a line for that of another one.
#[tokio::test]
async fn claims_name_their_issuer_where_there_are_several() {
    let key = Key::new();
    let issuer = Issuer::start(&[key.jwk("one")]).await;
    let other = Issuer::start(&[]).await;
    let more = ["--auth-scopes", "tools:read"];
    let issuers = format!("{},{}", issuer.url, other.url);
    let own = ["--auth-issuer", &issuers, "--auth-resource", RESOURCE];
    let server = build(&[&own[..], &more].concat()).unwrap().unwrap();
    let token = key.sign(&header(), &issuer.claims());
    let credential = server.credential_in(token.as_bytes(), None).await.unwrap();
    let claims = &credential.principal.claims;
    let prefix = format!("{} ", issuer.url);
    assert!(claims.len() == 5 && claims.iter().all(|claim| claim.starts_with(&prefix)));
    assert_eq!(*claims[1], format!("{prefix}group:ops"));
}

#[tokio::test]
async fn scopes_types_audiences_and_claims_are_configured() {
    let key = Key::new();
    let issuer = Issuer::start(&[key.jwk("one")]).await;
    let server = issuer
        .resource_server(&[
            "--auth-scopes",
            "tools:read,tools:write",
            "--auth-token-types",
            "at+jwt,JWT",
            "--auth-audience",
            "api",
            "--auth-subject-claim",
            "email",
            "--auth-groups-claim",
            "https://x.test/roles",
        ])
        .await;
    let claims = with(issuer.claims(), "aud", json!("api"));
    let claims = with(claims, "email", json!("alice@x.test"));
    let claims = with(claims, "https://x.test/roles", json!("ops team"));
    let header = with(header(), "typ", json!("JWT"));
    let token = key.sign(&header, &claims);
    let credential = server.credential_in(token.as_bytes(), None).await.unwrap();
    assert_eq!(&*credential.principal.claims[0], "sub:alice@x.test");
    assert_eq!(&*credential.principal.claims[1], "group:ops team");
    for (claim, scopes) in [
        ("scope", json!("tools:read")),
        ("scope", Value::Null),
        ("scope", json!("tools:reader tools:write")),
    ] {
        let token = key.sign(&header, &with(claims.clone(), claim, scopes));
        assert_eq!(kind(&server, &token).await, "insufficient_scope");
    }
    let listed = with(
        with(claims, "scope", Value::Null),
        "scp",
        json!(["tools:write", "tools:read"]),
    );
    assert_eq!(kind(&server, &key.sign(&header, &listed)).await, "ok");
    let challenge = |credentials| {
        let challenge = server.challenge_in(&Error::Unauthorized(credentials), None);
        challenge.unwrap().to_str().unwrap().to_owned()
    };
    let invalid = challenge(Credentials::Invalid);
    assert!(invalid.starts_with("Bearer error=\"invalid_token\", resource_metadata=\"https:"));
    assert_eq!(
        challenge(Credentials::Missing),
        "Bearer resource_metadata=\"https://mcp.test/.well-known/oauth-protected-resource/mcp\", \
         scope=\"tools:read tools:write\""
    );
    let document = |path: &str| server.metadata_at(&format!("{PATH}/{path}"), false);
    let own: Value = serde_json::from_str(&document("mcp").unwrap()).unwrap();
    assert_eq!(own["resource"], RESOURCE);
    assert_eq!(own["authorization_servers"], json!([issuer.url]));
    assert_eq!(document("other"), None);
}

#[test]
fn unusable_options_are_refused_by_name() {
    let both = format!("--auth-issuer=https://issuer.test --auth-resource={RESOURCE}");
    let with_both = |more: &str| format!("{both} {more}");
    let build_line = |line: &str| build(&line.split(' ').collect::<Vec<_>>());
    let of_two = "--auth-issuer=https://a.test,https://b.test --auth-jwks=f";
    for (arguments, expected) in [
        (
            format!("--auth-resource={RESOURCE}"),
            "--auth-issuer is missing",
        ),
        ("--auth-scopes=a".to_owned(), "--auth-issuer is missing"),
        (
            "--auth-issuer=https://issuer.test".to_owned(),
            "--auth-resource",
        ),
        (
            both.replace("https://issuer", "http://issuer"),
            "--auth-issuer",
        ),
        (both.replace(RESOURCE, "mcp"), "--auth-resource"),
        (with_both("--auth-algorithms=HS256"), "auth_algorithms: "),
        (with_both("--auth-algorithms=none"), "auth_algorithms: "),
        (with_both("--auth-scopes=a\"b"), "--auth-scopes"),
        (with_both("--auth-jwks=http://keys.test/"), "auth_jwks "),
        (
            format!("{of_two} --auth-resource={RESOURCE}"),
            "auth_jwks needs",
        ),
    ] {
        let error = build_line(&arguments).err();
        let error = error.map_or_else(String::new, |error| format!("{error:#}"));
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
    assert!(build_line("--auth-issuer=").unwrap().is_none());
    assert!(build_line(&both).unwrap().is_some());
}

/// A key of the issuer.
struct Key(EcdsaKeyPair);

impl Key {
    fn new() -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self(EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap())
    }

    fn jwk(&self, id: &str) -> Value {
        let point = self.0.public_key().as_ref();
        let (x, y) = (BASE64.encode(&point[1..33]), BASE64.encode(&point[33..]));
        json!({"kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": id, "use": "sig", "alg": "ES256"})
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
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
struct Issuer {
    url: String,
    /// The answer for the keys: a status and a body.
    keys: Arc<Mutex<(u16, String)>>,
    fetched: Arc<AtomicUsize>,
}

impl Issuer {
    async fn start(keys: &[Value]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/tenant", listener.local_addr().unwrap());
        let issuer = Self {
            keys: Arc::new(Mutex::new((200, json!({"keys": keys}).to_string()))),
            url: url.clone(),
            fetched: Arc::default(),
        };
        let (keys, fetched) = (Arc::clone(&issuer.keys), Arc::clone(&issuer.fetched));
        let metadata = json!({"issuer": url, "jwks_uri": format!("{url}/keys")}).to_string();
        let answer = async move || {
            fetched.fetch_add(1, Ordering::Relaxed);
            let (status, body) = keys.lock().clone();
            let status = StatusCode::from_u16(status).unwrap();
            // The target, if it is a redirect.
            (status, [(LOCATION, "/tenant/keys")], body)
        };
        let well_known = "/.well-known/oauth-authorization-server/tenant";
        let paths = Router::new()
            .route(well_known, get(async move || metadata))
            .route("/tenant/keys", get(answer));
        tokio::spawn(async move { axum::serve(listener, paths).await });
        issuer
    }

    fn set(&self, status: u16, keys: &[Value]) {
        *self.keys.lock() = (status, json!({"keys": keys}).to_string());
    }

    fn claims(&self) -> Value {
        let now = unix_time().as_secs();
        json!({
            "iss": self.url, "sub": "alice", "aud": RESOURCE, "iat": now, "exp": now + 600,
            "scope": "tools:read tools:write", "groups": ["ops", "dev"],
        })
    }

    /// A server that has no keys yet.
    fn new_server(&self, more: &[&str]) -> ResourceServer {
        let own = ["--auth-issuer", &self.url, "--auth-resource", RESOURCE];
        build(&[&own, more].concat()).unwrap().unwrap()
    }

    async fn resource_server(&self, more: &[&str]) -> ResourceServer {
        let server = self.new_server(more);
        for issuer in &server.issuers {
            issuer.refresh().await;
        }
        server
    }
}

#[tokio::test]
async fn keys_are_fetched_for_an_unknown_key_once_a_minute_and_outlive_an_outage() {
    let (one, issuer, server) = start().await;
    let two = Key::new();
    let fetched = || issuer.fetched.load(Ordering::Relaxed);
    let first = one.sign(&header(), &issuer.claims());
    let second = two.sign(&with(header(), "kid", json!("two")), &issuer.claims());
    let credential = server.credential_in(first.as_bytes(), None).await.unwrap();
    issuer.set(200, &[one.jwk("one"), two.jwk("two")]);
    // A client that goes, here after one poll, does not use up the fetch of its minute.
    let asked = server.credential_in(second.as_bytes(), None);
    assert!(asked.now_or_never().is_none());
    assert_eq!((kind(&server, &second).await, fetched()), ("ok", 2));
    for id in ["three", "four"] {
        let token = two.sign(&with(header(), "kid", json!(id)), &issuer.claims());
        assert_eq!(kind(&server, &token).await, "unauthorized");
    }
    assert_eq!(fetched(), 2);
    // None of these answers is taken for keys.
    for (status, keys) in [
        (500, vec![]),
        (302, vec![two.jwk("two")]),
        (200, vec![]),
        (
            200,
            vec![json!({"kty": "oct", "k": "c2VjcmV0", "kid": "one"})],
        ),
        (200, vec![two.jwk("two"); 101]),
        (200, vec![json!("x".repeat(300_000))]),
    ] {
        issuer.set(status, &keys);
        server.issuers[0].refresh().await;
        server.sweep();
        let token = one.sign(&header(), &with(issuer.claims(), "jti", json!(fetched())));
        assert_eq!(kind(&server, &token).await, "ok", "{status}");
    }
    assert!(!credential.revoked.is_cancelled());
    // A key that is gone takes its tokens along.
    issuer.set(200, &[two.jwk("two")]);
    server.issuers[0].refresh().await;
    server.sweep();
    assert!(credential.revoked.is_cancelled());
    assert_eq!(kind(&server, &first).await, "unauthorized");
    assert_eq!(kind(&server, &second).await, "ok");
}

#[tokio::test]
async fn new_key_of_the_same_name_replaces_the_old_one() {
    let (old, issuer, server) = start().await;
    let new = Key::new();
    let token = old.sign(&header(), &issuer.claims());
    let credential = server.credential_in(token.as_bytes(), None).await.unwrap();
    issuer.set(200, &[new.jwk("one")]);
    let newer = new.sign(&header(), &issuer.claims());
    assert_eq!(kind(&server, &newer).await, "ok");
    server.sweep();
    assert!(credential.revoked.is_cancelled());
    assert_eq!(kind(&server, &token).await, "unauthorized");
    assert_eq!(issuer.fetched.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn key_is_chosen_by_name_and_algorithm() {
    let key = Key::new();
    let rsa = |id: &str| json!({"kty": "RSA", "n": "x".repeat(342), "e": "AQAB", "kid": id});
    let mut unnamed = key.jwk("one");
    unnamed["kid"].take();
    for (keys, header) in [
        ([rsa("one"), key.jwk("one")], header()),
        ([rsa("one"), unnamed], with(header(), "kid", Value::Null)),
    ] {
        let issuer = Issuer::start(&keys).await;
        let server = issuer.resource_server(&[]).await;
        let token = key.sign(&header, &issuer.claims());
        assert_eq!(kind(&server, &token).await, "ok", "{header}");
    }
}

#[tokio::test(start_paused = true)]
async fn keys_that_cannot_be_fetched_at_the_start_are_fetched_soon() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    let server = build(&[
        "--auth-issuer",
        "https://issuer.test",
        "--auth-resource",
        RESOURCE,
        "--auth-jwks",
        path.to_str().unwrap(),
    ]);
    let server = Arc::new(server.unwrap().unwrap());
    let following = tokio::spawn(Arc::clone(&server).follow());
    tokio::time::sleep(Duration::from_secs(600)).await;
    let keys = json!({"keys": [Key::new().jwk("one")]});
    std::fs::write(&path, keys.to_string()).unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let algorithm = jsonwebtoken::Algorithm::ES256;
    let key = server.issuers[0].key(Some("one"), algorithm, None);
    assert!(key.now_or_never().unwrap().is_ok());
    following.abort();
}

#[tokio::test]
async fn token_that_makes_room_for_another_one_ends_its_streams() {
    let principal = Arc::new(Principal::new("x"));
    let token = |expires: u64| Verified {
        key: (0, [0; 32]),
        has_scopes: true,
        audience: Audience::Server,
        credential: Arc::new(Credential::new(Arc::clone(&principal), Some(expires))),
    };
    let digest = |at: usize| digest(&at.to_ne_bytes());
    let first = token(u64::MAX - 1);
    let mut verified: HashMap<Digest, Verified> = (1..MAX_REMEMBERED)
        .map(|at| (digest(at), token(u64::MAX)))
        .collect();
    make_room(&mut verified);
    verified.insert(digest(0), first.clone());
    assert!(first.credential.is_valid());
    make_room(&mut verified);
    assert_eq!(verified.len(), MAX_REMEMBERED - 1);
    assert!(first.credential.revoked.is_cancelled());
}

/// A token for a view is valid there only; one for the server in each view.
#[tokio::test]
async fn token_for_a_view_is_valid_there_only() {
    let (key, issuer, server) = start().await;
    let sign = |audience: Value| key.sign(&header(), &with(issuer.claims(), "aud", audience));
    let view = json!("https://mcp.test/mcp/support");
    for (audience, expected) in [
        (json!(RESOURCE), [true, true, true]),
        (view.clone(), [false, true, false]),
        (
            json!([view, "https://mcp.test/mcp/other"]),
            [false, true, true],
        ),
        (json!([view, RESOURCE]), [true, true, true]),
        (json!("https://mcp.test/mcp/"), [false; 3]),
        (json!("https://mcp.test/mcp/support/"), [false; 3]),
        (json!("https://mcp.test/mcpsupport"), [false; 3]),
        (json!("https://other.test/mcp/support"), [false; 3]),
        (json!(7), [false; 3]),
    ] {
        let token = sign(audience.clone());
        // The second time it is known.
        for _ in 0..2 {
            let mut found = Vec::new();
            for view in [None, Some("support"), Some("other")] {
                found.push(server.credential_in(token.as_bytes(), view).await.is_ok());
            }
            assert_eq!(found, expected, "{audience}");
        }
    }
    let audience = issuer.resource_server(&["--auth-audience", "api"]).await;
    let token = sign(json!("https://mcp.test/mcp/support"));
    let found = audience.credential_in(token.as_bytes(), Some("support"));
    assert!(found.await.is_err());
    let found = sign(json!("api"));
    let found = audience.credential_in(found.as_bytes(), Some("support"));
    assert!(found.await.is_ok());
}

/// The metadata of a view are at the path with its name (RFC 9728, 3.1), and the challenge names them. They are there
/// for every name, so that they do not tell which views there are.
#[tokio::test]
async fn view_has_metadata_of_its_own() {
    let (_, _, server) = start().await;
    let at = |path: &str, has_views: bool| {
        let found = server.metadata_at(&format!("{PATH}{path}"), has_views)?;
        let found: Value = serde_json::from_str(&found).unwrap();
        Some(found["resource"].as_str().unwrap().to_owned())
    };
    assert_eq!(at("/mcp", true).as_deref(), Some(RESOURCE));
    assert_eq!(at("", true).as_deref(), Some(RESOURCE));
    let view = at("/mcp/support", true);
    assert_eq!(view.as_deref(), Some("https://mcp.test/mcp/support"));
    assert_eq!(at("/mcp/support", false), None);
    for path in ["/mcp/", "/mcp/a/b", "/mcp/a%2f", "/mcp/a\"b", "/other/a"] {
        assert_eq!(at(path, true), None, "{path}");
    }
    let challenge = |view| {
        let challenge = server.challenge_in(&Error::Unauthorized(Credentials::Missing), view);
        challenge.unwrap().to_str().unwrap().to_owned()
    };
    let expected = |path| format!("resource_metadata=\"https://mcp.test{PATH}{path}\"");
    assert!(challenge(Some("support")).contains(&expected("/mcp/support")));
    assert!(challenge(None).contains(&expected("/mcp")));
}

/// The views of a server whose resource is its origin are below `/mcp`, where its clients reach them.
#[tokio::test]
async fn resource_without_a_path_has_its_views_below_mcp() {
    let key = Key::new();
    let issuer = Issuer::start(&[key.jwk("one")]).await;
    for origin in ["https://mcp.test", "https://mcp.test/"] {
        let server = build(&["--auth-issuer", &issuer.url, "--auth-resource", origin]);
        let server = server.unwrap().unwrap();
        let at = |path: &str| server.metadata_at(&format!("{PATH}{path}"), true);
        assert!(at("").is_some());
        assert_eq!(at("/mcp"), None);
        assert_eq!(at("/support"), None);
        let document: Value = serde_json::from_str(&at("/mcp/support").unwrap()).unwrap();
        assert_eq!(document["resource"], "https://mcp.test/mcp/support");
        let claims = with(issuer.claims(), "aud", json!(document["resource"]));
        let token = key.sign(&header(), &claims);
        let valid = server
            .credential_in(token.as_bytes(), Some("support"))
            .await;
        assert!(valid.is_ok());
        assert!(server.credential_in(token.as_bytes(), None).await.is_err());
    }
}
