//! The truth about tasks that do not end well, and about services that are not there.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{NAME, both, direct, env, on, refusal, refuses, run_task, until};
use crate::harness::real::{OpenHands, openhands};
use crate::harness::{Server, assert_contains, assert_starts_with, stdio_client};

/// Starts a conversation as somebody else would; its id.
async fn start(real: &OpenHands, task: &str, more: Value) -> Value {
    let settings = direct(real, "GET", "/api/settings", Value::Null).await;
    let directory = std::env::temp_dir().join(Uuid::new_v4().to_string());
    let mut body = json!({
        "agent_profile_id": settings["active_agent_profile_id"],
        "workspace": {"working_dir": directory},
        "autotitle": false,
        "initial_message": {"role": "user", "content": [{"type": "text", "text": task}]},
    });
    body.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let created = direct(real, "POST", "/api/conversations", body).await;
    created["id"].clone()
}

#[tokio::test]
async fn a_model_that_fails_is_named_and_work_done_is_kept() {
    for client in both().await {
        let run = run_task(&client, "RUN: echo so far\nHTTP: 500").await;
        assert_has!(run, {"status": "failed", "last_output": "so far"});
        let error = run["error"].as_str().unwrap();
        assert!(error.starts_with("The model did not answer"), "{error}");
        assert_contains(&run["next"], "resume_task");
        // What the provider wrote stays there.
        assert!(!run.to_string().contains("scripted failure"), "{run}");
    }
}

#[tokio::test]
async fn the_iteration_limit_is_named() {
    let Some(real) = openhands() else { return };
    let client = stdio_client(NAME, &env(&real)).await;
    let task = "RUN: echo 1\nRUN: echo 2\nRUN: echo 3";
    let id = start(&real, task, json!({"max_iterations": 2})).await;
    let status = until(&client, &id, "failed").await;
    let error = status["error"].as_str().unwrap();
    assert!(error.contains("limit of 2 steps"), "{error}");
    let result = on(&client, "get_task_result", &id).await;
    assert_eq!(result["last_output"], "2");
}

#[tokio::test]
async fn a_question_of_the_agent_is_named_and_can_be_cancelled() {
    let Some(real) = openhands() else { return };
    let client = stdio_client(NAME, &env(&real)).await;
    let policy = json!({"confirmation_policy": {"kind": "AlwaysConfirm"}});
    let id = start(&real, "RUN: echo asked", policy).await;
    let status = until(&client, &id, "waiting_for_confirmation").await;
    assert_eq!(status["last_action"], "terminal echo asked");
    let cancelled = on(&client, "cancel_task", &id).await;
    assert_has!(cancelled, {"status": "cancelled", "message": "It was stopped."});
    let result = on(&client, "get_task_result", &id).await;
    assert!(
        result.get("last_output").is_none(),
        "the command was not run: {result}"
    );
}

#[tokio::test]
async fn an_unknown_task_is_not_found() {
    for client in both().await {
        for tool in [
            "get_task_status",
            "get_task_result",
            "cancel_task",
            "wait_task",
            "get_task_changes",
            "get_task_events",
            "pause_task",
            "resume_task",
            "fork_task",
            "delete_task",
        ] {
            let id = Uuid::new_v4();
            let refused = refusal(&client, tool, json!({"task_id": id.to_string()})).await;
            assert_starts_with(&refused, &format!("There is no task {id} "));
            refuses(
                &client,
                tool,
                json!({"task_id": "../settings"}),
                "task_id: not a task id",
            )
            .await;
        }
    }
}

#[tokio::test]
async fn a_wrong_key_degrades_and_a_right_one_in_the_file_heals() {
    let Some(real) = openhands() else { return };
    let file = std::env::temp_dir().join(Uuid::new_v4().to_string());
    std::fs::write(&file, "wrong-key").unwrap();
    let path = file.to_str().unwrap();
    let env = [
        ("OPENHANDS_URL", real.url.as_str()),
        ("OPENHANDS_API_KEY_FILE", path),
    ];
    let server = Server::start(NAME, &env).await;
    server.wait_for_status("degraded").await;
    let client = server.client().await;
    refuses(
        &client,
        "run_task",
        json!({"task": "SAY: hi"}),
        "refuses the key",
    )
    .await;
    std::fs::write(&file, format!("{}\n", real.api_key)).unwrap();
    server.wait_for_status("online").await;
    let run = run_task(&client, "SAY: hi").await;
    assert_eq!(run["result"], "hi");
    let log = server.log();
    assert!(
        !log.contains("wrong-key") && !log.contains(&real.api_key),
        "{log}"
    );
    std::fs::remove_file(&file).unwrap();
}

#[tokio::test]
async fn without_an_agent_server_it_answers_and_says_so() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let server = Server::start(NAME, &[("OPENHANDS_URL", &url)]).await;
    server.wait_for_status("degraded").await;
    let client = server.client().await;
    assert_eq!(client.list_tools().await.unwrap().len(), 10);
    let refused = refusal(&client, "run_task", json!({"task": "t"})).await;
    assert_contains(&refused, &format!("{url} does not answer"));
}
