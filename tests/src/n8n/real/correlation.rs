//! The returned execution is the one that the call has started.

use std::collections::HashSet;

use futures_util::future::join_all;

use super::*;

/// Each returns its own execution, and none runs twice.
#[tokio::test]
async fn twenty_concurrent_runs_return_twenty_executions() {
    let Some(env) = Env::full().await else { return };
    for (nodes, parameter) in [
        (vec![webhook("lastNode"), echo()], Some("input")),
        (vec![webhook("onReceived"), echo()], Some("input")),
        (vec![form(), set("={{ $json.input }}")], Some("input")),
        (
            vec![chat(), set("={{ $json.chatInput }}")],
            Some("chatInput"),
        ),
        (vec![schedule(), set("now")], None),
    ] {
        let workflow = env.live(nodes).await;
        let one = async |n: usize| {
            let given = match parameter {
                Some(name) => json!({name: format!("number {n}")}),
                None => json!({}),
            };
            let arguments =
                json!({"workflow_id": workflow.id, "parameters": given, "wait_seconds": 25});
            let ran = Box::pin(run_with(&env, arguments)).await;
            let execution = env.execution(&ran).await;
            assert_eq!(execution["workflowId"], *workflow.id);
            if let Some((_, text)) = given.as_object().unwrap().iter().next() {
                assert_eq!(ran["output"], json!({ "result": text }), "{ran}");
                let whole = execution.to_string();
                assert!(whole.contains(&text.to_string()), "{ran} is not {text}");
            }
            ran["execution_id"].as_str().unwrap().to_owned()
        };
        let ids: HashSet<String> = join_all((0..20).map(one)).await.into_iter().collect();
        assert_eq!(ids.len(), 20);
        // n8n lists an execution a moment after it has ended.
        let count = eventually("all executions", async || {
            let all = env.executions(&workflow).await;
            Some(all.as_array().unwrap().len()).filter(|count| *count >= 20)
        });
        assert_eq!(count.await, 20, "none ran twice");
    }
}

#[tokio::test]
async fn execution_is_found_among_many_newer_ones() {
    let Some(env) = Env::urls().await else { return };
    let path = unique("hook");
    let hook = webhook_at(&path, "POST", "lastNode");
    let gate = Gate::start().await;
    let workflow = env.live(vec![hook, gate.node(), echo()]).await;
    let others = async {
        gate.wait_for(1).await;
        let calls = (0..110).map(|n| env.call_webhook(&path, json!({ "input": n })));
        let opening = async {
            gate.wait_for(111).await;
            gate.open();
        };
        tokio::join!(join_all(calls), opening);
    };
    let arguments =
        json!({"workflow_id": workflow.id, "wait_seconds": 25, "parameters": {"input": "ours"}});
    let (ours, ()) = tokio::join!(run_with(&env, arguments), others);
    let execution = env.execution(&ours).await.to_string();
    assert!(execution.contains("\"ours\""), "{ours}");
}

#[tokio::test]
async fn fifty_concurrent_runs_share_their_lookups() {
    const RUNS: usize = 50;
    let Some((proxy, env)) = Env::counted().await else {
        return;
    };
    let workflow = env.live(vec![webhook("lastNode"), echo()]).await;
    // Waits until the activation is complete.
    env.run(&workflow, json!({"input": "first"})).await;
    proxy.take();
    let one = async |n: usize| {
        let arguments = json!({"workflow_id": workflow.id, "wait_seconds": 25,
            "parameters": {"input": format!("run {n}")}});
        let ran = Box::pin(done(&env, "run_workflow", arguments.clone())).await;
        (ran, arguments)
    };
    let runs = join_all((0..RUNS).map(one)).await;
    // Before those that a busy n8n has not ended yet are followed by the test.
    let mut sent = proxy.take();
    let mut ids = HashSet::new();
    for (ran, arguments) in runs {
        let ran = followed(&env, ran, &arguments).await;
        let text = &arguments["parameters"]["input"];
        assert_eq!(ran["output"], json!({ "result": text }), "{ran}");
        ids.insert(ran["execution_id"].as_str().unwrap().to_owned());
    }
    assert_eq!(ids.len(), RUNS);
    sent.retain(|one| !one.starts_with("POST /webhook/"));
    assert!(sent.len() <= 4 * RUNS, "{}: {sent:?}", sent.len());
}
