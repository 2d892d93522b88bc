//! Triggers that n8n's built-in MCP server starts, in both of its generations.

use mcp_client::Options;
use serde_json::json;
use tokio::sync::mpsc;

use super::super::site::{
    Site, called_by_another, chat, echo, fail, manual, schedule, set, wait, webhook,
};
use super::super::{SERVER, done, refused};
use super::{run, run_with};
use crate::harness::{Server, stdio_client};
use crate::n8n::session;

#[tokio::test]
async fn a_schedule() {
    let Some(site) = Site::new() else { return };
    let client = session(&site.env()).await;
    let workflow = site.live(vec![schedule(), set("scheduled")]).await;
    let ran = run(&client, &workflow, json!({})).await;
    assert_eq!(ran["output"], json!({"result": "scheduled"}), "{ran}");
    assert_eq!(ran["way"], "mcp_production");
    assert_eq!(site.execution(&ran).await["workflowId"], *workflow.id);
    let arguments = json!({"workflow_id": workflow.id, "parameters": {"input": 1}});
    let message = refused(&client, "run_workflow", arguments).await;
    assert!(message.contains("takes no parameters"), "{message}");
    site.delete(&workflow).await;
}

#[tokio::test]
async fn a_schedule_that_fails() {
    let Some(site) = Site::new() else { return };
    let server = Server::start(SERVER, &site.env()).await;
    let workflow = site.live(vec![schedule(), fail("boom")]).await;
    let ran = run(&server.client().await, &workflow, json!({})).await;
    assert_eq!(ran["status"], "failed", "{ran}");
    assert_eq!(ran["error"], json!({"node": "Stop", "message": "boom"}));
    site.execution(&ran).await;
    site.delete(&workflow).await;
}

#[tokio::test]
async fn a_chat_that_is_not_public() {
    let Some(site) = Site::new() else { return };
    let server = Server::start(SERVER, &site.env()).await;
    let mut private = chat();
    private["parameters"]["public"] = json!(false);
    let workflow = site
        .live(vec![private, set("={{ $json.chatInput }}")])
        .await;
    let ran = run(
        &server.client().await,
        &workflow,
        json!({"chatInput": "hi"}),
    )
    .await;
    assert_eq!(ran["output"], json!({"result": "hi"}), "{ran}");
    assert_eq!(ran["way"], "mcp_production");
    site.execution(&ran).await;
    site.delete(&workflow).await;
}

#[tokio::test]
async fn a_webhook_whose_credential_is_not_known() {
    let Some(site) = Site::new() else { return };
    let server = Server::start(SERVER, &site.env()).await;
    let data = json!({"name": "X-Secret", "value": "s"});
    let body = json!({"name": "of a test", "type": "httpHeaderAuth", "data": data});
    let made = site.api("POST", "/credentials", Some(body)).await;
    let mut trigger = webhook("lastNode");
    trigger["parameters"]["authentication"] = json!("headerAuth");
    trigger["credentials"] = json!({"httpHeaderAuth": {"id": made["id"], "name": "of a test"}});
    let workflow = site.live(vec![trigger, echo()]).await;
    let ran = run(&server.client().await, &workflow, json!({"input": "in"})).await;
    assert_eq!(ran["output"], json!({"result": "in"}), "{ran}");
    assert_eq!(ran["way"], "mcp_production");
    site.delete(&workflow).await;
    let id = made["id"].as_str().unwrap();
    site.api("DELETE", &format!("/credentials/{id}"), None)
        .await;
}

