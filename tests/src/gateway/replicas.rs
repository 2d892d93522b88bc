//! Three gateways on one PostgreSQL. A load balancer sends the requests of a session to one of them; here the client
//! chooses.

mod env;

use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use reqwest::Url;
use serde_json::{Value, json};
use tokio_postgres::NoTls;

use self::env::{ReplicaGroup, call, request};
use crate::gateway::approvals::answer as answer_by;
use crate::gateway::input_requests::answer_all;
use crate::harness::real::postgres;
use crate::harness::{EventStream, assert_contains, assert_lacks, eventually, wait_until};

/// A gateway without its lock has ended after so long.
const GONE_AFTER: Duration = Duration::from_secs(5);

/// Sessions and tasks of a killed gateway are known to be lost after so long: 12 s, and longer on a busy machine.
const FATE_TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn what_one_gateway_has_is_used_through_all() {
    let Some(group) = ReplicaGroup::start().await else {
        return;
    };
    session_moves_and_ends_at_all(&group).await;
    question_and_stream_of_another_are_refused_with_the_reason(&group).await;
    task_of_one_is_used_through_others(&group).await;
    tasks_of_all_are_listed_at_each(&group).await;
}

async fn session_moves_and_ends_at_all(group: &ReplicaGroup) {
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
        let log = group.gateways[at].log();
        let is_bad = |line: &&str| line.contains("ERROR") || line.contains("WARN gateway_store");
        assert_eq!(log.lines().find(is_bad), None);
    }
}

async fn question_and_stream_of_another_are_refused_with_the_reason(group: &ReplicaGroup) {
    let suspended = ask_suspended(group, 0).await;
    let refused = group.modern(1, "tools/call", suspended.clone()).await;
    let reason = "The call that asked this question has ended";
    assert_contains(&refused["result"], reason);
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    let answered = group.modern(0, "tools/call", suspended).await;
    assert_contains(&answered["result"], "ann");

    let session = group.session(0).await;
    let mut slow = call("b__slow", json!({"steps": 30, "step": 100}));
    slow["params"]["_meta"] = json!({"progressToken": 1});
    let mut stream = EventStream::new(group.post(0, &session, &slow).await);
    let event = stream.message().await;
    let mut resumed = group.resume(1, &session, &event).await;
    let refused = resumed.response(7).await;
    assert_contains(&refused["error"], "Another server process");
}

