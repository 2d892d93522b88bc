//! A task from its start to its result.

use mcp_client::Options;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::gate::Gate;
use super::{NAME, both, call, client, env, on, refuses, run_task, start_task, until, until_that};
use crate::harness::real::openhands;
use crate::harness::{Server, stdio_client};

#[tokio::test]
async fn a_shell_command_is_run_and_its_text_returned() {
    for client in both().await {
        let task = "RUN: echo hello-$((40+2))\nFINISH: It said hello.";
        let run = run_task(&client, task).await;
        let id = &run["task_id"];
        let expected = json!({"task_id": id, "status": "finished", "result": "It said hello.",
            "last_output": "hello-42", "steps": 2});
        assert_eq!(run, expected);
        let result = on(&client, "get_task_result", id).await;
        assert_eq!(result, expected);
    }
}

#[tokio::test]
async fn the_agent_finds_the_file_of_the_context() {
    for client in both().await {
        let run = call!(client, "run_task", {"task": "RUN: cat 'src/ä b.txt'; ls -A1",
            "context": {"file": "src/ä b.txt", "content": "line 1\nline 2 'quoted' $HOME\n"}});
        // A directory of its own: nothing else is there.
        assert_has!(run, {"last_output": "line 1\nline 2 'quoted' $HOME\n.git\nsrc"});
    }
}

#[tokio::test]
async fn a_plain_answer_is_a_result() {
    let Some(client) = client().await else { return };
    let run = run_task(&client, "SAY: Nothing to do.").await;
    assert_has!(run, {"status": "finished", "result": "Nothing to do."});
}

#[tokio::test]
async fn a_long_task_is_running_first_and_finished_later() {
    for client in both().await {
        let gate = Gate::new();
        let task = format!("RUN: echo early\nRUN: {}; echo late", gate.pass());
        let run = call!(client, "run_task", {"task": task, "wait_seconds": 1});
        assert_eq!(run["status"], "running", "{run}");
        let id = &run["task_id"];
        let second = until_that(&client, id, |state| state["steps"] == 2).await;
        let action = second["last_action"].as_str().unwrap();
        assert!(action.starts_with("terminal until ["), "{second}");
        let result = on(&client, "get_task_result", id).await;
        assert_has!(result, {"status": "running", "last_output": "early"});
        gate.open();
        until(&client, id, "finished").await;
        let result = on(&client, "get_task_result", id).await;
        assert_has!(result, {"result": "done", "last_output": "late"});
    }
}

#[tokio::test]
async fn our_restart_loses_nothing() {
    let Some(real) = openhands() else { return };
    let server = Server::start(NAME, &env(&real)).await;
    let client = server.client().await;
    let run = start_task(&client, "RUN: sleep 1; echo survived").await;
    server.kill().await;
    let server = Server::start(NAME, &env(&real)).await;
    let client = server.client().await;
    until(&client, &run["task_id"], "finished").await;
    let result = on(&client, "get_task_result", &run["task_id"]).await;
    assert_eq!(result["last_output"], "survived");
}

#[tokio::test]
async fn the_same_key_never_runs_twice() {
    let Some(real) = openhands() else { return };
    let clients = both().await;
    let key = Uuid::new_v4().to_string();
    // The key stands for one task and so for one directory: a second run would leave a second line.
    let arguments = json!({"task": "RUN: echo ran >> log; cat log", "idempotency_key": key});
    let calls = clients.iter().cycle().take(6);
    let calls = calls.map(|client| call(client, "run_task", arguments.clone()));
    let runs: Vec<Value> = futures_util::future::join_all(calls).await;
    for run in &runs {
        assert_eq!(
            (&run["task_id"], &run["last_output"]),
            (&runs[0]["task_id"], &json!("ran")),
            "{run}"
        );
    }
    drop(clients);
    let client = stdio_client(NAME, &env(&real)).await;
    let later = call(&client, "run_task", arguments.clone()).await;
    assert_eq!(later["last_output"], "ran");
    let mut other = arguments;
    other["task"] = json!("RUN: echo other");
    refuses(
        &client,
        "run_task",
        other,
        "idempotency_key was used for another task",
    )
    .await;
}

#[tokio::test]
async fn every_step_is_reported_in_one_line() {
    let Some(client) = client().await else { return };
    let (reports, mut reported) = mpsc::channel(100);
    let arguments = json!({"task": "RUN: sleep 1\nRUN: echo two; sleep 1\nFINISH: three"});
    let options = Options::default().progress(reports);
    client
        .call_tool_with("run_task", &arguments, options)
        .await
        .unwrap();
    let mut lines = Vec::new();
    while let Ok(report) = reported.try_recv() {
        lines.push((report.progress, report.message.unwrap()));
    }
    assert!(lines.iter().all(|(_, line)| !line.contains('\n')));
    assert!(
        lines.windows(2).all(|pair| pair[0].0 < pair[1].0),
        "{lines:?}"
    );
    assert_eq!(lines[0], (0.0, "The task was started.".into()));
    assert!(
        lines.contains(&(2.0, "Step 2: terminal echo two; sleep 1".into())),
        "{lines:?}"
    );
}

#[tokio::test]
async fn an_answer_stays_small_whatever_the_agent_prints() {
    let Some(real) = openhands() else { return };
    let server = Server::start(NAME, &env(&real)).await;
    let task = format!("RUN: seq 1 20000\nFINISH: {}", "long ".repeat(10_000));
    let run = server.call("run_task", json!({"task": task})).await;
    let text = run.to_string();
    assert!(text.len() < 8_000, "{}", text.len());
    let (result, output) = (
        &run["result"].as_str().unwrap(),
        run["last_output"].as_str().unwrap(),
    );
    assert!(
        result.starts_with("long ") && result.contains("[cut: 4000 of "),
        "{text}"
    );
    assert!(
        output.starts_with("[cut: last ") && output.ends_with("20000"),
        "{text}"
    );
}
