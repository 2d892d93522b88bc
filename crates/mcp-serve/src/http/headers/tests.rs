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

fn facts(fields: &[(&'static str, &str)]) -> HeaderFacts {
    facts_of(&headers(fields))
}

fn facts_of(headers: &HeaderMap) -> HeaderFacts {
    Head::read(headers).facts()
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
    let protocol = facts_of(&all).protocol.unwrap();
    let found = protocol.hints();
    assert_eq!(facts_of(&all).era, Era::Modern);
    assert_eq!(found.protocol_version, Some("2026-07-28"));
    assert_eq!(found.method, Some("tools/call"));
    assert_eq!(found.name, Some("echo"));
    assert_eq!(found.trace.parent, Some("00-1-2-01"));
    assert_eq!(session_id(&all), Some("abc"));

    let none = headers(&[("host", "localhost"), ("method", "x"), ("x-mcp-name", "x")]);
    assert!(facts_of(&none).protocol.is_none());
    assert_eq!(facts_of(&none).era, Era::Unversioned);
    assert_eq!(session_id(&none), None);
}

#[test]
fn each_header_is_read_alone() {
    type Field = for<'a> fn(&Hints<'a>) -> Option<&'a str>;
    let fields: [(&'static str, Field); 4] = [
        ("mcp-protocol-version", |hints| hints.protocol_version),
        ("mcp-method", |hints| hints.method),
        ("mcp-name", |hints| hints.name),
        ("traceparent", |hints| hints.trace.parent),
    ];
    for (name, _) in fields {
        let protocol = facts(&[(name, "x")]).protocol.unwrap();
        let found = protocol.hints();
        for (other, field) in fields {
            let expected = (other == name).then_some("x");
            assert_eq!(field(&found), expected, "{other} of {name}");
        }
    }
}

#[test]
fn value_that_is_not_ascii_equals_no_valid_value() {
    let headers = headers(&[("mcp-method", "\u{e4}"), ("mcp-session-id", "\u{e4}")]);
    let protocol = facts_of(&headers).protocol.unwrap();
    assert_eq!(protocol.hints().method, Some(""));
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
        let check = |fields: &[(&'static str, &str)]| {
            let headers = headers(fields);
            let head = Head::read(&headers);
            assert!(head.facts().protocol.is_some());
            head.check_unambiguous()
        };
        assert!(check(&[(name, "a")]).is_ok());
        assert!(check(&[(name, "a"), (name, "a")]).is_ok());
        let error = check(&[(name, "a"), (name, "b")]).unwrap_err();
        assert!(matches!(error, Error::HeaderMismatch(text) if text.contains(name)));
    }
    // Others may be repeated; of these, no part routes by them.
    for name in ["mcp-param-a", "traceparent"] {
        let headers = headers(&[(name, "a"), (name, "b")]);
        assert!(Head::read(&headers).check_unambiguous().is_ok());
    }
    assert!(
        facts(&[("accept", "a"), ("accept", "b")])
            .protocol
            .is_none()
    );
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
        assert_eq!(facts(&[("mcp-method", method)]).is_subscription, expected);
    }
    assert!(!facts(&[("mcp-name", "subscriptions/listen")]).is_subscription);
}

/// Fetch Standard, "CORS-safelisted request-header": these types need no preflight request.
#[test]
fn forms_and_plain_text_are_not_json() {
    for json in [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON ;x",
    ] {
        assert!(facts(&[("content-type", json)]).is_json, "{json}");
    }
    for other in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; x=application/json",
        "text/plain;application/json",
        "application/jsonp",
        "",
    ] {
        assert!(!facts(&[("content-type", other)]).is_json, "{other}");
    }
    assert!(facts(&[("accept", "text/plain")]).is_json);
}

/// RFC 9110, 8.4.
#[test]
fn no_content_encoding_is_supported() {
    assert!(facts(&[("accept-encoding", "gzip")]).is_unencoded);
    assert!(facts(&[("content-encoding", "Identity")]).is_unencoded);
    for encoded in ["gzip", "br", "identity, gzip", ""] {
        let is_unencoded = facts(&[("content-encoding", encoded)]).is_unencoded;
        assert!(!is_unencoded, "{encoded}");
    }
    let identity = ("content-encoding", "identity");
    assert!(!facts(&[identity, ("content-encoding", "gzip")]).is_unencoded);
}

#[test]
fn origin_of_a_page_is_read() {
    let page = headers(&[("host", "x"), ("origin", "http://localhost")]);
    assert_eq!(Head::read(&page).origin.unwrap(), "http://localhost");
    assert_eq!(Head::read(&headers(&[("host", "x")])).origin, None);
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
        let accepts = facts(&fields).accepts;
        assert_eq!((accepts.json, accepts.events), (json, events), "{accept:?}");
    }
}

#[test]
fn lists_of_a_trace_on_several_lines_are_one() {
    let parent = format!("00-{:032x}-{:016x}-01", 1, 1);
    for (lines, state, baggage) in [
        (
            &[("tracestate", "a=1"), ("tracestate", "b=2")][..],
            Some("a=1,b=2"),
            None,
        ),
        (
            &[
                ("baggage", "x=1"),
                ("tracestate", "a=1"),
                ("baggage", "y=2"),
            ],
            Some("a=1"),
            Some("x=1,y=2"),
        ),
        (&[("baggage", "x=1"), ("baggage", "x=1")], None, Some("x=1")),
        (
            &[("tracestate", ""), ("tracestate", "a=1")],
            Some(",a=1"),
            None,
        ),
        (&[("tracestate", ""), ("tracestate", "")], None, None),
    ] {
        let fields = [&[("traceparent", parent.as_str())], lines].concat();
        let protocol = facts(&fields).protocol.unwrap();
        let trace = protocol.hints().trace;
        assert_eq!(trace.parent, Some(parent.as_str()), "{lines:?}");
        assert_eq!((trace.state, trace.baggage), (state, baggage), "{lines:?}");
    }
}
