//! Runs that take longer, are given up, or leave nothing behind.

use mcp_client::Options;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::super::site::{Site, echo, set, wait, webhook};
use super::super::{SERVER, done};
use super::{end_of, run};
use crate::harness::{assert_contains, stdio_client};
use crate::n8n::session;

#[tokio::test]
async fn a_long_run_is_followed_by_its_id() {
    let Some(site) = Site::new() else { return };
    let client = session(&site.env_without_mcp()).await;

    let workflow = site.live(vec![webhook("lastNode"), wait(4), echo()]).await;
    // The first run rides out the activation, so that the bounds of the others are theirs.
    let (reports, mut reported) = mpsc::channel(64);
    let arguments = json!({"workflow_id": workflow.id, "parameters": {"input": "slow"}});
    let options = Options::default().progress(reports);
    let result = client
        .call_tool_with("run_workflow", &arguments, options)
        .await
        .unwrap();
    let whole: Value = serde_json::from_str(result.structured_content.unwrap().get()).unwrap();
    assert_eq!(whole["output"], json!({"result": "slow"}), "{whole}");
    let first = reported.recv().await.expect("a report");
    assert_eq!(first.total, Some(20.0));

    for seconds in [0, 1] {
        let arguments = json!({"workflow_id": workflow.id, "wait_seconds": seconds, "parameters": {"input": "later"}});
        let early = done(&client, "run_workflow", arguments).await;
        assert_eq!(early["status"], "running", "{early}");
        let end = end_of(&client, &early).await;
        assert_eq!(end["status"], "completed", "{end}");
        assert_eq!(end["output"], json!({"result": "later"}));
    }
    site.delete(&workflow).await;
}

#[tokio::test]
async fn an_early_reply_of_a_waiting_run_is_seen_through() {
    let Some(site) = Site::new() else { return };
    let client = session(&site.env_without_mcp()).await;
    // From 65 s on n8n answers 200 at once, with what the trigger received.
    let workflow = site.live(vec![webhook("lastNode"), wait(90), echo()]).await;
    let waiting = done!(client, "run_workflow", {"workflow_id": workflow.id, "wait_seconds": 12,
        "parameters": {"input": "x"}});
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    assert_eq!(waiting.get("output"), None);
    let id = waiting["execution_id"].as_str().unwrap();
    // The API of n8n 1 stops nothing.
    if !site.is_old().await {
        site.api("POST", &format!("/executions/{id}/stop"), None)
            .await;
        let end = end_of(&client, &waiting).await;
        assert_eq!(end["status"], "canceled", "{end}");
    }
    site.delete(&workflow).await;
}

#[tokio::test]
async fn a_cancelled_call_stops_its_run() {
    let Some(site) = Site::new() else { return };
    // Its API stops nothing.
    if site.is_old().await {
        return;
    }
    let client = stdio_client(SERVER, &site.env_without_mcp()).await;
    let workflow = site.live(vec![webhook("lastNode"), wait(60), echo()]).await;
    let (reports, mut reported) = mpsc::channel(64);
    let arguments = json!({"workflow_id": workflow.id, "parameters": {"input": "x"}});
    let options = Options::default().progress(reports);
    tokio::select! {
        result = client.call_tool_with("run_workflow", &arguments, options) => panic!("{result:?}"),
        // Dropping the call cancels it, once its execution is known.
        () = async {
            while let Some(report) = reported.recv().await {
                if report.message.is_some_and(|message| message.starts_with("Execution ")) {
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
async fn a_run_that_n8n_does_not_keep_returns_the_reply() {
    let Some(site) = Site::new() else { return };
    let client = session(&site.env_without_mcp()).await;
    let settings = json!({"saveDataSuccessExecution": "none"});
    let workflow = site
        .live_with(vec![webhook("lastNode"), echo()], settings)
        .await;
    let ran = run(&client, &workflow, json!({"input": "gone"})).await;
    assert_eq!(ran["status"], "completed", "{ran}");
    assert_eq!(ran["output"], json!({"result": "gone"}));
    assert_contains(&ran["note"], "keeps no execution");
    site.delete(&workflow).await;
}

#[tokio::test]
async fn an_output_is_bounded() {
    let Some(site) = Site::new() else { return };
    let client = session(&site.env_without_mcp()).await;
    let workflow = site
        .live(vec![webhook("lastNode"), set("={{ 'x'.repeat(300000) }}")])
        .await;
    let ran = run(&client, &workflow, json!({})).await;
    assert_eq!(ran["status"], "completed");
    assert!(ran.to_string().len() < 40_000, "{}", ran.to_string().len());
    let note = ran["note"].as_str().unwrap();
    assert!(note.starts_with("Cut:"), "{note}");
    site.delete(&workflow).await;
}
