//! Tasks from their start to their result: keys, messages, a stop, and their deletion.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use mcp_client::Options;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::tools::{Gate, Proxy};
use super::{
    agent_server, assert_error, both_transports, call, call_with_id, client, client_with,
    conversation, run_task, server_with, start_task, tool_error, wait_for_first_step,
    wait_for_state, wait_for_status, with,
};
use crate::harness::real::openhands;
use crate::harness::{assert_starts_with, eventually, wait_until};

#[tokio::test]
async fn shell_command_is_run_and_its_output_returned() {
    for client in both_transports().await {
        let run = run_task(&client, "RUN: echo hello-$((40+2))\nFINISH: It said hello.").await;
        let id = &run["task_id"];
        assert_has!(run, {"status": "finished", "result": "It said hello.",
            "last_output": "hello-42", "exit_code": 0, "steps": 2, "model": "openai/scripted"});
        assert!(run["tokens"].as_u64().unwrap() > 0, "{run}");
        // The last events of its run may come after its end.
        let seconds = json!({"seconds": 1});
        let result = call_with_id(&client, "get_task_result", id).await;
        assert_eq!(with(result, seconds.clone()), with(run.clone(), seconds));
    }
}

#[tokio::test]
async fn long_task_is_running_first_and_finished_later() {
    for client in both_transports().await {
        let gate = Gate::new();
        let task = format!("RUN: echo early\nRUN: {}; echo late", gate.pass());
        let run = call!(client, "run_task", {"task": task, "wait_seconds": 1});
        let id = &run["task_id"];
        // A busy agent server may not tell the state within the wait.
        wait_for_status(&client, id, "running").await;
        let second = wait_for_state(&client, id, |state| state["steps"] == 2).await;
        assert_starts_with(&second["last_action"], "terminal until [");
        let result = call_with_id(&client, "get_task_result", id).await;
        assert_has!(result, {"status": "running", "last_output": "early"});
        // The timeout of a wait changes nothing.
        let timeout = Options::default().timeout(Duration::from_secs(1));
        let wait = json!({"task_id": id});
        let timed_out = client.call_tool_with("wait_task", &wait, timeout).await;
        assert!(timed_out.is_err());
        gate.open();
        let ended = call(&client, "wait_task", wait).await;
        assert_eq!(ended["status"], "finished", "{ended}");
        let result = call_with_id(&client, "get_task_result", id).await;
        assert_has!(result, {"result": "done", "last_output": "late"});
    }
}

/// Calls with one key, over two servers.
const CALLS: usize = 20;

#[tokio::test]
async fn one_of_many_calls_with_a_key_starts_its_task_with_its_file() {
    let Some(real) = openhands() else { return };
    let limits = [("OPENHANDS_MAX_PARALLEL", "50")];
    let clients = [
        client_with(&real, &limits).await,
        client_with(&real, &limits).await,
    ];
    let key = Uuid::new_v4().to_string();
    let arguments = |number: usize| {
        json!({"task": format!("RUN: echo {number} $(cat f.txt) >> log; cat log"),
            "context": {"file": "f.txt", "content": format!("content {number}")},
            "idempotency_key": key, "wait_seconds": 0})
    };
    // Each call is made twice at the same moment, over both servers.
    let calls = (0..CALLS).map(|number| {
        let (client, arguments) = (&clients[number % 2], arguments(number / 2));
        async move { client.call_tool("run_task", &arguments).await.unwrap() }
    });
    let mut winners = Vec::new();
    for (number, result) in join_all(calls).await.into_iter().enumerate() {
        if result.is_error {
            // On a busy machine the time of a call may be over before it knows the winner, or is told of the start.
            let text = result.text();
            let is_late = text.contains("not known whether the task was started");
            assert!(is_late || text.contains("idempotency_key"), "{text}");
        } else {
            let run: Value = serde_json::from_str(&result.text()).unwrap();
            winners.push((number / 2, run["task_id"].clone()));
        }
    }
    let (number, id) = winners.first().unwrap().clone();
    assert!(
        winners.iter().all(|winner| *winner == (number, id.clone())),
        "{winners:?}"
    );
    wait_for_status(&clients[0], &id, "finished").await;
    let path = format!(
        "/api/conversations/{}/events/search?source=user",
        id.as_str().unwrap()
    );
    let events = agent_server(&real, "GET", &path, Value::Null).await;
    let is_prompt = |event: &&Value| event["kind"] == "MessageEvent";
    let prompts = events["items"].as_array().unwrap().iter().filter(is_prompt);
    assert_eq!(prompts.count(), 1, "{events}");
    drop(clients);
    // A server that has just been started finds it, and does not run it again.
    let client = client_with(&real, &[]).await;
    let later = call(&client, "run_task", arguments(number)).await;
    assert_has!(later, {"task_id": id, "last_output": format!("{number} content {number}")});
    for other in [
        json!({"task": "RUN: echo other"}),
        json!({"confirm": "always"}),
        json!({"max_iterations": 3}),
    ] {
        let refusal = "idempotency_key was used for another task";
        let other = with(arguments(number), other);
        assert_error(&client, "run_task", other, refusal).await;
    }
}

