//! The event log: one event for each call, with its trace and without its arguments.

use std::time::Duration;

use mcp_client::{ClientInfo, Endpoint, EraChoice};
use serde_json::{Value, json};

use super::env::{Folder, Gateway, misbehaving, request, text, token, tokens};
use super::test_proxy::{ProxyMode, TestProxy};
use crate::harness::{
    Server, assert_contains, assert_lacks, client_builder, eventually, rpc, wait_until,
};

/// Asserts that each call of backends has one event, whose outcome is the one of this list, which begins with a success.
pub(super) async fn assert_each_call_is_recorded_once(gateway: &Gateway, wanted: &[&str]) {
    let recorded = async || {
        let mut calls = gateway.calls().await;
        calls.retain(|call| call["tool_name"] != "b__count_slow");
        calls
    };
    let ends = eventually("all calls", async || {
        Some(recorded().await).filter(|ends| ends.len() >= wanted.len())
    })
    .await;
    let found: Vec<&Value> = ends.iter().map(|end| &end["outcome"]).collect();
    assert_eq!(found, wanted);
    // Every failure has a kind, also that of a client that has left.
    for end in &ends {
        let has_kind = end["kind"].is_string();
        assert_eq!(has_kind, end["outcome"] != "ok", "{end}");
    }
    let [.., late, left] = &ends[..] else {
        panic!("{ends:?}")
    };
    assert_eq!(late["kind"], "timeout");
    assert_eq!(left["kind"], "cancelled");
    assert_contains(&late["error"], "late did not answer within 2 s");
    // All but the calls that worked and the one that was not allowed, which never reached the backend.
    for (key, errors) in [("b", 3), ("late", 1)] {
        let backend = gateway.backend(key).await;
        assert!(backend["errors"].as_u64().unwrap() >= errors, "{backend}");
    }
    let backend = gateway.backend("b").await;
    assert!(backend["p50_ms"].is_number() && backend["p99_ms"].is_number());
    // An event has the types of the arguments, not their values.
    assert_lacks(&ends[0], "Ada");
    assert_contains(&ends[0]["arguments"], "name");
    // Real time, to see that no second event comes.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(recorded().await.len(), wanted.len());
}

/// The own tools, resources, prompts, completions and refusals, in every era and by name; and no secret that
/// a client sends as a name.
#[tokio::test]
async fn every_request_of_a_person_is_recorded() {
    /// The method and the parameters; the item, the outcome and the kind of the event.
    const ROWS: &str = r#"
tools/call {"name": "gateway_status", "arguments": {}} => gateway_status ok
tools/call {"name": "get_events", "arguments": {"sk-proj-abcdefghijklmnopqrstuvwxyz0123456789": 1}} => get_events failed invalid_params
mcp.callTool {"name": "nothing", "arguments": {}} => nothing failed tool_not_found
tools/call {"name": "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789", "arguments": {}} => *** failed tool_not_found
resources/read {"uri": "x://none?token=s3cret"} => x://none?token=*** failed resource_not_found
prompts/get {"name": "none", "arguments": {}} => none failed prompt_not_found
completion/complete {"ref": {"type": "ref/prompt", "name": "b__test_simple_prompt"}, "argument": {"name": "a", "value": "s3cret"}} => b__test_simple_prompt ok
tools/call {"name": "b__greet", "arguments": {"name": "Ada", "s3cret": 1}} => b__greet failed tool_error
tools/call {"name": "gateway_restart", "arguments": {"backend": "b"}} => gateway_restart ok
"#;
    let gateway = Gateway::guarded(&["ada"], "[backends.b]\nFIXTURE\n", &[]).await;
    gateway.until_sees("ada", "b__greet").await;
    let rows = ROWS.trim().lines().map(|row| {
        let (request, event) = row.split_once(" => ").unwrap();
        (
            request.split_once(' ').unwrap(),
            event.split_once(' ').unwrap(),
        )
    });
    for ((method, params), _) in rows.clone() {
        let params = serde_json::from_str(params).unwrap();
        gateway.post_by("ada", rpc(method, params)).await;
    }
    let events = eventually("the events", async || {
        let found = gateway.facts_by("ada").await;
        let has_last = found.iter().any(|facts| facts["item"] == "gateway_restart");
        has_last.then_some(found)
    })
    .await;
    for (request, (item, end)) in rows {
        let mut facts = events.iter();
        let facts = facts.find(|facts| facts["item"] == item || facts["tool_name"] == item);
        let facts = facts.unwrap_or_else(|| panic!("{request:?}: {events:?}"));
        let (outcome, kind) = match end.split_once(' ') {
            Some((outcome, kind)) => (outcome, json!(kind)),
            None => (end, json!(null)),
        };
        assert_has!(facts, {"principal": "ada", "outcome": outcome});
        assert_eq!(facts["kind"], kind, "{facts}");
    }
    for secret in ["sk-proj-abcdefghijklmnopqrstuvwxyz0123456789", "s3cret"] {
        assert_lacks(&json!(events), secret);
    }
}

