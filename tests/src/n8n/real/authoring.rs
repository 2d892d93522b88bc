//! Workflows are created, edited, replaced and copied.

use mcp_client::Client;
use serde_json::{Value, json};

use super::super::site::{Site, Workflow, echo, set, unique, webhook};
use super::super::{SERVER, done, refused};
use super::run;
use crate::harness::{Server, assert_contains, wait_until};

async fn server(site: &Site) -> Server {
    Server::with_args(SERVER, &["--toolsets", "all"], &site.env()).await
}

/// Webhook -> Set, made through the server.
async fn made(client: &Client) -> (Workflow, Value) {
    let name = unique("made");
    let connections = json!({"Webhook": {"main": [[{"node": "Set", "type": "main", "index": 0}]]}});
    let arguments = json!({
        "name": name, "nodes": [webhook("lastNode"), echo()], "connections": connections,
        "settings": {"availableInMCP": true},
    });
    let made = done(client, "create_workflow", arguments).await;
    let id = made["id"].as_str().unwrap().to_owned();
    (Workflow { id, name }, made)
}

async fn read(site: &Site, workflow: &Workflow) -> Value {
    let path = format!("/workflows/{}", workflow.id);
    site.api("GET", &path, None).await
}

#[tokio::test]
async fn created_activated_and_run() {
    let Some(site) = Site::new() else { return };
    let server = server(&site).await;
    let client = server.client().await;
    let (workflow, made) = made(&client).await;
    assert_eq!(made["active"], false, "{made}");
    assert_eq!(
        read(&site, &workflow).await["settings"]["executionOrder"],
        "v1"
    );
    let active = done!(client, "activate_workflow", {"workflow_id": workflow.id});
    assert_eq!(active["active"], true);
    let ran = run(&client, &workflow, json!({"input": "x"})).await;
    assert_eq!(ran["output"], json!({"result": "x"}), "{ran}");
    site.delete(&workflow).await;
}

#[tokio::test]
async fn what_would_be_broken_is_not_created() {
    let Some(site) = Site::new() else { return };
    let server = server(&site).await;
    let client = server.client().await;
    let name = unique("broken");
    let to =
        |node: &str| json!({"Webhook": {"main": [[{"node": node, "type": "main", "index": 0}]]}});
    for (nodes, connections, part) in [
        (
            json!([webhook("lastNode")]),
            to("Nope"),
            "\"Nope\", which is no node",
        ),
        (
            json!([echo(), echo()]),
            json!({}),
            "Two nodes have this name",
        ),
        (
            json!([webhook("lastNode"), set("={{ $('Old').item }}")]),
            to("Set"),
            "\"Old\", which is no node",
        ),
        (
            json!([{"name": "A", "type": "set"}]),
            json!({}),
            "no type of a node",
        ),
        (
            json!([webhook("lastNode")]),
            json!({"Webhook": 1}),
            "cannot be read",
        ),
    ] {
        let arguments = json!({"name": name, "nodes": nodes, "connections": connections});
        let message = refused(&client, "create_workflow", arguments).await;
        assert_contains(&message, "Nothing was written");
        assert_contains(&message, part);
    }
    let list = done(&client, "list_workflows", json!({"name": name})).await;
    assert_eq!(list, json!({"workflows": []}));
}

