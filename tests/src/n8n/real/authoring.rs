//! Workflows are created, edited, replaced and copied.

use super::*;

/// Webhook -> Set, made through the server.
async fn made(env: &Env) -> (TestWorkflow, Value) {
    let name = unique("made");
    let connections = json!({"Webhook": {"main": [[{"node": "Set", "type": "main", "index": 0}]]}});
    let arguments = json!({
        "name": name, "nodes": [webhook("lastNode"), echo()], "connections": connections,
        "settings": {"availableInMCP": true},
    });
    let made = done(env, "create_workflow", arguments).await;
    (TestWorkflow::from_json(&made), made)
}

#[tokio::test]
async fn workflow_is_created_activated_and_run() {
    let Some(env) = Env::full().await else { return };
    let (workflow, made) = made(&env).await;
    assert_eq!(made["active"], false, "{made}");
    assert_has!(env.read(&workflow).await, {"settings": {"executionOrder": "v1"}});
    let active = done!(env, "activate_workflow", {"workflow_id": workflow.id});
    assert_eq!(active["active"], true);
    let ran = env.run(&workflow, json!({"input": "x"})).await;
    assert_eq!(ran["output"], json!({"result": "x"}), "{ran}");
    env.delete(&workflow).await;
}

#[tokio::test]
async fn workflow_with_errors_is_not_created() {
    let Some(env) = Env::full().await else { return };
    let name = unique("broken");
    let to =
        |node: &str| json!({"Webhook": {"main": [[{"node": node, "type": "main", "index": 0}]]}});
    let hook = || webhook("lastNode");
    for (nodes, connections, part) in [
        (json!([hook()]), to("Nope"), "\"Nope\", which is not a node"),
        (
            json!([echo(), echo()]),
            json!({}),
            "Two nodes have this name",
        ),
        (
            json!([{"name": "A", "type": "set"}]),
            json!({}),
            "not a type of node",
        ),
        (json!([hook()]), json!({"Webhook": 1}), "cannot be read"),
    ] {
        let arguments = json!({"name": name, "nodes": nodes, "connections": connections});
        let message =
            assert_refused(&env, "create_workflow", arguments, "Nothing was written").await;
        assert_contains(&message, part);
    }
    let list = done(&env, "list_workflows", json!({"name": name})).await;
    assert_eq!(list, json!({"workflows": []}));
}

#[tokio::test]
async fn workflow_with_errors_is_written_as_a_draft_if_the_caller_says_so() {
    let Some(env) = Env::full().await else { return };
    if env.is_old().await {
        return;
    }
    let connections =
        json!({"Webhook": {"main": [[{"node": "Mail", "type": "main", "index": 0}]]}});
    let mail = json!({"name": "Mail", "type": "n8n-nodes-base.emailSend", "typeVersion": 2.1});
    let mut arguments = json!({"name": unique("draft"), "nodes": [webhook("lastNode"), mail],
        "connections": connections});
    let refused = assert_refused(&env, "create_workflow", arguments.clone(), "allow_invalid").await;
    assert_contains(&refused, "Missing required credential: smtp");
    arguments["allow_invalid"] = json!(true);
    let draft = TestWorkflow::from_json(&done(&env, "create_workflow", arguments).await);
    let live = env.live(vec![webhook("lastNode"), echo()]).await;
    let add = json!({"op": "add_node", "node": "Mail", "type": "n8n-nodes-base.emailSend",
        "version": 2.1});
    let operations = json!([add, {"op": "connect", "node": "Set", "to": "Mail"}]);
    let mut edit = json!({"workflow_id": live.id, "operations": operations});
    assert_refused(&env, "edit_workflow", edit.clone(), "Nothing was written").await;
    edit["allow_invalid"] = json!(true);
    let written = done(&env, "edit_workflow", edit).await;
    assert_has!(written, {"active": true});
    assert_contains(&written["note"], "has not changed");
    let ran = env.run(&live, json!({"input": "x"})).await;
    assert_eq!(ran["output"], json!({"result": "x"}), "{ran}");
    env.delete(&live).await;
    env.delete(&draft).await;
}