/// Calls a tool of the older backend that asks; returns the parameters for the next round.
async fn ask_suspended(group: &ReplicaGroup, at: usize) -> Value {
    let mut params = json!({"name": "old__test_elicitation", "arguments": {"message": "Who?"}});
    let asked = group.modern(at, "tools/call", params.clone()).await;
    let asked = &asked["result"];
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let content = json!({"username": "ann", "email": "a@b"});
    answer_all(
        &mut params,
        asked,
        |_| json!({"action": "accept", "content": content}),
    );
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

async fn task_of_one_is_used_through_others(group: &ReplicaGroup) {
    let id = start_task(group, "b__slow_compute", 600).await;
    for at in [1, 2, 0] {
        assert_eq!(state(group, at, &id).await["status"], "working", "{at}");
    }
    group.modern(1, "tasks/cancel", id.clone()).await;
    for at in 0..3 {
        assert_eq!(state(group, at, &id).await["status"], "cancelled", "{at}");
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
        start_task(&group, "b__slow_compute", 600).await,
        start_task(&group, "child__slow_compute", 600).await,
    ];
    wait_until("the end of a task", async || {
        state(&group, 1, &ended).await["status"] == "completed"
    })
    .await;
    group.end(0, Signal::SIGKILL).await;
    let killed = Instant::now();
    // PostgreSQL frees the lock once it sees that the connection has ended; until then a session moves.
    let is_alone = async || group.others(1).await == 1;
    wait_until("the end of the gateway", is_alone).await;
    let ping = request("ping", json!({}));
    let asked = Instant::now();
    let (gone, found, found_too) = tokio::join!(
        group.post(1, &lost, &ping),
        state(&group, 1, &running[0]),
        state(&group, 2, &running[1]),
    );
    assert_eq!(gone.status(), 404);
    // It could have lost its connection only, and get its lock again.
    assert!(asked.elapsed() >= GONE_AFTER, "{:?}", asked.elapsed());
    for found in [found, found_too] {
        assert_eq!(found["status"], "failed", "{found}");
        assert_contains(&found, "The server process that ran this task has ended");
    }
    assert!(killed.elapsed() < FATE_TIMEOUT, "{:?}", killed.elapsed());
    // Now that it is known, nothing waits.
    let known = Instant::now();
    assert_eq!(group.post(2, &lost, &ping).await.status(), 404);
    assert_eq!(state(&group, 2, &running[0]).await["status"], "failed");
    let known = known.elapsed();
    assert!(known < Duration::from_secs(4), "{known:?}");
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
    let id = start_task(&group, "b__slow_compute", 600).await;
    assert_eq!(group.end(0, Signal::SIGTERM).await, Some(0));
    let stopped = Instant::now();
    let listed = group.ask(1, &session, "tools/list", json!({})).await;
    assert!(listed["result"]["tools"].is_array(), "{listed}");
    let found = state(&group, 2, &id).await;
    assert_eq!(found["status"], "failed", "{found}");
    assert_contains(&found, "The server process that ran this task has ended");
    let stopped = stopped.elapsed();
    assert!(stopped < Duration::from_secs(4), "{stopped:?}");
}

/// A client of 2025-11-25 lists its tasks of all gateways.
async fn tasks_of_all_are_listed_at_each(group: &ReplicaGroup) {
    let session = group.session(0).await;
    let mut ids = Vec::new();
    for at in 0..3 {
        let compute = json!({"name": "b__slow_compute", "arguments": {"seconds": 600}, "task": {}});
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

/// A database of its own, which is removed at the end.
pub(in crate::gateway) struct EmptyDatabase {
    server: Url,
    name: String,
}

impl EmptyDatabase {
    pub(in crate::gateway) fn create() -> Option<Self> {
        let server: Url = postgres()?.parse().unwrap();
        let name = format!("empty_{}", uuid::Uuid::new_v4().simple());
        execute(&server, &format!("create database {name}"));
        Some(Self { server, name })
    }

    pub(in crate::gateway) fn address(&self) -> String {
        let mut address = self.server.clone();
        address.set_path(&self.name);
        address.into()
    }

    /// Removes everything that is in it.
    pub(in crate::gateway) fn recreate(&self) {
        for work in [
            format!("drop database {} with (force)", self.name),
            format!("create database {}", self.name),
        ] {
            execute(&self.server, &work);
        }
    }
}

impl Drop for EmptyDatabase {
    fn drop(&mut self) {
        let remove = format!("drop database {} with (force)", self.name);
        execute(&self.server, &remove);
    }
}

/// Runs a statement on the server for tests, in a runtime of its own, since `drop` cannot wait.
fn execute(server: &Url, sql: &str) {
    let work = async {
        let (client, connection) = tokio_postgres::connect(server.as_str(), NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        client.batch_execute(sql).await.unwrap();
    };
    let run = || tokio::runtime::Runtime::new().unwrap().block_on(work);
    thread::scope(|scope| scope.spawn(run).join().unwrap());
}

const ROLES: &str = "[roles.operator]\nallow = [\"*\"]\nown = [\"approve\", \"gateway_status\"]\n\
    [principals]\nada = \"operator\"\n";

impl ReplicaGroup {
    /// Runs a command of the operator on the machine of the replica `at`.
    async fn command(&self, at: usize, args: &[&str]) -> (i32, String) {
        let store = self.database.address();
        self.gateways[at].folder.command(&store, args).await
    }

    /// Decides at the replica `at` about a call that waits, and returns the status.
    async fn decide(&self, at: usize, id: &str, answer: &str) -> u16 {
        let (url, path) = (&self.gateways[at].url, format!("/approvals/{id}"));
        let body = json!({"answer": answer});
        answer_by(url, &path, Some("ada"), body).await.0
    }
}

#[tokio::test]
async fn call_that_waits_at_one_replica_is_decided_at_another() {
    let echo = "kept__echo";
    let more = format!(
        "[backends.kept]\nFIXTURE\n[approvals]\napprove = [{echo:?}]\nallow_own = true\n{ROLES}"
    );
    let Some(group) = ReplicaGroup::start_with(&more).await else {
        return;
    };
    for (caller, decider, other, decision) in [(0, 1, 2, "approve"), (1, 2, 0, "refuse")] {
        let name = format!("call-at-{caller}");
        let value = json!({"value": {"name": name}});
        let calling = group.gateways[caller].told("ada", echo, value);
        let deciding = async {
            let id = eventually("the call that waits", async || {
                let (_, list) = group.command(other, &["approvals", "list"]).await;
                let line = list.lines().find(|line| line.contains(echo))?;
                Some(line.split_whitespace().nth(1)?.to_owned())
            })
            .await;
            wait_until("the decision", async || {
                group.decide(decider, &id, decision).await == 200
            })
            .await;
            // It is known at the third one, too, and holds there.
            for opposite in ["approve", "refuse"] {
                assert_eq!(group.decide(other, &id, opposite).await, 409);
            }
        };
        let (answer, ()) = tokio::join!(calling, deciding);
        match decision {
            "approve" => assert_contains(&answer, &name),
            _ => {
                assert_lacks(&answer, &name);
                assert_contains(&answer, "refused");
            }
        }
    }
}
