//! Three gateways look and act as one towards the operator.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::env::{ReplicaGroup, call};
use crate::harness::{assert_contains, eventually, http_client, wait_until};

impl ReplicaGroup {
    /// Calls a tool at the replica `at`, and returns its result.
    pub(super) async fn tool(&self, at: usize, name: &str, arguments: Value) -> Value {
        let params = json!({"name": name, "arguments": arguments});
        let reply = self.ask(at, "", "tools/call", params).await;
        // Clients without a handshake get it as text only.
        let text = reply["result"]["content"][0]["text"].as_str();
        serde_json::from_str(text.unwrap_or_else(|| panic!("{reply}"))).unwrap()
    }

    pub(super) async fn status(&self, at: usize) -> Value {
        self.tool(at, "gateway_status", json!({})).await
    }

    /// Returns the id of each replica.
    pub(super) async fn ids(&self) -> Vec<String> {
        let mut ids = Vec::new();
        for at in 0..3 {
            // One that was killed has none.
            if self.gateways[at].is_none() {
                ids.push(String::new());
                continue;
            }
            let status = self.status(at).await;
            let mut replicas = status["replicas"].as_array().unwrap().iter();
            let own = replicas.find(|one| one["answers"] == true).unwrap();
            ids.push(own["id"].as_str().unwrap().to_owned());
        }
        ids
    }
}

#[tokio::test]
async fn status_at_each_replica_is_that_of_all() {
    let Some(group) = ReplicaGroup::start().await else {
        return;
    };
    let ids = group.ids().await;
    for (at, count) in [(0, 2), (1, 3), (2, 4)] {
        for _ in 0..count {
            let echo = call("b__test_simple_text", json!({}));
            assert_eq!(group.post(at, "", &echo).await.status(), 200);
        }
    }
    for at in 0..3 {
        let status = eventually("the sum of all calls", async || {
            let status = group.status(at).await;
            (status["backends"]["b"]["calls"] == 9).then_some(status)
        })
        .await;
        let backend = &status["backends"]["b"];
        assert_eq!(
            (&backend["errors"], &backend["in_flight"]),
            (&json!(0), &json!(0)),
            "{at}"
        );
        assert!(backend["replicas"].is_null(), "{backend}");
        let replicas = status["replicas"].as_array().unwrap();
        let ours = replicas
            .iter()
            .filter(|one| ids.iter().any(|id| one["id"] == **id));
        let ours: Vec<&Value> = ours.collect();
        assert_eq!(ours.len(), 3, "{status}");
        for one in ours {
            assert_eq!(
                (&one["status"], one["uptime_s"].is_u64()),
                (&json!("alive"), true),
                "{one}"
            );
            assert!(
                one["address"]
                    .as_str()
                    .unwrap()
                    .starts_with("http://127.0.0.1:"),
                "{one}"
            );
        }
    }
    let metrics = |at: usize| {
        let server = &group.gateways[at].as_ref().unwrap().server;
        let url = server.url.replace("/mcp", "/metrics");
        async move {
            http_client()
                .get(url)
                .bearer_auth("token-of-ada-16-chars")
                .send()
                .await
                .unwrap()
                .text()
                .await
                .unwrap()
        }
    };
    for (at, id) in ids.iter().enumerate() {
        let text = metrics(at).await;
        let info = text
            .lines()
            .find(|line| line.starts_with("mcp_gateway_replica_info{"));
        let info = info.unwrap_or_else(|| panic!("{text}"));
        assert_contains(&info, &format!("replica=\"{id}\""));
        assert!(text.contains("\nmcp_gateway_replicas 3\n"), "{text}");
    }
}

#[tokio::test]
async fn backend_is_restarted_at_all_replicas() {
    let Some(group) = ReplicaGroup::start().await else {
        return;
    };
    let ids = group.ids().await;
    for backend in ["old", "b"] {
        let restarted = group
            .tool(1, "gateway_restart", json!({"backend": backend}))
            .await;
        for at in [0, 2] {
            let outcome = &restarted["replicas"][&ids[at]];
            assert_eq!(outcome, "restarts; it was running", "{restarted}");
        }
        for at in 0..3 {
            wait_until("a restart at each", async || {
                let status = group.status(at).await;
                let backend = &status["backends"][backend];
                backend["restarts"] == 3
                    && backend["status"] == "running"
                    && backend["replicas"].is_null()
            })
            .await;
        }
    }
}

#[tokio::test]
async fn events_name_the_replica_and_a_trace_is_one() {
    let Some(group) = ReplicaGroup::start().await else {
        return;
    };
    let ids = group.ids().await;
    let trace = uuid::Uuid::new_v4().simple().to_string();
    for at in 0..3 {
        let mut echo = call("b__test_simple_text", json!({}));
        echo["params"]["_meta"] = json!({"traceparent": format!("00-{trace}-0123456789abcdef-01")});
        assert_eq!(group.post(at, "", &echo).await.status(), 200);
    }
    let find = async |at, filters: Value| -> Vec<Value> {
        let params = json!({"name": "get_events", "arguments": filters});
        let found = group.ask(at, "", "tools/call", params).await;
        serde_json::from_str(found["result"]["content"][0]["text"].as_str().unwrap()).unwrap()
    };
    for (at, id) in ids.iter().enumerate() {
        wait_until("the events of all", async || {
            let found = find(at, json!({"trace_id": trace})).await;
            let replicas: BTreeSet<_> = found
                .iter()
                .filter_map(|event| event["replica"].as_str())
                .collect();
            replicas == ids.iter().map(String::as_str).collect()
        })
        .await;
        let found = find((at + 1) % 3, json!({"trace_id": trace, "replica": id})).await;
        assert!(found.len() == 1 && found[0]["replica"] == **id, "{found:?}");
    }
}

#[tokio::test]
async fn sign_in_on_the_page_holds_at_all_replicas() {
    let Some(group) = ReplicaGroup::start().await else {
        return;
    };
    let base = |at: usize| {
        let server = &group.gateways[at].as_ref().unwrap().server;
        server.url.trim_end_matches("/mcp").to_owned()
    };
    // As behind one address: the browser sends one `Host` to all of them.
    let host = base(0).trim_start_matches("http://").to_owned();
    let post = |at: usize, path: &str, body: Value| {
        http_client()
            .post(format!("{}{path}", base(at)))
            .header("host", &host)
            .header("origin", base(0))
            .header("sec-fetch-site", "same-origin")
            .header("content-type", "application/json")
            .body(body.to_string())
    };
    let signed = post(
        0,
        "/page/sign-in",
        json!({"token": "token-of-ada-16-chars"}),
    );
    let signed = signed.header("x-page-key", "new").send().await.unwrap();
    assert_eq!(signed.status(), 200, "{:?}", signed.text().await);
    let cookie = signed.headers()["set-cookie"].to_str().unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let key: Value = serde_json::from_str(&signed.text().await.unwrap()).unwrap();
    for at in [0, 1, 2, 0, 1, 2] {
        let state = post(at, "/page/data/state", json!({}))
            .header("cookie", &cookie)
            .header("x-page-key", key["key"].as_str().unwrap())
            .send();
        let state = state.await.unwrap();
        assert_eq!(state.status(), 200, "{at}");
        let state: Value = serde_json::from_str(&state.text().await.unwrap()).unwrap();
        assert!(state["backends"]["b"].is_object(), "{state}");
    }
}
