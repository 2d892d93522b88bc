//! Triggers that n8n's built-in MCP server starts, in both versions of that server.

use super::*;

#[tokio::test]
async fn triggers_without_a_public_url_are_started() {
    let Some(env) = Env::full().await else { return };
    let mut private = chat();
    private["parameters"]["public"] = json!(false);
    let data = json!({"name": "X-Secret", "value": "s"});
    let secured = env.secured_webhook("headerAuth", "httpHeaderAuth", data);
    let (secured, ..) = secured.await;
    let said = set("={{ $json.chatInput }}");
    for (trigger, node, parameters, result) in [
        (schedule(), set("scheduled"), json!({}), "scheduled"),
        (private, said, json!({"chatInput": "hi"}), "hi"),
        (secured, echo(), json!({"input": "in"}), "in"),
    ] {
        let is_schedule = trigger["name"] == "Schedule";
        let workflow = env.live(vec![trigger, node]).await;
        let ran = env.run(&workflow, parameters).await;
        assert_has!(ran, {"output": {"result": result}, "way": "mcp_production"});
        assert_eq!(env.execution(&ran).await["workflowId"], *workflow.id);
        if is_schedule {
            let arguments = json!({"workflow_id": workflow.id, "parameters": {"input": 1}});
            refused!(env, "run_workflow", arguments, "takes no parameters");
        }
    }
}

#[tokio::test]
async fn user_in_the_address_does_not_keep_it_from_being_asked() {
    let Some(n8n) = Instance::new() else { return };
    let mut env = n8n.env();
    let url = n8n.config.url.replacen("://", "://proxy:user@", 1);
    env[0].1 = &url;
    let session = Session::start(SERVER, &env).await;
    let workflow = n8n.live(vec![schedule(), set("scheduled")]).await;
    let ran = run(&session, &workflow, json!({})).await;
    assert_has!(ran, {"output": {"result": "scheduled"}, "way": "mcp_production"});
}

/// A manual trigger and a sub-workflow receive parameters only in a test.
#[tokio::test]
async fn inactive_workflow_runs_as_in_the_editor() {
    let Some(env) = Env::full().await else { return };
    let pinned = || set("={{ $json.input }}");
    for (nodes, input, result, way) in [
        ([manual(), set("by hand")], None, "by hand", "mcp_manual"),
        ([schedule(), set("draft")], None, "draft", "mcp_manual"),
        (
            [webhook("lastNode"), echo()],
            Some("in"),
            "in",
            "mcp_manual",
        ),
        ([manual(), pinned()], Some("in"), "in", "mcp_test"),
        (
            [called_by_another(), pinned()],
            Some("in"),
            "in",
            "mcp_test",
        ),
    ] {
        let workflow = env.draft(nodes.to_vec()).await;
        let parameters = input.map_or(json!({}), |input| json!({ "input": input }));
        let ran = env.run(&workflow, parameters).await;
        assert_has!(ran, {"output": {"result": result}, "way": way});
        assert_eq!(env.execution(&ran).await["workflowId"], *workflow.id);
    }
}

#[tokio::test]
async fn long_test_is_found_before_its_end() {
    let Some(env) = Env::full().await else { return };
    let gate = Gate::start().await;
    let nodes = vec![called_by_another(), gate.node(), set("late")];
    let workflow = env.draft(nodes).await;
    let early = done!(env, "run_workflow", {"workflow_id": workflow.id, "wait_seconds": 1});
    assert_eq!(early["status"], "running", "{early}");
    gate.open();
    let end = end_of(&env, &early).await;
    assert_eq!(end["output"], json!({"result": "late"}), "{end}");
}

#[tokio::test]
async fn workflow_that_cannot_be_run_returns_advice() {
    let Some(env) = Env::urls().await else { return };
    let cases = [
        (vec![manual()], "N8N_MCP_TOKEN"),
        (vec![schedule()], "N8N_MCP_TOKEN"),
        (vec![webhook("lastNode")], "activate_workflow"),
        (vec![called_by_another()], "N8N_MCP_TOKEN"),
        (vec![set("x")], "no trigger"),
    ];
    for (nodes, advice) in cases {
        let workflow = env.draft(nodes).await;
        refused!(env, "run_workflow", {"workflow_id": workflow.id}, advice);
    }
    let env = Env::full().await.unwrap();
    let event = node_builders::base("Event", "githubTrigger", 1.0, json!({}));
    let hidden = json!({"availableInMCP": false});
    for (node, settings, advice) in [
        (schedule(), hidden, "Available in MCP"),
        (event, json!({}), "add a Webhook trigger"),
    ] {
        let workflow = env.draft_with(vec![node], settings).await;
        refused!(env, "run_workflow", {"workflow_id": workflow.id}, advice);
    }
}
