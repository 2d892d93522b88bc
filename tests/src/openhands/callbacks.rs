//! Results that are sent to a URL at the end of a task.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mcp_client::Client;
use serde_json::{Value, json};

use super::tools::Gate;
use super::{
    NAME, agent_server, assert_error, call, call_with_id, client_with, conversation, env_with,
    server_with, wait_for_first_step, wait_for_status,
};
use crate::harness::real::{OpenHands, openhands};
use crate::harness::{FakeService, Response, Server, assert_contains, eventually, wait_until};

const HOSTS: &str = "OPENHANDS_CALLBACK_HOSTS";

/// The host of the receiver only: servers of other tests must not send its results.
pub(super) fn host(receiver: &FakeService) -> &str {
    receiver.url.trim_start_matches("http://")
}

/// A receiver that answers the first `refusals` requests with 503, and the others with much that is not read.
async fn receiver(refusals: u32) -> FakeService {
    let left = Arc::new(AtomicU32::new(refusals));
    let large = vec![b'x'; 4 << 20];
    let refuse =
        move || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
    FakeService::start(move |_| match refuse() {
        Ok(_) => Response::json(503, &json!({})),
        Err(_) => Response::Http(200, "text/plain", large.clone().into()),
    })
    .await
}

/// Waits until the end of the attempts to send a result is recorded.
pub(super) async fn wait_for_delivery(real: &OpenHands, id: &Value) {
    wait_until("the record of the delivery", async || {
        conversation(real, id).await["tags"]["mcpdelivery"] == "done"
    })
    .await;
}

/// The task ids and bodies that the receiver got.
async fn received(receiver: &FakeService, count: usize) -> Vec<(Value, Value)> {
    let requests = async || Some(receiver.requests()).filter(|got| got.len() >= count);
    let requests = eventually("the result", requests).await.into_iter();
    let parts = requests.map(|request| {
        assert_eq!((&*request.method, &*request.target), ("POST", "/hook/?a=b"));
        let key = request.headers["idempotency-key"].to_str().unwrap();
        (json!(key), request.json())
    });
    parts.collect()
}

async fn start(client: &Client, receiver: &FakeService, task: &str) -> Value {
    let url = format!("{}/hook/?a=b", receiver.url);
    let run = call!(client, "run_task", {"task": task, "callback_url": url, "wait_seconds": 0});
    run["task_id"].clone()
}

#[tokio::test]
async fn url_gets_the_result_once_with_the_token() {
    let Some(real) = openhands() else { return };
    let receiver = receiver(1).await;
    let token = ("OPENHANDS_CALLBACK_TOKEN", "token-of-receiver");
    let more = [(HOSTS, host(&receiver)), token];
    let (_server, client) = server_with(&real, &more).await;
    let id = start(&client, &receiver, "RUN: echo called\nFINISH: done").await;
    let got = received(&receiver, 2).await;
    for (key, body) in got {
        assert_eq!(key, id);
        assert_has!(body, {"task_id": id, "status": "finished", "result": "done",
            "last_output": "called"});
    }
    let requests = receiver.requests();
    assert_eq!(
        requests[0].headers["authorization"],
        "Bearer token-of-receiver"
    );
    wait_for_delivery(&real, &id).await;
    let result = call_with_id(&client, "get_task_result", &id).await;
    assert!(result["warnings"].is_null(), "{result}");
    // A task that went on has told its result already.
    call!(client, "send_message", {"task_id": id, "message": "FINISH: again"});
    // Each of several tasks sends its own.
    let url = format!("{}/hook/?a=b", receiver.url);
    let runs = call!(client, "run_parallel_tasks", {"callback_url": url, "wait_seconds": 25,
        "tasks": [{"task": "FINISH: one"}, {"task": "FINISH: two"}]});
    let mut got = received(&receiver, 4).await.split_off(2);
    got.sort_by_key(|(_, body)| body["result"].as_str().map(str::to_owned));
    for (at, result) in ["one", "two"].into_iter().enumerate() {
        let id = &runs["tasks"][at]["task_id"];
        assert_eq!(&got[at].0, id);
        assert_has!(got[at].1, {"task_id": id, "status": "finished", "result": result});
        wait_for_delivery(&real, id).await;
    }
    assert_eq!(receiver.requests().len(), 4);
}

