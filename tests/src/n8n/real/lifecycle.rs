//! Workflows are activated, tagged, archived and deleted.

use serde_json::json;

use super::super::site::{Site, manual, unique, webhook, webhook_at};
use super::super::{SERVER, done, refused};
use super::run;
use crate::harness::{Server, assert_contains};

async fn server(site: &Site) -> Server {
    Server::with_args(SERVER, &["--toolsets", "all"], &site.env()).await
}

#[tokio::test]
async fn activated_and_deactivated() {
    let Some(site) = Site::new() else { return };
    let server = server(&site).await;
    let client = server.client().await;
    let workflow = site.draft(vec![webhook("lastNode")], json!({})).await;
    let id = json!({"workflow_id": workflow.id});
    for (tool, active) in [
        ("activate_workflow", true),
        ("activate_workflow", true),
        ("deactivate_workflow", false),
        ("deactivate_workflow", false),
    ] {
        let state = done(&client, tool, id.clone()).await;
        assert_eq!(state["active"], active, "{state}");
    }
    site.delete(&workflow).await;
}

#[tokio::test]
async fn what_cannot_be_activated_says_why() {
    let Some(site) = Site::new() else { return };
    let server = server(&site).await;
    let client = server.client().await;
    let by_hand = site.draft(vec![manual()], json!({})).await;
    let message = refused!(client, "activate_workflow", {"workflow_id": by_hand.id});
    assert!(message.contains("trigger"), "{message}");
    let path = unique("twice");
    let first = site.live(vec![webhook_at(&path, "POST", "lastNode")]).await;
    // n8n 2 knows of its path in a moment.
    run(&client, &first, json!({})).await;
    let second = site
        .draft(vec![webhook_at(&path, "POST", "lastNode")], json!({}))
        .await;
    let message = refused!(client, "activate_workflow", {"workflow_id": second.id});
    assert!(message.starts_with("n8n refuses this"), "{message}");
    for workflow in [&by_hand, &first, &second] {
        site.delete(workflow).await;
    }
}

#[tokio::test]
async fn tagged() {
    let Some(site) = Site::new() else { return };
    let server = server(&site).await;
    let client = server.client().await;
    let workflow = site.draft(vec![manual()], json!({})).await;
    let (a, b) = (unique("a")[..20].to_owned(), unique("b")[..20].to_owned());
    for tags in [json!([a, b]), json!([a, a]), json!([])] {
        done!(client, "set_workflow_tags", {"workflow_id": workflow.id, "tags": tags});
        let found = done(&client, "list_workflows", json!({"tags": [a]})).await;
        let is_there = found["workflows"][0]["id"] == *workflow.id;
        assert_eq!(is_there, tags != json!([]), "{found}");
    }
    let arguments = json!({"workflow_id": workflow.id, "tags": ["x".repeat(25)]});
    let message = refused(&client, "set_workflow_tags", arguments).await;
    assert!(message.contains("24"), "{message}");
    site.delete(&workflow).await;
    let all = site.api("GET", "/tags?limit=250", None).await;
    for tag in all["data"].as_array().unwrap() {
        if [&a, &b].iter().any(|name| tag["name"] == **name) {
            let path = format!("/tags/{}", tag["id"].as_str().unwrap());
            site.api("DELETE", &path, None).await;
        }
    }
}

#[tokio::test]
async fn archived_and_brought_back() {
    let Some(site) = Site::new() else { return };
    let server = server(&site).await;
    let client = server.client().await;
    let workflow = site.live(vec![webhook("lastNode")]).await;
    let id = json!({"workflow_id": workflow.id});
    if site.is_old().await {
        let message = refused(&client, "archive_workflow", id).await;
        assert!(message.contains("update n8n"), "{message}");
    } else {
        let state = done(&client, "archive_workflow", id.clone()).await;
        assert_has!(state, {"archived": true, "active": false});
        let message = refused(&client, "run_workflow", id.clone()).await;
        assert!(message.contains("archived"), "{message}");
        let list = done!(client, "list_workflows", {"name": workflow.name});
        assert_eq!(list, json!({"workflows": []}));
        let list = done!(client, "list_workflows", {"name": workflow.name, "archived": true});
        assert_eq!(list["workflows"][0]["id"], *workflow.id, "{list}");
        let state = done(&client, "unarchive_workflow", id).await;
        assert_eq!(state.get("archived"), None, "{state}");
    }
    site.delete(&workflow).await;
}

#[tokio::test]
async fn deleted_only_when_it_is_confirmed() {
    let Some(site) = Site::new() else { return };
    let server = server(&site).await;
    let client = server.client().await;
    let workflow = site.live(vec![webhook("lastNode")]).await;
    let arguments = json!({"workflow_id": workflow.id});
    let message = refused(&client, "delete_workflow", arguments.clone()).await;
    assert_contains(&message, "active workflow");
    assert_contains(&message, "confirm");
    let other = json!({"workflow_id": workflow.id, "confirm": "another"});
    let message = refused(&client, "delete_workflow", other).await;
    assert!(message.contains("Nothing was done"), "{message}");
    let confirmed = json!({"workflow_id": workflow.id, "confirm": workflow.id});
    let deleted = done(&client, "delete_workflow", confirmed).await;
    assert_eq!(deleted["deleted"], *workflow.id);
    let message = refused(&client, "get_workflow", arguments).await;
    assert!(message.contains("no workflow"), "{message}");
}

#[tokio::test]
async fn nothing_of_it_is_offered_where_nothing_may_change() {
    let Some(site) = Site::new() else { return };
    let args = ["--toolsets", "all", "--read-only"];
    let server = Server::with_args(SERVER, &args, &site.env()).await;
    let client = server.client().await;
    let tools = client.list_tools().await.unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert!(names.contains(&"validate_workflow"), "{names:?}");
    for name in [
        "run_workflow",
        "edit_workflow",
        "delete_workflow",
        "activate_workflow",
    ] {
        assert!(!names.contains(&name), "{names:?}");
    }
}
