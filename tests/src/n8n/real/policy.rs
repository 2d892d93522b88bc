//! The operator's rules hold: for workflows, for lists of the whole n8n, against changing tags, and against other
//! workflows that start a closed one.

use super::node_builders::node;
use super::*;

fn ids(page: &Value) -> Vec<&str> {
    member_texts(&page["workflows"], "id")
}

/// Checks that all tools refuse a workflow and its execution with the same error.
async fn assert_not_open(env: &Env, workflow: &TestWorkflow, run: &Value) {
    let (id, execution) = (&workflow.id, &run["execution_id"]);
    let table = json!([
        ["get_workflow", {"workflow_id": id}],
        ["get_workflow", {"workflow_id": id, "full": true}],
        ["run_workflow", {"workflow_id": id}],
        ["list_workflow_versions", {"workflow_id": id}],
        ["get_workflow_version", {"workflow_id": id, "version_id": "v"}],
        ["restore_workflow_version", {"workflow_id": id, "version_id": "v"}],
        ["move_workflow", {"workflow_id": id, "project_id": "p", "confirm": id}],
        ["list_executions", {"workflow_id": id}],
        ["get_execution_file", {"execution_id": execution}],
        ["get_execution", {"execution_id": execution}],
        ["delete_execution", {"execution_id": execution, "confirm": execution}],
    ]);
    let table: Vec<(String, Value)> = serde_json::from_value(table).unwrap();
    for (tool, arguments) in table {
        assert_refused(env, &tool, arguments, "may not be used by this server").await;
    }
}

#[tokio::test]
async fn workflows_are_open_by_tag_id_and_project() {
    let Some(env) = Env::full().await else { return };
    let (tag, tag_id) = env.tag().await;
    let inside = env.live(vec![webhook("lastNode"), echo()]).await;
    let outside = env.live(vec![webhook("lastNode"), echo()]).await;
    env.set_tags(&inside, &[&tag_id]).await;
    let run = env.run(&outside, json!({"input": "x"})).await;
    let whole = env.read(&outside).await;
    let project = whole["shared"][0]["projectId"].as_str().unwrap();
    let (tag, project) = (format!("tag:{tag}"), format!("project:{project}"));
    for rule in [
        ["--allow-workflows", &tag],
        ["--deny-workflows", &outside.id],
        ["--deny-workflows", &project],
    ] {
        let guarded = Env::limited(&rule).await.unwrap();
        assert_not_open(&guarded, &outside, &run).await;
        let listed = done!(guarded, "list_workflows", {"name": outside.name});
        assert!(ids(&listed).is_empty(), "{listed}");
        let uri = json!({"uri": format!("n8n://workflows/{}", outside.id)});
        let error = guarded.server.error("resources/read", uri).await;
        assert_lacks(&error, &outside.name);
        if rule[1] == tag {
            let listed = done!(guarded, "list_workflows", {"limit": 250});
            assert_eq!(ids(&listed), [inside.id.as_str()], "{listed}");
            let own = guarded.run(&inside, json!({"input": "y"})).await;
            assert_eq!(own["output"], json!({"result": "y"}), "{own}");
            let executions = done!(guarded, "list_executions", {"limit": 50});
            let workflows = member_texts(&executions["executions"], "workflow_id");
            assert!(workflows.iter().all(|id| *id == inside.id), "{executions}");
        }
    }
    let guarded = Env::with(&["--allow-workflows", &project]).await.unwrap();
    done!(guarded, "get_workflow", {"workflow_id": outside.id});
}

