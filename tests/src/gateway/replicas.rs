//! Three gateways on one PostgreSQL. A load balancer sends the requests of a session to one of them; here the client
//! chooses.

mod empty_database;
mod env;
mod pins_and_approvals;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::env::{ReplicaGroup, Stream, call, request};
use crate::harness::{assert_contains, wait_until};

/// Sessions and tasks of a killed gateway are known to be lost after so long.
const FATE_TIMEOUT: Duration = Duration::from_secs(12);

#[tokio::test]
async fn session_moves_between_gateways_and_ends_at_all() {
    let Some(group) = ReplicaGroup::start().await else {
        return;
    };
    let session = group.session(0).await;
    for at in [0, 1, 2, 0] {
        let listed = group.ask(at, &session, "tools/list", json!({})).await;
        assert!(listed["result"]["tools"].is_array(), "{at}");
    }
    assert_eq!(group.delete(1, &session).await, 204);
    for at in [1, 2, 0] {
        wait_until("the end of the session", async || {
            let reply = group.post(at, &session, &request("ping", json!({}))).await;
            reply.status() == 404
        })
        .await;
    }
    // Of gateways that create a table at the same moment none fails.
    for at in 0..3 {
        let log = group.log(at);
        let is_bad = |line: &&str| line.contains("ERROR") || line.contains("WARN gateway_store");
        assert_eq!(log.lines().find(is_bad), None);
    }
}

#[tokio::test]
async fn question_and_stream_of_another_gateway_are_refused_with_the_reason() {
    let Some(group) = ReplicaGroup::start().await else {
        return;
    };
    let suspended = ask_suspended(&group, 0).await;
    let refused = group.modern(1, "tools/call", suspended.clone()).await;
    assert_contains(
        &refused["result"],
        "The call that asked this question has ended",
    );
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    let answered = group.modern(0, "tools/call", suspended).await;
    assert_contains(&answered["result"], "ann");

    let session = group.session(0).await;
    let slow = call("b__slow", json!({"steps": 30, "step": 100}));
    let mut stream = Stream::new(group.post(0, &session, &with_progress(slow)).await);
    let event = stream.message().await;
    let mut resumed = group.get(1, &session, Some(&event)).await;
    assert_contains(
        &resumed.response(7).await["error"],
        "Another server process",
    );
}

/// The same call with a token for its progress.
fn with_progress(mut call: Value) -> Value {
    call["params"]["_meta"] = json!({"progressToken": 1});
    call
}

/// Calls a tool of the older backend that asks; returns the parameters for the next round.
async fn ask_suspended(group: &ReplicaGroup, at: usize) -> Value {
    let mut params = json!({"name": "old__test_elicitation", "arguments": {"message": "Who?"}});
    let asked = group.modern(at, "tools/call", params.clone()).await;
    let asked = &asked["result"];
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    params["requestState"] = asked["requestState"].clone();
    let keys = asked["inputRequests"].as_object().unwrap().keys();
    let content = json!({"username": "ann", "email": "a@b"});
    let answer = json!({"action": "accept", "content": content});
    params["inputResponses"] = keys.map(|key| (key.clone(), answer.clone())).collect();
    params
}

/// Starts a task of so many seconds at the first gateway, and returns the parameters that name it.
async fn start_task(group: &ReplicaGroup, tool: &str, seconds: u32) -> Value {
    let compute = json!({"name": tool, "arguments": {"seconds": seconds}});
    let made = group.modern(0, "tools/call", compute).await;
    json!({"taskId": made["result"]["taskId"]})
}

async fn state(group: &ReplicaGroup, at: usize, id: &Value) -> Value {
    group.modern(at, "tasks/get", id.clone()).await["result"].clone()
}

#[tokio::test]
async fn task_of_one_gateway_is_used_through_others() {
    let Some(group) = ReplicaGroup::start().await else {
        return;
    };
    let id = start_task(&group, "b__slow_compute", 60).await;
    for at in [1, 2, 0] {
        assert_eq!(state(&group, at, &id).await["status"], "working", "{at}");
    }
    group.modern(1, "tasks/cancel", id.clone()).await;
    for at in 0..3 {
        assert_eq!(state(&group, at, &id).await["status"], "cancelled", "{at}");
    }
    let answers = json!({"taskId": id["taskId"], "inputResponses": {}});
    let told = group.modern(1, "tasks/update", answers).await;
    assert!(told["result"].is_object(), "{told}");

    // 2025-11-25: the result is waited for, and comes through another one.
    let session = group.session(0).await;
    let params = json!({"name": "b__slow_compute", "arguments": {"seconds": 1}, "task": {}});
    let made = group.ask(1, &session, "tools/call", params).await;
    let id = json!({"taskId": made["result"]["task"]["taskId"]});
    let result = group.ask(2, &session, "tasks/result", id.clone()).await;
    assert_contains(&result["result"], "1 s");
    let found = group.ask(0, &session, "tasks/get", id).await;
    assert_eq!(found["result"]["status"], "completed", "{found}");
}