/// The check of the resource is a part of it. Without a token there is no principal: the id of the session is a
/// secret.
#[tokio::test]
async fn subscription_is_recorded_as_what_it_is() {
    let gateway = Gateway::with_fixture().await;
    let client = gateway.client(EraChoice::Legacy, None).await;
    let uri = "test://template/7/data";
    request(&client, "resources/subscribe", json!({"uri": uri})).await;
    request(&client, "resources/read", json!({"uri": uri})).await;
    let found = eventually("the events", async || {
        let mut found = gateway.facts_of("gateway.request").await;
        found.retain(|facts| facts["item"] == uri);
        (found.len() >= 2).then_some(found)
    })
    .await;
    assert_eq!(found.len(), 2, "{found:?}");
    for (facts, method) in found.iter().zip(["resources/subscribe", "resources/read"]) {
        assert_has!(facts, {"method": method, "backend": "b", "outcome": "ok", "principal": null});
    }
}

/// The session of HTTP+SSE has a secret id, too.
#[tokio::test]
async fn principal_over_sse_is_the_token_and_never_the_session() {
    for principal in [Some("ada"), None] {
        let folder = Folder::new();
        let tokens = folder.write("tokens", &tokens(&["ada"]));
        let args = ["--sse", "--token-file", tokens.as_str()];
        let args = &args[..if principal.is_some() { 3 } else { 1 }];
        let gateway = Gateway::start(folder, "[backends.b]\nFIXTURE\n", args).await;
        let mut endpoint = Endpoint::new(&gateway.url.replace("/mcp", "/sse")).unwrap();
        if let Some(principal) = principal {
            endpoint = endpoint.bearer(&token(principal)).unwrap();
        }
        let client = client_builder().sse(endpoint).unwrap();
        client.initialize(&ClientInfo::new("t", "1")).await.unwrap();
        let call = async |name: &str, arguments: Value| {
            let params = json!({"name": name, "arguments": arguments});
            let result = client.request("tools/call", &params).await.ok()?;
            let result: Value = serde_json::from_str(result.get()).ok()?;
            Some(text(&result).to_owned())
        };
        wait_until("the backend", async || {
            let greeted = call("b__greet", json!({"name": "Ada"})).await;
            greeted.is_some_and(|text| text.contains("Ada"))
        })
        .await;
        call("gateway_status", json!({})).await;
        let events = eventually("the events", async || {
            let found = call("get_events", json!({"limit": 1000})).await?;
            let found: Vec<Value> = serde_json::from_str(&found).ok()?;
            let facts = found.into_iter().map(|event| event["metadata"].clone());
            let facts: Vec<Value> = facts
                .filter(|facts| facts["item"] == "gateway_status" || facts["outcome"] == "ok")
                .collect();
            (facts.len() >= 2).then_some(facts)
        })
        .await;
        for facts in events {
            assert_eq!(facts["principal"], json!(principal), "{facts}");
        }
    }
}