#[tokio::test]
async fn each_step_is_reported_in_one_line() {
    let Some(client) = client().await else { return };
    let (sender, mut reports) = mpsc::channel(100);
    let gates = [Gate::new(), Gate::new()];
    let [first, second] = gates.each_ref().map(Gate::pass);
    let task = format!("RUN: {first}\nRUN: echo two; {second}\nFINISH: three");
    let arguments = json!({"task": task, "wait_seconds": 55});
    let options = Options::default().progress(sender);
    let run = client.call_tool_with("run_task", &arguments, options);
    let mut lines = Vec::new();
    // Each step ends once it is reported.
    let reading = async {
        while lines.len() < 3 {
            let report = reports.recv().await.unwrap();
            lines.push((report.progress, report.message.unwrap()));
            if let Some(at) = lines.len().checked_sub(2) {
                gates[at].open();
            }
        }
    };
    let (run, ()) = tokio::join!(run, reading);
    run.unwrap();
    assert!(lines.iter().all(|(_, line)| !line.contains('\n')));
    let grows = lines.windows(2).all(|pair| pair[0].0 < pair[1].0);
    assert!(grows, "{lines:?}");
    assert_eq!(lines[0], (0.0, "Waiting for the task.".into()));
    assert_starts_with(&lines[2].1, "Step 2: terminal echo two; until [");
}

#[tokio::test]
async fn finished_task_continues_with_its_history() {
    let Some(client) = client().await else { return };
    let run = run_task(&client, "RUN: x=5; echo $x > n").await;
    let id = &run["task_id"];
    let message = "RUN: cat n; echo $x\nFINISH: both";
    let more = call!(client, "send_message", {"task_id": id, "message": message});
    // The directory and the shell are the same.
    assert_has!(more, {"task_id": id, "status": "finished", "result": "both",
            "last_output": "5\n5", "steps": 4, "changed_files": ["A n"]});
    assert_error!(client, "resume_task", {"task_id": id}, "send_message");
    assert_error!(client, "send_message", {"task_id": id, "message": " "}, "message must have");
}

#[tokio::test]
async fn running_task_reads_a_message_before_its_next_step() {
    let Some(real) = openhands() else { return };
    let proxy = Proxy::start(real).await;
    let client = client_with(&proxy.real, &[]).await;
    let gate = Gate::new();
    let task = format!("RUN: {}\nRUN: echo not this", gate.pass());
    let id = &start_task(&client, &task).await["task_id"];
    wait_for_first_step(&client, id).await;
    let message = json!({"task_id": id, "message": "RUN: echo but this\nSAY: read"});
    let events = format!("POST /api/conversations/{}/events ", id.as_str().unwrap());
    let before = proxy.count(&events);
    let opening = async {
        wait_until("the message", async || proxy.count(&events) > before).await;
        // Real time: the agent server has to take the message before the command ends, which no event reports. One that
        // has stalled answers again.
        tokio::time::sleep(Duration::from_secs(2)).await;
        conversation(&proxy.real, id).await;
        gate.open();
    };
    let (ended, ()) = tokio::join!(call(&client, "send_message", message), opening);
    assert_has!(ended, {"status": "finished", "result": "read", "last_output": "but this"});
}

