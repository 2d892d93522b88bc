//! Workflows are activated, tagged, archived and deleted.

use super::*;

#[tokio::test]
async fn workflow_is_activated_and_deactivated() {
    let Some(env) = Env::full().await else { return };
    let workflow = env.draft(vec![webhook("lastNode")]).await;
    let id = json!({"workflow_id": workflow.id});
    for (tool, active) in [
        ("activate_workflow", true),
        ("activate_workflow", true),
        ("deactivate_workflow", false),
        ("deactivate_workflow", false),
    ] {
        let state = done(&env, tool, id.clone()).await;
        assert_eq!(state["active"], active, "{state}");
    }
    env.delete(&workflow).await;
}

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
    for workflow in [&by_hand, &mail, &first, &second, &third, &fourth] {
        env.delete(workflow).await;
    }
}

#[tokio::test]
async fn tags_are_replaced() {
    let Some(env) = Env::full().await else { return };
    let workflow = env.draft(vec![manual()]).await;
    let (a, b) = (unique("a")[..20].to_owned(), unique("b")[..20].to_owned());
    for tags in [json!([a, b]), json!([a, a]), json!([])] {
        done!(env, "set_workflow_tags", {"workflow_id": workflow.id, "tags": tags});
        let found = done(&env, "list_workflows", json!({"tags": [a]})).await;
        let is_there = found["workflows"][0]["id"] == *workflow.id;
        assert_eq!(is_there, tags != json!([]), "{found}");
    }
    let arguments = json!({"workflow_id": workflow.id, "tags": ["x".repeat(25)]});
    assert_refused(&env, "set_workflow_tags", arguments, "24").await;
    env.delete(&workflow).await;
    let all = env.get("/tags?limit=250").await;
    for tag in all["data"].as_array().unwrap() {
        if [&a, &b].iter().any(|name| tag["name"] == **name) {
            env.delete_tag(tag["id"].as_str().unwrap()).await;
        }
    }
}

#[tokio::test]
async fn workflow_is_archived_and_restored() {
    let Some(env) = Env::full().await else { return };
    let workflow = env.live(vec![webhook("lastNode")]).await;
    let id = json!({"workflow_id": workflow.id});
    let state = done(&env, "archive_workflow", id.clone()).await;
    assert_has!(state, {"archived": true, "active": false});
    assert_refused(&env, "run_workflow", id.clone(), "archived").await;
    let list = done!(env, "list_workflows", {"name": workflow.name});
    assert_eq!(list, json!({"workflows": []}));
    let list = done!(env, "list_workflows", {"name": workflow.name, "archived": true});
    assert_eq!(list["workflows"][0]["id"], *workflow.id, "{list}");
    let state = done(&env, "unarchive_workflow", id).await;
    assert_eq!(state.get("archived"), None, "{state}");

    env.delete(&workflow).await;
}

#[tokio::test]
async fn workflow_is_deleted_only_after_confirmation() {
    let Some(env) = Env::full().await else { return };
    let workflow = env.live(vec![webhook("lastNode")]).await;
    let id = &workflow.id;
    let message = refused!(env, "delete_workflow", {"workflow_id": id}, "active workflow");
    assert_contains(&message, "confirm");
    let other = json!({"workflow_id": id, "confirm": "another"});
    assert_refused(&env, "delete_workflow", other, "Nothing was done").await;
    let deleted = done!(env, "delete_workflow", {"workflow_id": id, "confirm": id});
    assert_eq!(deleted["deleted"], **id);
    refused!(env, "get_workflow", {"workflow_id": id}, "no workflow");
}

#[tokio::test]
async fn read_only_server_has_no_tools_that_write() {
    let args = ["--toolsets", "all", "--read-only"];
    let Some(env) = Env::with(&args).await else {
        return;
    };
    let names = env.tool_names().await.join(" ");
    assert_contains(&names, "get_workflow_version");
    for name in [
        // It makes copies.
        "validate_workflow",
        "run_workflow",
        "edit_workflow",
        "delete_workflow",
        "activate_workflow",
    ] {
        assert_lacks(&names, name);
    }
}
