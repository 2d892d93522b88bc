//! Triggers that n8n's built-in MCP server starts, in both versions of that server.

use super::*;

/// n8n runs what is live of an active workflow, else its draft, as in the editor. A manual trigger and a sub-workflow
/// receive parameters only in a test.
#[tokio::test]
async fn triggers_without_a_public_url_are_started() {
    let Some(env) = Env::full().await else { return };
    let mut private = chat();
    private["parameters"]["public"] = json!(false);
    let data = json!({"name": "X-Secret", "value": "s"});
    let secured = env.secured_webhook("headerAuth", "httpHeaderAuth", data);
    let (secured, ..) = secured.await;
    let (said, pinned) = (set("={{ $json.chatInput }}"), set("={{ $json.input }}"));
    let (none, input) = (json!({}), json!({"input": "in"}));
    let hi = json!({"chatInput": "hi"});
    for (nodes, parameters, result, way) in [
        ([schedule(), set("now")], &none, "now", "mcp_production"),
        ([private, said], &hi, "hi", "mcp_production"),
        ([secured, echo()], &input, "in", "mcp_production"),
        ([manual(), set("by hand")], &none, "by hand", "mcp_manual"),
        ([schedule(), set("draft")], &none, "draft", "mcp_manual"),
        ([webhook("lastNode"), echo()], &input, "in", "mcp_manual"),
        ([manual(), pinned.clone()], &input, "in", "mcp_test"),
        ([called_by_another(), pinned], &input, "in", "mcp_test"),
    ] {
        let workflow = env.draft(nodes.to_vec()).await;
        if way == "mcp_production" {
            env.activate(&workflow).await;
        }
        let ran = env.run(&workflow, parameters.clone()).await;
        assert_has!(ran, {"output": {"result": result}, "way": way});
        assert_eq!(env.execution(&ran).await["workflowId"], *workflow.id);
        if result == "now" {
            let arguments = json!({"workflow_id": workflow.id, "parameters": {"input": 1}});
            refused!(env, "run_workflow", arguments, "takes no parameters");
        }
    }
}

/// n8n takes pinned data where it runs the draft, and does not run the node.
#[tokio::test]
async fn pinned_nodes_are_named_that_did_not_run() {
    let Some(env) = Env::full().await else { return };
    let workflow = env.draft(vec![manual(), set("real")]).await;
    let mut body = env.read(&workflow).await;
    let pinned = json!({"Manual": [{"json": {"a": 1}}], "Set": [{"json": {"result": "pinned"}}]});
    body = json!({"name": body["name"], "nodes": body["nodes"], "connections": body["connections"],
        "settings": {"availableInMCP": true}, "pinData": pinned});
    let path = format!("/workflows/{}", workflow.id);
    env.api("PUT", &path, Some(body)).await;
    let ran = env.run(&workflow, json!({})).await;
    assert_has!(ran, {"output": {"result": "pinned"}, "way": "mcp_manual"});
    assert_contains(&ran["note"], "Not run: \"Set\";");
    let ran = env.run(&workflow, json!({"input": 1})).await;
    assert_has!(ran, {"output": {"result": "real"}, "way": "mcp_test"});
    assert_lacks(&ran, "Not run");
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
