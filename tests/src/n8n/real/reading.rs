//! Against a real n8n: what is read, and what is refused.

use serde_json::{Value, json};

use super::super::site::{
    Site, Workflow, called_by_another, chat, echo, manual, set, unique, webhook_at,
};
use super::super::{SERVER, done, refused};
use crate::harness::{Server, assert_contains};
use crate::n8n::session;

#[tokio::test]
async fn workflows_are_listed_and_described() {
    let Some(site) = Site::new() else { return };
    let client = session(&site.env_without_mcp()).await;

    // n8n takes 24 characters.
    let tag = unique("t")[..20].to_owned();
    let made = site
        .api("POST", "/tags", Some(json!({ "name": tag })))
        .await;
    let live = site
        .live(vec![
            webhook_at(&unique("hook"), "POST", "lastNode"),
            echo(),
        ])
        .await;
    let draft = site.draft(vec![manual(), set("x")], json!({})).await;
    for workflow in [&live, &draft] {
        let tags = json!([{"id": made["id"]}]);
        site.api(
            "PUT",
            &format!("/workflows/{}/tags", workflow.id),
            Some(tags),
        )
        .await;
    }

    let row = |workflow: &Workflow, active| json!({"id": workflow.id, "name": workflow.name, "active": active, "tags": [tag]});
    let tagged = done!(client, "list_workflows", {"tags": [tag], "active": true});
    assert_eq!(tagged, json!({"workflows": [row(&live, true)]}));
    let (mut rows, mut cursor) = (Vec::new(), json!(null));
    loop {
        let mut arguments = json!({"tags": [tag], "limit": 1});
        if !cursor.is_null() {
            arguments["cursor"] = cursor;
        }
        let page = done(&client, "list_workflows", arguments).await;
        rows.extend(page["workflows"].as_array().unwrap().clone());
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(rows.len(), 2);
    assert!(
        rows.contains(&row(&live, true)) && rows.contains(&row(&draft, false)),
        "{rows:?}"
    );
    let none = done(&client, "list_workflows", json!({"tags": [unique("no")]})).await;
    assert_eq!(none, json!({"workflows": []}));

    let summary = done(&client, "get_workflow", json!({"workflow_id": live.id})).await;
    assert_eq!(summary["connections"], json!(["Webhook -> Set"]));
    assert_eq!(summary["triggers"][0]["runnable"], true, "{summary}");
    let full = done!(client, "get_workflow", {"workflow_id": live.id, "full": true});
    let theirs = site
        .api("GET", &format!("/workflows/{}", live.id), None)
        .await;
    for part in ["name", "nodes", "connections", "settings"] {
        assert_eq!(full["definition"][part], theirs[part]);
    }
    for workflow in [&live, &draft] {
        site.delete(workflow).await;
    }
    site.api(
        "DELETE",
        &format!("/tags/{}", made["id"].as_str().unwrap()),
        None,
    )
    .await;
}

#[tokio::test]
async fn bad_arguments_are_named() {
    let Some(site) = Site::new() else { return };
    let client = session(&site.env_without_mcp()).await;
    for (tool, arguments, part) in [
        (
            "get_workflow",
            json!({"workflow_id": "doesNotExist"}),
            "no workflow doesNotExist",
        ),
        (
            "run_workflow",
            json!({"workflow_id": "doesNotExist"}),
            "no workflow doesNotExist",
        ),
        (
            "get_execution",
            json!({"execution_id": "987654321"}),
            "no execution 987654321",
        ),
        (
            "get_execution",
            json!({"execution_id": "letters"}),
            "no execution letters",
        ),
        (
            "get_workflow",
            json!({"workflow_id": "../users"}),
            "workflow_id",
        ),
        (
            "run_workflow",
            json!({"workflow_id": "1%2F..%2F2"}),
            "workflow_id",
        ),
        (
            "run_workflow",
            json!({"workflow_id": "x".repeat(65)}),
            "workflow_id",
        ),
        ("get_execution", json!({"execution_id": ""}), "execution_id"),
        (
            "run_workflow",
            json!({"workflow_id": "1", "wait_seconds": 26}),
            "wait_seconds",
        ),
        (
            "run_workflow",
            json!({"workflow_id": "1", "parameters": [1]}),
            "parameters",
        ),
        (
            "run_workflow",
            json!({"workflow_id": "1", "input": 1}),
            "input",
        ),
        ("list_workflows", json!({"cursor": "made up"}), "`cursor`"),
        ("list_workflows", json!({"limit": 0}), "limit"),
        ("list_workflows", json!({"tags": ["a,b"]}), "`tags`"),
    ] {
        let message = refused(&client, tool, arguments.clone()).await;
        assert!(message.contains(part), "{arguments}: {message}");
    }
}

#[tokio::test]
async fn a_trigger_tells_what_it_takes() {
    let Some(site) = Site::new() else { return };
    let client = session(&site.env()).await;
    let rows = json!({"values": [{"name": "count", "type": "number"}, {"name": "what"}]});
    let mut by_rows = called_by_another();
    by_rows["parameters"] = json!({ "workflowInputs": rows });
    let mut by_example = called_by_another();
    by_example["parameters"] =
        json!({"inputSource": "jsonExample", "jsonExample": "{\"count\": 1, \"what\": \"x\"}"});
    let typed = json!({"count": {"type": "number"}, "what": {"type": "string"}});
    for (trigger, expected) in [
        (by_rows, typed.clone()),
        (by_example, typed),
        (called_by_another(), Value::Null),
        (
            chat(),
            json!({"chatInput": {"type": "string", "description": "The message."}}),
        ),
    ] {
        let workflow = site.draft(vec![trigger], json!({})).await;
        let shown = done!(client, "get_workflow", {"workflow_id": workflow.id});
        let parameters = &shown["triggers"][0]["parameters"];
        assert_eq!(parameters["properties"], expected, "{shown}");
        site.delete(&workflow).await;
    }
}

#[tokio::test]
async fn a_wrong_key_is_told_apart() {
    let Some(site) = Site::new() else { return };
    let env = [("N8N_URL", site.n8n.url.as_str()), ("N8N_API_KEY", "wrong")];
    let server = Server::start(SERVER, &env).await;
    server.wait_for_status("degraded").await;
    let message = refused(&server.client().await, "list_workflows", json!({})).await;
    assert_contains(&message, "refuses the API key");
    assert_contains(&message, "N8N_API_KEY");
    assert!(message.contains(&site.n8n.url), "{message}");
}
