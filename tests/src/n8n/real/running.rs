//! Runs that take long, are cancelled, or are not saved.

use tokio::sync::mpsc;

use super::*;

#[tokio::test]
async fn long_run_is_followed_by_its_id() {
    let Some(env) = Env::urls().await else { return };

    let workflow = env.live(vec![webhook("lastNode"), wait(4), echo()]).await;
    // The first run waits for the activation, so that the others use their whole time.
    let (reports, mut reported) = mpsc::channel(64);
    let arguments = json!({"workflow_id": workflow.id, "parameters": {"input": "slow"}});
    let options = Options::default().progress(reports);
    let called = env
        .client
        .call_tool_with("run_workflow", &arguments, options);
    let result = called.await.unwrap().structured_content.unwrap();
    let whole: Value = serde_json::from_str(result.get()).unwrap();
    assert_eq!(whole["output"], json!({"result": "slow"}), "{whole}");
    let first = reported.recv().await.expect("a report");
    assert_eq!(first.total, Some(20.0));

    for seconds in [0, 1] {
        let arguments = json!({"workflow_id": workflow.id, "wait_seconds": seconds, "parameters": {"input": "later"}});
        let early = done(&env, "run_workflow", arguments).await;
        assert_eq!(early["status"], "running", "{early}");
        let end = end_of(&env, &early).await;
        assert_has!(end, {"status": "completed", "output": {"result": "later"}});
    }
    env.delete(&workflow).await;
}

#[tokio::test]
async fn early_reply_of_a_waiting_run_is_not_its_result() {
    let Some(env) = Env::urls().await else { return };
    // If a node waits for 65 s or more, n8n replies 200 at once, with the trigger's data.
    let workflow = env.live(vec![webhook("lastNode"), wait(90), echo()]).await;
    let waiting = done!(env, "run_workflow", {"workflow_id": workflow.id, "wait_seconds": 12,
        "parameters": {"input": "x"}});
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    assert_eq!(waiting.get("output"), None);
    let id = waiting["execution_id"].as_str().unwrap();
    // The API of n8n 1 stops nothing.
    if !env.is_old().await {
        let path = format!("/executions/{id}/stop");
        env.api("POST", &path, None).await;
        let end = end_of(&env, &waiting).await;
        assert_eq!(end["status"], "canceled", "{end}");
    }
    env.delete(&workflow).await;
}

#[tokio::test]
async fn cancelled_call_stops_its_run() {
    let Some(env) = Env::urls().await else { return };
    // Its API stops nothing.
    if env.is_old().await {
        return;
    }
    let client = stdio_client(SERVER, &env.env_without_mcp()).await;
    let workflow = env.live(vec![webhook("lastNode"), wait(60), echo()]).await;
    let arguments = json!({"workflow_id": workflow.id, "parameters": {"input": "x"}});
    let is_found = async |message: &str| message.starts_with("Execution ");
    run_and_cancel(&client, &arguments, is_found).await;
    env.wait_until_canceled(&workflow).await;
    env.delete(&workflow).await;
    client.close().await;
}

#[tokio::test]
async fn run_that_n8n_does_not_save_returns_the_reply() {
    let Some(env) = Env::urls().await else { return };
    let settings = json!({"saveDataSuccessExecution": "none"});
    let nodes = vec![webhook("lastNode"), echo()];
    let workflow = env.live_as(&unique("test"), nodes, settings).await;
    let ran = env.run(&workflow, json!({"input": "gone"})).await;
    assert_has!(ran, {"status": "completed", "output": {"result": "gone"}});
    assert_contains(&ran["note"], "keeps no execution");
    env.delete(&workflow).await;
}

#[tokio::test]
async fn large_output_is_truncated() {
    let Some(env) = Env::urls().await else { return };
    let large = set("={{ 'x'.repeat(300000) }}");
    let workflow = env.live(vec![webhook("lastNode"), large]).await;
    let ran = env.run(&workflow, json!({})).await;
    assert_eq!(ran["status"], "completed");
    assert!(ran.to_string().len() < 40_000, "{}", ran.to_string().len());
    assert_starts_with(&ran["note"], "Cut:");
    env.delete(&workflow).await;
}
