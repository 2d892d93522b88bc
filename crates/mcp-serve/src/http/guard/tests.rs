//! Tests of the checks of a request's head.

use futures_util::FutureExt as _;
use http::header::HeaderMap;

use super::*;

const TOKEN: (&str, &str) = ("authorization", "Bearer s3cret-of-16-chars");
const LOCAL: (&str, &str) = ("host", "localhost");

/// Admits the owner of one token, loopback names, two more names and one address.
fn guard() -> Guard {
    let hosts = ["n8n-mcp", "Agents.example:443", "fe80::1"].map(str::to_owned);
    Guard::new(Tokens::parse("alice s3cret-of-16-chars").unwrap(), &hosts)
}

fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        headers.append(*name, value);
    }
    headers
}

fn checked(
    guard: &Guard,
    target: &Uri,
    headers: &HeaderMap,
) -> Result<Option<Arc<Credential>>, Error> {
    guard.check_host(target, headers)?;
    let connection = ClientConnection::new([127, 0, 0, 1].into(), false);
    // Without an issuer it never waits.
    let checked = guard.check_token(headers, None, &connection);
    checked.now_or_never().unwrap()
}

#[track_caller]
fn check(fields: &[(&'static str, &str)], expected: Result<(), &str>) {
    check_target("/mcp", fields, expected);
}

#[track_caller]
fn check_target(target: &str, fields: &[(&'static str, &str)], expected: Result<(), &str>) {
    let (target, headers) = (target.parse().unwrap(), headers(fields));
    let checked = checked(&guard(), &target, &headers);
    let found = checked.map(|owner| assert_eq!(&*owner.unwrap().principal.name, "alice"));
    let found = found.map_err(|error| error.kind());
    assert_eq!(found, expected, "{target} {fields:?}");
}

#[test]
fn loopback_and_allowed_names_are_admitted() {
    for host in [
        "localhost",
        "localhost:3456",
        "localhost:",
        "127.0.0.1:1",
        "127.8.8.8",
        "[::1]:3456",
        "[::1]",
        "LOCALHOST",
        "n8n-mcp:3456",
        "N8N-mcp",
        "agents.example",
        "AGENTS.example:80",
        "[fe80::1]:3456",
    ] {
        check(&[("host", host), TOKEN], Ok(()));
        for scheme in ["http", "https"] {
            let origin = format!("{scheme}://{host}");
            check(&[("host", host), ("origin", &origin), TOKEN], Ok(()));
        }
    }
}

#[test]
fn foreign_names_are_refused() {
    for host in [
        "evil.com",
        "localhost.evil.com",
        "127.0.0.1.evil.com",
        "evil.com:localhost",
        "",
        ":80",
        "localhost:x",
        "localhost:80:80",
        "[localhost",
        "0.0.0.0",
        "128.0.0.1",
        // Not the address fe80::1 with a port.
        "fe80::1:2",
        "localhost\u{e4}",
    ] {
        check(&[("host", host), TOKEN], Err("forbidden"));
    }
    for origin in [
        "null",
        "",
        "http://evil.com",
        "file://localhost",
        "HTTP://localhost",
        "localhost",
        "http://localhost.evil.com",
        "http://localhost/",
        "http://localhost@evil.com",
        "http://localhost http://evil.com",
    ] {
        check(&[LOCAL, ("origin", origin), TOKEN], Err("forbidden"));
    }
    check(&[TOKEN], Err("forbidden"));
}

/// RFC 9112, 3.2: a request has one `Host`. Of two, a proxy and this server could each take another.
#[test]
fn host_and_origin_are_not_repeated() {
    check(&[LOCAL, LOCAL, TOKEN], Err("forbidden"));
    let origin = ("origin", "http://localhost");
    check(&[LOCAL, origin, origin, TOKEN], Err("forbidden"));
    check(&[LOCAL, TOKEN, TOKEN], Err("unauthorized"));
}

/// RFC 9112, 3.2.2: a target that is a whole URL takes precedence over the header. HTTP/2 has only that.
#[test]
fn target_and_header_must_both_be_admitted() {
    check_target("http://localhost/mcp", &[TOKEN], Ok(()));
    check_target("http://localhost/mcp", &[LOCAL, TOKEN], Ok(()));
    check_target("http://evil.com/mcp", &[TOKEN], Err("forbidden"));
    check_target("http://evil.com/mcp", &[LOCAL, TOKEN], Err("forbidden"));
    let foreign = ("host", "evil.com");
    check_target("http://localhost/mcp", &[foreign, TOKEN], Err("forbidden"));
}

/// RFC 9112, 6.1 and 11.2: a proxy that finds another end of the body lets a request be smuggled.
#[test]
fn body_has_one_end() {
    let encoded = |values: &[&'static str], expected| {
        let encodings = values.iter().map(|value| ("transfer-encoding", *value));
        let fields: Vec<_> = [LOCAL, TOKEN].into_iter().chain(encodings).collect();
        check(&fields, expected);
    };
    encoded(&["chunked"], Ok(()));
    encoded(&["Chunked"], Ok(()));
    for ambiguous in [
        &["gzip"][..],
        &["gzip, chunked"],
        &["chunked, chunked"],
        &["chunked", "chunked"],
        &["gzip", "chunked"],
        &["chunked", "gzip"],
        &["identity"],
        &[""],
    ] {
        encoded(ambiguous, Err("invalid_request"));
    }
}

#[test]
fn token_must_be_complete_and_correct() {
    for correct in [
        "Bearer s3cret-of-16-chars",
        "bearer s3cret-of-16-chars ",
        "BEARER  s3cret-of-16-chars",
    ] {
        check(&[LOCAL, ("authorization", correct)], Ok(()));
    }
    let long = format!("Bearer {}", "x".repeat(100_000));
    for wrong in [
        "",
        "Bearer",
        "Bearer ",
        "Bearer s3cre",
        "Bearer s3crett",
        "Bearer alice",
        "Basic s3cret-of-16-chars",
        "Basics s3cret-of-16-chars",
        "s3cret-of-16-chars",
        &long,
    ] {
        check(&[LOCAL, ("authorization", wrong)], Err("unauthorized"));
    }
    check(&[LOCAL], Err("unauthorized"));
}

/// A foreign page does not learn whether a token is correct.
#[test]
fn host_is_checked_before_the_token() {
    check(&[("host", "evil.com")], Err("forbidden"));
}

#[test]
fn public_path_needs_no_token_and_an_admitted_name() {
    let target = Uri::from_static("/healthz");
    let check = |host| guard().check_host(&target, &headers(&[("host", host)]));
    assert!(check("localhost").is_ok());
    assert_eq!(check("evil.com").unwrap_err().kind(), "forbidden");
}

#[test]
fn without_tokens_nobody_is_named() {
    let guard = Guard::new(Tokens::default(), &[]);
    let target = Uri::from_static("/mcp");
    let owner = checked(&guard, &target, &headers(&[LOCAL])).unwrap();
    assert!(owner.is_none());
    // Without an option for it, no other name is admitted.
    assert!(checked(&guard, &target, &headers(&[("host", "n8n-mcp")])).is_err());
}

#[test]
fn any_name_may_be_admitted_but_pages_then_need_a_token() {
    let target = Uri::from_static("/mcp");
    for (tokens, hosts, allows_pages) in [
        ("", "n8n-mcp", true),
        ("s3cret-of-16-chars", "n8n-mcp", true),
        ("", "*", false),
        ("s3cret-of-16-chars", "*", true),
    ] {
        let guard = Guard::new(Tokens::parse(tokens).unwrap(), &[hosts.to_owned()]);
        assert_eq!(guard.allows_pages(), allows_pages, "{tokens:?} {hosts}");
        let foreign = [("host", "evil.com"), ("origin", "https://evil.com"), TOKEN];
        let is_admitted = checked(&guard, &target, &headers(&foreign)).is_ok();
        assert_eq!(is_admitted, hosts == "*", "{tokens:?} {hosts}");
    }
}

/// Else the address that clients are told for OAuth answers them 403.
#[test]
fn host_of_the_oauth_resource_is_allowed() {
    use clap::Parser as _;

    let command = crate::Command::<crate::product::NoOptions>::try_parse_from([
        "x",
        "--auth-issuer",
        "https://issuer.test",
        "--auth-resource",
        "https://Agents.example:8443/mcp",
    ]);
    let oauth = command.unwrap().common.tokens().unwrap().oauth;
    let guard = Guard::new(Tokens::default(), &[]).with_oauth(oauth);
    for (host, is_allowed) in [
        ("agents.example:8443", true),
        ("agents.example", true),
        ("issuer.test", false),
    ] {
        let headers = headers(&[("host", host)]);
        let checked = guard.check_host(&"/mcp".parse().unwrap(), &headers);
        assert_eq!(checked.is_ok(), is_allowed, "{host}");
    }
}