#[tokio::test]
async fn small_operations_change_a_workflow() {
    let Some(env) = Env::full().await else { return };
    let (workflow, made) = made(&env).await;
    let arguments = json!({"workflow_id": workflow.id, "version": made["version"], "operations": [
        {"op": "rename_node", "node": "Webhook", "to": "In"},
        {"op": "add_node", "node": "Last", "type": "n8n-nodes-base.noOp"},
        {"op": "connect", "node": "Set", "to": "Last"},
        {"op": "configure_node", "node": "Last", "fields": {"notes": "the end"}},
        {"op": "set_settings", "settings": {"executionTimeout": 60}},
    ]});
    let edited = done(&env, "edit_workflow", arguments).await;
    assert_ne!(edited["version"], made["version"]);
    let now = env.read(&workflow).await;
    assert_eq!(member_texts(&now["nodes"], "name"), ["In", "Set", "Last"]);
    assert!(now["nodes"][1].to_string().contains("$('In')"));
    assert_eq!(now["nodes"][2]["notes"], "the end");
    assert_eq!(now["connections"]["Set"]["main"][0][0]["node"], "Last");
    assert_has!(now, {"settings": {"executionTimeout": 60, "availableInMCP": true}});

    let arguments = json!({"workflow_id": workflow.id, "operations": [
        {"op": "disconnect", "node": "Set", "to": "Last"},
        {"op": "remove_node", "node": "Last"},
    ]});
    done(&env, "edit_workflow", arguments).await;
    let now = env.read(&workflow).await;
    assert_eq!(now["nodes"].as_array().unwrap().len(), 2);
    env.activate(&workflow).await;
    let ran = env.run(&workflow, json!({"input": "x"})).await;
    assert_eq!(ran["output"], json!({"result": "x"}), "{ran}");
    env.delete(&workflow).await;
}

#[tokio::test]
async fn all_operations_are_applied_or_none() {
    let Some(env) = Env::full().await else { return };
    let (workflow, _) = made(&env).await;
    let before = env.read(&workflow).await;
    let first = json!({"op": "rename_workflow", "to": "never"});
    let table = json!([
        [{"op": "remove_node", "node": "Nope"}, "operations[1] (remove_node)"],
        [{"op": "connect", "node": "Set"}, "`to` is missing"],
        [{"op": "set_settings", "settings": {"foo": 1}}, "no setting \"foo\""],
        [{"op": "explode"}, "explode"],
    ]);
    for row in table.as_array().unwrap() {
        let arguments = json!({"workflow_id": workflow.id, "operations": [first, row[0]]});
        assert_refused(&env, "edit_workflow", arguments, row[1].as_str().unwrap()).await;
    }
    let dry = json!({"workflow_id": workflow.id, "operations": [first], "dry_run": true});
    let dry = done(&env, "edit_workflow", dry).await;
    assert_contains(&dry["note"], "nothing was written");
    assert_has!(env.read(&workflow).await, {"updatedAt": before["updatedAt"]});
    env.delete(&workflow).await;
}

#[tokio::test]
async fn change_of_another_client_is_not_overwritten() {
    let Some(env) = Env::full().await else { return };
    let (workflow, made) = made(&env).await;
    let operations = json!([{"op": "rename_workflow", "to": format!("{} b", workflow.name)}]);
    let theirs = json!({"workflow_id": workflow.id, "operations": operations});
    // n8n counts a change of the name, too.
    let theirs = done(&env, "edit_workflow", theirs).await;
    for tool in ["edit_workflow", "update_workflow"] {
        let mut ours = json!({"workflow_id": workflow.id, "version": made["version"]});
        match tool {
            "edit_workflow" => ours["operations"] = operations.clone(),
            _ => ours["workflow"] = json!({"name": "x"}),
        }
        assert_refused(&env, tool, ours, "changed since that version").await;
    }
    let ours = json!({"workflow_id": workflow.id, "version": theirs["version"], "workflow": {"name": "x"}});
    done(&env, "update_workflow", ours).await;
    env.delete(&workflow).await;
}

