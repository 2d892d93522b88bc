//! The operator's restrictions.

use super::*;

fn ids(page: &Value) -> Vec<&str> {
    member_texts(&page["workflows"], "id")
}

/// Checks that all tools refuse a workflow and its execution with the same error.
async fn assert_not_open(env: &Env, workflow: &TestWorkflow, run: &Value) {
    let (id, execution) = (&workflow.id, &run["execution_id"]);
    for (tool, arguments) in [
        ("get_workflow", json!({"workflow_id": id})),
        ("get_workflow", json!({"workflow_id": id, "full": true})),
        ("run_workflow", json!({"workflow_id": id})),
        ("list_workflow_versions", json!({"workflow_id": id})),
        (
            "get_workflow_version",
            json!({"workflow_id": id, "version_id": "v"}),
        ),
        (
            "restore_workflow_version",
            json!({"workflow_id": id, "version_id": "v"}),
        ),
        (
            "move_workflow",
            json!({"workflow_id": id, "project_id": "p", "confirm": id}),
        ),
        ("list_executions", json!({"workflow_id": id})),
        ("get_execution_file", json!({"execution_id": execution})),
        ("get_execution", json!({"execution_id": execution})),
        (
            "delete_execution",
            json!({"execution_id": execution, "confirm": execution}),
        ),
    ] {
        assert_refused(env, tool, arguments, "may not be used by this server").await;
    }
}

#[tokio::test]
async fn only_workflows_with_the_allowed_tag_are_open() {
    let Some(env) = Env::full().await else { return };
    let (tag, tag_id) = env.tag().await;
    let inside = env.live(vec![webhook("lastNode"), echo()]).await;
    let outside = env.live(vec![webhook("lastNode"), echo()]).await;
    env.set_tags(&inside, &[&tag_id]).await;
    let run = env.run(&outside, json!({"input": "x"})).await;
    let args = [
        "--toolsets",
        "all",
        "--allow-workflows",
        &format!("tag:{tag}"),
    ];
    let guarded = Env::with(&args).await.unwrap();
    assert_not_open(&guarded, &outside, &run).await;
    let listed = done(&guarded, "list_workflows", json!({"limit": 250})).await;
    assert_eq!(ids(&listed), [inside.id.as_str()], "{listed}");
    let own = guarded.run(&inside, json!({"input": "y"})).await;
    assert_eq!(own["output"], json!({"result": "y"}), "{own}");
    let executions = done(&guarded, "list_executions", json!({"limit": 50})).await;
    let workflows = member_texts(&executions["executions"], "workflow_id");
    assert!(workflows.iter().all(|id| *id == inside.id), "{executions}");
    env.delete(&inside).await;
    env.delete(&outside).await;
    env.delete_tag(&tag_id).await;
}

#[tokio::test]
async fn workflows_are_denied_by_id_and_by_project() {
    let Some(env) = Env::full().await else { return };
    let workflow = env.live(vec![webhook("lastNode"), echo()]).await;
    let run = env.run(&workflow, json!({})).await;
    let whole = env.read(&workflow).await;
    let project = whole["shared"][0]["projectId"].as_str().unwrap();
    let project = format!("project:{project}");
    for rule in [&workflow.id, &project] {
        let args = ["--toolsets", "all", "--deny-workflows", rule];
        let guarded = Env::with(&args).await.unwrap();
        assert_not_open(&guarded, &workflow, &run).await;
        let listed = done!(guarded, "list_workflows", {"name": workflow.name});
        assert!(ids(&listed).is_empty(), "{listed}");
        let uri = json!({"uri": format!("n8n://workflows/{}", workflow.id)});
        let error = guarded.server.error("resources/read", uri).await;
        assert_lacks(&error, &workflow.name);
    }
    let guarded = Env::with(&["--allow-workflows", &project]).await.unwrap();
    done!(guarded, "get_workflow", {"workflow_id": workflow.id});
    env.delete(&workflow).await;
}

#[tokio::test]
async fn written_workflow_waits_for_review() {
    let Some(env) = Env::with(&["--toolsets", "all", "--require-review"]).await else {
        return;
    };
    let name = unique("review");
    let definition = json!({"name": name, "nodes": [webhook("lastNode")], "connections": {}});
    let workflow = TestWorkflow::from_json(&done(&env, "create_workflow", definition).await);
    let id = &workflow.id;
    let message = refused!(env, "activate_workflow", {"workflow_id": id}, "mcp-review");
    assert_contains(&message, "reviewed");
    refused!(env, "run_workflow", {"workflow_id": id}, "mcp-review");
    let whole = env.read(&workflow).await;
    let mut tags = whole["tags"].as_array().unwrap().iter();
    let tag = &tags.find(|tag| tag["name"] == "mcp-review").unwrap()["id"];
    refused!(env, "delete_tag", {"tag_id": tag, "confirm": tag}, "only a person");
    // A person has reviewed it.
    env.set_tags(&workflow, &[]).await;
    done!(env, "activate_workflow", {"workflow_id": id});
    env.delete(&workflow).await;
}

#[tokio::test]
async fn read_only_server_has_only_tools_that_read() {
    let Some(env) = Env::with(&["--read-only", "--toolsets", "all"]).await else {
        return;
    };
    let tools = env.tools().await;
    assert!(tools.len() > 10);
    for tool in tools {
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool}");
    }
    let call = json!({"name": "create_credential", "arguments": {}});
    let error = env.server.error("tools/call", call).await;
    assert_eq!(error["data"]["kind"], "tool_not_found");
}

#[tokio::test]
async fn wrong_key_is_degraded_and_reported_by_tools() {
    let Some(n8n) = Instance::new() else { return };
    let env = [
        ("N8N_URL", n8n.config.url.as_str()),
        ("N8N_API_KEY", "not-a-key"),
    ];
    let server = Server::with_args(SERVER, &["--toolsets", "all"], &env).await;
    server.wait_for_status("degraded").await;
    let client = server.client().await;
    for (tool, arguments) in [
        ("list_executions", json!({})),
        ("explain_execution", json!({"execution_id": "1"})),
        ("list_tags", json!({})),
        ("read_n8n_api", json!({"path": "users"})),
    ] {
        assert_refused(&client, tool, arguments, "refuses the API key").await;
    }
}