#[tokio::test]
async fn what_a_killed_gateway_had_is_lost_with_the_reason() {
    let Some(mut group) = ReplicaGroup::start().await else {
        return;
    };
    let [lost, other] = [group.session(0).await, group.session(0).await];
    for (at, session) in [(0, &lost), (1, &other)] {
        let listed = group.ask(at, session, "tools/list", json!({})).await;
        assert!(listed["result"]["tools"].is_array(), "{at}");
    }
    let suspended = ask_suspended(&group, 0).await;
    let ended = start_task(&group, "b__slow_compute", 1).await;
    let running = [
        start_task(&group, "b__slow_compute", 60).await,
        start_task(&group, "child__slow_compute", 60).await,
    ];
    wait_until("the end of a task", async || {
        state(&group, 1, &ended).await["status"] == "completed"
    })
    .await;
    group.kill(0).await;
    let killed = Instant::now();
    // PostgreSQL frees the lock once it sees that the connection has ended; until then a session moves.
    wait_until("the end of the gateway", async || {
        group.others(1).await == 1
    })
    .await;
    let ping = request("ping", json!({}));
    let (gone, found, found_too) = tokio::join!(
        group.post(1, &lost, &ping),
        state(&group, 1, &running[0]),
        state(&group, 2, &running[1]),
    );
    assert_eq!(gone.status(), 404);
    for found in [found, found_too] {
        assert_eq!(found["status"], "failed", "{found}");
        assert_contains(&found, "The server process that ran this task has ended");
    }
    assert!(killed.elapsed() < FATE_TIMEOUT, "{:?}", killed.elapsed());
    // Now that it is known, nothing waits.
    let known = Instant::now();
    assert_eq!(group.post(2, &lost, &ping).await.status(), 404);
    assert_eq!(state(&group, 2, &running[0]).await["status"], "failed");
    assert!(
        known.elapsed() < Duration::from_secs(4),
        "{:?}",
        known.elapsed()
    );
    let found = state(&group, 2, &ended).await;
    assert_contains(&found, "1 s");
    let refused = group.modern(1, "tools/call", suspended).await;
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    for at in [1, 2] {
        let listed = group.ask(at, &other, "tools/list", json!({})).await;
        assert!(listed["result"]["tools"].is_array(), "{at}");
        assert_eq!(group.others(at).await, 1);
    }
}

#[tokio::test]
async fn sessions_of_a_stopped_gateway_go_on_and_its_tasks_have_failed() {
    let Some(mut group) = ReplicaGroup::start().await else {
        return;
    };
    let session = group.session(0).await;
    group.ask(0, &session, "tools/list", json!({})).await;
    let id = start_task(&group, "b__slow_compute", 60).await;
    group.stop(0).await;
    let stopped = Instant::now();
    let listed = group.ask(1, &session, "tools/list", json!({})).await;
    assert!(listed["result"]["tools"].is_array(), "{listed}");
    let found = state(&group, 2, &id).await;
    assert_eq!(found["status"], "failed", "{found}");
    assert_contains(&found, "The server process that ran this task has ended");
    assert!(
        stopped.elapsed() < Duration::from_secs(4),
        "{:?}",
        stopped.elapsed()
    );
}

/// A client of 2025-11-25 lists its tasks of all gateways.
#[tokio::test]
async fn tasks_of_all_gateways_are_listed_at_each() {
    let Some(group) = ReplicaGroup::start().await else {
        return;
    };
    let session = group.session(0).await;
    let mut ids = Vec::new();
    for at in 0..3 {
        let compute = json!({"name": "b__slow_compute", "arguments": {"seconds": 30}, "task": {}});
        let made = group.ask(at, &session, "tools/call", compute).await;
        ids.push(made["result"]["task"]["taskId"].clone());
    }
    for at in 0..3 {
        let listed = group.ask(at, &session, "tasks/list", json!({})).await;
        let listed = listed["result"]["tasks"].as_array().unwrap();
        for id in &ids {
            let found: Vec<_> = listed.iter().filter(|task| task["taskId"] == *id).collect();
            assert_eq!(found.len(), 1, "{at}: {listed:?}");
            assert_eq!(found[0]["status"], "working");
        }
    }
}
