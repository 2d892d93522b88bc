//! Backends with `placement = "one"`: one of three gateways runs the child, and the others forward to it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::json;

use super::env::{ReplicaGroup, Stream, call, request};
use crate::gateway::env::Folder;
use crate::harness::{assert_contains, eventually, wait_until};

/// The process ids of the children that run.
pub(super) fn children(folder: &Folder) -> BTreeSet<u32> {
    let lines = folder.lines("children");
    let ids = lines.iter().map(|line| line.parse::<u32>().unwrap());
    // A zombie has no command line.
    let runs =
        |id: &u32| std::fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|line| !line.is_empty());
    ids.filter(runs).collect()
}

/// The replica that runs the child, as the one at `at` knows it.
pub(super) async fn holder(group: &ReplicaGroup, at: usize) -> Option<usize> {
    let status = group.status(at).await;
    let text = status["backends"]["one"]["replicas"].as_str()?.to_owned();
    let ids = group.ids().await;
    ids.iter().position(|id| {
        id.get(..4)
            .is_some_and(|id| text.contains(&format!("placed at {id}")))
    })
}

#[tokio::test]
async fn one_child_serves_all_and_moves_when_its_replica_dies() {
    let folder = Folder::new();
    let Some(mut group) = ReplicaGroup::start_placed(&folder).await else {
        return;
    };
    assert_eq!(children(&folder).len(), 1);
    let holder = eventually("the replica with the child", async || {
        holder(&group, 0).await
    })
    .await;
    // From all of them at the same time; questions come back through the one that was asked.
    let calls = (0..60).map(|n| {
        let group = &group;
        async move {
            let echo = json!({"name": "one__test_simple_text", "arguments": {}});
            let reply = group.ask(n % 3, "", "tools/call", echo).await;
            assert_contains(&reply["result"], "simple text");
        }
    });
    futures_util::future::join_all(calls).await;
    for at in 0..3 {
        let session = group.session(at).await;
        let asking = call("one__test_elicitation", json!({"message": "Who?"}));
        let mut stream = Stream::new(group.post(at, &session, &asking).await);
        let question = stream.message().await.json();
        assert_eq!(question["method"], "elicitation/create", "{question}");
        let reply = group
            .post((at + 1) % 3, &session, &super::answer(&question))
            .await;
        assert_eq!(reply.status(), 202);
        assert_contains(&stream.response(7).await["result"], "ann");
        let prompt = json!({"name": "one__test_simple_prompt"});
        let prompt = group.ask(at, "", "prompts/get", prompt).await;
        assert!(prompt["result"]["messages"].is_array(), "{prompt}");
    }
    // What others report is known with their next beat.
    wait_until("the state of the child", async || {
        let status = group.status((holder + 1) % 3).await;
        status["backends"]["one"]["status"] == "running"
    })
    .await;
    assert_eq!(children(&folder).len(), 1);

    // On a busy machine it may have moved since.
    let holder = eventually("the replica with the child", async || {
        self::holder(&group, holder).await
    })
    .await;
    let before = children(&folder);
    group.kill(holder).await;
    let killed = Instant::now();
    let others = [(holder + 1) % 3, (holder + 2) % 3];
    for at in others {
        let echo = json!({"name": "one__test_simple_text", "arguments": {}});
        let reply = group.ask(at, "", "tools/call", echo).await;
        assert_contains(&reply["result"], "simple text");
    }
    assert!(
        killed.elapsed() < Duration::from_secs(12),
        "{:?}",
        killed.elapsed()
    );
    wait_until("the end of the old child", async || {
        let now = children(&folder);
        now.len() == 1 && now.is_disjoint(&before)
    })
    .await;
    for n in 0..20 {
        let echo = json!({"name": "one__test_simple_text", "arguments": {}});
        let reply = group.ask(others[n % 2], "", "tools/call", echo).await;
        assert_contains(&reply["result"], "simple text");
    }
}

#[tokio::test]
async fn one_child_is_restarted_through_any_replica() {
    let folder = Folder::new();
    let Some(group) = ReplicaGroup::start_placed(&folder).await else {
        return;
    };
    for at in 0..3 {
        let before = children(&folder);
        let arguments = json!({"backend": "one"});
        let restarted = group.tool(at, "gateway_restart", arguments).await;
        assert!(restarted["backend"] == "one", "{restarted}");
        wait_until("another child", async || {
            let now = children(&folder);
            now.len() == 1 && now.is_disjoint(&before)
        })
        .await;
    }
}

/// Requests of a batch that only the replica with the child can answer, beside others.
#[tokio::test]
async fn batch_with_calls_to_the_child_is_answered_at_any_replica() {
    let folder = Folder::new();
    let Some(group) = ReplicaGroup::start_placed(&folder).await else {
        return;
    };
    let with_id = |mut message: serde_json::Value, id: u32| {
        message["id"] = json!(id);
        message
    };
    for at in 0..3 {
        let session = group.session_of(at, "2025-03-26").await;
        // Its progress comes before the answers.
        let mut slow = call("b__slow", json!({"steps": 2, "step": 10}));
        slow["params"]["_meta"] = json!({"progressToken": 1});
        let prompt = request("prompts/get", json!({"name": "one__test_simple_prompt"}));
        let batch = json!([
            with_id(call("one__test_simple_text", json!({})), 1),
            with_id(slow, 2),
            with_id(call("one__no_such_tool", json!({})), 3),
            with_id(prompt, 4),
            with_id(call("one__test_error_handling", json!({})), 5),
        ]);
        let started = group.started(at).await;
        let mut stream = Stream::new(group.post(at, &session, &batch).await);
        let answers = stream.batch().await;
        let ids: Vec<_> = answers.as_array().unwrap().iter().collect();
        let ids: Vec<_> = ids.iter().map(|answer| answer["id"].clone()).collect();
        assert_eq!(json!(ids), json!([1, 2, 3, 4, 5]), "{answers}");
        assert_contains(&answers[0]["result"], "simple text");
        assert!(answers[1]["result"].is_object(), "{answers}");
        assert!(answers[2]["error"].is_object(), "{answers}");
        assert!(answers[3]["result"]["messages"].is_array(), "{answers}");
        assert_eq!(answers[4]["result"]["isError"], true, "{answers}");
        assert_eq!(group.started(at).await, started + 1);
    }
}

#[tokio::test]
async fn changed_resource_of_the_child_is_told_at_all_replicas() {
    let folder = Folder::new();
    let Some(group) = ReplicaGroup::start_placed(&folder).await else {
        return;
    };
    let uri = json!({"uri": "test://watched-resource"});
    let watch = async |at| {
        let session = group.session(at).await;
        let subscribed = group
            .ask(at, &session, "resources/subscribe", uri.clone())
            .await;
        assert!(subscribed["result"].is_object(), "{subscribed}");
        group.get(at, &session, None).await
    };
    let streams = [watch(0).await, watch(1).await, watch(2).await];
    for (at, mut stream) in streams.into_iter().enumerate() {
        // Repeated, since the others know of a subscription some time later.
        let updated = eventually("a notification", async || {
            let change = call("one__test_trigger_resource_change", json!({}));
            group.post(at, "", &change).await;
            let message = tokio::time::timeout(Duration::from_secs(2), stream.message());
            message.await.ok()
        });
        let updated = updated.await.json();
        assert_eq!(
            updated["method"], "notifications/resources/updated",
            "{at}: {updated}"
        );
    }
}
