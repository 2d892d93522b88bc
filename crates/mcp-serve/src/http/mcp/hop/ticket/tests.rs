//! Tests of tickets.

use std::borrow::Cow;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderValue, Method};

use super::*;
use crate::http::headers::Head;
use crate::tokens::{Credential, Tokens};

const NOW: Duration = Duration::from_secs(1_000_000);

fn signer() -> Signer {
    Signer::new([1; 32])
}

fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn client(credential: Option<std::sync::Arc<Credential>>) -> Authenticated {
    Authenticated {
        credential,
        address: [127, 0, 0, 1].into(),
        arrived: Instant::now(),
        headers: Head::read(&HeaderMap::new()).facts(),
        view: None,
        forwarded_body: None,
    }
}

const FIELDS: [(&str, &str); 4] = [
    ("last-event-id", "1-2"),
    ("mcp-session-id", "s"),
    ("traceparent", "00-1"),
    ("traceparent", "00-2"),
];

fn ticket_of(client: &Authenticated) -> HopTicket {
    let request = HopRequest {
        method: Method::POST,
        headers: Cow::Owned(headers(&FIELDS)),
        body: Bytes::from_static(b"{}"),
        client,
    };
    HopTicket::new((ReplicaId::new(7), NOW, 9), &request, "/mcp", &signer())
}

fn check(ticket: &HopTicket, change: impl FnOnce(&mut Receiver<'_>)) -> Option<HopRefusal> {
    let headers = headers(&FIELDS);
    let mut receiver = Receiver {
        replica: ReplicaId::new(7),
        now: NOW,
        method: "POST",
        target: "/mcp",
        headers: &headers,
    };
    change(&mut receiver);
    ticket.check(&receiver).err()
}

#[test]
fn ticket_is_valid_for_one_request_at_one_replica_and_not_for_long() {
    let ticket = ticket_of(&client(None));
    assert_eq!(check(&ticket, |_| ()), None);
    let other = Some(HopRefusal::Replica);
    assert_eq!(check(&ticket, |it| it.replica = ReplicaId::new(8)), other);
    let request = Some(HopRefusal::Request);
    assert_eq!(check(&ticket, |it| it.method = "DELETE"), request);
    for target in ["/mcp/view", "/mcp?a=b", "/mcp?", "/metrics", ""] {
        assert_eq!(check(&ticket, |it| it.target = target), request, "{target}");
    }
    for millis in [-10_001_i64, -10_000, 10_000, 10_001] {
        let skew = Duration::from_millis(millis.unsigned_abs());
        let now = if millis < 0 { NOW - skew } else { NOW + skew };
        let refusal = (skew > LIFETIME).then_some(HopRefusal::Time);
        assert_eq!(check(&ticket, |it| it.now = now), refusal, "{millis}");
    }
}

#[test]
fn ticket_covers_all_headers_that_are_forwarded() {
    let ticket = ticket_of(&client(None));
    let check = |fields: &[(&'static str, &str)]| {
        let receiver = Receiver {
            replica: ReplicaId::new(7),
            now: NOW,
            method: "POST",
            target: "/mcp",
            headers: &headers(fields),
        };
        ticket.check(&receiver).err()
    };
    // Names are read in any order; and nothing else of a request counts.
    let [last, session, first, second] = FIELDS;
    assert_eq!(check(&[first, session, second, last]), None);
    assert_eq!(check(&[last, session, first, second, ("via", "x")]), None);
    for changed in [
        &[session, first, second][..],
        &[last, session, second, first],
        &[last, session, first],
        &[("last-event-id", "1-3"), session, first, second],
        &[last, session, first, second, ("mcp-method", "ping")],
        &[last, session, first, second, ("mcp-param-a", "1")],
        &[last, session, first, second, ("accept", "*/*")],
        &[
            last,
            ("mcp-session-id", "st"),
            ("raceparent", "x"),
            first,
            second,
        ],
    ] {
        assert_eq!(check(changed), Some(HopRefusal::Request), "{changed:?}");
    }
}

#[test]
fn only_a_header_of_this_version_and_key_opens() {
    let (signer, ticket) = (signer(), ticket_of(&client(None)));
    let sealed = ticket.seal(&signer).unwrap();
    let open = |text: &str| HopTicket::open(&signer, text.as_bytes());
    assert_eq!(open(&sealed), Ok(ticket.clone()));
    let other = HopTicket::open(&Signer::new([2; 32]), sealed.as_bytes());
    assert_eq!(other, Err(HopRefusal::Signature));
    let json = serde_json::to_vec(&ticket).unwrap();
    // A session id or a requestState is no ticket, nor is one of the version before.
    let state = format!("2.{}", signer.seal("requestState", &json));
    assert_eq!(open(&state), Err(HopRefusal::Signature));
    assert_eq!(open(&signer.seal("hop", &json)), Err(HopRefusal::Version));
    let later = sealed.replacen("2.", "3.", 1);
    assert_eq!(open(&later), Err(HopRefusal::Version));
    // The same version with other fields is a version that forgot to say so.
    let strange = format!("2.{}", signer.seal(PURPOSE, b"{}"));
    assert_eq!(open(&strange), Err(HopRefusal::Version));
    for junk in ["", "x", ".", "2", "2.", "2.\u{e4}", "2.AAAA"] {
        assert!(open(junk).is_err(), "{junk}");
    }
    assert_eq!(
        HopTicket::open(&signer, &[b'2', b'.', 0xff]),
        Err(HopRefusal::Signature)
    );
}

#[test]
fn ticket_has_a_limit_that_the_longest_token_meets() {
    let owner = |claims: usize| Principal {
        claims: (0..claims).map(|_| "x".repeat(15).into()).collect(),
        ..Principal::new("a\" \u{202e}\\ b")
    };
    let ticket = |claims| {
        let credential = Credential::new(owner(claims).into(), Some(1));
        ticket_of(&client(Some(credential.into())))
    };
    let sealed = ticket(800).seal(&signer()).unwrap();
    let opened = HopTicket::open(&signer(), sealed.as_bytes()).unwrap();
    assert_eq!(opened.client.principal(), Some(owner(800)));
    assert_eq!(ticket(2_000).seal(&signer()), None);
    let junk = format!("2.{}", "A".repeat(MAX_TICKET_BYTES));
    let refused = HopTicket::open(&signer(), junk.as_bytes());
    assert_eq!(refused, Err(HopRefusal::Signature));
}

#[test]
fn token_is_named_by_its_hash_and_the_key() {
    let tokens = Tokens::parse("ada one-0123456789abc role=x").unwrap();
    let credential = tokens.credential(b"one-0123456789abc").unwrap();
    let digest = *credential.digest().unwrap();
    let ticket = ticket_of(&client(Some(credential)));
    let client = &ticket.client;
    assert!(!client.is_of_issuer() && client.has_token(&signer(), &digest));
    assert!(!client.has_token(&signer(), &[0; 32]));
    assert!(!client.has_token(&Signer::new([2; 32]), &digest));
    let known = tokens.find_of("ada", |digest| client.has_token(&signer(), digest));
    assert_eq!(*known.unwrap().principal, client.principal().unwrap());
    let other = tokens.find_of("eve", |digest| client.has_token(&signer(), digest));
    assert!(other.is_none());
    // Revoked since.
    tokens.replace("ada two-0123456789abc role=x").unwrap();
    let revoked = tokens.find_of("ada", |digest| client.has_token(&signer(), digest));
    assert!(revoked.is_none());
}
