//! The returned execution is the one that the call has started.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::time::sleep;

use super::counting_proxy::CountingProxy;
use super::*;

/// Twenty concurrent runs; each must return its own execution, and none may have run twice.
async fn twenty(env: &Env, workflow: &TestWorkflow, parameters: impl Fn(usize) -> Value) {
    let one = async |n: usize| {
        let given = parameters(n);
        let arguments =
            json!({"workflow_id": workflow.id, "parameters": given, "wait_seconds": 25});
        let ran = Box::pin(run_with(env, arguments)).await;
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
        let all = env.executions(workflow).await;
        Some(all.as_array().unwrap().len()).filter(|count| *count >= 20)
    });
    assert_eq!(count.await, 20, "none ran twice");
}

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
        twenty(&env, &workflow, |n| match parameter {
            Some(name) => json!({name: format!("number {n}")}),
            None => json!({}),
        })
        .await;
        env.delete(&workflow).await;
    }
}

#[tokio::test]
async fn execution_is_found_among_many_newer_ones() {
    let Some(env) = Env::urls().await else { return };
    let path = unique("hook");
    let hook = webhook_at(&path, "POST", "lastNode");
    let workflow = env.live(vec![hook, wait(5), echo()]).await;
    // Waits until the activation is complete.
    env.run(&workflow, json!({"input": "first"})).await;
    let others = async {
        // Real time: n8n 1 does not list an execution that has only started.
        sleep(Duration::from_millis(300)).await;
        join_all((0..110).map(|n| env.call_webhook(&path, json!({ "input": n })))).await;
    };
    let arguments =
        json!({"workflow_id": workflow.id, "wait_seconds": 25, "parameters": {"input": "ours"}});
    let (ours, _) = tokio::join!(done(&env, "run_workflow", arguments), others);
    let execution = env.execution(&ours).await.to_string();
    assert!(execution.contains("\"ours\""), "{ours}");
    env.delete(&workflow).await;
}

#[tokio::test]
async fn schedule_that_outlives_the_call_is_found() {
    let Some(env) = Env::full().await else { return };
    let workflow = env.live(vec![schedule(), wait(4), set("late")]).await;
    let early = done!(env, "run_workflow", {"workflow_id": workflow.id, "wait_seconds": 1});
    assert_eq!(early["status"], "running", "{early}");
    let end = end_of(&env, &early).await;
    assert_eq!(end["output"], json!({"result": "late"}), "{end}");
    env.delete(&workflow).await;
}

#[tokio::test]
async fn fifty_concurrent_runs_share_their_lookups() {
    const RUNS: usize = 50;
    let Some(n8n) = Instance::new() else { return };
    let proxy = CountingProxy::start(&n8n.config.url).await;
    let vars = [
        ("N8N_URL", proxy.url.as_str()),
        ("N8N_WEBHOOK_URL", n8n.config.url.as_str()),
        ("N8N_API_KEY", n8n.config.api_key.as_str()),
        // No list for workflows as tools.
        ("N8N_TOOL_TAG", ""),
    ];
    let server = Box::pin(Server::start(SERVER, &vars)).await;
    let client = Box::pin(server.client()).await;
    let path = unique("hook");
    let hook = webhook_at(&path, "POST", "lastNode");
    let workflow = n8n.live(vec![hook, echo()]).await;
    // Waits until the activation is complete.
    run(&client, &workflow, json!({"input": "first"})).await;
    let began = Instant::now();
    let direct = (0..RUNS).map(|n| n8n.call_webhook(&path, json!({ "input": n })));
    join_all(direct).await;
    let direct = began.elapsed();
    proxy.take();
    let began = Instant::now();
    let one = async |n: usize| {
        let text = format!("run {n}");
        let arguments = json!({"workflow_id": workflow.id, "wait_seconds": 25,
            "parameters": {"input": text}});
        let ran = Box::pin(run_with(&client, arguments)).await;
        assert_eq!(ran["output"], json!({ "result": text }), "{ran}");
        ran["execution_id"].as_str().unwrap().to_owned()
    };
    let ids: HashSet<String> = join_all((0..RUNS).map(one)).await.into_iter().collect();
    let through = began.elapsed();
    let requests = proxy.take();
    assert_eq!(ids.len(), RUNS);
    let ratio = through.as_secs_f64() / direct.as_secs_f64();
    eprintln!(
        "{RUNS} runs: {} requests to the API, {through:?}; directly {direct:?}; ratio {ratio:.2}",
        requests.len()
    );
    assert!(
        requests.len() <= 4 * RUNS,
        "{}: {requests:?}",
        requests.len()
    );
    n8n.delete(&workflow).await;
}