/// n8n 1 starts only what is active, and nothing by hand.
#[tokio::test]
async fn what_is_not_active_runs_as_it_is_in_the_editor() {
    let Some(site) = Site::new() else { return };
    let client = session(&site.env()).await;
    for (nodes, parameters, result) in [
        (vec![manual(), set("by hand")], json!({}), "by hand"),
        (vec![schedule(), set("draft")], json!({}), "draft"),
        (
            vec![webhook("lastNode"), echo()],
            json!({"input": "in"}),
            "in",
        ),
    ] {
        let workflow = site.draft(nodes, json!({})).await;
        if site.is_old().await {
            let arguments = json!({"workflow_id": workflow.id, "parameters": parameters});
            let message = refused(&client, "run_workflow", arguments).await;
            let advice = message.contains("Available in MCP") || message.contains("update n8n");
            assert!(advice, "{message}");
        } else {
            let ran = run(&client, &workflow, parameters).await;
            assert_eq!(ran["output"], json!({ "result": result }), "{ran}");
            assert_eq!(ran["way"], "mcp_manual");
        }
        site.delete(&workflow).await;
    }
}

#[tokio::test]
async fn manual_triggers_and_sub_workflows_are_handed_parameters_in_test_mode() {
    let Some(site) = Site::new() else { return };
    let client = session(&site.env()).await;
    for trigger in [manual(), called_by_another()] {
        let workflow = site
            .draft(vec![trigger, set("={{ $json.input }}")], json!({}))
            .await;
        let arguments = json!({"workflow_id": workflow.id, "parameters": {"input": "pinned"}});
        if site.is_old().await {
            refused(&client, "run_workflow", arguments).await;
        } else {
            let ran = run_with(&client, arguments).await;
            assert_eq!(ran["output"], json!({"result": "pinned"}), "{ran}");
            assert_eq!(ran["way"], "mcp_test");
            let execution = site.execution(&ran).await;
            assert_eq!(execution["workflowId"], *workflow.id);
        }
        site.delete(&workflow).await;
    }
}

#[tokio::test]
async fn a_test_that_takes_long_is_named_before_its_end() {
    let Some(site) = Site::new() else { return };
    if site.is_old().await {
        return;
    }
    let client = session(&site.env()).await;
    let nodes = vec![called_by_another(), wait(8), set("late")];
    let workflow = site.draft(nodes, json!({})).await;
    let early = done!(client, "run_workflow", {"workflow_id": workflow.id, "wait_seconds": 4});
    assert_eq!(early["status"], "running", "{early}");
    let end = super::end_of(&client, &early).await;
    assert_eq!(end["output"], json!({"result": "late"}), "{end}");
    site.delete(&workflow).await;
}

#[tokio::test]
async fn a_cancelled_schedule_is_stopped() {
    let Some(site) = Site::new() else { return };
    // Its API stops nothing.
    if site.is_old().await {
        return;
    }
    let client = stdio_client(SERVER, &site.env()).await;
    let workflow = site.live(vec![schedule(), wait(60)]).await;
    let list = format!("/executions?workflowId={}&status=running", workflow.id);
    let (reports, mut reported) = mpsc::channel(64);
    let arguments = json!({"workflow_id": workflow.id});
    let options = Options::default().progress(reports);
    tokio::select! {
        result = client.call_tool_with("run_workflow", &arguments, options) => panic!("{result:?}"),
        () = async {
            while reported.recv().await.is_some() {
                if site.api("GET", &list, None).await["data"][0].is_object() {
                    return;
                }
            }
        } => {}
    }
    site.until_canceled(&workflow).await;
    site.delete(&workflow).await;
    client.close().await;
}

#[tokio::test]
async fn what_cannot_be_run_says_what_to_do() {
    let Some(site) = Site::new() else { return };
    let client = session(&site.env_without_mcp()).await;
    let cases = [
        (vec![manual()], "N8N_MCP_TOKEN"),
        (vec![schedule()], "N8N_MCP_TOKEN"),
        (vec![webhook("lastNode")], "activate it in n8n"),
        (vec![called_by_another()], "N8N_MCP_TOKEN"),
        (vec![set("x")], "no trigger"),
    ];
    for (nodes, advice) in cases {
        let workflow = site.draft(nodes, json!({})).await;
        let message = refused(&client, "run_workflow", json!({"workflow_id": workflow.id})).await;
        assert!(message.contains(advice), "{message}");
        site.delete(&workflow).await;
    }
}
