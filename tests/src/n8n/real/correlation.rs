//! The execution that is named is the one that was started.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::super::site::{Site, Workflow, chat, echo, form, schedule, set, wait, webhook};
use super::super::{SERVER, done};
use super::{run, run_with};
use crate::harness::Server;

const PATIENCE: Duration = Duration::from_secs(60);

/// Twenty runs at once; each must name an execution of its own, and none may have run twice.
async fn twenty(site: &Site, workflow: &Workflow, parameters: impl Fn(usize) -> Value) {
    let _alone = site.alone().await;
    let server = Server::start(SERVER, &site.env()).await;
    let client = server.client().await;
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
    let listed = timeout(PATIENCE, async {
        loop {
            let all = site.api("GET", &list, None).await;
            let count = all["data"].as_array().unwrap().len();
            if count >= 20 {
                return count;
            }
            sleep(Duration::from_millis(200)).await;
        }
    });
    assert_eq!(listed.await.expect("all are listed"), 20, "none ran twice");
}

#[tokio::test]
async fn of_twenty_webhooks_that_wait_for_the_end() {
    let Some(site) = Site::new() else { return };
    let workflow = site.live(vec![webhook("lastNode"), echo()]).await;
    twenty(
        &site,
        &workflow,
        |n| json!({"input": format!("number {n}")}),
    )
    .await;
    site.delete(&workflow).await;
}

#[tokio::test]
async fn of_twenty_webhooks_that_answer_at_once() {
    let Some(site) = Site::new() else { return };
    let workflow = site.live(vec![webhook("onReceived"), echo()]).await;
    twenty(
        &site,
        &workflow,
        |n| json!({"input": format!("number {n}")}),
    )
    .await;
    site.delete(&workflow).await;
}

#[tokio::test]
async fn of_twenty_forms() {
    let Some(site) = Site::new() else { return };
    let workflow = site.live(vec![form(), set("={{ $json.input }}")]).await;
    twenty(
        &site,
        &workflow,
        |n| json!({"input": format!("number {n}")}),
    )
    .await;
    site.delete(&workflow).await;
}

#[tokio::test]
async fn of_twenty_chats() {
    let Some(site) = Site::new() else { return };
    let workflow = site.live(vec![chat(), set("={{ $json.chatInput }}")]).await;
    twenty(
        &site,
        &workflow,
        |n| json!({"chatInput": format!("number {n}")}),
    )
    .await;
    site.delete(&workflow).await;
}

#[tokio::test]
async fn of_twenty_schedules() {
    let Some(site) = Site::new() else { return };
    let workflow = site.live(vec![schedule(), set("now")]).await;
    twenty(&site, &workflow, |_| json!({})).await;
    site.delete(&workflow).await;
}

#[tokio::test]
async fn though_many_newer_ones_were_started_meanwhile() {
    let Some(site) = Site::new() else { return };
    let _alone = site.alone().await;
    let server = Server::start(SERVER, &site.env_without_mcp()).await;
    let client = server.client().await;
    let workflow = site.live(vec![webhook("lastNode"), wait(5), echo()]).await;
    // Rides out the activation.
    run(&client, &workflow, json!({"input": "first"})).await;
    let path = site.webhook_path(&workflow).await;
    let others = async {
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
    let server = Server::start(SERVER, &site.env()).await;
    let client = server.client().await;
    let workflow = site.live(vec![schedule(), wait(4), set("late")]).await;
    let arguments = json!({"workflow_id": workflow.id, "wait_seconds": 1});
    let early = done(&client, "run_workflow", arguments).await;
    assert_eq!(early["status"], "running", "{early}");
    let end = super::end_of(&client, &early).await;
    assert_eq!(end["output"], json!({"result": "late"}), "{end}");
    site.delete(&workflow).await;
}
