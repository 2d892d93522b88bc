//! Tasks that fail, and agent servers that refuse or do not answer.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    NAME, agent_server, assert_error, both_transports, call_with_id, client_with, run_task,
    tool_error, wait_for_status,
};
use crate::harness::real::{OpenHands, openhands};
use crate::harness::{Server, assert_contains, assert_lacks, assert_starts_with};

/// Starts a conversation as another client would, and returns its id.
async fn start(real: &OpenHands, task: &str, more: Value) -> Value {
    let settings = agent_server(real, "GET", "/api/settings", Value::Null).await;
    // Not that of a profile, which has no tools up to 1.31.1.
    let mut llm = settings["agent_settings"]["llm"].clone();
    llm["api_key"] = json!("none");
    let directory = std::env::temp_dir().join(Uuid::new_v4().to_string());
    let mut body = json!({
        "agent_settings": {"agent_kind": "openhands", "llm": llm, "tools": [{"name": "terminal"}]},
        "workspace": {"working_dir": directory},
        "autotitle": false,
        "initial_message": {"role": "user", "content": [{"type": "text", "text": task}]},
    });
    let members = more.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(members);
    let created = agent_server(real, "POST", "/api/conversations", body).await;
    created["id"].clone()
}

#[tokio::test]
async fn model_failure_is_reported_and_results_are_kept() {
    for client in both_transports().await {
        let run = run_task(&client, "RUN: echo so far\nHTTP: 500").await;
        assert_has!(run, {"status": "failed", "last_output": "so far"});
        assert_starts_with(&run["error"], "The model did not answer");
        assert_contains(&run["next"], "resume_task");
        // The text of the provider is not shown.
        assert_lacks(&run.to_string(), "scripted failure");
    }
}

#[tokio::test]
async fn iteration_limit_is_reported() {
    let Some(real) = openhands() else { return };
    let client = client_with(&real, &[]).await;
    let task = "RUN: echo 1\nRUN: echo 2\nRUN: echo 3";
    let id = start(&real, task, json!({"max_iterations": 2})).await;
    let status = wait_for_status(&client, &id, "failed").await;
    assert_contains(&status["error"], "limit of 2 steps");
    let result = call_with_id(&client, "get_task_result", &id).await;
    assert_eq!(result["last_output"], "2");
}

#[tokio::test]
async fn pending_confirmation_is_reported_and_can_be_cancelled() {
    let Some(real) = openhands() else { return };
    let client = client_with(&real, &[]).await;
    let policy = json!({"confirmation_policy": {"kind": "AlwaysConfirm"}});
    let id = start(&real, "RUN: echo asked", policy).await;
    let status = wait_for_status(&client, &id, "waiting_for_confirmation").await;
    let waits = &status["confirmation"]["actions"][0];
    assert_eq!(waits["arguments"]["command"], "echo asked", "{status}");
    let cancelled = call_with_id(&client, "cancel_task", &id).await;
    assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
    let result = call_with_id(&client, "get_task_result", &id).await;
    assert!(result.get("last_output").is_none(), "it was run: {result}");
}

#[tokio::test]
async fn task_without_a_prompt_is_not_resumed() {
    let Some(real) = openhands() else { return };
    let client = client_with(&real, &[]).await;
    // As a server that was killed leaves it.
    let id = start(&real, "", json!({"initial_message": null})).await;
    let status = call_with_id(&client, "get_task_status", &id).await;
    assert_eq!(status["status"], "running", "{status}");
    assert_error!(client, "resume_task", {"task_id": id}, "run it again");
}

#[tokio::test]
async fn unknown_task_is_not_found() {
    let tools = "get_task_status get_task_result cancel_task wait_task get_task_changes \
                 get_task_events resume_task delete_task";
    for client in both_transports().await {
        for tool in tools.split(' ') {
            let id = Uuid::new_v4().to_string();
            let error = tool_error!(client, tool, {"task_id": id});
            assert_starts_with(&error, &format!("There is no task {id} "));
            assert_error!(client, tool, {"task_id": "../settings"}, "task_id: not a task id");
        }
    }
}

#[tokio::test]
async fn wrong_key_degrades_and_a_new_key_file_recovers() {
    let Some(real) = openhands() else { return };
    let file = std::env::temp_dir().join(Uuid::new_v4().to_string());
    std::fs::write(&file, "wrong-key").unwrap();
    let path = file.to_str().unwrap();
    let env = [
        ("OPENHANDS_URL", &*real.url),
        ("OPENHANDS_API_KEY_FILE", path),
    ];
    let server = Server::start(NAME, &env).await;
    server.wait_for_status("degraded").await;
    let client = server.client().await;
    assert_error!(client, "run_task", {"task": "SAY: hi"}, "refuses the key");
    std::fs::write(&file, format!("{}\n", real.api_key)).unwrap();
    server.wait_for_status("online").await;
    let run = run_task(&client, "SAY: hi").await;
    assert_eq!(run["result"], "hi");
    let log = server.log();
    assert_lacks(&log, "wrong-key");
    assert_lacks(&log, &real.api_key);
    std::fs::remove_file(&file).unwrap();
}

#[tokio::test]
async fn server_without_agent_server_answers_with_an_error() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let server = Server::start(NAME, &[("OPENHANDS_URL", &url)]).await;
    server.wait_for_status("degraded").await;
    let client = server.client().await;
    assert_eq!(client.list_tools().await.unwrap().len(), 10);
    assert_error!(client, "run_task", {"task": "t"}, &format!("{url} does not answer"));
}
