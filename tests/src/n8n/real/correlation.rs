//! The execution that is named is the one that was started.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::super::done;
use super::super::site::{Site, Workflow, chat, echo, form, schedule, set, wait, webhook};
use super::{run, run_with};
use crate::harness::eventually;
use crate::n8n::session;

/// Twenty runs at once; each must name an execution of its own, and none may have run twice.
async fn twenty(site: &Site, workflow: &Workflow, parameters: impl Fn(usize) -> Value) {
    let _alone = site.alone().await;
    let client = session(&site.env()).await;
    let one = async |n: usize| {
        let given = parameters(n);
        let arguments =
            json!({"workflow_id": workflow.id, "parameters": given, "wait_seconds": 25});
        let ran = Box::pin(run_with(&client, arguments)).await;
        let execution = site.execution(&ran).await;
        assert_eq!(execution["workflowId"], *workflow.id);
        if let Some((_, text)) = given.as_object().unwrap().iter().next() {
            assert_eq!(ran["output"], json!({ "result": text }), "{ran}");
            let whole = execution.to_string();
            assert!(whole.contains(&text.to_string()), "{ran} is not {text}");
        }
        ran["execution_id"].as_str().unwrap().to_owned()
    };
    let ids: HashSet<String> = join_all((0..20).map(one)).await.into_iter().collect();
    assert_eq!(ids.len(), 20);
    let list = format!("/executions?workflowId={}&limit=100", workflow.id);
    // n8n lists an execution a moment after it has ended.
    let count = eventually("all executions", async || {
        let all = site.api("GET", &list, None).await;
        Some(all["data"].as_array().unwrap().len()).filter(|count| *count >= 20)
    });
    assert_eq!(count.await, 20, "none ran twice");
}

#[tokio::test]
async fn twenty_runs_at_once_name_twenty_executions() {
    let Some(site) = Site::new() else { return };
    for (nodes, parameter) in [
        (vec![webhook("lastNode"), echo()], Some("input")),
        (vec![webhook("onReceived"), echo()], Some("input")),
        (vec![form(), set("={{ $json.input }}")], Some("input")),
        (
            vec![chat(), set("={{ $json.chatInput }}")],
            Some("chatInput"),
        ),
        (vec![schedule(), set("now")], None),
    ] {
        let workflow = site.live(nodes).await;
        twenty(&site, &workflow, |n| match parameter {
            Some(name) => json!({name: format!("number {n}")}),
            None => json!({}),
        })
        .await;
        site.delete(&workflow).await;
    }
}

#[tokio::test]
async fn though_many_newer_ones_were_started_meanwhile() {
    let Some(site) = Site::new() else { return };
    let _alone = site.alone().await;
    let client = session(&site.env_without_mcp()).await;
    let workflow = site.live(vec![webhook("lastNode"), wait(5), echo()]).await;
    // Rides out the activation.
    run(&client, &workflow, json!({"input": "first"})).await;
    let path = site.webhook_path(&workflow).await;
    let others = async {
        // Real time: n8n 1 tells nobody of an execution that has only begun.
        sleep(Duration::from_millis(300)).await;
        join_all((0..110).map(|n| site.hook(&path, json!({ "input": n })))).await;
    };
    let arguments =
        json!({"workflow_id": workflow.id, "wait_seconds": 25, "parameters": {"input": "ours"}});
    let (ours, _) = tokio::join!(done(&client, "run_workflow", arguments), others);
    let execution = site.execution(&ours).await.to_string();
    assert!(execution.contains("\"ours\""), "{ours}");
    site.delete(&workflow).await;
}

#[tokio::test]
async fn of_a_schedule_that_outlives_the_wait() {
    let Some(site) = Site::new() else { return };
    let client = session(&site.env()).await;
    let workflow = site.live(vec![schedule(), wait(4), set("late")]).await;
    let early = done!(client, "run_workflow", {"workflow_id": workflow.id, "wait_seconds": 1});
    assert_eq!(early["status"], "running", "{early}");
    let end = super::end_of(&client, &early).await;
    assert_eq!(end["output"], json!({"result": "late"}), "{end}");
    site.delete(&workflow).await;
}
