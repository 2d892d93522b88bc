//! Tasks from their start to their result.

use mcp_client::Options;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::gate::Gate;
use super::{
    assert_error, both_transports, call, call_with_id, client, client_with, run_task, server_with,
    start_task, wait_for_state, wait_for_status,
};
use crate::harness::real::openhands;
use crate::harness::{assert_contains, assert_ends_with, assert_starts_with};

#[tokio::test]
async fn shell_command_is_run_and_its_output_returned() {
    for client in both_transports().await {
        let run = run_task(&client, "RUN: echo hello-$((40+2))\nFINISH: It said hello.").await;
        let id = &run["task_id"];
        assert_has!(run, {"status": "finished", "result": "It said hello.",
            "last_output": "hello-42", "steps": 2, "model": "openai/scripted"});
        assert!(run["tokens"].as_u64().unwrap() > 0, "{run}");
        assert!(run["seconds"].as_u64().unwrap() < 60, "{run}");
        let result = call_with_id(&client, "get_task_result", id).await;
        assert_eq!(result, run);
        assert_eq!(run["task_id"], *id);
    }
}

#[tokio::test]
async fn file_of_the_context_is_in_the_workspace() {
    for client in both_transports().await {
        let run = call!(client, "run_task", {"task": "RUN: cat 'src/ä b.txt'; ls -A1",
            "context": {"file": "src/ä b.txt", "content": "line 1\nline 2 'quoted' $HOME\n"}});
        // The directory is new, so it has no other files.
        assert_has!(run, {"last_output": "line 1\nline 2 'quoted' $HOME\n.git\nsrc"});
    }
}

#[tokio::test]
async fn message_without_an_action_is_a_result() {
    let Some(client) = client().await else { return };
    let run = run_task(&client, "SAY: Nothing to do.").await;
    assert_has!(run, {"status": "finished", "result": "Nothing to do."});
}

#[tokio::test]
async fn long_task_is_running_first_and_finished_later() {
    for client in both_transports().await {
        let gate = Gate::new();
        let task = format!("RUN: echo early\nRUN: {}; echo late", gate.pass());
        let run = call!(client, "run_task", {"task": task, "wait_seconds": 1});
        assert_eq!(run["status"], "running", "{run}");
        let id = &run["task_id"];
        let second = wait_for_state(&client, id, |state| state["steps"] == 2).await;
        assert_starts_with(&second["last_action"], "terminal until [");
        let result = call_with_id(&client, "get_task_result", id).await;
        assert_has!(result, {"status": "running", "last_output": "early"});
        gate.open();
        wait_for_status(&client, id, "finished").await;
        let result = call_with_id(&client, "get_task_result", id).await;
        assert_has!(result, {"result": "done", "last_output": "late"});
    }
}

#[tokio::test]
async fn task_survives_a_restart_of_our_server() {
    let Some(real) = openhands() else { return };
    let (server, client) = server_with(&real, &[]).await;
    let run = start_task(&client, "RUN: sleep 1; echo survived").await;
    server.kill().await;
    let (_server, client) = server_with(&real, &[]).await;
    wait_for_status(&client, &run["task_id"], "finished").await;
    let result = call_with_id(&client, "get_task_result", &run["task_id"]).await;
    assert_eq!(result["last_output"], "survived");
}

#[tokio::test]
async fn same_key_runs_the_task_once() {
    let Some(real) = openhands() else { return };
    let clients = both_transports().await;
    let key = Uuid::new_v4().to_string();
    // The key is one task and so one directory: a second run would add a second line.
    let arguments = json!({"task": "RUN: echo ran >> log; cat log", "idempotency_key": key});
    let calls = clients.iter().cycle().take(6);
    let calls = calls.map(|client| call(client, "run_task", arguments.clone()));
    let runs: Vec<Value> = futures_util::future::join_all(calls).await;
    for run in &runs {
        assert_eq!(run["task_id"], runs[0]["task_id"], "{run}");
        assert_eq!(run["last_output"], "ran", "{run}");
    }
    drop(clients);
    let client = client_with(&real, &[]).await;
    let later = call(&client, "run_task", arguments.clone()).await;
    assert_eq!(later["last_output"], "ran");
    let other = json!({"task": "RUN: echo other", "idempotency_key": key});
    let mut confirmed = arguments.clone();
    confirmed["confirm"] = json!("always");
    let mut limited = arguments;
    limited["max_iterations"] = json!(3);
    for other in [other, confirmed, limited] {
        let expected = "idempotency_key was used for another task";
        assert_error(&client, "run_task", other, expected).await;
    }
}

#[tokio::test]
async fn each_step_is_reported_in_one_line() {
    let Some(client) = client().await else { return };
    let (sender, mut reports) = mpsc::channel(100);
    let arguments = json!({"task": "RUN: sleep 1\nRUN: echo two; sleep 1\nFINISH: three"});
    let options = Options::default().progress(sender);
    let run = client.call_tool_with("run_task", &arguments, options).await;
    run.unwrap();
    let mut lines = Vec::new();
    while let Ok(report) = reports.try_recv() {
        lines.push((report.progress, report.message.unwrap()));
    }
    assert!(lines.iter().all(|(_, line)| !line.contains('\n')));
    let grows = lines.windows(2).all(|pair| pair[0].0 < pair[1].0);
    assert!(grows, "{lines:?}");
    assert_eq!(lines[0], (0.0, "Waiting for the task.".into()));
    let second = (2.0, "Step 2: terminal echo two; sleep 1".into());
    assert!(lines.contains(&second), "{lines:?}");
}

#[tokio::test]
async fn long_output_is_truncated() {
    let Some(real) = openhands() else { return };
    let (_server, client) = server_with(&real, &[]).await;
    let task = format!("RUN: seq 1 20000\nFINISH: {}", "long ".repeat(10_000));
    let run = run_task(&client, &task).await;
    let length = run.to_string().len();
    assert!(length < 8_000, "{length}");
    assert_starts_with(&run["result"], "long ");
    assert_contains(&run["result"], "[cut: ");
    assert_starts_with(&run["last_output"], "[cut: last ");
    assert_ends_with(&run["last_output"], "20000");
}
