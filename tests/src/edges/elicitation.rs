//! Elicitation: the caller that may answer, valid answers, declared modes.

use serde_json::{Value, json};

use super::{FIXTURE, fixture, refused};
use crate::auth::file;
use crate::harness::{Dialect, Reply, Server};

const TOOL: &str = "test_input_required_result_tampered_state";

/// Calls the tool that asks for a confirmation; `capabilities` and `members` are JSON.
async fn call(server: &Server, token: &str, capabilities: &str, members: &str) -> Reply {
    let bearer = format!("Bearer {token}");
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", TOOL),
        ("authorization", &bearer),
    ];
    let meta = format!(
        r#""_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{capabilities}}}"#
    );
    let params = format!(r#"{meta},"name":"{TOOL}","arguments":{{}}{members}"#);
    let body = Dialect::Unversioned.request("1", "tools/call", &params);
    server.post_with(&headers, body).await
}

fn repeated(state: &Value, answer: &Value) -> String {
    format!(r#","requestState":{state},"inputResponses":{{"confirm":{answer}}}"#)
}

#[tokio::test]
async fn request_state_is_bound_to_its_principal() {
    let tokens = file("alice a-s3cret-of-16-chars\nbob b-s3cret-of-16-chars\n");
    let args = ["--token-file", tokens.to_str().unwrap()];
    let server = Server::with_args(FIXTURE, &args, &[]).await;
    let form = r#"{"elicitation":{}}"#;
    let asked = call(&server, "a-s3cret-of-16-chars", form, "").await.json();
    let state = &asked["result"]["requestState"];
    assert!(state.is_string(), "{asked}");
    let yes = json!({"action": "accept", "content": {"ok": true}});
    let members = repeated(state, &yes);
    let reply = call(&server, "b-s3cret-of-16-chars", form, &members).await;
    refused(&reply, 200, -32602, json!(1));
    let reply = call(&server, "a-s3cret-of-16-chars", form, &members)
        .await
        .json();
    assert_eq!(reply["result"]["resultType"], "complete", "{reply}");
}

#[tokio::test]
async fn only_declared_elicitation_modes_are_used() {
    let server = fixture().await;
    for (capabilities, is_asked) in [
        (r#"{"elicitation":{}}"#, true),
        (r#"{"elicitation":{"form":{}}}"#, true),
        (r#"{"elicitation":{"form":{},"url":{}}}"#, true),
        (r#"{"elicitation":{"url":{}}}"#, false),
        (r#"{}"#, false),
    ] {
        let reply = call(&server, "", capabilities, "").await.json();
        let asked = &reply["result"]["resultType"] == "input_required";
        assert_eq!(asked, is_asked, "{capabilities}: {reply}");
    }
}

#[tokio::test]
async fn invalid_answers_do_not_reach_the_tool() {
    let server = fixture().await;
    let form = r#"{"elicitation":{}}"#;
    let asked = call(&server, "", form, "").await.json();
    let state = &asked["result"]["requestState"];
    let accept = |content| json!({"action": "accept", "content": content});
    let wrong = accept(json!({"ok": "yes"}));
    for (answer, fault) in [
        (json!({"action": "banana"}), "action must be"),
        (json!({"action": "accept"}), "content must be an object"),
        (accept(json!({})), "content.ok is missing"),
        (wrong, "content.ok must be of type boolean"),
    ] {
        let members = repeated(state, &answer);
        let reply = call(&server, "", form, &members).await.json();
        assert_eq!(reply["result"]["isError"], true, "{answer}: {reply}");
        let text = reply["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(fault), "{answer}: {text}");
    }
}

#[tokio::test]
async fn only_what_the_request_state_has_asked_is_answered() {
    let server = fixture().await;
    let form = r#"{"elicitation":{}}"#;
    let asked = call(&server, "", form, "").await.json();
    let state = &asked["result"]["requestState"];
    let yes = r#"{"action":"accept","content":{"ok":true}}"#;
    let members = format!(r#","requestState":{state},"inputResponses":{{"another":{yes}}}"#);
    let reply = call(&server, "", form, &members).await.json();
    let result = &reply["result"];
    assert_eq!(result["resultType"], "input_required", "{reply}");
    assert!(result["inputRequests"]["confirm"].is_object(), "{reply}");
}
