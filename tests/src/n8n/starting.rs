//! A server that starts while n8n is not usable reports the reason, and recovers by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::{SERVER, assert_refused, done};
use crate::harness::{FakeService, Response, Server, http_client, wait_until};

/// Waits until the server is degraded for this reason; its calls fail for it, too.
pub(super) async fn assert_degraded(server: &Server, part: &str) {
    let url = server.url.replace("/mcp", "/readyz");
    wait_until("the reason", async || {
        let response = http_client().get(&url).send().await.unwrap();
        let said: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        let reason = said["reason"].as_str().unwrap_or_default();
        said["status"] == "degraded" && reason.contains(part)
    })
    .await;
    let client = server.client().await;
    assert_refused(&client, "list_workflows", json!({}), part).await;
}

pub(super) async fn assert_online(server: &Server) {
    server.wait_for_status("online").await;
    let client = server.client().await;
    done(&client, "list_workflows", json!({"limit": 1})).await;
}

#[tokio::test]
async fn refused_key_is_reported_until_it_is_accepted() {
    let unlicensed = "Your license does not allow for feat:publicApi.";
    for (status, message, part) in [
        (401, "Unauthorized", "refuses the API key"),
        (403, "Forbidden", "lacks the scope workflow:list"),
        (403, unlicensed, "licence"),
        (503, "starting", "not ready"),
    ] {
        let is_repaired = Arc::new(AtomicBool::new(false));
        let repaired = Arc::clone(&is_repaired);
        let fake = FakeService::start(move |_| {
            if repaired.load(Ordering::Relaxed) {
                Response::json(200, &json!({"data": [], "nextCursor": null}))
            } else {
                Response::json(status, &json!({ "message": message }))
            }
        })
        .await;
        let env = [("N8N_URL", fake.url.as_str()), ("N8N_API_KEY", "k")];
        let server = Server::start(SERVER, &env).await;
        assert_degraded(&server, part).await;
        is_repaired.store(true, Ordering::Relaxed);
        assert_online(&server).await;
    }
}

/// It answers like n8n 2 where their APIs are the same.
#[tokio::test]
async fn n8n_1_is_told_by_name_until_it_is_replaced() {
    let is_updated = Arc::new(AtomicBool::new(false));
    let updated = Arc::clone(&is_updated);
    let fake = FakeService::start(move |request| match request.target.as_str() {
        "/api/v1/discover" if !updated.load(Ordering::Relaxed) => {
            Response::json(404, &json!({"message": "not found"}))
        }
        _ => Response::json(200, &json!({"data": [], "nextCursor": null})),
    })
    .await;
    let env = [("N8N_URL", fake.url.as_str()), ("N8N_API_KEY", "k")];
    let server = Server::start(SERVER, &env).await;
    assert_degraded(&server, "is n8n 1, and this server needs n8n 2").await;
    let run = json!({"workflow_id": "w"});
    assert_refused(&server.client().await, "run_workflow", run, "update n8n").await;
    is_updated.store(true, Ordering::Relaxed);
    assert_online(&server).await;
}