#[tokio::test]
async fn definition_from_get_workflow_is_accepted() {
    let Some(env) = Env::full().await else { return };
    let (workflow, _) = made(&env).await;
    let before = env.read(&workflow).await;
    let full = done!(env, "get_workflow", {"workflow_id": workflow.id, "full": true});
    let mut theirs = before.clone();
    theirs["settings"]["madeUp"] = json!(1);
    theirs["nodes"][0]["color"] = json!("red");
    // The whole answer, its definition alone, and n8n's own JSON with unknown fields.
    for given in [full.clone(), full["definition"].clone(), theirs] {
        let arguments = json!({"workflow_id": workflow.id, "workflow": given});
        let written = done(&env, "update_workflow", arguments).await;
        assert_eq!(written["name"], workflow.name, "{written}");
        if let Some(left_out) = written["left_out"].as_array() {
            assert!(left_out.contains(&json!("settings: madeUp")), "{written}");
            assert!(left_out.contains(&json!("Webhook: color")), "{written}");
        }
        let now = env.read(&workflow).await;
        for part in ["nodes", "connections", "settings", "name"] {
            assert_eq!(now[part], before[part], "{part}");
        }
    }
    env.delete(&workflow).await;
}

#[tokio::test]
async fn redacted_values_are_not_lost() {
    let Some(env) = Env::full().await else { return };
    let header = json!({"name": "Authorization", "value": "Bearer abcdefghijklmnop0123456789"});
    let request = json!({
        "name": "HTTP", "type": "n8n-nodes-base.httpRequest", "typeVersion": 4.2, "position": [0, 0],
        "id": unique("id"), "parameters": {"url": "http://127.0.0.1:1/", "sendHeaders": true,
            "headerParameters": {"parameters": [header]}, "options": {}},
    });
    let workflow = env.draft(vec![webhook("lastNode"), request]).await;
    let mut full = done!(env, "get_workflow", {"workflow_id": workflow.id, "full": true});
    assert!(!full.to_string().contains("abcdefghijklmnop"), "{full}");
    full["definition"]["nodes"][1]["parameters"]["url"] = json!("http://127.0.0.1:2/");
    done!(env, "update_workflow", {"workflow_id": workflow.id, "workflow": full["definition"]});
    let now = env.read(&workflow).await;
    let parameters = &now["nodes"][1]["parameters"];
    assert_eq!(parameters["url"], "http://127.0.0.1:2/");
    assert_eq!(parameters["headerParameters"]["parameters"][0], header);
    env.delete(&workflow).await;
}

#[tokio::test]
async fn change_of_an_active_workflow_is_live() {
    let Some(env) = Env::full().await else { return };
    let workflow = env.live(vec![webhook("lastNode"), set("old")]).await;
    let ran = env.run(&workflow, json!({})).await;
    assert_eq!(ran["output"], json!({"result": "old"}), "{ran}");
    let assignment = json!({"id": "1", "name": "result", "value": "new", "type": "string"});
    let parameters = json!({"assignments": {"assignments": [assignment]}});
    let written = done!(env, "edit_workflow", {"workflow_id": workflow.id,
        "operations": [{"op": "configure_node", "node": "Set", "parameters": parameters}]});
    assert_contains(&written["note"], "live");
    // n8n 2 takes a moment to publish.
    wait_until("the edit to be live", async || {
        env.run(&workflow, json!({})).await["output"] == json!({"result": "new"})
    })
    .await;
    env.delete(&workflow).await;
}

#[tokio::test]
async fn copy_runs_beside_the_original() {
    let Some(env) = Env::full().await else { return };
    let workflow = env.live(vec![webhook("lastNode"), echo()]).await;
    let copy = done!(env, "duplicate_workflow", {"workflow_id": workflow.id});
    assert_has!(copy, {"name": format!("{} copy", workflow.name), "active": false});
    let copy = TestWorkflow::from_json(&copy);
    done!(env, "activate_workflow", {"workflow_id": copy.id});
    for workflow in [&workflow, &copy] {
        let ran = env.run(workflow, json!({"input": "x"})).await;
        let execution = env.execution(&ran).await;
        assert_eq!(execution["workflowId"], *workflow.id);
        env.delete(workflow).await;
    }
}
