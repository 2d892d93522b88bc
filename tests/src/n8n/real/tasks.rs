//! Runs that go on as tasks, in both of their specifications.

use mcp_client::{Client, ClientInfo, Endpoint, EraChoice};
use serde_json::{Value, json};

use super::super::SERVER;
use super::super::site::{Site, Workflow, echo, wait, webhook};
use crate::harness::{Server, eventually};

/// A client that knows tasks.
async fn knowing(server: &Server, dialect: EraChoice) -> Client {
    let builder = Client::builder().era(dialect);
    let client = builder.http(Endpoint::new(&server.url).unwrap()).unwrap();
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let us = ClientInfo::new("tests", "1").with_capabilities(tasks);
    client.connect(&us).await.unwrap();
    client
}

async fn ask(client: &Client, method: &str, params: &Value) -> Value {
    let answer = Box::pin(client.request(method, params)).await.unwrap();
    serde_json::from_str(answer.get()).unwrap()
}

/// Runs a workflow, with a bound of seconds; the task that goes on with it.
async fn task_of(client: &Client, dialect: EraChoice, workflow: &Workflow) -> Value {
    let parameters = json!({"input": "later"});
    let arguments =
        json!({"workflow_id": workflow.id, "wait_seconds": 3, "parameters": parameters});
    let mut params = json!({"name": "run_workflow", "arguments": arguments});
    if dialect == EraChoice::Legacy {
        params["task"] = json!({});
    }
    let created = ask(client, "tools/call", &params).await;
    let task = created.get("task").unwrap_or(&created);
    assert_eq!(task["status"], "working", "{created}");
    json!({"taskId": task["taskId"]})
}

/// Asks for the task until it is as wanted.
async fn until(client: &Client, id: &Value, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let task = async || Some(ask(client, "tasks/get", id).await).filter(&is_wanted);
    eventually("the task", task).await
}

/// The execution that a task follows, once it says so.
async fn execution_of(client: &Client, id: &Value) -> String {
    let named = |task: &Value| {
        let message = task["statusMessage"].as_str().unwrap_or_default();
        message
            .strip_prefix("Execution ")?
            .split(' ')
            .next()
            .map(str::to_owned)
    };
    let task = until(client, id, |task| named(task).is_some()).await;
    named(&task).unwrap()
}

#[tokio::test]
async fn a_task_follows_its_execution_to_the_end() {
    let Some(site) = Site::new() else { return };
    let server = Server::start(SERVER, &site.env_without_mcp()).await;
    let workflow = site.live(vec![webhook("lastNode"), wait(8), echo()]).await;
    for dialect in [EraChoice::Legacy, EraChoice::Modern] {
        let client = knowing(&server, dialect).await;
        let id = task_of(&client, dialect, &workflow).await;
        let task = until(&client, &id, |task| task["status"] != "working").await;
        assert_eq!(task["status"], "completed", "{task}");
        let result = match task.get("result") {
            Some(result) => result.clone(),
            None => ask(&client, "tasks/result", &id).await,
        };
        let run = &result["structuredContent"];
        assert_eq!(run["status"], "completed", "{result}");
        assert_eq!(run["output"], json!({"result": "later"}), "{result}");
        site.execution(run).await;
    }
    site.delete(&workflow).await;
}

#[tokio::test]
async fn a_task_waits_for_what_waits_for_somebody() {
    let Some(site) = Site::new() else { return };
    let server = Server::start(SERVER, &site.env_without_mcp()).await;
    let mut resumed = wait(1);
    resumed["parameters"] = json!({"resume": "webhook", "options": {}});
    let told = super::super::site::set("={{ $execution.resumeUrl }}");
    let mut after = echo();
    after["name"] = json!("After");
    let workflow = site
        .live(vec![webhook("onReceived"), told, resumed, after])
        .await;
    let client = knowing(&server, EraChoice::Modern).await;
    let id = task_of(&client, EraChoice::Modern, &workflow).await;
    let execution = execution_of(&client, &id).await;
    let path = format!("/executions/{execution}?includeData=true");
    let row = site.until(&path, "waiting").await;
    let url =
        row["data"]["resultData"]["runData"]["Set"][0]["data"]["main"][0][0]["json"]["result"]
            .clone();
    assert_eq!(ask(&client, "tasks/get", &id).await["status"], "working");
    let url = url.as_str().unwrap_or_else(|| panic!("{row}"));
    let resume = crate::harness::http_client().get(url).send().await.unwrap();
    assert!(resume.status().is_success(), "{resume:?}");
    let task = until(&client, &id, |task| task["status"] != "working").await;
    let run = &task["result"]["structuredContent"];
    assert_eq!(run["status"], "completed", "{task}");
    site.delete(&workflow).await;
}

#[tokio::test]
async fn a_task_that_is_cancelled_stops_its_execution() {
    let Some(site) = Site::new() else { return };
    let server = Server::start(SERVER, &site.env_without_mcp()).await;
    let workflow = site.live(vec![webhook("lastNode"), wait(60), echo()]).await;
    for dialect in [EraChoice::Legacy, EraChoice::Modern] {
        let client = knowing(&server, dialect).await;
        let id = task_of(&client, dialect, &workflow).await;
        let execution = execution_of(&client, &id).await;
        ask(&client, "tasks/cancel", &id).await;
        let task = ask(&client, "tasks/get", &id).await;
        assert_eq!(task["status"], "cancelled", "{task}");
        // The API of n8n 1 stops nothing: there the execution goes on.
        let state = if site.is_old().await {
            "running"
        } else {
            "canceled"
        };
        let path = format!("/executions/{execution}");
        site.until(&path, state).await;
    }
    site.delete(&workflow).await;
}
