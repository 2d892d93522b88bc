//! Requests that one gateway takes from another, and those that it refuses.

use serde_json::json;

use super::env::{ReplicaGroup, Stream, TOKEN, call, request};
use super::recorder::Recorder;
use crate::gateway::env::{Folder, Gateway};
use crate::harness::real::postgres;
use crate::harness::{assert_contains, http_client, wait_until};

#[tokio::test]
async fn only_a_replica_can_forward() {
    let Some(group) = ReplicaGroup::start().await else {
        return;
    };
    let url = &group.gateways[0].as_ref().unwrap().server.url;
    let origin = url.strip_suffix("/mcp").unwrap();
    let long = format!("2.{}", "A".repeat(25_000));
    let forged: [(&[&str], &str); 9] = [
        (&[""], "version"),
        (&["x"], "version"),
        (&["AAAAAAAAAAAAAAAAAAAAAAAAAAAA"], "version"),
        (&["1.AAAAAAAAAAAAAAAAAAAAAAAAAAAA"], "version"),
        (&["2.AAAAAAAAAAAAAAAAAAAAAAAAAAAA"], "signature"),
        (&["2."], "signature"),
        (&[&long], "signature"),
        (&["2.AA", "2.AA"], "signature"),
        (&["", ""], "signature"),
    ];
    let paths = [
        "/mcp",
        "/mcp/view",
        "/metrics",
        "/healthz",
        "/readyz",
        "/",
        "/messages",
        "/page/status",
    ];
    for (tickets, reason) in forged {
        for path in paths {
            for token in [None, Some(TOKEN)] {
                for method in ["GET", "POST", "DELETE", "OPTIONS"] {
                    let ping = request("ping", json!({})).to_string();
                    let mut sent = http_client()
                        .request(method.parse().unwrap(), format!("{origin}{path}"))
                        .header("content-type", "application/json")
                        .body(ping);
                    for ticket in tickets {
                        sent = sent.header("mcp-hop", *ticket);
                    }
                    if let Some(token) = token {
                        sent = sent.bearer_auth(token);
                    }
                    let reply = sent.send().await.unwrap();
                    let case = format!("{method} {path} {tickets:.40?} {token:?}");
                    assert_eq!(reply.status(), 401, "{case}");
                    assert_eq!(reply.headers()["mcp-hop-refused"], reason, "{case}");
                }
            }
        }
    }
}

/// Three replicas, of which the first is reached by the others through a recorder.
async fn recorded() -> Option<(ReplicaGroup, Recorder)> {
    let recorder = Recorder::start().await;
    let address = ["--replica-address".to_owned(), recorder.url.clone()];
    let options = |at, _: &Folder| match at {
        0 => address.to_vec(),
        _ => Vec::new(),
    };
    let group = ReplicaGroup::start_each(options, 3).await?;
    recorder.pass_to(&group.gateways[0].as_ref().unwrap().server.url);
    Some((group, recorder))
}

