//! Tests of the keys of issuers: when they are fetched, and what ends with them.

use futures_util::FutureExt as _;
use mcp_core::server::Principal;

use super::*;

#[tokio::test]
async fn keys_are_fetched_for_an_unknown_key_once_a_minute_and_outlive_an_outage() {
    let (one, two) = (Key::new(), Key::new());
    let issuer = Issuer::start(&[one.jwk("one")]).await;
    let server = issuer.resource_server(&[]).await;
    let fetched = || issuer.fetched.load(Ordering::Relaxed);
    let first = one.sign(&header(), &issuer.claims());
    let second = two.sign(&with(header(), "kid", json!("two")), &issuer.claims());
    let credential = server.credential_in(first.as_bytes(), None).await.unwrap();
    issuer.set("200 OK", &[one.jwk("one"), two.jwk("two")]);
    assert_eq!((kind(&server, &second).await, fetched()), ("ok", 2));
    for id in ["three", "four"] {
        let token = two.sign(&with(header(), "kid", json!(id)), &issuer.claims());
        assert_eq!(kind(&server, &token).await, "unauthorized");
    }
    assert_eq!(fetched(), 2);
    // None of these answers is taken for keys.
    for (status, keys) in [
        ("500 Internal Server Error", vec![]),
        ("302 Found\r\nLocation: /tenant/keys", vec![two.jwk("two")]),
        ("200 OK", vec![]),
        (
            "200 OK",
            vec![json!({"kty": "oct", "k": "c2VjcmV0", "kid": "one"})],
        ),
        ("200 OK", vec![two.jwk("two"); 101]),
        ("200 OK", vec![json!("x".repeat(300_000))]),
    ] {
        issuer.set(status, &keys);
        server.issuers[0].refresh().await;
        server.sweep();
        let token = one.sign(&header(), &with(issuer.claims(), "jti", json!(fetched())));
        assert_eq!(kind(&server, &token).await, "ok", "{status}");
    }
    assert!(!credential.revoked.is_cancelled());
    // A key that is gone takes its tokens along.
    issuer.set("200 OK", &[two.jwk("two")]);
    server.issuers[0].refresh().await;
    server.sweep();
    assert!(credential.revoked.is_cancelled());
    assert_eq!(kind(&server, &first).await, "unauthorized");
    assert_eq!(kind(&server, &second).await, "ok");
}

#[tokio::test]
async fn client_that_goes_does_not_use_up_the_fetch_of_its_minute() {
    let (one, two) = (Key::new(), Key::new());
    let issuer = Issuer::start(&[one.jwk("one")]).await;
    let server = issuer.resource_server(&[]).await;
    issuer.set("200 OK", &[one.jwk("one"), two.jwk("two")]);
    let token = two.sign(&with(header(), "kid", json!("two")), &issuer.claims());
    // Polled once, and dropped.
    assert!(
        server
            .credential_in(token.as_bytes(), None)
            .now_or_never()
            .is_none()
    );
    assert_eq!(kind(&server, &token).await, "ok");
    assert_eq!(issuer.fetched.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn first_requests_at_the_same_time_share_one_credential() {
    let key = Key::new();
    let issuer = Issuer::start(&[key.jwk("one")]).await;
    let server = issuer.new_server(&[]);
    let token = key.sign(&header(), &issuer.claims());
    let credential = || server.credential_in(token.as_bytes(), None);
    let (one, two) = tokio::join!(credential(), credential());
    assert!(Arc::ptr_eq(&one.unwrap(), &two.unwrap()));
    assert_eq!(issuer.fetched.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn new_key_of_the_same_name_replaces_the_old_one() {
    let (old, new) = (Key::new(), Key::new());
    let issuer = Issuer::start(&[old.jwk("one")]).await;
    let server = issuer.resource_server(&[]).await;
    let token = old.sign(&header(), &issuer.claims());
    let credential = server.credential_in(token.as_bytes(), None).await.unwrap();
    issuer.set("200 OK", &[new.jwk("one")]);
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
    let path = std::env::temp_dir().join(format!("mcp-serve-keys-{}", std::process::id()));
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
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn token_that_makes_room_for_another_one_ends_its_streams() {
    let token = |expires: u64| Verified {
        key: (0, [0; 32]),
        has_scopes: true,
        audience: Audience::Server,
        credential: Arc::new(Credential::new(
            Arc::new(Principal::new("x")),
            Some(expires),
        )),
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