#[tokio::test]
async fn deletion_asks_first_and_stops_the_task() {
    let Some(real) = openhands() else { return };
    let proxy = Proxy::start(real).await;
    let client = client_with(&proxy.real, &[]).await;
    let run = start_task(&client, "RUN: sleep 600").await;
    let id = &run["task_id"];
    wait_for_first_step(&client, id).await;
    assert_error!(client, "delete_task", {"task_id": id}, "Nothing was done yet");
    let other = json!({"task_id": id, "confirm": "yes"});
    assert_error(&client, "delete_task", other, "Nothing was done").await;
    let stop = format!("POST /api/conversations/{}/interrupt", id.as_str().unwrap());
    assert_eq!(proxy.count(&stop), 0);
    let deleted = call!(client, "delete_task", {"task_id": id, "confirm": id});
    assert_eq!(deleted, json!({"task_id": id, "deleted": true}));
    // Without the interrupt it takes the agent server half a minute.
    assert!(proxy.count(&stop) > 0);
    let gone = tool_error!(client, "get_task_status", {"task_id": id});
    assert_starts_with(&gone, "There is no task");
}

#[tokio::test]
async fn one_call_waits_for_any_or_all_of_several_tasks() {
    let Some(client) = client().await else { return };
    let gate = Gate::new();
    let slow = start_task(&client, &format!("RUN: {}", gate.pass())).await["task_id"].clone();
    let fast = start_task(&client, "SAY: fast").await["task_id"].clone();
    let ids = json!([slow, fast]);
    // A busy agent server may need more than the time of one call.
    let any = async || {
        let any = json!({"task_ids": ids, "until": "any", "wait_seconds": 25});
        let any = call(&client, "wait_task", any).await;
        Some(any).filter(|any| any["tasks"][1]["status"] == "finished")
    };
    let any = eventually("the end of one", any).await;
    assert_has!(any["tasks"][0], {"task_id": slow, "status": "running"});
    assert_has!(any["tasks"][1], {"task_id": fast, "status": "finished", "result": "fast"});
    gate.open();
    let all = async || {
        let all = call!(client, "wait_task", {"task_ids": ids, "wait_seconds": 25});
        Some(all).filter(|all| all["tasks"][0]["status"] == "finished")
    };
    let all = eventually("the end of all", all).await;
    assert_has!(all["tasks"][0], {"task_id": slow, "status": "finished"});
    let unknown = call!(client, "wait_task", {"task_ids": [fast, Uuid::new_v4().to_string()]});
    assert_eq!(unknown["tasks"][0]["status"], "finished", "{unknown}");
    assert_starts_with(&unknown["tasks"][1]["error"], "There is no task");
    for wrong in [
        json!({}),
        json!({"task_id": fast, "task_ids": ids}),
        json!({"task_ids": []}),
    ] {
        assert_error(&client, "wait_task", wrong, "Give task_id, or task_ids").await;
    }
}

#[tokio::test]
async fn wait_is_as_long_as_a_call_may_take() {
    let Some(real) = openhands() else { return };
    let (_server, client) = server_with(&real, &[("MCP_CALL_TIMEOUT", "12")]).await;
    let gate = Gate::new();
    let starter = client_with(&real, &[]).await;
    let run = start_task(&starter, &format!("RUN: {}", gate.pass())).await;
    let began = Instant::now();
    let wait = json!({"task_id": run["task_id"], "wait_seconds": 600});
    // A busy agent server may not answer within the rest of the call.
    let waited = async || {
        let waited = client.call_tool("wait_task", &wait).await.unwrap();
        (!waited.is_error && waited.text().contains("\"status\":\"running\"")).then_some(())
    };
    eventually("the end of the wait", waited).await;
    assert!(began.elapsed() > Duration::from_secs(2));
    gate.open();
}
