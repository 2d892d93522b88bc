//! The operator's rules hold against changing tags, against other workflows that start a closed one,
//! and in lists of the whole n8n.

use super::*;

const CLOSED: &str = "N8N_DENY_WORKFLOWS";

#[tokio::test]
async fn tag_of_a_rule_is_not_changed() {
    let Some(env) = Env::full().await else { return };
    let ((tag, tag_id), (_, other_id)) = (env.tag().await, env.tag().await);
    let workflow = env.live(vec![webhook("lastNode"), echo()]).await;
    env.set_tags(&workflow, &[&tag_id]).await;
    let rule = format!("tag:{tag}");
    for option in ["--deny-workflows", "--allow-workflows"] {
        let guarded = Env::with(&["--toolsets", "all", option, &rule]).await;
        let guarded = guarded.unwrap();
        for (tool, arguments) in [
            ("rename_tag", json!({"tag_id": tag_id, "name": "other"})),
            ("rename_tag", json!({"tag_id": other_id, "name": tag})),
            ("create_tag", json!({"name": format!(" {tag} ")})),
            ("delete_tag", json!({"tag_id": tag_id, "confirm": tag_id})),
        ] {
            assert_refused(&guarded, tool, arguments, "only a person may").await;
        }
        done!(guarded, "rename_tag", {"tag_id": other_id, "name": unique("free")[..20]});
    }
    assert_has!(env.get(&format!("/tags/{tag_id}")).await, {"name": tag});
    env.delete(&workflow).await;
    for id in [tag_id, other_id] {
        env.delete_tag(&id).await;
    }
}

/// A node that gets another workflow in the way that `parameters` says.
fn caller(kind: &str, parameters: Value) -> Value {
    json!({"name": "Call", "type": kind, "typeVersion": 1.2, "position": [200, 0], "parameters": parameters})
}

#[tokio::test]
async fn closed_workflow_is_not_started_by_a_written_one() {
    let Some(env) = Env::full().await else { return };
    let closed = env.draft(vec![called_by_another(), echo()]).await;
    let open = env.draft(vec![webhook("lastNode")]).await;
    let free = env.draft(vec![called_by_another(), set("ok")]).await;
    let args = ["--toolsets", "all", "--deny-workflows", &closed.id];
    let guarded = Env::with(&args).await.unwrap();
    let sub = "n8n-nodes-base.executeWorkflow";
    let tool = "@n8n/n8n-nodes-langchain.toolWorkflow";
    let locator = |id: &str| json!({"workflowId": {"__rl": true, "mode": "id", "value": id}});
    for node in [
        caller(sub, locator(&closed.id)),
        caller(sub, json!({"workflowId": closed.id})),
        caller(sub, locator(&format!("={{{{ '{}' }}}}", closed.id))),
        caller(sub, json!({"source": "parameter", "workflowJson": "{}"})),
        caller(tool, locator(&closed.id)),
    ] {
        let nodes = [webhook("lastNode"), node.clone()];
        let new = json!({"name": "x", "nodes": nodes});
        assert_refused(&guarded, "create_workflow", new.clone(), CLOSED).await;
        refused!(guarded, "validate_workflow", {"workflow": new}, CLOSED);
        let change = json!({"nodes": nodes});
        refused!(guarded, "update_workflow", {"workflow_id": open.id, "workflow": change}, CLOSED);
        let add = json!([{"op": "add_node", "node": "Call", "type": node["type"], "parameters": node["parameters"]}]);
        let dry = json!({"workflow_id": open.id, "operations": add, "dry_run": true});
        assert_refused(&guarded, "edit_workflow", dry, CLOSED).await;
    }
    let settings = json!({"errorWorkflow": closed.id});
    let change = json!({"settings": settings});
    refused!(guarded, "update_workflow", {"workflow_id": open.id, "workflow": change}, CLOSED);
    // Another one, and an old reference that a person wrote.
    let change = json!({"nodes": [webhook("lastNode"), caller(sub, locator(&free.id))]});
    done!(guarded, "update_workflow", {"workflow_id": open.id, "workflow": change, "allow_invalid": true});
    let written = env
        .draft(vec![webhook("lastNode"), caller(sub, locator(&closed.id))])
        .await;
    done!(guarded, "update_workflow", {"workflow_id": written.id, "workflow": {"name": "renamed"}});
    // n8n's own reason has the name.
    let found = done!(guarded, "validate_workflow", {"workflow_id": written.id});
    let closed_name = env.read(&closed).await["name"].to_string();
    assert_lacks(&found.to_string(), closed_name.trim_matches('"'));
    for workflow in [&closed, &open, &free, &written] {
        env.delete(workflow).await;
    }
}

#[tokio::test]
async fn new_workflow_outside_of_the_allowed_ones_is_not_created() {
    let Some(env) = Env::full().await else { return };
    let open = env.draft(vec![webhook("lastNode"), echo()]).await;
    let whole = env.read(&open).await;
    let project = whole["shared"][0]["projectId"].as_str().unwrap();
    let name = unique("new");
    let new = json!({"name": name, "nodes": [webhook("lastNode")]});
    let copy = json!({"workflow_id": open.id, "name": name});
    let foreign = ["project:foreign".to_owned(), open.id.clone()].join(",");
    for rules in [&open.id, &foreign] {
        let args = ["--toolsets", "all", "--allow-workflows", rules];
        let guarded = Env::with(&args).await.unwrap();
        assert_refused(
            &guarded,
            "create_workflow",
            new.clone(),
            "Nothing was created",
        )
        .await;
        assert_refused(
            &guarded,
            "duplicate_workflow",
            copy.clone(),
            "Nothing was created",
        )
        .await;
        let found = env.get(&format!("/workflows?name={name}")).await;
        assert_eq!(found["data"], json!([]), "{found}");
    }
    let rule = format!("project:{project}");
    let args = ["--toolsets", "all", "--allow-workflows", &rule];
    let guarded = Env::with(&args).await.unwrap();
    let made = TestWorkflow::from_json(&done(&guarded, "create_workflow", new).await);
    env.delete(&made).await;
    env.delete(&open).await;
}

#[tokio::test]
async fn whole_instance_is_neither_shown_nor_changed() {
    let Some(env) = Env::full().await else { return };
    let closed = env
        .live(vec![webhook("lastNode"), code("return [];")])
        .await;
    let args = ["--toolsets", "all", "--deny-workflows", &closed.id];
    let guarded = Env::with(&args).await.unwrap();
    refused!(guarded, "read_n8n_api", {"path": "source-control/status"}, CLOSED);
    for (method, path) in [
        ("POST", "audit"),
        ("POST", "source-control/pull"),
        ("POST", "source-control/push"),
        ("DELETE", "projects/p"),
        ("DELETE", "projects/p/folders/f"),
        ("DELETE", "users/u"),
    ] {
        let last = path.rsplit('/').next();
        refused!(guarded, "call_n8n_api", {"method": method, "path": path, "confirm": last}, CLOSED);
    }
    env.delete(&closed).await;
}