#[tokio::test]
async fn small_operations_change_it() {
    let Some(site) = Site::new() else { return };
    let server = server(&site).await;
    let client = server.client().await;
    let (workflow, made) = made(&client).await;
    let arguments = json!({"workflow_id": workflow.id, "version": made["version"], "operations": [
        {"op": "rename_node", "node": "Webhook", "to": "In"},
        {"op": "add_node", "node": "Last", "type": "n8n-nodes-base.noOp"},
        {"op": "connect", "node": "Set", "to": "Last"},
        {"op": "configure_node", "node": "Last", "fields": {"notes": "the end"}},
        {"op": "set_settings", "settings": {"executionTimeout": 60}},
    ]});
    let edited = done(&client, "edit_workflow", arguments).await;
    assert_ne!(edited["version"], made["version"]);
    let now = read(&site, &workflow).await;
    let names: Vec<_> = now["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| &node["name"])
        .collect();
    assert_eq!(names, ["In", "Set", "Last"]);
    assert!(now["nodes"][1].to_string().contains("$('In')"));
    assert_eq!(now["nodes"][2]["notes"], "the end");
    assert_eq!(now["connections"]["Set"]["main"][0][0]["node"], "Last");
    assert_has!(now, {"settings": {"executionTimeout": 60, "availableInMCP": true}});

    let arguments = json!({"workflow_id": workflow.id, "operations": [
        {"op": "disconnect", "node": "Set", "to": "Last"},
        {"op": "remove_node", "node": "Last"},
    ]});
    done(&client, "edit_workflow", arguments).await;
    let now = read(&site, &workflow).await;
    assert_eq!(now["nodes"].as_array().unwrap().len(), 2);
    site.api(
        "POST",
        &format!("/workflows/{}/activate", workflow.id),
        None,
    )
    .await;
    let ran = run(&client, &workflow, json!({"input": "x"})).await;
    assert_eq!(ran["output"], json!({"result": "x"}), "{ran}");
    site.delete(&workflow).await;
}

#[tokio::test]
async fn all_operations_or_none() {
    let Some(site) = Site::new() else { return };
    let server = server(&site).await;
    let client = server.client().await;
    let (workflow, _) = made(&client).await;
    let before = read(&site, &workflow).await;
    let first = json!({"op": "rename_workflow", "to": "never"});
    for (bad, part) in [
        (
            json!({"op": "remove_node", "node": "Nope"}),
            "operations[1] (remove_node)",
        ),
        (json!({"op": "connect", "node": "Set"}), "`to` is missing"),
        // Set names it.
        (
            json!({"op": "remove_node", "node": "Webhook"}),
            "refers to \"Webhook\"",
        ),
        (
            json!({"op": "set_settings", "settings": {"foo": 1}}),
            "no setting \"foo\"",
        ),
        (json!({"op": "explode"}), "explode"),
    ] {
        let arguments = json!({"workflow_id": workflow.id, "operations": [first, bad]});
        let message = refused(&client, "edit_workflow", arguments).await;
        assert!(message.contains(part), "{message}");
    }
    let dry = json!({"workflow_id": workflow.id, "operations": [first], "dry_run": true});
    let dry = done(&client, "edit_workflow", dry).await;
    assert_contains(&dry["note"], "nothing was written");
    assert_eq!(
        read(&site, &workflow).await["updatedAt"],
        before["updatedAt"]
    );
    site.delete(&workflow).await;
}

#[tokio::test]
async fn nobody_elses_change_is_overwritten() {
    let Some(site) = Site::new() else { return };
    let server = server(&site).await;
    let client = server.client().await;
    let (workflow, made) = made(&client).await;
    let operations = json!([{"op": "rename_workflow", "to": format!("{} b", workflow.name)}]);
    let theirs = json!({"workflow_id": workflow.id, "operations": operations});
    // n8n counts a change of the name, too.
    let theirs = done(&client, "edit_workflow", theirs).await;
    for tool in ["edit_workflow", "update_workflow"] {
        let mut ours = json!({"workflow_id": workflow.id, "version": made["version"]});
        match tool {
            "edit_workflow" => ours["operations"] = operations.clone(),
            _ => ours["workflow"] = json!({"name": "x"}),
        }
        let message = refused(&client, tool, ours).await;
        assert!(message.contains("changed since that version"), "{message}");
    }
    let ours = json!({"workflow_id": workflow.id, "version": theirs["version"], "workflow": {"name": "x"}});
    done(&client, "update_workflow", ours).await;
    site.delete(&workflow).await;
}

#[tokio::test]
async fn what_get_returns_is_taken_back() {
    let Some(site) = Site::new() else { return };
    let server = server(&site).await;
    let client = server.client().await;
    let (workflow, _) = made(&client).await;
    let before = read(&site, &workflow).await;
    let full = done!(client, "get_workflow", {"workflow_id": workflow.id, "full": true});
    let mut theirs = before.clone();
    theirs["settings"]["madeUp"] = json!(1);
    theirs["nodes"][0]["color"] = json!("red");
    // Our own answer, its definition alone, and what n8n itself returns with something odd in it.
    for given in [full.clone(), full["definition"].clone(), theirs] {
        let arguments = json!({"workflow_id": workflow.id, "workflow": given});
        let written = done(&client, "update_workflow", arguments).await;
        assert_eq!(written["name"], workflow.name, "{written}");
        if let Some(left_out) = written["left_out"].as_array() {
            assert!(left_out.contains(&json!("settings: madeUp")), "{written}");
            assert!(left_out.contains(&json!("Webhook: color")), "{written}");
        }
        let now = read(&site, &workflow).await;
        for part in ["nodes", "connections", "settings", "name"] {
            assert_eq!(now[part], before[part], "{part}");
        }
    }
    site.delete(&workflow).await;
}

#[tokio::test]
async fn what_was_hidden_is_not_lost() {
    let Some(site) = Site::new() else { return };
    let server = server(&site).await;
    let client = server.client().await;
    let header = json!({"name": "Authorization", "value": "Bearer abcdefghijklmnop0123456789"});
    let request = json!({
        "name": "HTTP", "type": "n8n-nodes-base.httpRequest", "typeVersion": 4.2, "position": [0, 0],
        "id": unique("id"), "parameters": {"url": "http://127.0.0.1:1/", "sendHeaders": true,
            "headerParameters": {"parameters": [header]}, "options": {}},
    });
    let workflow = site
        .draft(vec![webhook("lastNode"), request], json!({}))
        .await;
    let mut full = done!(client, "get_workflow", {"workflow_id": workflow.id, "full": true});
    assert!(!full.to_string().contains("abcdefghijklmnop"), "{full}");
    full["definition"]["nodes"][1]["parameters"]["url"] = json!("http://127.0.0.1:2/");
    done!(client, "update_workflow", {"workflow_id": workflow.id, "workflow": full["definition"]});
    let now = read(&site, &workflow).await;
    let parameters = &now["nodes"][1]["parameters"];
    assert_eq!(parameters["url"], "http://127.0.0.1:2/");
    assert_eq!(parameters["headerParameters"]["parameters"][0], header);
    site.delete(&workflow).await;
}

#[tokio::test]
async fn a_change_of_what_is_active_is_live() {
    let Some(site) = Site::new() else { return };
    let server = server(&site).await;
    let client = server.client().await;
    let workflow = site.live(vec![webhook("lastNode"), set("old")]).await;
    let ran = run(&client, &workflow, json!({})).await;
    assert_eq!(ran["output"], json!({"result": "old"}), "{ran}");
    let assignment = json!({"id": "1", "name": "result", "value": "new", "type": "string"});
    let parameters = json!({"assignments": {"assignments": [assignment]}});
    let written = done!(client, "edit_workflow", {"workflow_id": workflow.id,
        "operations": [{"op": "configure_node", "node": "Set", "parameters": parameters}]});
    assert_contains(&written["note"], "live");
    // n8n 2 takes a moment to publish.
    wait_until("the edit to be live", async || {
        run(&client, &workflow, json!({})).await["output"] == json!({"result": "new"})
    })
    .await;
    site.delete(&workflow).await;
}

#[tokio::test]
async fn a_copy_runs_beside_the_original() {
    let Some(site) = Site::new() else { return };
    let server = server(&site).await;
    let client = server.client().await;
    let workflow = site.live(vec![webhook("lastNode"), echo()]).await;
    let copy = done!(client, "duplicate_workflow", {"workflow_id": workflow.id});
    assert_has!(copy, {"name": format!("{} copy", workflow.name), "active": false});
    let copy = Workflow {
        id: copy["id"].as_str().unwrap().to_owned(),
        name: copy["name"].as_str().unwrap().to_owned(),
    };
    done!(client, "activate_workflow", {"workflow_id": copy.id});
    for workflow in [&workflow, &copy] {
        let ran = run(&client, workflow, json!({"input": "x"})).await;
        let execution = site.execution(&ran).await;
        assert_eq!(execution["workflowId"], *workflow.id);
        site.delete(workflow).await;
    }
}
