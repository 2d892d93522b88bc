//! Backends that cannot be used, and answers that cannot be: the reason is said everywhere.

use serde_json::{Value, json};

use super::env::{Gateway, failure};
use crate::harness::{
    Dialect, FakeService, Response, assert_contains, assert_lacks, binary, eventually,
};

#[tokio::test]
async fn reason_of_an_unused_backend_is_said_everywhere() {
    let config = json!({"mcpServers": {
        "b": {"command": binary("mcp-conformance"), "args": ["--stdio"]},
        "needs": {"url": "http://127.0.0.1:1/mcp", "headers": {"X": "${NOT_SET_HERE}"}},
        "env-file": {"command": "x", "envFile": ".env"},
        "off": {"command": "x", "disabled": true},
        "down": {"url": "http://127.0.0.1:1/mcp"},
    }});
    let gateway = Gateway::of(&config.to_string()).await;
    let rows = [
        (
            "needs",
            "the environment variable NOT_SET_HERE is not set",
            "Set NOT_SET_HERE and start the gateway again",
        ),
        (
            "env-file",
            "`envFile` is not supported",
            "into `env` of the backend env-file",
        ),
        // Nothing is to be done about it.
        ("off", "disabled by the configuration", ""),
    ];
    let status = gateway.status().await;
    let events = gateway.facts_of("gateway.backend_disabled").await;
    let log = gateway.log();
    for (key, reason, advice) in rows {
        let backend = &status["backends"][key];
        assert_eq!(backend["status"], "disabled", "{status}");
        assert_eq!(backend["advice"].is_null(), advice.is_empty(), "{status}");
        assert_contains(&backend["advice"], advice);
        assert_contains(&backend["last_error"], reason);
        let event = events.iter().find(|event| event["backend"] == key);
        assert_contains(&event.unwrap()["reason"], reason);
        let is_logged = |line: &str| line.contains(key) && line.contains(reason);
        assert!(log.lines().any(is_logged), "{log}");
        for name in [format!("{key}__x"), format!("{key}:x"), format!("{key}.x")] {
            for dialect in Dialect::ALL {
                let answer = gateway.call_as(dialect, &name, "{}").await;
                assert_contains(&answer.body, &format!("backend {key} is not used"));
                assert_contains(&answer.body, reason);
            }
        }
        let call = json!({"name": format!("{key}__x"), "arguments": {}});
        let error = gateway.error("mcp.callTool", call).await;
        assert_contains(&error["message"], reason);
        let restart = json!({"backend": key});
        let refused = gateway.refusal("gateway_restart", restart).await;
        assert_contains(&refused, reason);
    }
    let missing = gateway.refusal("down__x", json!({})).await;
    assert_contains(&missing, "backend down is down");
    assert_contains(&gateway.unknown_tool("b__x").await, "Tool not found");
    // It needs no token, so it names no reason.
    let ready = eventually("the readiness", async || {
        let ready = gateway.request("GET", "/readyz", &[]).await.body;
        ready.contains("needs").then_some(ready)
    })
    .await;
    for reason in ["variable", "off"] {
        assert_lacks(&ready, reason);
    }
    // M18: `doctor` tells it, too, without the running gateway.
    let doctor = ["doctor", "--offline"];
    let (code, told) = gateway.folder.command("memory", &doctor).await;
    assert_eq!(code, 78, "{told}");
    assert_contains(&told, "NOT_SET_HERE");
}

#[tokio::test]
async fn cause_of_an_unusable_answer_is_named() {
    const LIST: &str = r#"{"tools":[{"name":"work","inputSchema":{"type":"object"}}]}"#;
    const HELLO: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#;
    const REFUSAL: &str =
        r#"{"jsonrpc":"2.0","id":ID,"error":{"code":40100,"message":"Invalid API key"}}"#;
    let service = FakeService::start(|request| {
        let request = request.json();
        let id = &request["id"];
        let answer = |id: &Value, result: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
        };
        let fault = request["params"]["arguments"]["fault"].as_str();
        let (status, body) = match fault {
            None if request["method"].is_null() => (405, String::new()),
            None if id.is_null() => (202, String::new()),
            None if request["method"] == "initialize" => (200, answer(id, HELLO)),
            None => (200, answer(id, LIST)),
            Some("redirect") => (307, String::new()),
            Some("5xx") => (502, String::new()),
            Some("401") => (401, REFUSAL.replace("ID", &id.to_string())),
            Some("id") => (200, answer(&json!(7_777), "{}")),
            Some("text") => (200, "<p>Hello".to_owned()),
            Some(json) => (200, answer(id, json)),
        };
        Response::Http(status, "application/json", body.into())
    })
    .await;
    let url = &service.url;
    let with = async |protocol: &str| {
        let backend = format!("url = \"{url}\"\nprotocol = {protocol:?}\ntimeout = \"600s\"\n");
        Gateway::with(&backend).await
    };
    let gateway = with("rpc").await;
    for (fault, cause) in [
        ("redirect", "HTTP 307, a redirect, which is not followed"),
        ("5xx", "HTTP 502"),
        ("{\"mean\":NaN}", "invalid JSON: NaN is not a JSON value"),
        ("id", "the id of another request"),
        ("text", "not a JSON-RPC message"),
    ] {
        let arguments = json!({"fault": fault});
        let text = gateway.backend_failure("b__work", arguments).await;
        // No answer was waited for in vain: that would be a timeout.
        assert_contains(&text, cause);
    }
    // M4: wrong answers of one tool do not keep others from the backend.
    for _ in 0..7 {
        let text = json!({"fault": "text"});
        let error = gateway.backend_failure("b__work", text).await;
        assert_lacks(&error, "next try");
    }
    let status = gateway.backend("b").await;
    assert_has!(status, {"status": "running", "last_error": null});
    // M12: the client must not look for the fault in its own token.
    for gateway in [gateway, with("2025-11-25").await] {
        let answer = gateway.answer("b__work", json!({"fault": "401"})).await;
        assert_contains(&failure(&answer), "rejects the gateway's credentials");
        for part in ["API key", "40100"] {
            assert_lacks(&answer.to_string(), part);
        }
    }
}
