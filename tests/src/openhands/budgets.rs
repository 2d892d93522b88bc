//! What a task may use up, and that it holds without anybody who waits.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{NAME, call, client, direct, env, env_with, on, refusal, refuses, run_task, until};
use crate::harness::real::openhands;
use crate::harness::{Server, stdio_client};

#[tokio::test]
async fn time_that_is_used_up_stops_the_task() {
    let Some(client) = client().await else { return };
    // Enough for the first step on a busy machine, too.
    let task = json!({"task": "RUN: echo so far\nRUN: sleep 300", "max_seconds": 8});
    let run = call(&client, "run_task", task).await;
    let status = until(&client, &run["task_id"], "failed").await;
    let error = status["error"].as_str().unwrap();
    assert!(error.contains("used up its time"), "{error}");
    let result = on(&client, "get_task_result", &run["task_id"]).await;
    assert_eq!(result["last_output"], "so far");
}

#[tokio::test]
async fn time_runs_out_when_the_client_has_gone() {
    let Some(real) = openhands() else { return };
    let server = Server::start(NAME, &env(&real)).await;
    let task = json!({"task": "RUN: sleep 300", "max_seconds": 2, "wait_seconds": 0});
    let run = server.call("run_task", task).await;
    // From here on nobody asks our server anything.
    let path = format!("/api/conversations/{}", run["task_id"].as_str().unwrap());
    crate::harness::wait_until("the pause", async || {
        direct(&real, "GET", &path, Value::Null).await["execution_status"] == "paused"
    })
    .await;
}

#[tokio::test]
async fn time_runs_out_even_if_our_server_was_restarted() {
    let Some(real) = openhands() else { return };
    let server = Server::start(NAME, &env(&real)).await;
    let task = json!({"task": "RUN: sleep 300", "max_seconds": 3, "wait_seconds": 0});
    let run = server.call("run_task", task).await;
    server.kill().await;
    let client = stdio_client(NAME, &env(&real)).await;
    let status = until(&client, &run["task_id"], "failed").await;
    assert!(status["error"].as_str().unwrap().contains("time"));
}

#[tokio::test]
async fn steps_that_are_used_up_are_given_again() {
    let Some(client) = client().await else { return };
    let task = json!({"task": "RUN: echo 1\nRUN: echo 2\nRUN: echo 3", "max_iterations": 2});
    let run = call(&client, "run_task", task).await;
    assert_has!(run, {"status": "failed", "last_output": "2"});
    let error = run["error"].as_str().unwrap();
    assert!(error.contains("limit of 2 steps"), "{error}");
    let more = on(&client, "resume_task", &run["task_id"]).await;
    assert_has!(more, {"status": "finished", "last_output": "3"});
}

#[tokio::test]
async fn money_that_is_used_up_stops_the_task() {
    let Some(real) = openhands() else { return };
    // The scripted model has no price: one that has is set up beside it.
    let name = format!("priced-{}", Uuid::new_v4().simple());
    let settings = direct(&real, "GET", "/api/settings", Value::Null).await;
    let llm = &settings["agent_settings"]["llm"];
    let llm = json!({"model": llm["model"], "base_url": llm["base_url"], "api_key": "not-a-key",
        "num_retries": 0, "reasoning_effort": "none", "input_cost_per_token": 0.01,
        "output_cost_per_token": 0.01});
    let profile = json!({"include_secrets": true, "llm": llm});
    direct(&real, "POST", &format!("/api/profiles/{name}"), profile).await;
    let agent = json!({"agent_kind": "openhands", "llm_profile_ref": name});
    direct(&real, "POST", &format!("/api/agent-profiles/{name}"), agent).await;
    let client = stdio_client(NAME, &env(&real)).await;
    let task = json!({"task": "RUN: echo paid\nRUN: sleep 300", "agent": name, "max_cost": 0.1});
    let run = call(&client, "run_task", task).await;
    assert_eq!(run["status"], "failed", "{run}");
    let error = run["error"].as_str().unwrap();
    assert!(error.contains("used up its money"), "{error}");
    assert!(run["cost"].as_f64().unwrap() > 0.1, "{run}");
    direct(
        &real,
        "DELETE",
        &format!("/api/agent-profiles/{name}"),
        Value::Null,
    )
    .await;
    direct(
        &real,
        "DELETE",
        &format!("/api/profiles/{name}"),
        Value::Null,
    )
    .await;
}

#[tokio::test]
async fn callers_get_no_more_than_the_operator_allows() {
    let Some(real) = openhands() else { return };
    let limits = [
        ("OPENHANDS_MAX_ITERATIONS", "2"),
        ("OPENHANDS_MAX_SECONDS", "60"),
        ("OPENHANDS_MAX_COST", "1"),
    ];
    let client = stdio_client(NAME, &env_with(&real, &limits)).await;
    for (argument, value, most) in [
        ("max_iterations", json!(3), "2"),
        ("max_seconds", json!(61), "60"),
        ("max_cost", json!(1.5), "1"),
    ] {
        let refused = refusal(&client, "run_task", json!({"task": "t", argument: value})).await;
        let expected = format!("{argument} may be at most {most} on this server.");
        assert_eq!(refused, expected);
    }
    refuses(
        &client,
        "run_task",
        json!({"task": "t", "max_cost": 0}),
        "more than 0",
    )
    .await;
    // Who says nothing has them all the same.
    let run = run_task(&client, "RUN: echo 1\nRUN: echo 2\nRUN: echo 3").await;
    assert_has!(run, {"status": "failed", "steps": 2});
}
