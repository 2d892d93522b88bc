//! Tasks as resources: their content, and subscriptions to their changes. The prompt.

use std::time::Duration;

use mcp_client::{Client, EraChoice};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{NAME, both_transports, call, client_with, env, run_task, wait_for_status};
use crate::harness::real::openhands;
use crate::harness::{Messages, Server, assert_contains, recorder};

/// Much longer than any update takes.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(120);

pub(super) async fn read(client: &Client, uri: &str) -> String {
    let params = json!({"uri": uri});
    let result = client.request("resources/read", &params).await.unwrap();
    let result: Value = serde_json::from_str(result.get()).unwrap();
    let contents = &result["contents"][0];
    assert_eq!(contents["uri"], uri);
    contents["text"].as_str().unwrap().to_owned()
}

pub(super) fn uri(id: &Value) -> String {
    format!("openhands://tasks/{}", id.as_str().unwrap())
}

#[tokio::test]
async fn resources_of_a_task_hold_what_tools_return() {
    for client in both_transports().await {
        let listed = client.list("resources/templates/list", "resourceTemplates");
        assert_eq!(listed.await.unwrap().len(), 3);
        let run = run_task(&client, "RUN: echo one > made.txt\nSAY: all good").await;
        let uri = uri(&run["task_id"]);
        let state: Value = serde_json::from_str(&read(&client, &uri).await).unwrap();
        assert_has!(state, {"status": "finished", "result": "all good",
            "changed_files": ["A made.txt"]});
        let events = read(&client, &format!("{uri}/events")).await;
        assert_contains(&events, "echo one");
        let diff = read(&client, &format!("{uri}/diff")).await;
        assert_contains(&diff, "+++ b/made.txt\n@@ -0,0 +1 @@\n+one");
    }
}

#[tokio::test]
async fn unknown_resources_are_not_found() {
    let Some(real) = openhands() else { return };
    let server = Server::start(NAME, &env(&real)).await;
    let unknown = Uuid::new_v4();
    let hostile = ["..", "..%2Fsettings", "1", "a%3Fb", "%00", "", "%252e%252e"];
    let hostile = hostile.iter().map(|id| (*id).to_owned());
    for id in hostile.chain([unknown.to_string(), format!("{unknown}/../x")]) {
        for part in ["", "/events", "/diff", "/log"] {
            let params = json!({"uri": format!("openhands://tasks/{id}{part}")});
            let error = server.error("resources/read", params).await;
            let kind = &error["data"]["kind"];
            assert_eq!(kind, "resource_not_found", "{id}{part}: {error}");
        }
    }
}

/// The method of the notification of a change.
pub(super) const UPDATED: &str = "notifications/resources/updated";

/// A client of this era that receives updates.
pub(super) async fn subscriber(server: &Server, era: EraChoice) -> (Client, Messages) {
    let (handler, updates) = recorder();
    let client = server.client_with(era, json!({}), Some(handler)).await;
    (client, updates)
}

pub(super) async fn subscribe(client: &Client, uris: &[String]) {
    let is_modern = client.era() == mcp_core::era::Era::Modern;
    let filter = match is_modern {
        true => json!({"resourceSubscriptions": uris}),
        false => json!({}),
    };
    // First: what is announced without a stream is lost.
    let stream = client.listen(&filter).await.unwrap();
    tokio::spawn(stream.closed());
    for uri in uris.iter().filter(|_| !is_modern) {
        let params = json!({"uri": uri});
        let subscribed = client.request("resources/subscribe", &params).await;
        subscribed.unwrap();
    }
}

/// Receives updates until all of `wanted` were updated.
pub(super) async fn wait_for_updates(updates: &mut Messages, wanted: &[String]) {
    let mut missing: Vec<&String> = wanted.iter().collect();
    let all = async {
        while !missing.is_empty() {
            let (method, params) = updates.recv().await.unwrap();
            missing.retain(|wanted| method != UPDATED || params["uri"] != **wanted);
        }
    };
    let all = tokio::time::timeout(UPDATE_TIMEOUT, all).await;
    assert!(all.is_ok(), "no update of {missing:?}");
}

#[tokio::test]
async fn subscribers_are_notified_of_changes() {
    let Some(real) = openhands() else { return };
    let server = Server::start(NAME, &env(&real)).await;
    let control = client_with(&real, &[]).await;
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let (client, mut updates) = subscriber(&server, era).await;
        let run = run_task(&control, "SAY: ready").await;
        let id = &run["task_id"];
        let uri = uri(id);
        let parts = [uri.clone(), format!("{uri}/events"), format!("{uri}/diff")];
        subscribe(&client, &parts).await;
        // The first poll counts as a change, because earlier changes are not known.
        wait_for_updates(&mut updates, &parts).await;
        let message = json!({"task_id": id, "message": "RUN: echo two > later.txt\nSAY: done"});
        call(&control, "send_message", message).await;
        wait_for_status(&control, id, "finished").await;
        wait_for_updates(&mut updates, &parts).await;
        assert_contains(&read(&client, &parts[2]).await, "+two");
        call!(control, "delete_task", {"task_id": id, "confirm": id});
        wait_for_updates(&mut updates, &parts[..2]).await;
        client.close().await;
    }
}

async fn get(client: &Client, name: &str, arguments: Value) -> String {
    let params = json!({"name": name, "arguments": arguments});
    let result = client.request("prompts/get", &params).await.unwrap();
    let result: Value = serde_json::from_str(result.get()).unwrap();
    let message = &result["messages"][0];
    assert_eq!(message["role"], "user");
    message["content"]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn review_prompt_holds_the_diff_of_the_task() {
    for client in both_transports().await {
        let task = "RUN: echo price=3 > shop.txt\nFINISH: the price is 3 now";
        let run = run_task(&client, task).await;
        let text = get(&client, "review_change", json!({"task_id": run["task_id"]})).await;
        for expected in ["+price=3", "the price is 3 now", "RUN: echo", "shop.txt"] {
            assert_contains(&text, expected);
        }
        let id = run["task_id"].as_str().unwrap();
        let params = json!({
            "ref": {"type": "ref/prompt", "name": "review_change"},
            "argument": {"name": "task_id", "value": &id[..12]},
        });
        let completed = client.request("completion/complete", &params).await;
        assert_contains(completed.unwrap().get(), id);
        assert_eq!(
            client.list("prompts/list", "prompts").await.unwrap().len(),
            1
        );
        for arguments in [json!({}), json!({"task_id": "../settings"})] {
            let params = json!({"name": "review_change", "arguments": arguments});
            assert!(client.request("prompts/get", &params).await.is_err());
        }
    }
}
