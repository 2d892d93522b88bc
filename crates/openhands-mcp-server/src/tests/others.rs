//! Servers of OpenHands that are not the agent server.

use mcp_core::tool::{ToolError, ToolErrorKind as Kind};
use mcp_serve::Service as _;
use serde_json::{Value, json};

use super::fake::{Fake, Reply};
use super::{call, openhands};

async fn probe(answers: impl Fn(&str) -> Reply + Send + Sync + 'static) -> (Fake, ToolError) {
    let path = |target: &str| {
        target
            .split([' ', '?'])
            .nth(1)
            .unwrap_or_default()
            .to_owned()
    };
    let fake = Fake::start(move |seen, _| answers(&path(&seen.target))).await;
    let error = openhands(&fake.url).probe().await.unwrap_err();
    (fake, error)
}

fn not_found() -> Reply {
    Reply::Json(404, json!({"detail": "Not Found"}))
}

#[tokio::test]
async fn an_app_server_that_wants_another_key() {
    let (_fake, error) = probe(|path| match path {
        "/health" => Reply::Json(200, json!("OK")),
        "/api/v1/app-conversations/count" => Reply::Json(401, json!({"detail": "Unauthorized"})),
        _ => not_found(),
    })
    .await;
    assert_eq!(error.kind(), Kind::Unauthorized);
    assert!(error.message().contains("OPENHANDS_API_KEY"), "{error}");
}

#[tokio::test]
async fn v0_is_refused_with_a_clear_word() {
    // Its own /api/conversations/{id} takes `count` for an id; the rest is the web page.
    let answers = |path: &str| match path {
        "/health" => Reply::Json(200, json!("OK")),
        "/api/options/config" => Reply::Json(200, json!({"APP_MODE": "oss"})),
        "/api/conversations/count" => Reply::Json(200, Value::Null),
        "/api/settings" => Reply::Json(200, json!({"language": "en", "llm_model": "m"})),
        _ => Reply::Html(200),
    };
    let (fake, error) = probe(answers).await;
    assert_eq!(error.kind(), Kind::Upstream);
    assert!(error.message().contains("OpenHands V0"), "{error}");
    // Nothing is started there either.
    let run = call(&fake.url, "run_task", json!({"task": "t"})).await;
    assert_eq!(run.unwrap_err().kind(), Kind::Upstream);
    assert!(fake.seen("POST /api/conversations").is_empty());
}

#[tokio::test]
async fn what_is_none_of_them_is_told_as_before() {
    let (_fake, error) = probe(|_| Reply::Html(200)).await;
    assert!(
        error.message().contains("not as an agent server"),
        "{error}"
    );
    let (_fake, error) = probe(|_| not_found()).await;
    assert!(
        error.message().contains("not as an agent server"),
        "{error}"
    );
}
