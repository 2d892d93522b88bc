//! Lists that change, resources that change, and who hears of it.

use std::time::Duration;

use mcp_client::EraChoice;
use serde_json::json;

use super::asking::{Seen, recorder};
use super::lab::{Folder, Gateway, fixture};
use crate::harness::eventually;

fn tools(names: &[&str]) -> String {
    let tools = names.iter().map(
        |name| json!({"name": name, "description": "Works.", "inputSchema": {"type": "object"}}),
    );
    tools.collect::<serde_json::Value>().to_string()
}

/// What comes until nothing has come for a while.
async fn heard(seen: &mut Seen, quiet: Duration) -> Vec<String> {
    let mut methods = Vec::new();
    while let Ok(Some((method, _))) = tokio::time::timeout(quiet, seen.recv()).await {
        methods.push(method);
    }
    methods
}

#[tokio::test]
async fn changes_of_three_backends_are_one_change() {
    let folder = Folder::new();
    let mut config = String::new();
    for key in ["a", "b", "c"] {
        let file = folder.write(key, &tools(&["work"]));
        let odd = fixture(&["odd", "--tools", &file]);
        config.push_str(&format!("[backends.{key}]\n{odd}\n"));
    }
    let gateway = Gateway::start(folder, &config, &[]).await;
    for key in ["a", "b", "c"] {
        gateway.until(key, "running").await;
    }
    for dialect in [EraChoice::Newest, EraChoice::Legacy] {
        let (handler, mut seen) = recorder();
        let client = gateway.client(dialect, Some(handler)).await;
        let wanted = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
        let listening = client.listen(&wanted).await.unwrap();
        let following = tokio::spawn(listening.closed());
        heard(&mut seen, Duration::from_millis(1500)).await;
        let new = format!(
            "new-{}",
            if dialect == EraChoice::Newest {
                "1"
            } else {
                "2"
            }
        );
        for key in ["a", "b", "c"] {
            gateway.folder.write(key, &tools(&["work", &new]));
            gateway
                .tool(&format!("{key}__work"), json!({"change": true}))
                .await;
        }
        let methods = heard(&mut seen, Duration::from_secs(3)).await;
        assert_eq!(methods, ["notifications/tools/list_changed"], "{dialect:?}");
        let listed = client.list("tools/list", "tools").await.unwrap();
        let listed: Vec<&str> = listed.iter().map(|tool| tool.get()).collect();
        for key in ["a", "b", "c"] {
            let name = format!(r#""{key}__{new}""#);
            assert!(listed.iter().any(|tool| tool.contains(&name)), "{name}");
        }
        following.abort();
    }
}

#[tokio::test]
async fn one_that_flaps_is_heard_once_a_second_at_most() {
    let gateway = Gateway::with(&fixture(&["odd", "flaps"])).await;
    let (handler, mut seen) = recorder();
    let client = gateway.client(EraChoice::Newest, Some(handler)).await;
    let listening = client
        .listen(&json!({"toolsListChanged": true}))
        .await
        .unwrap();
    let following = tokio::spawn(listening.closed());
    // Real time is what is tested.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut count = 0;
    while seen.try_recv().is_ok() {
        count += 1;
    }
    assert!(count <= 4, "{count} in three seconds");
    following.abort();
}

#[tokio::test]
async fn who_subscribes_hears_of_the_resource() {
    for form in [fixture(&["--stdio"]), fixture(&["old"])] {
        let gateway = Gateway::with(&form).await;
        for dialect in [EraChoice::Newest, EraChoice::Legacy] {
            let (handler, mut seen) = recorder();
            let client = gateway.client(dialect, Some(handler)).await;
            let uri = "test://watched-resource";
            let listening = client
                .listen(&json!({"resourceSubscriptions": [uri]}))
                .await
                .unwrap();
            if dialect == EraChoice::Legacy {
                client
                    .request("resources/subscribe", &json!({"uri": uri}))
                    .await
                    .unwrap();
            }
            let following = tokio::spawn(listening.closed());
            // The gateway subscribes at the backend in its own time.
            let change = async || {
                gateway
                    .tool("b__test_trigger_resource_change", json!({}))
                    .await;
                tokio::time::sleep(Duration::from_millis(100)).await;
                seen.try_recv().ok()
            };
            let (method, params) = eventually(&format!("{dialect:?} {form}"), change).await;
            assert_eq!(method, "notifications/resources/updated");
            assert_eq!(params["uri"], uri);
            following.abort();
        }
    }
}