#[tokio::test]
async fn written_workflow_waits_for_review() {
    let Some(env) = Env::limited(&["--require-review"]).await else {
        return;
    };
    let name = unique("review");
    let definition = json!({"name": name, "nodes": [webhook("lastNode")], "connections": {}});
    let workflow = env.adopt(&done(&env, "create_workflow", definition).await);
    let id = &workflow.id;
    let message = refused!(env, "activate_workflow", {"workflow_id": id}, "mcp-review");
    assert_contains(&message, "reviewed");
    refused!(env, "run_workflow", {"workflow_id": id}, "mcp-review");
    refused!(env, "set_workflow_tags", {"workflow_id": id, "tags": ["a"]}, "Only a person");
    let whole = env.read(&workflow).await;
    let mut tags = whole["tags"].as_array().unwrap().iter();
    let tag = &tags.find(|tag| tag["name"] == "mcp-review").unwrap()["id"];
    refused!(env, "delete_tag", {"tag_id": tag, "confirm": tag}, "only a person");
    // A person has reviewed it.
    env.set_tags(&workflow, &[]).await;
    done!(env, "activate_workflow", {"workflow_id": id});
}

/// In the mode of the editor n8n runs the drafts of the workflows that one calls.
#[tokio::test]
async fn draft_that_nobody_reviewed_is_not_started_through_another_workflow() {
    let Some(env) = Env::limited(&["--require-review"]).await else {
        return;
    };
    let sub = "n8n-nodes-base.executeWorkflow";
    let tool = "@n8n/n8n-nodes-langchain.toolWorkflow";
    let call = |kind: &str, id: &str| node("Call", kind, 1.2, locator(id));
    let definition =
        json!({"name": unique("unseen"), "nodes": [called_by_another(), set("unseen")]});
    let unseen = env.adopt(&done(&env, "create_workflow", definition).await);
    let middle = env
        .draft(vec![called_by_another(), call(sub, &unseen.id)])
        .await;
    let errors = json!({"errorWorkflow": unseen.id});
    let table = json!([
        [manual(), call(sub, &unseen.id), {}, "mcp-review"],
        [called_by_another(), call(sub, &unseen.id), {}, "mcp-review"],
        [manual(), call(tool, &unseen.id), {}, "mcp-review"],
        [manual(), call(sub, &middle.id), {}, "mcp-review"],
        [manual(), set("x"), errors, "mcp-review"],
        [
            manual(),
            call(sub, "={{ $json.id }}"),
            {},
            "known only when it runs"
        ],
    ]);
    let table: Vec<(Value, Value, Value, String)> = serde_json::from_value(table).unwrap();
    for (trigger, node, settings, part) in table {
        let parent = env.draft_with(vec![trigger, node], settings);
        let parent = parent.await;
        let refused = refused!(env, "run_workflow", {"workflow_id": parent.id}, &part);
        assert!(
            part != "mcp-review" || refused.contains(&unseen.id),
            "{refused}"
        );
    }
    // An execution in that mode which waits is not continued; once a person has reviewed it all, it is.
    let mut pause = wait(1);
    pause["parameters"] = json!({"resume": "webhook", "options": {}});
    env.set_tags(&unseen, &[]).await;
    let parent = env
        .draft(vec![manual(), pause, call(sub, &middle.id)])
        .await;
    let ran = done!(env, "run_workflow", {"workflow_id": parent.id});
    assert_has!(ran, {"status": "waiting", "way": "mcp_manual"});
    let rename = json!([{"op": "rename_workflow", "to": unique("unseen")}]);
    done!(env, "edit_workflow", {"workflow_id": unseen.id, "operations": rename});
    let id = &ran["execution_id"];
    refused!(env, "resume_execution", {"execution_id": id, "confirm": id}, &unseen.id);
    done!(env, "stop_execution", {"execution_id": id});
}

const CLOSED: &str = "N8N_DENY_WORKFLOWS";

