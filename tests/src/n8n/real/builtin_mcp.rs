//! Triggers that n8n's built-in MCP server starts, in both versions of that server.

use super::*;

#[tokio::test]
async fn schedule_is_started() {
    let Some(env) = Env::full().await else { return };
    let workflow = env.live(vec![schedule(), set("scheduled")]).await;
    let ran = env.run(&workflow, json!({})).await;
    assert_has!(ran, {"output": {"result": "scheduled"}, "way": "mcp_production"});
    assert_eq!(env.execution(&ran).await["workflowId"], *workflow.id);
    let arguments = json!({"workflow_id": workflow.id, "parameters": {"input": 1}});
    assert_refused(&env, "run_workflow", arguments, "takes no parameters").await;
    env.delete(&workflow).await;
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
    n8n.delete(&workflow).await;
}

#[tokio::test]
async fn failure_of_a_schedule_is_returned() {
    let Some(env) = Env::full().await else { return };
    let workflow = env.live(vec![schedule(), fail("boom")]).await;
    let ran = env.run(&workflow, json!({})).await;
    assert_has!(ran, {"status": "failed", "error": {"node": "Stop", "message": "boom"}});
    env.execution(&ran).await;
    env.delete(&workflow).await;
}

#[tokio::test]
async fn private_chat_is_started() {
    let Some(env) = Env::full().await else { return };
    let mut private = chat();
    private["parameters"]["public"] = json!(false);
    let workflow = env.live(vec![private, set("={{ $json.chatInput }}")]).await;
    let ran = env.run(&workflow, json!({"chatInput": "hi"})).await;
    assert_has!(ran, {"output": {"result": "hi"}, "way": "mcp_production"});
    env.execution(&ran).await;
    env.delete(&workflow).await;
}

#[tokio::test]
async fn webhook_with_unknown_credential_is_started() {
    let Some(env) = Env::full().await else { return };
    let data = json!({"name": "X-Secret", "value": "s"});
    let (trigger, id, _) = env
        .secured_webhook("headerAuth", "httpHeaderAuth", data)
        .await;
    let workflow = env.live(vec![trigger, echo()]).await;
    let ran = env.run(&workflow, json!({"input": "in"})).await;
    assert_has!(ran, {"output": {"result": "in"}, "way": "mcp_production"});
    env.delete(&workflow).await;
    env.delete_credential(&id).await;
}

/// n8n 1 starts only active workflows, and none manually.
#[tokio::test]
async fn inactive_workflow_runs_as_in_the_editor() {
    let Some(env) = Env::full().await else { return };
    let hook = vec![webhook("lastNode"), echo()];
    for (nodes, parameters, result) in [
        (vec![manual(), set("by hand")], json!({}), "by hand"),
        (vec![schedule(), set("draft")], json!({}), "draft"),
        (hook, json!({"input": "in"}), "in"),
    ] {
        let workflow = env.draft(nodes).await;
        let ran = env.run(&workflow, parameters).await;
        assert_has!(ran, {"output": {"result": result}, "way": "mcp_manual"});

        env.delete(&workflow).await;
    }
}

#[tokio::test]
async fn manual_triggers_and_sub_workflows_receive_parameters_in_test_mode() {
    let Some(env) = Env::full().await else { return };
    for trigger in [manual(), called_by_another()] {
        let workflow = env.draft(vec![trigger, set("={{ $json.input }}")]).await;
        let arguments = json!({"workflow_id": workflow.id, "parameters": {"input": "pinned"}});
        let ran = run_with(&env, arguments).await;
        assert_has!(ran, {"output": {"result": "pinned"}, "way": "mcp_test"});
        let execution = env.execution(&ran).await;
        assert_eq!(execution["workflowId"], *workflow.id);

        env.delete(&workflow).await;
    }
}

#[tokio::test]
async fn long_test_is_found_before_its_end() {
    let Some(env) = Env::full().await else { return };
    let nodes = vec![called_by_another(), wait(8), set("late")];
    let workflow = env.draft(nodes).await;
    let early = done!(env, "run_workflow", {"workflow_id": workflow.id, "wait_seconds": 4});
    assert_eq!(early["status"], "running", "{early}");
    let end = end_of(&env, &early).await;
    assert_eq!(end["output"], json!({"result": "late"}), "{end}");
    env.delete(&workflow).await;
}

#[tokio::test]
async fn cancelled_call_stops_a_schedule() {
    let Some(env) = Env::full().await else { return };
    let client = stdio_client(SERVER, &env.env()).await;
    let workflow = env.live(vec![schedule(), wait(60)]).await;
    let list = format!("/executions?workflowId={}&status=running", workflow.id);
    let is_running = async |_: &str| env.get(&list).await["data"][0].is_object();
    let arguments = json!({"workflow_id": workflow.id});
    run_and_cancel(&client, &arguments, is_running).await;
    env.wait_until_canceled(&workflow).await;
    env.delete(&workflow).await;
    client.close().await;
}

#[tokio::test]
async fn workflow_that_cannot_be_run_returns_advice() {
    let Some(env) = Env::urls().await else { return };
    let cases = [
        (vec![manual()], "N8N_MCP_TOKEN"),
        (vec![schedule()], "N8N_MCP_TOKEN"),
        (vec![webhook("lastNode")], "activate it in n8n"),
        (vec![called_by_another()], "N8N_MCP_TOKEN"),
        (vec![set("x")], "no trigger"),
    ];
    for (nodes, advice) in cases {
        let workflow = env.draft(nodes).await;
        refused!(env, "run_workflow", {"workflow_id": workflow.id}, advice);
        env.delete(&workflow).await;
    }
}
