//! Tests of what is read from the headers.

use super::*;

fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        headers.append(*name, value);
    }
    headers
}

/// Specification 2026-07-28, "Standard Headers".
#[test]
fn headers_of_the_protocol_decide_the_era() {
    let all = headers(&[
        ("host", "localhost"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "echo"),
        ("mcp-session-id", "abc"),
        ("mcp-other", "x"),
    ]);
    let found = hints(&all);
    assert_eq!(era(&all), Era::Modern);
    assert_eq!(found.protocol_version, Some("2026-07-28"));
    assert_eq!(found.method, Some("tools/call"));
    assert_eq!(found.name, Some("echo"));
    assert_eq!(session_id(&all), Some("abc"));

    let none = headers(&[("host", "localhost"), ("method", "x"), ("x-mcp-name", "x")]);
    assert_eq!((hints(&none).method, hints(&none).name), (None, None));
    assert_eq!(era(&none), Era::Unversioned);
    assert_eq!(session_id(&none), None);
}

#[test]
fn value_that_is_not_ascii_equals_no_valid_value() {
    let headers = headers(&[("mcp-method", "\u{e4}"), ("mcp-session-id", "\u{e4}")]);
    assert_eq!(hints(&headers).method, Some(""));
    assert_eq!(session_id(&headers), Some(""));
}

#[test]
fn arguments_are_repeated_in_headers() {
    let headers = headers(&[
        ("mcp-param-region", "us"),
        ("mcp-param-bytes", "\u{e4}"),
        ("mcp-params", "no"),
        ("param-x", "no"),
    ]);
    let expected = [("region", "us".as_bytes()), ("bytes", "\u{e4}".as_bytes())];
    let mut found = params(&headers);
    found.sort_unstable_by_key(|(name, _)| std::cmp::Reverse(*name));
    assert_eq!(found, expected);
}

#[test]
fn header_that_is_repeated_with_another_value_is_refused() {
    for name in [
        "mcp-protocol-version",
        "mcp-method",
        "mcp-name",
        "mcp-session-id",
    ] {
        let check = |fields: &[(&'static str, &str)]| check_unambiguous(&headers(fields));
        assert!(check(&[(name, "a")]).is_ok());
        assert!(check(&[(name, "a"), (name, "a")]).is_ok());
        let error = check(&[(name, "a"), (name, "b")]).unwrap_err();
        assert!(matches!(error, Error::HeaderMismatch(text) if text.contains(name)));
    }
    // Others may be repeated; of these, no part routes by them.
    for name in ["mcp-param-a", "traceparent"] {
        assert!(check_unambiguous(&headers(&[(name, "a"), (name, "b")])).is_ok());
    }
}

#[test]
fn only_a_subscription_of_the_modern_era_waits() {
    for (version, method, expected) in [
        ("2026-07-28", "subscriptions/listen", true),
        ("2025-11-25", "subscriptions/listen", false),
        ("2026-07-28", "tools/call", false),
        ("2026-07-28", "subscriptions", false),
    ] {
        let fields = [("mcp-protocol-version", version), ("mcp-method", method)];
        assert_eq!(is_subscription(&headers(&fields)), expected, "{fields:?}");
    }
}

/// Fetch Standard, "CORS-safelisted request-header": these types need no preflight request.
#[test]
fn forms_and_plain_text_are_not_json() {
    for json in [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON ;x",
    ] {
        assert!(is_json(&headers(&[("content-type", json)])), "{json}");
    }
    for other in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; x=application/json",
        "text/plain;application/json",
        "application/jsonp",
        "",
    ] {
        assert!(!is_json(&headers(&[("content-type", other)])), "{other}");
    }
    assert!(is_json(&headers(&[("accept", "text/plain")])));
}

/// RFC 9110, 8.4.
#[test]
fn no_content_encoding_is_supported() {
    assert!(is_unencoded(&headers(&[("accept-encoding", "gzip")])));
    assert!(is_unencoded(&headers(&[("content-encoding", "Identity")])));
    for encoded in ["gzip", "br", "identity, gzip", ""] {
        let headers = headers(&[("content-encoding", encoded)]);
        assert!(!is_unencoded(&headers), "{encoded}");
    }
    let both = [
        ("content-encoding", "identity"),
        ("content-encoding", "gzip"),
    ];
    assert!(!is_unencoded(&headers(&both)));
}

/// RFC 9110, 12.5.1: names are case-insensitive, items have parameters, and a field may be repeated.
#[test]
fn client_accepts_json_or_events_or_both() {
    for (accept, json, events) in [
        (&[][..], true, false),
        (&["application/json"], true, false),
        (&["text/event-stream"], false, true),
        (&["application/json, text/event-stream"], true, true),
        (&["Text/Event-Stream;q=1 ,Application/JSON"], true, true),
        (&["text/event-stream", "application/json"], true, true),
        (&["application/json", "text/event-stream"], true, true),
        (&["text/event-stream, */*"], true, true),
        (&["text/event-stream, application/*"], true, true),
        (&["text/event-stream, text/*"], false, true),
        (&["text/html"], true, false),
        (&["*/*"], true, false),
    ] {
        let fields: Vec<_> = accept.iter().map(|value| ("accept", *value)).collect();
        let accepts = Accepts::of(&headers(&fields));
        assert_eq!((accepts.json, accepts.events), (json, events), "{accept:?}");
    }
}

#[test]
fn lists_of_a_trace_on_several_lines_are_one() {
    for (lines, joined) in [
        (&["a=1"][..], Some("a=1")),
        (&["a=1", "b=2"], Some("a=1,b=2")),
        (&["a=1", "a=1"], Some("a=1")),
        (&["", "a=1"], Some(",a=1")),
        (&["", ""], None),
        (&[], None),
    ] {
        let fields: Vec<_> = lines.iter().map(|line| ("baggage", *line)).collect();
        let headers = headers(&fields);
        assert_eq!(list(&headers, "baggage").as_deref(), joined, "{lines:?}");
        assert_eq!(list(&headers, "tracestate"), None);
    }
}
