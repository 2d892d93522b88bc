//! Tests of the resource server with an issuer of this process.

mod issuer;
mod keys;
mod views;

use std::sync::atomic::Ordering;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use clap::{Args, FromArgMatches};
use ring::signature::KeyPair as _;
use serde_json::{Value, json};

use mcp_core::server::Principal;

use super::*;
use crate::clock::unix_time;
use issuer::{Issuer, Key};

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
    let server = issuer.resource_server(&[]).await;
    let token = key.sign(&header(), &issuer.claims());
    let credential = server.credential_in(token.as_bytes(), None).await.unwrap();
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
    for (name, member) in [
        ("typ", json!("JWT")),
        ("typ", json!("id+jwt")),
        ("typ", Value::Null),
        ("alg", json!("none")),
        ("alg", json!("HS256")),
        ("alg", json!("RS256")),
        ("alg", json!("ES384")),
        ("kid", json!("two")),
        ("kid", json!("three")),
        // Which of the two keys it means is unknown.
        ("kid", Value::Null),
        ("crit", json!(["exp"])),
    ] {
        let token = key.sign(&with(header(), name, member.clone()), &claims());
        assert_eq!(
            kind(&server, &token).await,
            "unauthorized",
            "{name} {member}"
        );
    }
    for (name, member) in [
        ("iss", json!("https://issuer.test")),
        ("iss", json!(format!("{}/", issuer.url))),
        ("iss", json!([issuer.url])),
        ("iss", Value::Null),
        ("aud", json!("https://mcp.test/other")),
        ("aud", json!("https://mcp.test/mcp/")),
        ("aud", json!([])),
        ("aud", json!({"https://mcp.test/mcp": 1})),
        ("aud", Value::Null),
        ("exp", json!(now - 31)),
        ("exp", json!(format!("{}", now + 600))),
        ("exp", json!(-1)),
        ("exp", Value::Null),
        ("nbf", json!(now + 60)),
        ("nbf", json!("soon")),
        ("sub", json!("")),
        ("sub", json!(7)),
        ("sub", json!("a\nb")),
        // Its name would be a group of its issuer.
        ("sub", json!("group:ops")),
        ("sub", json!("x".repeat(256))),
        ("sub", Value::Null),
    ] {
        let token = key.sign(&header(), &with(claims(), name, member.clone()));
        assert_eq!(
            kind(&server, &token).await,
            "unauthorized",
            "{name} {member}"
        );
    }
    for (name, member) in [
        ("aud", json!(["https://other.test", RESOURCE])),
        ("exp", json!(now - 20)),
        ("exp", json!(u64::MAX)),
        ("nbf", json!(now + 20)),
        ("scope", Value::Null),
    ] {
        let token = key.sign(&header(), &with(claims(), name, member.clone()));
        assert_eq!(kind(&server, &token).await, "ok", "{name} {member}");
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
    let header = with(header(), "alg", json!("HS256"));
    let message = format!(
        "{}.{}",
        BASE64.encode(header.to_string()),
        BASE64.encode(claims.to_string())
    );
    let signature = hmac_sha256::HMAC::mac(message.as_bytes(), key.0.public_key().as_ref());
    format!("{message}.{}", BASE64.encode(signature))
}

#[tokio::test]
async fn token_that_ends_ends_its_streams() {
    let key = Key::new();
    let issuer = Issuer::start(&[key.jwk("one")]).await;
    let server = Arc::new(issuer.resource_server(&[]).await);
    let following = tokio::spawn(Arc::clone(&server).follow());
    let soon = unix_time().as_secs() - 29;
    let token = key.sign(&header(), &with(issuer.claims(), "exp", json!(soon)));
    let credential = server.credential_in(token.as_bytes(), None).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(4), credential.revoked.cancelled());
    assert!(ended.await.is_ok());
    assert_eq!(kind(&server, &token).await, "unauthorized");
    following.abort();
}

/// A group of one issuer must not match a line for that of another one.
#[tokio::test]
async fn claims_name_their_issuer_where_there_are_several() {
    let key = Key::new();
    let (issuer, other) = (
        Issuer::start(&[key.jwk("one")]).await,
        Issuer::start(&[]).await,
    );
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
    let challenge = server
        .challenge_in(&Error::Unauthorized(Credentials::Invalid), None)
        .unwrap();
    let challenge = challenge.to_str().unwrap();
    assert!(challenge.starts_with("Bearer error=\"invalid_token\", resource_metadata=\"https:"));
    let challenge = server
        .challenge_in(&Error::Unauthorized(Credentials::Missing), None)
        .unwrap();
    assert_eq!(
        challenge,
        "Bearer resource_metadata=\"https://mcp.test/.well-known/oauth-protected-resource/mcp\", \
         scope=\"tools:read tools:write\""
    );
    let document: Value = serde_json::from_str(server.metadata()).unwrap();
    assert_eq!(document["resource"], RESOURCE);
    assert_eq!(document["authorization_servers"], json!([issuer.url]));
    assert!(server.is_metadata_path("/.well-known/oauth-protected-resource/mcp"));
    assert!(!server.is_metadata_path("/.well-known/oauth-protected-resource/other"));
}

#[test]
fn unusable_options_are_refused_by_name() {
    let issuer = ["--auth-issuer", "https://issuer.test"];
    let resource = ["--auth-resource", RESOURCE];
    let both = [issuer, resource].concat();
    for (arguments, expected) in [
        (&resource[..], "--auth-issuer is missing"),
        (&["--auth-scopes", "a"], "--auth-issuer is missing"),
        (&issuer, "--auth-resource"),
        (
            &[
                "--auth-issuer",
                "http://issuer.test",
                "--auth-resource",
                RESOURCE,
            ],
            "--auth-issuer",
        ),
        (
            &[
                "--auth-issuer",
                "https://issuer.test",
                "--auth-resource",
                "mcp",
            ],
            "--auth-resource",
        ),
        (
            &[&both[..], &["--auth-algorithms", "HS256"]].concat(),
            "--auth-algorithms",
        ),
        (
            &[&both[..], &["--auth-algorithms", "none"]].concat(),
            "--auth-algorithms",
        ),
        (
            &[&both[..], &["--auth-scopes", "a\"b"]].concat(),
            "--auth-scopes",
        ),
        (
            &[&both[..], &["--auth-jwks", "http://keys.test/"]].concat(),
            "--auth-jwks",
        ),
        (
            &[
                "--auth-issuer",
                "https://a.test,https://b.test",
                "--auth-jwks",
                "f",
                resource[0],
                resource[1],
            ],
            "--auth-jwks",
        ),
    ] {
        let error = build(arguments).err().map(|error| format!("{error:#}"));
        let error = error.unwrap_or_default();
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
    assert!(build(&["--auth-issuer", ""]).unwrap().is_none());
    assert!(build(&both).unwrap().is_some());
}
