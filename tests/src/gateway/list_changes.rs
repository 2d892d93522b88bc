//! Notifications of changed lists and changed resources.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use mcp_client::EraChoice;
use serde_json::json;

use super::env::{
    Folder, Gateway, legacy_fixture, misbehaving, request, stdio_fixture, tools_json,
};
use crate::harness::{
    FakeService, Messages, Response, assert_lacks, eventually, recorder, response, wait_until,
};

/// Receives notifications until none comes for the time `quiet`.
async fn received(messages: &mut Messages, quiet: Duration) -> Vec<String> {
    let mut methods = Vec::new();
    while let Ok(Some((method, _))) = tokio::time::timeout(quiet, messages.recv()).await {
        methods.push(method);
    }
    methods
}

#[tokio::test]
async fn changes_of_three_backends_are_one_notification() {
    let (folder, keys) = (Folder::new(), ["a", "b", "c"]);
    let config = keys.map(|key| {
        let file = folder.write(key, &tools_json(&["work"]));
        format!("[backends.{key}]\n{}\n", misbehaving(&["--tools", &file]))
    });
    let gateway = Gateway::start(folder, &config.concat(), &[]).await;
    wait_until("the tools of all", async || {
        let names = gateway.tool_names().await;
        keys.iter()
            .all(|key| names.contains(&format!("{key}__work")))
    })
    .await;
    for (era, new) in [(EraChoice::Newest, "new-1"), (EraChoice::Legacy, "new-2")] {
        let (handler, mut messages) = recorder();
        let client = gateway.client(era, Some(handler)).await;
        let filter = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
        let listening = client.listen(&filter).await.unwrap();
        let listening = tokio::spawn(listening.closed());
        received(&mut messages, Duration::from_millis(1500)).await;
        let started = Instant::now();
        let changes = keys.map(async |key| {
            gateway.folder.write(key, &tools_json(&["work", new]));
            let work = format!("{key}__work");
            gateway.tool(&work, json!({"change": true})).await;
        });
        join_all(changes).await;
        wait_until("the new tools", async || {
            let names = gateway.tool_names().await;
            keys.iter()
                .all(|key| names.contains(&format!("{key}__{new}")))
        })
        .await;
        // One a second, if a busy machine needs so long until all have changed.
        let most = started.elapsed().as_millis() / 800 + 1;
        let (first, _) = messages.recv().await.unwrap();
        let mut methods = received(&mut messages, Duration::from_secs(3)).await;
        methods.push(first);
        assert!(methods.len() as u128 <= most, "{era:?}: {methods:?}");
        let kind = "notifications/tools/list_changed";
        assert!(methods.iter().all(|method| method == kind), "{methods:?}");
        listening.abort();
    }
}

#[tokio::test]
async fn flapping_list_causes_one_notification_a_second() {
    let gateway = Gateway::with(&misbehaving(&["flaps"])).await;
    let (handler, mut messages) = recorder();
    let client = gateway.client(EraChoice::Newest, Some(handler)).await;
    let filter = json!({"toolsListChanged": true});
    let started = Instant::now();
    let listening = client.listen(&filter).await.unwrap();
    let listening = tokio::spawn(listening.closed());
    // Real time, since the test is about it.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let count = std::iter::from_fn(|| messages.try_recv().ok()).count();
    // Four in three seconds, and more on a busy machine, where it took longer.
    let took = started.elapsed();
    assert!(
        count as u128 <= took.as_millis() / 800 + 1,
        "{count} in {took:?}"
    );
    listening.abort();
}

#[tokio::test]
async fn subscriber_is_notified_of_a_changed_resource() {
    for backend in [stdio_fixture(), legacy_fixture()] {
        let gateway = Gateway::with(&backend).await;
        for era in [EraChoice::Newest, EraChoice::Legacy] {
            let (handler, mut messages) = recorder();
            let client = gateway.client(era, Some(handler)).await;
            let uri = "test://watched-resource";
            let filter = json!({"resourceSubscriptions": [uri]});
            let listening = client.listen(&filter).await.unwrap();
            if era == EraChoice::Legacy {
                request(&client, "resources/subscribe", json!({"uri": uri})).await;
            }
            let listening = tokio::spawn(listening.closed());
            // Repeated, since the gateway subscribes at the backend some time later.
            let notified = async || {
                let trigger = "b__test_trigger_resource_change";
                gateway.tool(trigger, json!({})).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
                messages.try_recv().ok()
            };
            let (method, params) = eventually(&format!("{era:?} {backend}"), notified).await;
            assert_eq!(method, "notifications/resources/updated");
            assert_eq!(params["uri"], uri);
            listening.abort();
        }
    }
}

/// A backend refuses to report changes of a resource that was removed; the gateway leaves that one out.
#[tokio::test]
async fn removed_resource_does_not_stop_other_notifications() {
    const GONE: &str = "x://gone";
    let backend = FakeService::start(|request| {
        let body = request.json();
        let item = json!({"uri": GONE, "name": "gone"});
        let result = match body["method"].as_str().unwrap_or_default() {
            "server/discover" => json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": {"resources": {"subscribe": true}}, "ttlMs": 0, "cacheScope": "private",
            }),
            "resources/list" => json!({"resources": [item]}),
            "resources/templates/list" => json!({"resourceTemplates": []}),
            "subscriptions/listen" if body.to_string().contains(GONE) => {
                let error = json!({"code": -32602, "message": "Resource not found", "data": {"uri": GONE}});
                return Response::json(200, &response(&body["id"], "error", error));
            }
            _ => return Response::Hang,
        };
        Response::json(200, &response(&body["id"], "result", result))
    })
    .await;
    let gateway = Gateway::with_backends(&[("b", &format!("url = {:?}", backend.url))]).await;
    wait_until("its resource", async || {
        let listed = gateway.result("resources/list", json!({})).await;
        listed.to_string().contains(GONE)
    })
    .await;
    let client = gateway.client(EraChoice::Newest, None).await;
    let filter = json!({"resourceSubscriptions": [GONE]});
    let listening = client.listen(&filter).await.unwrap();
    let next = eventually("another subscription", async || {
        let mut listens = backend.requests();
        listens.retain(|request| request.has("subscriptions/listen"));
        let refused = listens.iter().position(|request| request.has(GONE))?;
        listens.get(refused + 1).map(|request| request.json())
    })
    .await;
    assert_lacks(&next, GONE);
    drop(listening);
}