#[tokio::test]
async fn task_that_goes_on_or_asks_sends_its_next_result() {
    let Some(real) = openhands() else { return };
    let receiver = receiver(0).await;
    let client = client_with(&real, &[(HOSTS, host(&receiver))]).await;
    let url = format!("{}/hook/?a=b", receiver.url);
    let id = start(&client, &receiver, "FINISH: one").await;
    received(&receiver, 1).await;
    call!(client, "send_message", {"task_id": id, "message": "FINISH: two", "callback_url": url});
    let got = received(&receiver, 2).await;
    assert_eq!(got[1].0, format!("{}-2", id.as_str().unwrap()));
    assert_has!(got[1].1, {"task_id": id, "result": "two"});
    // A task that had no URL.
    let gate = Gate::new();
    let run = call!(client, "run_task", {"task": format!("RUN: {}; exit 3", gate.pass()),
        "wait_seconds": 0});
    let id = &run["task_id"];
    wait_for_first_step(&client, id).await;
    let ask = json!({"task_id": id, "message": "FINISH: x", "callback_url": url});
    assert_error(&client, "send_message", ask, "at work").await;
    let stopped = call_with_id(&client, "cancel_task", id).await;
    assert_eq!(stopped["status"], "cancelled", "{stopped}");
    gate.open();
    let resumed = call!(client, "resume_task", {"task_id": id, "callback_url": url});
    assert_eq!(resumed["status"], "finished", "{resumed}");
    let got = received(&receiver, 3).await;
    assert_eq!(&got[2].0, id);
    // A task that asks for a permission says so, and sends its result later.
    let run = call!(client, "run_task", {"task": "RUN: echo asked", "confirm": "always",
        "callback_url": url, "wait_seconds": 0});
    let id = run["task_id"].as_str().unwrap();
    let (key, asks) = received(&receiver, 4).await.remove(3);
    assert_has!(asks, {"task_id": id, "status": "waiting_for_confirmation"});
    let confirmation = asks["confirmation"]["confirmation_id"].as_str().unwrap();
    assert_eq!(key, format!("{id}-{confirmation}"));
    call!(client, "respond_confirmation", {"task_id": id, "confirmation_id": confirmation,
        "accept": true});
    let (key, ended) = received(&receiver, 5).await.remove(4);
    assert_eq!(key, id);
    assert_has!(ended, {"task_id": id, "status": "finished", "last_output": "asked"});
    // Also if the answer is given in OpenHands itself.
    let run = call!(client, "run_task", {"task": "RUN: echo asked", "confirm": "always",
        "callback_url": url, "wait_seconds": 0});
    received(&receiver, 6).await;
    let path = format!(
        "/api/conversations/{}/events/respond_to_confirmation",
        run["task_id"].as_str().unwrap()
    );
    agent_server(&real, "POST", &path, json!({"accept": true})).await;
    let (_, ended) = received(&receiver, 7).await.remove(6);
    assert_has!(ended, {"task_id": run["task_id"], "status": "finished", "last_output": "asked"});
}

#[tokio::test]
async fn result_is_sent_after_a_kill() {
    let Some(real) = openhands() else { return };
    let (gate, receiver) = (Gate::new(), receiver(0).await);
    let env = env_with(&real, &[(HOSTS, host(&receiver))]);
    let server = Server::start(NAME, &env).await;
    let task = format!("RUN: {}; echo late", gate.pass());
    let id = start(&server.client().await, &receiver, &task).await;
    server.kill().await;
    gate.open();
    assert!(receiver.requests().is_empty());
    let _server = Server::start(NAME, &env).await;
    let got = received(&receiver, 1).await;
    assert_has!(got[0].1, {"task_id": id, "status": "finished", "last_output": "late"});
    // Its repository was being fetched.
    let receiver = self::receiver(0).await;
    let env = env_with(&real, &[(HOSTS, host(&receiver))]);
    let server = Server::start(NAME, &env).await;
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let task = json!({"task": "SAY: x", "callback_url": format!("{}/hook/?a=b", receiver.url),
        "context": {"repository": format!("http://{}/r", silent.local_addr().unwrap())},
        "wait_seconds": 0});
    let run = call(&server.client().await, "run_task", task).await;
    // A busy agent server may not tell the state within the call.
    wait_for_status(&server.client().await, &run["task_id"], "queued").await;
    server.kill().await;
    drop(silent);
    let _server = Server::start(NAME, &env).await;
    let got = received(&receiver, 1).await;
    assert_has!(got[0].1, {"task_id": run["task_id"], "status": "failed"});
    assert_contains(&got[0].1["error"], "could not be fetched");
}

#[tokio::test]
async fn failed_delivery_is_part_of_the_result() {
    let Some(real) = openhands() else { return };
    let receiver = FakeService::start(|_| Response::json(302, &json!({}))).await;
    let client = client_with(&real, &[(HOSTS, host(&receiver))]).await;
    let id = start(&client, &receiver, "FINISH: done").await;
    let warned = async || {
        let result = call_with_id(&client, "get_task_result", &id).await;
        result["warnings"][0].as_str().map(str::to_owned)
    };
    let warning = eventually("the warning", warned).await;
    assert_contains(&warning, "callback_url did not take the result");
    assert_contains(&warning, "HTTP 302");
}