/// A request that was read on its way cannot be sent again, nor changed, nor to another replica.
#[tokio::test]
async fn recorded_request_of_a_replica_is_of_no_use() {
    let Some((group, recorder)) = recorded().await else {
        return;
    };
    let session = group.session(0).await;
    let uri = json!({"uri": "test://watched-resource"});
    let subscribed = group.ask(1, &session, "resources/subscribe", uri).await;
    assert!(subscribed["result"].is_object(), "{subscribed}");
    let hop = recorder.hops().pop().expect("a forwarded request");
    let head = hop.head.to_ascii_lowercase();
    assert!(
        !head.contains("authorization") && !head.contains(TOKEN),
        "{head}"
    );
    let url = |at: usize| &group.gateways[at].as_ref().unwrap().server.url;
    let session_line = format!("mcp-session-id: {session}");
    let mut other_body = hop.clone();
    other_body.body = hop.body.replacen("watched", "another", 1);
    assert_ne!(other_body.body, hop.body);
    let changed = |old: &str, new: &str| hop.with(old, new);
    for (replayed, at, reason) in [
        (hop.clone(), 0, "used"),
        (hop.clone(), 2, "replica"),
        (changed("POST /mcp ", "POST /mcp?a=b "), 0, "request"),
        (changed("POST /mcp ", "POST /mcp/view "), 0, "request"),
        (changed("POST /mcp ", "POST /messages "), 0, "request"),
        (changed("POST /mcp ", "DELETE /mcp "), 0, "request"),
        (changed(&session_line, "accept-language: de"), 0, "request"),
        (
            changed(
                &session_line,
                &format!("{session_line}\r\nlast-event-id: 1"),
            ),
            0,
            "request",
        ),
        (
            changed(
                &session_line,
                &format!("{session_line}\r\nmcp-method: ping"),
            ),
            0,
            "request",
        ),
        (
            changed(&session_line, &format!("{session_line}\r\nbaggage: a=b")),
            0,
            "request",
        ),
        (changed("mcp-hop: 2.", "mcp-hop: 3."), 0, "version"),
        (changed("mcp-hop: 2.", "mcp-hop: 2.A"), 0, "signature"),
        // Headers that are not covered are not read, and do not make it another one.
        (
            changed(
                &session_line,
                &format!("{session_line}\r\nauthorization: Bearer x"),
            ),
            0,
            "used",
        ),
        (other_body, 0, "used"),
    ] {
        let reply = replayed.send(url(at)).await.to_ascii_lowercase();
        assert!(
            reply.starts_with("http/1.1 401"),
            "{reply}\n{}",
            replayed.head
        );
        assert_contains(&reply, &format!("mcp-hop-refused: {reason}"));
    }
    // Hops go on.
    let uri = json!({"uri": "test://watched-resource"});
    let ended = group.ask(2, &session, "resources/unsubscribe", uri).await;
    assert!(ended["result"].is_object(), "{ended}");
}

/// Many cancellations in one frame are one message for each replica.
#[tokio::test]
async fn cancellations_of_a_batch_are_forwarded_together() {
    let Some((group, recorder)) = recorded().await else {
        return;
    };
    let session = group.session_of(0, "2025-03-26").await;
    let mut slow = call("b__slow", json!({"steps": 600, "step": 100}));
    slow["params"]["_meta"] = json!({"progressToken": 1});
    let mut stream = Stream::new(group.post(0, &session, &slow).await);
    stream.message().await;
    assert_eq!(group.running(2).await, 1);
    let before = recorder.hops().len();
    let cancelled = |id: u32| {
        let params = json!({"requestId": id});
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
    };
    // The call has the id 7.
    let batch: Vec<_> = (0..50).map(cancelled).collect();
    let reply = group.post(1, &session, &json!(batch)).await;
    assert_eq!(reply.status(), 202);
    wait_until("the end of the call", async || group.running(2).await == 0).await;
    let hops = &recorder.hops()[before..];
    assert_eq!(hops.len(), 1, "{hops:?}");
    assert_eq!(hops[0].body.matches("notifications/cancelled").count(), 50);
}

