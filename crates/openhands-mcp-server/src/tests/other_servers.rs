//! OpenHands servers that are not the agent server.

use mcp_core::tool::{ToolError, ToolErrorKind as Kind};
use mcp_serve::Service as _;
use serde_json::{Value, json};

use super::fake::{FakeAgentServer, Reply};
use super::{assert_error, openhands};

async fn probe(
    reply: impl Fn(&str) -> Reply + Send + Sync + 'static,
) -> (FakeAgentServer, ToolError) {
    let fake = FakeAgentServer::start(move |request, _| reply(request.path())).await;
    let error = openhands(&fake.url).probe().await.unwrap_err();
    (fake, error)
}

#[tokio::test]
async fn app_server_with_another_key_refuses_ours() {
    let (_fake, error) = probe(|path| match path {
        "/health" => Reply::Json(200, json!("OK")),
        "/api/v1/app-conversations/count" => Reply::unauthorized(),
        _ => Reply::not_found(),
    })
    .await;
    assert_error(&error, Kind::Unauthorized, "OPENHANDS_API_KEY");
}

#[tokio::test]
async fn v0_is_refused_by_name() {
    // Its own /api/conversations/{id} takes `count` for an id; all other paths return the web page.
    let reply = |path: &str| match path {
        "/health" => Reply::Json(200, json!("OK")),
        "/api/options/config" => Reply::Json(200, json!({"APP_MODE": "oss"})),
        "/api/conversations/count" => Reply::Json(200, Value::Null),
        "/api/settings" => Reply::Json(200, json!({"language": "en", "llm_model": "m"})),
        _ => Reply::Html(200),
    };
    let (fake, error) = probe(reply).await;
    assert_error(&error, Kind::Upstream, "OpenHands V0");
    let error = fake.refuse("run_task", json!({"task": "t"})).await;
    assert_eq!(error.kind(), Kind::Upstream);
    assert!(fake.requests("POST /api/conversations").is_empty());
}

#[tokio::test]
async fn other_programs_are_reported() {
    for reply in [|_: &str| Reply::Html(200), |_: &str| Reply::not_found()] {
        let (_fake, error) = probe(reply).await;
        assert_error(&error, Kind::Upstream, "not as an agent server");
    }
}
