//! Runs that become tasks, in both versions of tasks in the specification.

use super::*;
use crate::harness::http_client;

async fn request(client: &Client, method: &str, params: &Value) -> Value {
    let answer = Box::pin(client.request(method, params)).await.unwrap();
    serde_json::from_str(answer.get()).unwrap()
}

/// A client that supports tasks, and the task of a run that has exceeded its wait.
async fn start_task(env: &Env, era: EraChoice, workflow: &TestWorkflow) -> (Client, Value) {
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let client = env.server.client_with(era, tasks, None).await;
    let parameters = json!({"input": "later"});
    let arguments =
        json!({"workflow_id": workflow.id, "wait_seconds": 1, "parameters": parameters});
    let mut params = json!({"name": "run_workflow", "arguments": arguments});
    if era == EraChoice::Legacy {
        params["task"] = json!({});
    }
    let created = request(&client, "tools/call", &params).await;
    let task = created.get("task").unwrap_or(&created);
    assert_eq!(task["status"], "working", "{created}");
    let id = json!({"taskId": task["taskId"]});
    (client, id)
}

/// Polls the task until it is as wanted.
async fn poll(client: &Client, id: &Value, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let task = async || Some(request(client, "tasks/get", id).await).filter(&is_wanted);
    eventually("the task", task).await
}

async fn poll_to_end(client: &Client, id: &Value) -> Value {
    poll(client, id, |task| task["status"] != "working").await
}

/// The execution that a task follows, once its status has it.
async fn execution_of(client: &Client, id: &Value) -> String {
    let execution = |task: &Value| {
        let message = task["statusMessage"].as_str().unwrap_or_default();
        let id = message.strip_prefix("Execution ")?.split(' ').next();
        id.map(str::to_owned)
    };
    let task = poll(client, id, |task| execution(task).is_some()).await;
    execution(&task).unwrap()
}

#[tokio::test]
async fn task_waits_for_a_person_and_follows_its_execution_to_the_end() {
    let Some(env) = Env::urls().await else { return };
    let mut resumed = wait(1);
    resumed["parameters"] = json!({"resume": "webhook", "options": {}});
    let resume_url = set("={{ $execution.resumeUrl }}");
    let mut after = echo();
    after["name"] = json!("After");
    let nodes = vec![webhook("onReceived"), resume_url, resumed, after];
    let workflow = env.live(nodes).await;
    let (client, id) = start_task(&env, EraChoice::Modern, &workflow).await;
    let execution = execution_of(&client, &id).await;
    let path = format!("/executions/{execution}?includeData=true");
    let row = env.wait_for_status(&path, "waiting").await;
    let output = &row["data"]["resultData"]["runData"]["Set"][0]["data"]["main"][0][0]["json"];
    let task = request(&client, "tasks/get", &id).await;
    assert_eq!(task["status"], "working");
    let url = output["result"].as_str().unwrap_or_else(|| panic!("{row}"));
    let resume = http_client().get(url).send().await.unwrap();
    assert!(resume.status().is_success(), "{resume:?}");
    let task = poll_to_end(&client, &id).await;
    let run = json!({"status": "completed", "output": {"result": "later"}});
    assert_has!(task, {"result": {"structuredContent": run}});
}

#[tokio::test]
async fn cancelled_task_stops_its_execution() {
    let Some(env) = Env::urls().await else { return };
    let workflow = env.live(vec![webhook("lastNode"), wait(60), echo()]).await;
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let (client, id) = start_task(&env, era, &workflow).await;
        let execution = execution_of(&client, &id).await;
        request(&client, "tasks/cancel", &id).await;
        let task = request(&client, "tasks/get", &id).await;
        assert_eq!(task["status"], "cancelled", "{task}");
        let path = format!("/executions/{execution}");
        env.wait_for_status(&path, "canceled").await;
    }
}
