//! A start at the wrong moment: the server is there, says what is wrong, and recovers by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::{SERVER, done, refused};
use crate::harness::{FakeService, Response, Server, http_client, wait_until};

/// It is degraded for this reason, where people and load balancers look, and so are its calls.
pub(super) async fn is_degraded(server: &Server, part: &str) {
    let url = server.url.replace("/mcp", "/readyz");
    wait_until("the reason", async || {
        let response = http_client().get(&url).send().await.unwrap();
        let said: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        let reason = said["reason"].as_str().unwrap_or_default();
        said["status"] == "degraded" && reason.contains(part)
    })
    .await;
    let client = server.client().await;
    let message = refused(&client, "list_workflows", json!({})).await;
    assert!(message.contains(part), "{message}");
}

pub(super) async fn is_online(server: &Server) {
    server.wait_for_status("online").await;
    let client = server.client().await;
    done(&client, "list_workflows", json!({"limit": 1})).await;
}

#[tokio::test]
async fn what_the_key_may_not_do_is_said_until_it_may() {
    let unlicensed = "Your license does not allow for feat:publicApi.";
    for (status, message, part) in [
        (401, "Unauthorized", "refuses the API key"),
        (403, "Forbidden", "lacks the scope workflow:list"),
        (403, unlicensed, "licence"),
        (503, "starting", "not ready"),
    ] {
        let is_cured = Arc::new(AtomicBool::new(false));
        let cure = Arc::clone(&is_cured);
        let fake = FakeService::start(move |_| {
            if cure.load(Ordering::Relaxed) {
                Response::json(200, &json!({"data": [], "nextCursor": null}))
            } else {
                Response::json(status, &json!({ "message": message }))
            }
        })
        .await;
        let env = [("N8N_URL", fake.url.as_str()), ("N8N_API_KEY", "k")];
        let server = Server::start(SERVER, &env).await;
        is_degraded(&server, part).await;
        is_cured.store(true, Ordering::Relaxed);
        is_online(&server).await;
    }
}
