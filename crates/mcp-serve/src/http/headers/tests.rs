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
        ("traceparent", "00-1-2-01"),
    ]);
    let found = hints(&all);
    assert!(found.has_headers);
    assert_eq!(found.protocol_version, Some("2026-07-28"));
    assert_eq!(found.method, Some("tools/call"));
    assert_eq!(found.name, Some("echo"));
    assert_eq!(found.traceparent, Some("00-1-2-01"));
    assert_eq!(session_id(&all), Some("abc"));

    let none = headers(&[("host", "localhost"), ("method", "x"), ("x-mcp-name", "x")]);
    let found = hints(&none);
    let fields = [
        found.protocol_version,
        found.method,
        found.name,
        found.traceparent,
    ];
    assert_eq!(fields, [None; 4]);
    assert!(found.has_headers);
    assert_eq!(session_id(&none), None);
}

#[test]
fn each_header_is_read_alone() {
    type Field = for<'a> fn(&Hints<'a>) -> Option<&'a str>;
    let fields: [(&'static str, Field); 4] = [
        ("mcp-protocol-version", |hints| hints.protocol_version),
        ("mcp-method", |hints| hints.method),
        ("mcp-name", |hints| hints.name),
        ("traceparent", |hints| hints.traceparent),
    ];
    for (name, _) in fields {
        let headers = headers(&[(name, "x")]);
        let found = hints(&headers);
        for (other, field) in fields {
            let expected = (other == name).then_some("x");
            assert_eq!(field(&found), expected, "{other} of {name}");
        }
    }
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
        assert!(check_unambiguous(&headers(&[(name, "a")])).unwrap());
        assert!(check_unambiguous(&headers(&[(name, "a"), (name, "a")])).unwrap());
        let error = check_unambiguous(&headers(&[(name, "a"), (name, "b")])).unwrap_err();
        assert!(matches!(error, Error::HeaderMismatch(text) if text.contains(name)));
    }
    // Others may be repeated; of these, no part routes by them.
    for name in ["mcp-param-a", "traceparent"] {
        assert!(check_unambiguous(&headers(&[(name, "a"), (name, "b")])).unwrap());
    }
    let none = headers(&[("accept", "a"), ("accept", "b")]);
    assert!(!check_unambiguous(&none).unwrap());
}

#[test]
fn last_event_id_is_read() {
    assert_eq!(
        last_event_id(&headers(&[("last-event-id", "7")])),
        Some("7")
    );
    assert_eq!(last_event_id(&headers(&[("event-id", "7")])), None);
}

#[test]
fn only_a_subscription_waits() {
    for (method, expected) in [
        ("subscriptions/listen", true),
        ("tools/call", false),
        ("subscriptions", false),
    ] {
        assert_eq!(
            is_subscription(&headers(&[("mcp-method", method)])),
            expected
        );
    }
    assert!(!is_subscription(&headers(&[(
        "mcp-name",
        "subscriptions/listen"
    )])));
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
    let twice = headers(&[
        ("content-encoding", "identity"),
        ("content-encoding", "gzip"),
    ]);
    assert!(!is_unencoded(&twice));
}

#[test]
fn origin_of_a_page_is_read() {
    let found = origin(&headers(&[("host", "x"), ("origin", "http://localhost")]));
    assert_eq!(found.unwrap(), "http://localhost");
    assert_eq!(origin(&headers(&[("host", "x")])), None);
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
        let accepts = Accepts::new(&headers(&fields));
        assert_eq!((accepts.json, accepts.events), (json, events), "{accept:?}");
    }
}
