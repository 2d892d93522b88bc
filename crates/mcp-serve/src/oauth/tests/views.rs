//! Tests of views, each of which is a resource below that of the server.

use super::*;

/// A token for a view is valid there only; one for the server in each view.
#[tokio::test]
async fn token_for_a_view_is_valid_there_only() {
    let key = Key::new();
    let issuer = Issuer::start(&[key.jwk("one")]).await;
    let server = issuer.resource_server(&[]).await;
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
        (json!("https://mcp.test/mcp/"), [false, false, false]),
        (
            json!("https://mcp.test/mcp/support/"),
            [false, false, false],
        ),
        (json!("https://mcp.test/mcpsupport"), [false, false, false]),
        (
            json!("https://other.test/mcp/support"),
            [false, false, false],
        ),
        (json!(7), [false, false, false]),
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
    let issuer = Issuer::start(&[Key::new().jwk("one")]).await;
    let server = issuer.resource_server(&[]).await;
    let at = |path: &str, has_views: bool| {
        let found = server.metadata_at(&format!("{METADATA_PATH}{path}"), has_views)?;
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
    let expected = |path| format!("resource_metadata=\"https://mcp.test{METADATA_PATH}{path}\"");
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
        for issuer in &server.issuers {
            issuer.refresh().await;
        }
        let at = |path: &str| server.metadata_at(&format!("{METADATA_PATH}{path}"), true);
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
