//! What happens in a task is heard at once, over the agent server's event socket; and what happens
//! to those who watch where that socket breaks, or is not to be had.

use std::time::{Duration, Instant};

use mcp_client::EraChoice;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::gate::Gate;
use super::line::Line;
use super::resources::{hear, listener, subscribe, uri};
use super::{NAME, direct, env, env_with, on, run_task, start_task, until, until_that};
use crate::harness::real::{OpenHands, openhands};
use crate::harness::{Server, stdio_client};

/// Between two looks at a watched task of which everything is heard.
const POLL: Duration = Duration::from_secs(10);

/// A look at the task.
fn look(id: &Value) -> String {
    format!("GET /api/conversations/{} ", id.as_str().unwrap())
}

/// Waits until nobody has looked at the task for a while.
async fn quiet(line: &Line, id: &Value) {
    for _ in 0..20 {
        let before = line.asked(&look(id));
        sleep(POLL / 3).await;
        if line.asked(&look(id)) == before {
            return;
        }
    }
    panic!("it is looked at all the time");
}

/// Has the agent do something that our server is not told of.
async fn behind(real: &OpenHands, id: &Value, script: &str) {
    let path = format!("/api/conversations/{}/events", id.as_str().unwrap());
    let content = json!([{"type": "text", "text": script}]);
    let message = json!({"role": "user", "content": content, "run": true});
    direct(real, "POST", &path, message).await;
}

#[tokio::test]
async fn a_step_is_told_as_it_happens() {
    let Some(real) = openhands() else { return };
    let line = Line::to(real).await;
    let trace = env_with(&line.real, &[("MCP_LOG", "trace")]);
    let server = Server::start(NAME, &trace).await;
    let control = server.client().await;
    let gate = Gate::new();
    let task = format!("RUN: {}\nRUN: echo on\nSAY: done", gate.pass());
    let run = start_task(&control, &task).await;
    let id = &run["task_id"];
    until_that(&control, id, |state| state["steps"] == 1).await;
    let (client, mut heard) = listener(&line.real, &server, Some(EraChoice::Legacy)).await;
    let events = [format!("{}/events", uri(id))];
    subscribe(&client, &events).await;
    hear(&mut heard, &events).await;
    quiet(&line, id).await;
    while heard.try_recv().is_ok() {}
    let opened = Instant::now();
    gate.open();
    hear(&mut heard, &events).await;
    // Somebody looked earlier than they would have if nothing had been heard.
    let looks = line.asked(&look(id));
    let early = |pair: &[Instant]| pair[1] > opened && pair[1] - pair[0] < POLL * 9 / 10;
    assert!(looks.windows(2).any(early), "{looks:?}");
    // Whoever waits shares the socket.
    let ended = on(&control, "wait_task", id).await;
    assert_eq!(ended["result"], "done");
    assert_eq!(line.sockets(|sockets| sockets.open == 1).await.most, 1);
    // It is closed when nobody watches any more.
    let nothing = json!({"uri": events[0]});
    client
        .request("resources/unsubscribe", &nothing)
        .await
        .unwrap();
    line.sockets(|sockets| sockets.open == 0).await;
    assert!(!server.log().contains(&line.real.api_key));
}

#[tokio::test]
async fn a_socket_that_is_cut_heals_and_nothing_is_missed() {
    let Some(real) = openhands() else { return };
    let own = OpenHands {
        url: real.url.clone(),
        api_key: real.api_key.clone(),
    };
    let line = Line::to(real).await;
    let server = Server::start(NAME, &env(&line.real)).await;
    let control = stdio_client(NAME, &env(&own)).await;
    let run = run_task(&control, "SAY: ready").await;
    let id = &run["task_id"];
    let (client, mut heard) = listener(&line.real, &server, Some(EraChoice::Legacy)).await;
    let events = [format!("{}/events", uri(id))];
    subscribe(&client, &events).await;
    hear(&mut heard, &events).await;
    quiet(&line, id).await;
    for round in 1..=2 {
        while heard.try_recv().is_ok() {}
        let before = line.sockets(|sockets| sockets.open == 1).await;
        line.cut();
        behind(&own, id, &format!("RUN: echo {round}\nSAY: unheard")).await;
        until(&control, id, "finished").await;
        assert!(heard.try_recv().is_err(), "nobody could know");
        line.mend();
        hear(&mut heard, &events).await;
        line.sockets(|sockets| sockets.ever > before.ever && sockets.open == 1)
            .await;
    }
    assert_eq!(line.sockets(|_| true).await.most, 1);
}

#[tokio::test]
async fn a_wait_is_over_when_the_task_is() {
    let Some(real) = openhands() else { return };
    let line = Line::to(real).await;
    let server = Server::start(NAME, &env(&line.real)).await;
    let client = server.client().await;
    let gate = Gate::new();
    let task = format!("RUN: {}\nSAY: over", gate.pass());
    let run = start_task(&client, &task).await;
    let waiting = on(&client, "wait_task", &run["task_id"]);
    let opening = async {
        line.sockets(|sockets| sockets.open == 1).await;
        gate.open();
    };
    let (ended, ()) = tokio::join!(waiting, opening);
    assert_eq!(ended["result"], "over", "{ended}");
    line.sockets(|sockets| sockets.open == 0).await;
}

#[tokio::test]
async fn without_a_socket_it_is_looked_at_often() {
    let Some(real) = openhands() else { return };
    let line = Line::without_sockets(real).await;
    let server = Server::start(NAME, &env(&line.real)).await;
    let control = server.client().await;
    let (client, mut heard) = listener(&line.real, &server, Some(EraChoice::Modern)).await;
    let run = run_task(&control, "RUN: sleep 1; echo slept\nSAY: done").await;
    assert_eq!(run["result"], "done", "{run}");
    let id = &run["task_id"];
    let parts = [uri(id), format!("{}/events", uri(id))];
    subscribe(&client, &parts).await;
    hear(&mut heard, &parts).await;
    behind(&line.real, id, "SAY: more").await;
    hear(&mut heard, &parts).await;
    assert!(!line.asked("GET /sockets/").is_empty());
    assert_eq!(line.sockets(|_| true).await.ever, 0);
}
