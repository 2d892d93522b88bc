//! Workflows are activated, tagged, archived and deleted; and an answer to a question does not count for a workflow
//! that has changed meanwhile.

use futures_util::future::join_all;
use mcp_client::{Handler, Reply};
use serde_json::value::{RawValue, to_raw_value};

use super::*;

#[tokio::test]
async fn workflow_that_cannot_be_activated_returns_the_reason() {
    let Some(env) = Env::full().await else { return };
    let by_hand = env.draft(vec![manual()]).await;
    refused!(env, "activate_workflow", {"workflow_id": by_hand.id}, "trigger");
    // n8n names each fault of each node, in lines of their own.
    let mail = json!({"name": "Mail", "type": "n8n-nodes-base.emailSend", "typeVersion": 2.1, "parameters": {"fromEmail": "a@b.c"}, "position": [0, 0]});
    let mail = env.draft(vec![webhook("lastNode"), mail]).await;
    let reason = refused!(env, "activate_workflow", {"workflow_id": mail.id}, "smtp");
    assert_contains(&reason, "toEmail");

    let path = unique("twice");
    let first = env.live(vec![webhook_at(&path, "POST", "lastNode")]).await;
    // n8n registers its path in a moment.
    env.run(&first, json!({})).await;
    let second = env.draft(vec![webhook_at(&path, "POST", "lastNode")]).await;
    let reason = refused!(env, "activate_workflow", {"workflow_id": second.id}, "n8n refuses this");
    assert_contains(&reason, &first.id);
    // n8n says nothing about a path with parameters.
    let with = |name: &str| vec![webhook_at(&format!("{path}/:{name}"), "POST", "lastNode")];
    let third = env.live(with("a")).await;
    let fourth = env.draft(with("b")).await;
    let state = done!(env, "activate_workflow", {"workflow_id": fourth.id});
    assert_contains(&state["note"], &third.id);
    // So does a change that is published.
    let fifth = env.live(vec![webhook("lastNode")]).await;
    let path = json!({"path": format!("{path}/:c")});
    let operation = json!({"op": "configure_node", "node": "Webhook", "parameters": path});
    let edit = json!({"workflow_id": fifth.id, "operations": [operation], "publish": true});
    let written = done(&env, "edit_workflow", edit).await;
    assert_contains(&written["note"], "n8n calls only one of the two");
}

#[tokio::test]
async fn tags_are_replaced() {
    let Some(env) = Env::full().await else { return };
    let workflow = env.draft(vec![manual()]).await;
    let [a, b, c] = [(); 3].map(|()| tag_name());
    for tags in [json!([a, b]), json!([a, a]), json!([])] {
        done!(env, "set_workflow_tags", {"workflow_id": workflow.id, "tags": tags});
        let found = done(&env, "list_workflows", json!({"tags": [a]})).await;
        let is_there = found["workflows"][0]["id"] == *workflow.id;
        assert_eq!(is_there, tags != json!([]), "{found}");
    }
    // Calls at the same time that make the same tag.
    let others = join_all((0..4).map(|_| env.draft(vec![manual()]))).await;
    let tagged = others.iter().map(async |other| {
        done!(env, "set_workflow_tags", {"workflow_id": other.id, "tags": [c]});
    });
    join_all(tagged).await;
    let arguments = json!({"workflow_id": workflow.id, "tags": ["x".repeat(25)]});
    assert_refused(&env, "set_workflow_tags", arguments, "24").await;
    let all = env.get("/tags?limit=250").await;
    for tag in all["data"].as_array().unwrap() {
        if [&a, &b, &c].iter().any(|name| tag["name"] == **name) {
            env.keep(&format!("/tags/{}", tag["id"].as_str().unwrap()));
        }
    }
}

#[tokio::test]
async fn workflow_is_activated_deactivated_archived_restored_and_deleted() {
    let Some(env) = Env::full().await else { return };
    let workflow = env.draft(vec![webhook("lastNode")]).await;
    let id = json!({"workflow_id": workflow.id});
    for (tool, active) in [
        ("activate_workflow", true),
        ("activate_workflow", true),
        ("deactivate_workflow", false),
        ("deactivate_workflow", false),
        ("activate_workflow", true),
    ] {
        let state = done(&env, tool, id.clone()).await;
        assert_eq!(state["active"], active, "{state}");
        let note = state["note"].as_str().unwrap_or_default();
        assert_eq!(note.contains("live in a moment"), active, "{state}");
    }
    let state = done(&env, "archive_workflow", id.clone()).await;
    assert_has!(state, {"archived": true, "active": false});
    assert_refused(&env, "run_workflow", id.clone(), "archived").await;
    let list = done!(env, "list_workflows", {"name": workflow.name});
    assert_eq!(list, json!({"workflows": []}));
    let list = done!(env, "list_workflows", {"name": workflow.name, "archived": true});
    assert_eq!(list["workflows"][0]["id"], *workflow.id, "{list}");
    let state = done(&env, "unarchive_workflow", id).await;
    assert_eq!(state.get("archived"), None, "{state}");
    // It is deleted only after a confirmation.
    done!(env, "activate_workflow", {"workflow_id": workflow.id});
    let id = &workflow.id;
    let message = refused!(env, "delete_workflow", {"workflow_id": id}, "active workflow");
    assert_contains(&message, "confirm");
    refused!(env, "delete_workflow", {"workflow_id": id, "confirm": "another"}, "Nothing was done");
    let deleted = done!(env, "delete_workflow", {"workflow_id": id, "confirm": id});
    assert_eq!(deleted["deleted"], **id);
    refused!(env, "get_workflow", {"workflow_id": id}, "no workflow");
}

/// A user who changes the workflow before the answer, as others may while a question is open.
struct Editor(String);

impl Handler for Editor {
    fn request(&self, _: &str, _: Option<&RawValue>) -> Reply {
        let path = format!("/workflows/{}", self.0);
        Box::pin(async move {
            let n8n = Instance::new().unwrap();
            let now = n8n.get(&path).await;
            let changed = json!({
                "name": now["name"], "nodes": [webhook("lastNode"), set("changed")],
                "connections": {}, "settings": {},
            });
            n8n.api("PUT", &path, Some(changed)).await;
            let yes = json!({"action": "accept", "content": {"confirm": true}});
            Ok(to_raw_value(&yes).unwrap())
        })
    }
}

#[tokio::test]
async fn workflow_that_changes_while_the_user_is_asked_is_not_moved() {
    let Some(env) = Env::full().await else { return };
    let workflow = env.draft(vec![webhook("lastNode")]).await;
    let editor = Arc::new(Editor(workflow.id.clone()));
    let capabilities = json!({"elicitation": {}});
    let client = env
        .server
        .client_with(EraChoice::Legacy, capabilities, Some(editor));
    let mut arguments = json!({"workflow_id": workflow.id, "project_id": "no"});
    arguments["folder_id"] = json!("root");

    let params = json!({"name": "move_workflow", "arguments": arguments});
    let client = client.await;
    let result = Box::pin(client.request("tools/call", &params)).await;
    assert_contains(result.unwrap().get(), "nothing was moved");
    let now = env.read(&workflow).await;
    assert_eq!(now["nodes"].as_array().unwrap().len(), 2, "{now}");
}