/// A replica believes another one who a client is, not that its token is still valid.
#[tokio::test]
async fn token_that_was_revoked_at_the_owner_is_of_no_use_through_others() {
    // A name is any word.
    let name = "\u{e4}\"\u{202e}\\<b>";
    let line = format!("{name} {TOKEN}\n");
    let options = |_, folder: &Folder| {
        let file = folder.write("tokens", &line);
        vec!["--token-file".to_owned(), file]
    };
    let Some(group) = ReplicaGroup::start_each(options, 0).await else {
        return;
    };
    let folder = &group.gateways[0].as_ref().unwrap().folder;
    let compute = json!({"name": "b__slow_compute", "arguments": {"seconds": 100}});
    let made = group.modern(0, "tools/call", compute).await;
    let id = json!({"taskId": made["result"]["taskId"]});
    let other = "other token-of-another\n";
    for changed in [
        String::new(),
        format!("{name} {TOKEN} expires=2020-01-01T00:00:00Z\n"),
        format!("{name} {TOKEN} role=admin\n"),
        format!("eve {TOKEN}\n"),
    ] {
        let session = group.session(0).await;
        let mut listening = group.get(1, &session, None).await;
        folder.write("tokens", &format!("{other}{changed}"));
        // The owner ends it, as a stream of its own clients.
        assert!(listening.next().await.is_none(), "{changed}");
        for at in [1, 2] {
            let refused = group.modern(at, "tasks/get", id.clone()).await;
            assert_contains(&refused["error"], "does not accept this token");
        }
        // What needs no other replica goes on there.
        let listed = group.ask(1, &session, "tools/list", json!({})).await;
        assert!(listed["result"]["tools"].is_array(), "{listed}");
        folder.write("tokens", &line);
        wait_until("the token again", async || {
            let found = group.modern(1, "tasks/get", id.clone()).await;
            found["result"]["status"] == "working"
        })
        .await;
    }
}

/// A batch is not forwarded as a whole: another replica would run its calls again.
#[tokio::test]
async fn calls_of_a_batch_run_once() {
    let Some(group) = ReplicaGroup::start().await else {
        return;
    };
    let session = group.session_of(0, "2025-03-26").await;
    let uri = json!({"uri": "test://watched-resource"});
    let other = [
        ("logging/setLevel", json!({"level": "error"})),
        ("resources/subscribe", uri),
    ];
    // Not at the home of the session.
    let at = 1;
    for (method, params) in other {
        let before = group.started(at).await;
        let mut second = request(method, params);
        second["id"] = json!(8);
        let batch = json!([call("b__slow", json!({"steps": 1, "step": 0})), second]);
        let mut stream = Stream::new(group.post(at, &session, &batch).await);
        let answers = stream.batch().await;
        let answers = answers.as_array().unwrap();
        let answer = |id: u32| answers.iter().find(|answer| answer["id"] == id).unwrap();
        assert!(answer(7)["result"].is_object(), "{answers:?}");
        assert!(answer(8)["result"].is_object(), "{answers:?}");
        assert_eq!(group.started(at).await, before + 1, "{method}");
    }
    // The level has come to the others nevertheless.
    for at in 0..3 {
        let logging = call("b__test_tool_with_logging", json!({}));
        let reply = group.post(at, &session, &logging).await;
        let reply = reply.text().await.unwrap();
        assert!(!reply.contains("notifications/message"), "{at}: {reply}");
    }
}

/// A replica that needs no token refuses what others forward for the owner of one. It is alive nevertheless.
#[tokio::test]
async fn replica_with_other_tokens_refuses_and_stays_in_use() {
    let Some(group) = ReplicaGroup::start_with(&[], 2).await else {
        return;
    };
    let compute = json!({"name": "b__slow_compute", "arguments": {"seconds": 60}});
    let made = group.modern(2, "tools/call", compute).await;
    let id = json!({"taskId": made["result"]["taskId"]});
    for at in [0, 1, 0, 1] {
        let found = group.modern(at, "tasks/get", id.clone()).await;
        assert_contains(&found["error"], "does not accept this token");
    }
    let found = group.modern(2, "tasks/get", id).await;
    assert_eq!(found["result"]["status"], "working", "{found}");
}

#[tokio::test]
async fn gateway_on_postgres_is_no_replica_unless_it_is_asked() {
    let Some(store) = postgres() else {
        return;
    };
    let gateway = Gateway::start(Folder::new(), "backends = {}", &["--events", &store]).await;
    assert_eq!(gateway.status().await.get("replicas"), None);
    let ping = request("ping", json!({})).to_string();
    let sent = http_client()
        .post(&gateway.server.url)
        .header("mcp-hop", "x")
        .header("content-type", "application/json")
        .body(ping);
    assert_eq!(sent.send().await.unwrap().status(), 200);
}