#[tokio::test]
async fn flood_that_is_refused_is_few_events() {
    let limit = ["--rate-limit", "10"];
    let gateway = Gateway::start(Folder::new(), "backends = {}", &limit).await;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let flood = futures_util::future::join_all((0..400).map(|_| gateway.post(ping))).await;
    let number = flood.iter().filter(|reply| reply.status == 429).count() as u64;
    assert!(number > 100, "{number}");
    let refused = eventually("the event", async || {
        let query = json!({"event_type": "gateway.request_refused"});
        let found = gateway.answer("get_events", query).await;
        let found: Value = serde_json::from_str(text(found.get("result")?)).ok()?;
        found.as_array().cloned()
    })
    .await;
    // A minute may end meanwhile, and the question for events may be refused at first.
    assert!((1..=3).contains(&refused.len()), "{refused:?}");
    assert_has!(refused[0]["metadata"], {"principal": null, "reason": "rate_limited"});
    let counts = refused
        .iter()
        .map(|event| event["metadata"]["count"].as_u64());
    let counted: u64 = counts.map(|count| count.unwrap_or(1)).sum();
    assert!(counted >= number, "{refused:?}");
}

#[tokio::test]
async fn trace_of_the_client_reaches_the_event_and_the_backend() {
    let server = Server::start("mcp-conformance", &[]).await;
    let proxy = TestProxy::start(&server.url, ProxyMode::Forward).await;
    let gateway = Gateway::with(&format!("url = {:?}", proxy.url)).await;
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"b__greet","arguments":{"name":"Ada"}META}}"#;
    let in_header = "4bf92f3577b34da6a3ce929d0e0e4736";
    let in_meta = "5bf92f3577b34da6a3ce929d0e0e4736";
    let parent = |trace: &str| format!("00-{trace}-00f067aa0ba902b7-01");
    let with_header = async |header: &str| {
        let headers = [("traceparent", header)];
        gateway.post_with(&headers, call.replace("META", "")).await
    };
    with_header(&parent(in_header)).await;
    let meta = format!(r#","_meta":{{"traceparent":"{}"}}"#, parent(in_meta));
    gateway.post(call.replace("META", &meta)).await;
    with_header("00-zz-evil-01").await;
    gateway.ends(3).await;
    for trace in [in_header, in_meta] {
        let found = gateway.own("get_events", json!({"trace_id": trace})).await;
        assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
        assert_eq!(proxy.count(&format!("00-{trace}-")), 1, "in _meta");
        let requests = proxy.requests();
        let mut headers = requests
            .iter()
            .filter_map(|sent| sent.headers.get("traceparent"));
        assert!(headers.any(|header| header.to_str().unwrap().contains(trace)));
    }
    // Without spans of its own it passes on that of the client. An invalid trace is not forwarded.
    assert_eq!(proxy.count("-00f067aa0ba902b7-01"), 2);
    assert_eq!(proxy.count("zz-evil"), 0);
}

#[tokio::test]
async fn starts_and_failures_of_backends_are_recorded() {
    let gateway = Gateway::with(&misbehaving(&["dies"])).await;
    gateway.backend_failure("b__work", json!({})).await;
    gateway.until("b", "running").await;
    for event in ["registered", "started", "failed"] {
        let found = gateway.facts_of(&format!("gateway.backend_{event}")).await;
        assert_has!(found[0], {"backend": "b", "namespace": "b"});
    }
}

/// R27.
#[tokio::test]
async fn calls_succeed_with_a_broken_event_log() {
    for damage in ["no folder", "not to be written", "not a log", "a folder"] {
        let folder = Folder::new();
        let events = match damage {
            "no folder" => format!("{}/events.db", folder.write("in-the-way", "")),
            "not to be written" => "/proc/events.db".to_owned(),
            "not a log" => folder.write("events.db", &"not a log ".repeat(10_000)),
            _ => folder.path(""),
        };
        let args = ["--events", events.as_str()];
        let gateway = Gateway::start(folder, "[backends.b]\nFIXTURE\n", &args).await;
        gateway.until("b", "running").await;
        let calls = (0..50).map(|_| gateway.tool("b__greet", json!({"name": "Ada"})));
        for result in futures_util::future::join_all(calls).await {
            assert_eq!(text(&result), "Hello, Ada!", "{damage}");
        }
        if damage == "not a log" {
            // It is renamed, and a new one is created.
            assert_eq!(gateway.ends(50).await.len(), 50);
            assert!(!gateway.folder.lines("events.db.corrupt").is_empty());
        } else {
            let log = eventually(damage, async || {
                let log = gateway.status().await["event_log"].take();
                (log["status"] == "degraded").then_some(log)
            })
            .await;
            assert!(log["reason"].is_string(), "{damage}: {log}");
        }
    }
}
