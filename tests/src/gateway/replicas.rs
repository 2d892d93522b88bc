//! Three gateways on one PostgreSQL, each of which may get any request: every kind of use works without affinity.

mod adoption;
mod cut_off;
mod empty_database;
mod env;
mod page;
mod pins_and_approvals;
mod placement;
mod recorder;
mod status;
mod traces;
mod trust;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::env::{ReplicaGroup, Stream, call, request};
use crate::harness::{assert_contains, eventually, wait_until};

/// An answer of a person to the question in a message.
fn answer(question: &Value) -> Value {
    let content = json!({"username": "ann", "email": "a@b"});
    let result = json!({"action": "accept", "content": content});
    json!({"jsonrpc": "2.0", "id": question["id"], "result": result})
}

#[tokio::test]
async fn session_that_ends_at_one_replica_has_ended_at_all() {
    let Some(group) = ReplicaGroup::start().await else {
        return;
    };
    let session = group.session(0).await;
    for at in 0..3 {
        let listed = group.ask(at, &session, "tools/list", json!({})).await;
        assert!(listed["result"]["tools"].is_array(), "{at}");
    }
    let mut stream = group.get(2, &session, None).await;
    assert_eq!(group.delete(1, &session).await, 204);
    for at in [0, 1, 2, 0, 1, 2] {
        let reply = group.post(at, &session, &request("ping", json!({}))).await;
        assert_eq!(reply.status(), 404, "{at}");
    }
    assert_eq!(group.delete(2, &session).await, 404);
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn question_of_one_replica_is_answered_through_another() {
    let Some(group) = ReplicaGroup::start().await else {
        return;
    };
    for tool in ["b__test_elicitation", "old__test_elicitation"] {
        for (at, other) in [(0, 1), (1, 2), (2, 2)] {
            let session = group.session(0).await;
            let asking = call(tool, json!({"message": "Who?"}));
            let mut stream = Stream::new(group.post(at, &session, &asking).await);
            let question = stream.message().await.json();
            assert_eq!(question["method"], "elicitation/create", "{question}");
            let reply = group.post(other, &session, &answer(&question)).await;
            assert_eq!(reply.status(), 202);
            let result = stream.response(7).await;
            assert_contains(&result["result"], "ann");
        }
    }
}

#[tokio::test]
async fn call_is_cancelled_through_another_replica() {
    let Some(group) = ReplicaGroup::start().await else {
        return;
    };
    let session = group.session(2).await;
    let slow = call("b__slow", json!({"steps": 300, "step": 100}));
    let mut stream = Stream::new(group.post(0, &session, &with_progress(slow)).await);
    assert_contains(&stream.message().await.data, "step 1 of 300");
    assert_eq!(group.running(1).await, 1);
    let params = json!({"requestId": 7});
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    assert_eq!(group.post(1, &session, &cancel).await.status(), 202);
    wait_until("the end of the call", async || group.running(2).await == 0).await;
}

/// The same call with a token for its progress.
fn with_progress(mut call: Value) -> Value {
    call["params"]["_meta"] = json!({"progressToken": 1});
    call
}

#[tokio::test]
async fn subscription_and_level_of_one_replica_hold_at_all() {
    let Some(group) = ReplicaGroup::start().await else {
        return;
    };
    let session = group.session(0).await;
    let uri = json!({"uri": "test://watched-resource"});
    let subscribed = group
        .ask(1, &session, "resources/subscribe", uri.clone())
        .await;
    assert!(subscribed["result"].is_object(), "{subscribed}");
    let mut stream = group.get(2, &session, None).await;
    let change = async |at| {
        let change = call("b__test_trigger_resource_change", json!({}));
        group.post(at, "", &change).await;
    };
    // Repeated, since the gateway subscribes at the backend some time later.
    let updated = eventually("a notification", async || {
        change(1).await;
        tokio::time::timeout(Duration::from_millis(500), stream.message())
            .await
            .ok()
    });
    assert_contains(&updated.await.data, "notifications/resources/updated");

    let level = json!({"level": "error"});
    let set = group.ask(1, &session, "logging/setLevel", level).await;
    assert!(set["result"].is_object(), "{set}");
    for at in 0..3 {
        let logging = call("b__test_tool_with_logging", json!({}));
        let reply = group
            .post(at, &session, &logging)
            .await
            .text()
            .await
            .unwrap();
        assert!(!reply.contains("notifications/message"), "{at}: {reply}");
    }
}

#[tokio::test]
async fn stream_is_resumed_at_another_replica() {
    let Some(group) = ReplicaGroup::start().await else {
        return;
    };
    let session = group.session(0).await;
    let asking = call("b__test_elicitation", json!({"message": "Who?"}));
    let mut stream = Stream::new(group.post(1, &session, &asking).await);
    let primer = stream.next().await.unwrap();
    let question = stream.message().await;
    drop(stream);
    let mut resumed = group.get(2, &session, Some(&primer)).await;
    let again = resumed.message().await;
    assert_eq!((&again.id, &again.data), (&question.id, &question.data));
    group.post(0, &session, &answer(&question.json())).await;
    assert_contains(&resumed.response(7).await["result"], "ann");
    // Once more, after the end of the call.
    let mut resumed = group.get(0, &session, Some(&again)).await;
    assert_contains(&resumed.response(7).await["result"], "ann");
}

#[tokio::test]
async fn task_of_one_replica_is_used_through_others() {
    let Some(group) = ReplicaGroup::start().await else {
        return;
    };
    let compute = |seconds| json!({"name": "b__slow_compute", "arguments": {"seconds": seconds}});
    let made = group.modern(0, "tools/call", compute(60)).await;
    let id = json!({"taskId": made["result"]["taskId"]});
    for at in [1, 2, 0] {
        let found = group.modern(at, "tasks/get", id.clone()).await;
        assert_eq!(found["result"]["status"], "working", "{at}: {found}");
    }
    group.modern(1, "tasks/cancel", id.clone()).await;
    for at in 0..3 {
        let found = group.modern(at, "tasks/get", id.clone()).await;
        assert_eq!(found["result"]["status"], "cancelled", "{at}: {found}");
    }

    // 2025-11-25: the result is waited for, and comes through another replica.
    let session = group.session(0).await;
    let mut params = compute(1);
    params["task"] = json!({});
    let made = group.ask(1, &session, "tools/call", params).await;
    let id = json!({"taskId": made["result"]["task"]["taskId"]});
    let result = group.ask(2, &session, "tasks/result", id.clone()).await;
    assert_contains(&result["result"], "1 s");
    let found = group.ask(0, &session, "tasks/get", id).await;
    assert_eq!(found["result"]["status"], "completed", "{found}");
}

#[tokio::test]
async fn parked_question_is_answered_at_another_replica() {
    let Some(group) = ReplicaGroup::start().await else {
        return;
    };
    for (at, other) in [(0, 1), (2, 0), (1, 1)] {
        let result = answer_parked(&group, ask_parked(&group, at).await, other).await;
        assert_contains(&result, "ann");
    }
}

/// Calls a tool of the older backend that asks; returns the parameters for the next round.
async fn ask_parked(group: &ReplicaGroup, at: usize) -> Value {
    let mut params = json!({"name": "old__test_elicitation", "arguments": {"message": "Who?"}});
    let asked = group.modern(at, "tools/call", params.clone()).await;
    let asked = &asked["result"];
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    params["requestState"] = asked["requestState"].clone();
    let keys = asked["inputRequests"].as_object().unwrap().keys();
    let answers = keys.map(|key| (key.clone(), answer(&Value::Null)["result"].clone()));
    params["inputResponses"] = answers.collect();
    params
}

async fn answer_parked(group: &ReplicaGroup, params: Value, at: usize) -> Value {
    group.modern(at, "tools/call", params).await["result"].clone()
}

#[tokio::test]
async fn what_a_dead_replica_had_fails_at_once_and_its_sessions_go_on() {
    let Some(mut group) = ReplicaGroup::start().await else {
        return;
    };
    let session = group.session(0).await;
    let asking = call("b__test_elicitation", json!({"message": "Who?"}));
    let mut stream = Stream::new(group.post(0, &session, &asking).await);
    let primer = stream.next().await.unwrap();
    let question = stream.message().await.json();
    let parked = ask_parked(&group, 0).await;
    let ended = start_task(&group, "b__slow_compute", 1).await;
    let id = start_task(&group, "child__slow_compute", 60).await;
    wait_until("the end of a task", async || {
        let found = group.modern(0, "tasks/get", ended.clone()).await;
        found["result"]["status"] == "completed"
    })
    .await;
    let mut listening = group.get(1, &session, None).await;
    group.kill(0).await;
    let killed = Instant::now();

    // The stream that the dead one had sent through another has ended.
    assert!(listening.next().await.is_none());
    let result = answer_parked(&group, parked, 1).await;
    assert_contains(&result, "The replica that asked this question is gone");
    let mut resumed = group.get(2, &session, Some(&primer)).await;
    let lost = resumed.response(7).await;
    assert_contains(&lost["error"], "The replica that ran this call is gone");
    let reply = group.post(1, &session, &answer(&question)).await;
    assert_eq!(reply.status(), 202);
    let found = group.modern(2, "tasks/get", id).await;
    assert_eq!(found["result"]["status"], "failed", "{found}");
    assert_contains(&found, "The replica that ran this task has ended");
    let found = group.modern(1, "tasks/get", ended).await;
    assert_eq!(found["result"]["status"], "completed", "{found}");
    assert_contains(&found, "1 s");
    let listed = group.ask(1, &session, "tools/list", json!({})).await;
    assert!(listed["result"]["tools"].is_array());
    // Its streams and subscriptions have another home.
    let uri = json!({"uri": "test://watched-resource"});
    let subscribed = group.ask(1, &session, "resources/subscribe", uri).await;
    assert!(subscribed["result"].is_object(), "{subscribed}");
    drop(group.get(2, &session, None).await);
    assert!(
        killed.elapsed() < Duration::from_secs(8),
        "{:?}",
        killed.elapsed()
    );
}

/// Starts a task of so many seconds at the first replica, and returns the parameters that name it.
async fn start_task(group: &ReplicaGroup, tool: &str, seconds: u32) -> Value {
    let compute = json!({"name": tool, "arguments": {"seconds": seconds}});
    let made = group.modern(0, "tools/call", compute).await;
    json!({"taskId": made["result"]["taskId"]})
}

/// A client of 2025-11-25 lists its tasks of all replicas.
#[tokio::test]
async fn tasks_of_all_replicas_are_listed_at_each() {
    let Some(group) = ReplicaGroup::start().await else {
        return;
    };
    let session = group.session(0).await;
    let before = group.ask(0, &session, "tasks/list", json!({})).await;
    assert!(before["result"]["tasks"].is_array(), "{before}");
    let mut ids = Vec::new();
    for at in 0..3 {
        let compute = json!({"name": "b__slow_compute", "arguments": {"seconds": 30}, "task": {}});
        let made = group.ask(at, &session, "tools/call", compute).await;
        ids.push(made["result"]["task"]["taskId"].clone());
    }
    for at in 0..3 {
        wait_until("all tasks", async || {
            let listed = group.ask(at, &session, "tasks/list", json!({})).await;
            let listed = listed["result"]["tasks"].as_array().unwrap();
            ids.iter().all(|id| {
                let mut found = listed.iter().filter(|task| task["taskId"] == *id);
                found.next().is_some_and(|task| task["status"] == "working")
                    && found.next().is_none()
            })
        })
        .await;
    }
}

#[tokio::test]
async fn rate_limit_holds_over_all_replicas() {
    let Some(group) = ReplicaGroup::start_with(&["--rate-limit", "30"], 3).await else {
        return;
    };
    // The start has used some of it.
    tokio::time::sleep(Duration::from_secs(2)).await;
    for replicas in [&[0, 1, 2][..], &[1]] {
        // In the first seconds after a change the parts follow the requests.
        load(&group, replicas, 4).await;
        // A busy machine takes longer for so many requests.
        let started = Instant::now();
        let admitted = load(&group, replicas, 10).await;
        let expected = started.elapsed().as_secs_f64() * 30.0;
        let error = (f64::from(admitted) - expected) / expected;
        assert!(error.abs() < 0.05, "{replicas:?}: {admitted} of {expected}");
    }
}

/// Sends 90 requests a second to these replicas in turn, and returns how many were admitted.
async fn load(group: &ReplicaGroup, replicas: &[usize], seconds: u32) -> u32 {
    let ping = request("ping", json!({}));
    let mut interval = tokio::time::interval(Duration::from_millis(1_000) / 90);
    let mut admitted = 0;
    for at in replicas.iter().cycle().take(seconds as usize * 90) {
        interval.tick().await;
        let status = group.post(*at, "", &ping).await.status();
        assert!(status == 200 || status == 429, "{status}");
        admitted += u32::from(status == 200);
    }
    admitted
}
