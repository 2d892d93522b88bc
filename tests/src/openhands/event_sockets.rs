//! Event sockets of the agent server: events are announced at once, and nothing is lost if a socket
//! breaks or cannot be opened.

use std::time::{Duration, Instant};

use mcp_client::EraChoice;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::gate::Gate;
use super::proxy::{Proxy, SocketCounts};
use super::resources::{subscribe, subscriber, uri, wait_for_updates};
use super::{
    agent_server, call_with_id, client_with, run_task, server_with, start_task, wait_for_state,
    wait_for_status,
};
use crate::harness::assert_lacks;
use crate::harness::real::{OpenHands, openhands};

/// The poll interval of a task with subscribers and an event socket.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// The first line of a poll of the task.
fn poll_of(id: &Value) -> String {
    format!("GET /api/conversations/{} ", id.as_str().unwrap())
}

/// Waits until the task has not been polled for a while.
async fn wait_for_silence(proxy: &Proxy, id: &Value) {
    for _ in 0..20 {
        let before = proxy.requests(&poll_of(id));
        sleep(POLL_INTERVAL / 3).await;
        if proxy.requests(&poll_of(id)) == before {
            return;
        }
    }
    panic!("it is polled all the time");
}

/// Sends a message to the agent without our server.
async fn message_directly(real: &OpenHands, id: &Value, script: &str) {
    let path = format!("/api/conversations/{}/events", id.as_str().unwrap());
    let content = json!([{"type": "text", "text": script}]);
    let message = json!({"role": "user", "content": content, "run": true});
    agent_server(real, "POST", &path, message).await;
}

#[tokio::test]
async fn event_is_announced_before_the_next_poll() {
    let Some(real) = openhands() else { return };
    let proxy = Proxy::start(real).await;
    let (server, control) = server_with(&proxy.real, &[("MCP_LOG", "trace")]).await;
    let gate = Gate::new();
    let task = format!("RUN: {}\nRUN: echo on\nSAY: done", gate.pass());
    let run = start_task(&control, &task).await;
    let id = &run["task_id"];
    wait_for_state(&control, id, |state| state["steps"] == 1).await;
    let (client, mut updates) = subscriber(&proxy.real, &server, Some(EraChoice::Legacy)).await;
    let events = [format!("{}/events", uri(id))];
    subscribe(&client, &events).await;
    wait_for_updates(&mut updates, &events).await;
    wait_for_silence(&proxy, id).await;
    while updates.try_recv().is_ok() {}
    let opened = Instant::now();
    gate.open();
    wait_for_updates(&mut updates, &events).await;
    // The event caused a poll before the interval was over.
    let polls = proxy.requests(&poll_of(id));
    let early = |pair: &[Instant]| pair[1] > opened && pair[1] - pair[0] < POLL_INTERVAL * 9 / 10;
    assert!(polls.windows(2).any(early), "{polls:?}");
    // A wait uses the same socket.
    let ended = call_with_id(&control, "wait_task", id).await;
    assert_eq!(ended["result"], "done");
    let sockets = proxy.wait_for_sockets(|sockets| sockets.open == 1).await;
    assert_eq!(sockets.max_open, 1);
    // The socket closes with the last subscription.
    let uri = json!({"uri": events[0]});
    let unsubscribed = client.request("resources/unsubscribe", &uri).await;
    unsubscribed.unwrap();
    proxy.wait_for_sockets(|sockets| sockets.open == 0).await;
    assert_lacks(&server.log(), &proxy.real.api_key);
}

#[tokio::test]
async fn broken_socket_is_reopened_and_no_change_is_lost() {
    let Some(real) = openhands() else { return };
    let direct = OpenHands {
        url: real.url.clone(),
        api_key: real.api_key.clone(),
    };
    let proxy = Proxy::start(real).await;
    let (server, _) = server_with(&proxy.real, &[]).await;
    let control = client_with(&direct, &[]).await;
    let run = run_task(&control, "SAY: ready").await;
    let id = &run["task_id"];
    let (client, mut updates) = subscriber(&proxy.real, &server, Some(EraChoice::Legacy)).await;
    let events = [format!("{}/events", uri(id))];
    subscribe(&client, &events).await;
    wait_for_updates(&mut updates, &events).await;
    wait_for_silence(&proxy, id).await;
    for round in 1..=2 {
        while updates.try_recv().is_ok() {}
        let before = proxy.wait_for_sockets(|sockets| sockets.open == 1).await;
        proxy.disconnect();
        message_directly(&direct, id, &format!("RUN: echo {round}\nSAY: missed")).await;
        wait_for_status(&control, id, "finished").await;
        assert!(updates.try_recv().is_err(), "announced while disconnected");
        proxy.reconnect();
        wait_for_updates(&mut updates, &events).await;
        let reopened = |now: &SocketCounts| now.total > before.total && now.open == 1;
        proxy.wait_for_sockets(reopened).await;
    }
    assert_eq!(proxy.wait_for_sockets(|_| true).await.max_open, 1);
}

#[tokio::test]
async fn wait_ends_with_the_task() {
    let Some(real) = openhands() else { return };
    let proxy = Proxy::start(real).await;
    let (_server, client) = server_with(&proxy.real, &[]).await;
    let gate = Gate::new();
    let run = start_task(&client, &format!("RUN: {}\nSAY: over", gate.pass())).await;
    let waiting = call_with_id(&client, "wait_task", &run["task_id"]);
    let opening = async {
        proxy.wait_for_sockets(|sockets| sockets.open == 1).await;
        gate.open();
    };
    let (ended, ()) = tokio::join!(waiting, opening);
    assert_eq!(ended["result"], "over", "{ended}");
    proxy.wait_for_sockets(|sockets| sockets.open == 0).await;
}

#[tokio::test]
async fn changes_are_polled_without_a_socket() {
    let Some(real) = openhands() else { return };
    let proxy = Proxy::without_sockets(real).await;
    let (server, control) = server_with(&proxy.real, &[]).await;
    let (client, mut updates) = subscriber(&proxy.real, &server, Some(EraChoice::Modern)).await;
    let run = run_task(&control, "RUN: sleep 1; echo slept\nSAY: done").await;
    assert_eq!(run["result"], "done", "{run}");
    let id = &run["task_id"];
    let parts = [uri(id), format!("{}/events", uri(id))];
    subscribe(&client, &parts).await;
    wait_for_updates(&mut updates, &parts).await;
    message_directly(&proxy.real, id, "SAY: more").await;
    wait_for_updates(&mut updates, &parts).await;
    assert!(!proxy.requests("GET /sockets/").is_empty());
    assert_eq!(proxy.wait_for_sockets(|_| true).await.total, 0);
}