#[tokio::test]
async fn tag_of_a_rule_is_not_changed() {
    let Some(env) = Env::full().await else { return };
    let ((tag, tag_id), (_, other_id)) = (env.tag().await, env.tag().await);
    let workflow = env.live(vec![webhook("lastNode"), echo()]).await;
    env.set_tags(&workflow, &[&tag_id]).await;
    let rule = format!("tag:{tag}");
    for option in ["--deny-workflows", "--allow-workflows"] {
        let guarded = Env::limited(&[option, &rule]).await;
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
}

#[tokio::test]
async fn closed_workflow_is_reached_neither_by_a_written_one_nor_with_all() {
    let Some(env) = Env::full().await else { return };
    let closed = env.draft(vec![called_by_another(), echo()]).await;
    let open = env.draft(vec![webhook("lastNode")]).await;
    let free = env.draft(vec![called_by_another(), set("ok")]).await;
    let guarded = Env::limited(&["--deny-workflows", &closed.id])
        .await
        .unwrap();
    let sub = "n8n-nodes-base.executeWorkflow";
    let tool = "@n8n/n8n-nodes-langchain.toolWorkflow";
    let call = |kind: &str, parameters: Value| node("Call", kind, 1.2, parameters);
    let computed = format!("={{{{ '{}' }}}}", closed.id);
    for (kind, parameters) in [
        (sub, locator(&closed.id)),
        (sub, json!({"workflowId": closed.id})),
        (sub, locator(&computed)),
        (sub, json!({"source": "parameter", "workflowJson": "{}"})),
        (sub, json!({"options": [{"workflowId": closed.id}]})),
        (tool, locator(&closed.id)),
    ] {
        let add =
            json!([{"op": "add_node", "node": "Call", "type": kind, "parameters": parameters}]);
        let nodes = [webhook("lastNode"), call(kind, parameters)];
        let new = json!({"name": "x", "nodes": nodes});
        assert_refused(&guarded, "create_workflow", new.clone(), CLOSED).await;
        refused!(guarded, "validate_workflow", {"workflow": new}, CLOSED);
        let change = json!({"nodes": nodes});
        refused!(guarded, "update_workflow", {"workflow_id": open.id, "workflow": change}, CLOSED);
        let dry = json!({"workflow_id": open.id, "operations": add, "dry_run": true});
        assert_refused(&guarded, "edit_workflow", dry, CLOSED).await;
    }
    let settings = json!({"errorWorkflow": closed.id});
    let change = json!({"settings": settings});
    refused!(guarded, "update_workflow", {"workflow_id": open.id, "workflow": change}, CLOSED);
    // Another one, and an old reference that a person wrote.
    let change = json!({"nodes": [webhook("lastNode"), call(sub, locator(&free.id))]});
    done!(guarded, "update_workflow", {"workflow_id": open.id, "workflow": change, "allow_invalid": true});
    let nodes = vec![webhook("lastNode"), call(sub, locator(&closed.id))];
    let written = env.draft(nodes).await;
    done!(guarded, "update_workflow", {"workflow_id": written.id, "workflow": {"name": "renamed"}});
    // n8n's own reason has the name.
    let found = done!(guarded, "validate_workflow", {"workflow_id": written.id});
    let closed_name = env.read(&closed).await["name"].to_string();
    assert_lacks(&found.to_string(), closed_name.trim_matches('"'));
    // All workflows at once are neither shown nor changed.
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
    // A credential may be that of a workflow outside of the rules.
    let table = json!([
        ["transfer_credential", {"credential_id": "no", "project_id": "no", "confirm": "no"}, "reaches all workflows"],
        ["delete_credential", {"credential_id": "no", "confirm": "no"}, "reaches all workflows"],
    ]);
    assert_all_refused(&guarded, table).await;
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
    let with_rule = |rule: &str| format!("{rule},{}", open.id);
    let [foreign, tagged] = ["project:foreign", "tag:other"].map(with_rule);
    for rules in [&open.id, &foreign, &tagged] {
        let guarded = Env::limited(&["--allow-workflows", rules]).await.unwrap();
        refused!(guarded, "create_workflow", new, "Nothing was created");
        refused!(guarded, "duplicate_workflow", copy, "Nothing was created");
        let found = env.get(&format!("/workflows?name={name}")).await;
        assert_eq!(found["data"], json!([]), "{found}");
    }
    let rule = format!("project:{project}");
    for rule in [["--allow-workflows", &rule], ["--deny-workflows", &open.id]] {
        let guarded = Env::limited(&rule).await.unwrap();
        env.adopt(&done(&guarded, "create_workflow", new.clone()).await);
    }
}
