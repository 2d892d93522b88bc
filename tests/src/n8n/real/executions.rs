//! `get_execution` in all of its views, and the toolset `executions`.

use super::*;

fn ids(page: &Value) -> Vec<&str> {
    member_texts(&page["executions"], "execution_id")
}

#[tokio::test]
async fn executions_are_filtered_listed_in_pages_and_deleted() {
    let Some(env) = Env::full().await else { return };
    let workflow = env.live(vec![webhook("lastNode"), echo()]).await;
    let mut runs = Vec::new();
    for input in ["a", "b", "c"] {
        let run = env.run(&workflow, json!({"input": input})).await;
        runs.insert(0, run["execution_id"].as_str().unwrap().to_owned());
    }
    let first = done!(env, "list_executions", {"workflow_id": workflow.id, "limit": 2});
    assert_eq!(ids(&first), runs[..2], "{first}");
    let cursor = json!({"workflow_id": workflow.id, "limit": 2, "cursor": first["next_cursor"]});
    let second = done(&env, "list_executions", cursor).await;
    assert_eq!(ids(&second), runs[2..], "{second}");
    assert_eq!(second.get("next_cursor"), None);
    let row = &second["executions"][0];
    assert_has!(row, {"status": "completed", "mode": "webhook"});
    let failed = json!({"workflow_id": workflow.id, "status": "failed"});
    assert!(ids(&done(&env, "list_executions", failed).await).is_empty());
    for (since, count) in [("1h", 3), ("2020-01-01", 3), ("2099-01-01T00:00:00Z", 0)] {
        let listed = done!(env, "list_executions", {"workflow_id": workflow.id, "since": since});
        assert_eq!(ids(&listed).len(), count, "{since}: {listed}");
    }
    refused!(env, "list_executions", {"since": "soon"}, "how long ago");
    refused!(env, "list_executions", {"cursor": "made up"}, "next_cursor");
    let id = &runs[0];
    refused!(env, "delete_execution", {"execution_id": id}, "Nothing was done yet");
    refused!(env, "delete_execution", {"execution_id": id, "confirm": "1"});
    done!(env, "get_execution", {"execution_id": id});
    let deleted = done!(env, "delete_execution", {"execution_id": id, "confirm": id});
    assert_eq!(deleted, json!({"deleted": id}));
    refused!(env, "get_execution", {"execution_id": id});
}

#[tokio::test]
async fn failures_are_listed_explained_counted_and_retried() {
    let Some(env) = Env::full().await else { return };
    let nodes = vec![webhook("lastNode"), set("given"), fail("boom")];
    let workflow = env.live(nodes).await;
    let mut run = Value::Null;
    for _ in 0..3 {
        run = env.run(&workflow, json!({})).await;
    }
    let id = &run["execution_id"];
    let listed = done!(env, "list_executions", {"workflow_id": workflow.id});
    for row in listed["executions"].as_array().unwrap() {
        assert_has!(row, {"workflow_name": workflow.name, "failed_node": "Stop", "error": "boom"});
    }
    let newest = &listed["executions"][0]["execution_id"];
    let grouped = done!(env, "list_executions", {"workflow_id": workflow.id, "group": true});
    assert_eq!(grouped.get("executions"), None, "{grouped}");
    assert_eq!(grouped["groups"].as_array().unwrap().len(), 1, "{grouped}");
    assert_has!(grouped["groups"][0], {"workflow_name": workflow.name, "failed_node": "Stop", "error": "boom",
        "count": 3, "execution_id": newest});
    let why = done!(env, "explain_execution", {"execution_id": id});
    let failed = json!({"node": "Stop", "message": "boom", "input_from": ["Set"],
        "input": [{"result": "given"}]});
    assert_has!(why, {"failed": failed, "workflow_name": workflow.name});
    let error = done!(env, "get_execution", {"execution_id": id, "view": "error"});
    assert_eq!(error["failed"]["node"], "Stop");
    let again = done!(env, "retry_execution", {"execution_id": id});
    assert_eq!(again["status"], "failed", "{again}");
    assert_ne!(again["execution_id"], *id);
    let listed = done!(env, "list_executions", {"workflow_id": workflow.id});
    assert_eq!(listed["executions"][0]["retry_of"], *id, "{listed}");
}

#[tokio::test]
async fn running_and_waiting_executions_are_listed() {
    let Some(env) = Env::full().await else { return };
    let workflow = env.live(vec![webhook("onReceived"), wait(60)]).await;
    done!(env, "run_workflow", {"workflow_id": workflow.id, "wait_seconds": 1});
    let id = execution_with(&env, &workflow, "running").await;
    let listed = done!(env, "list_executions", {"workflow_id": workflow.id});
    assert_eq!(ids(&listed), [id.as_str().unwrap()]);
    let stopped = done!(env, "stop_execution", {"execution_id": id});
    assert_eq!(stopped["status"], "canceled");
    let canceled = json!({"workflow_id": workflow.id, "status": "canceled"});
    let canceled = done(&env, "list_executions", canceled).await;
    assert_eq!(ids(&canceled), ids(&listed));
    refused!(env, "stop_execution", {"execution_id": id}, "ended already");
}

#[tokio::test]
async fn completed_execution_is_shown_in_views_and_neither_explained_nor_retried() {
    let Some(env) = Env::full().await else { return };
    let three = code("return [1, 2, 3].map(n => ({json: {n}}))");
    let workflow = env.live(vec![webhook("lastNode"), three]).await;
    let run = env.run(&workflow, json!({"input": "x"})).await;
    assert_eq!(run["status"], "completed", "{run}");
    let view = async |mut arguments: Value| {
        arguments["execution_id"] = run["execution_id"].clone();
        done(&env, "get_execution", arguments).await
    };
    let result = view(json!({})).await;
    assert_eq!(result["output"], json!([{"n": 1}, {"n": 2}, {"n": 3}]));
    assert_eq!(result["workflow_id"], workflow.id);
    assert_eq!(result.get("nodes"), None);

    let preview = view(json!({"view": "preview"})).await;
    let rows = preview["nodes"].as_array().unwrap();
    assert_has!(rows[0], {"node": "Webhook"});
    assert_has!(rows[1], {"node": "Code", "items": 3, "from": ["Webhook"]});
    assert!(
        rows.iter().all(|row| row.get("output").is_none()),
        "{preview}"
    );
    assert_eq!(preview.get("output"), None);

    let summary = view(json!({"view": "summary"})).await;
    assert_eq!(summary["nodes"][1]["output"], json!([{"n": 1}, {"n": 2}]));
    assert_eq!(summary["cut"], true);
    let full = view(json!({"view": "full"})).await;
    assert_eq!(full["nodes"][1]["output"].as_array().unwrap().len(), 3);
    assert_eq!(full.get("cut"), None);
    let one = view(json!({"nodes": ["Code"], "items": 1})).await;
    assert_eq!(one["nodes"].as_array().unwrap().len(), 1);
    assert_eq!(one["nodes"][0]["output"], json!([{"n": 1}]));
    let none = json!({"execution_id": run["execution_id"], "nodes": ["Nobody"]});
    assert_refused(&env, "get_execution", none, "Webhook, Code").await;
    let id = json!({"execution_id": run["execution_id"]});
    assert_refused(&env, "explain_execution", id.clone(), "did not fail").await;
    assert_refused(&env, "retry_execution", id, "n8n retries only those").await;
    refused!(env, "explain_execution", {"execution_id": "999999999"}, "no execution 999999999");
    let nodes = vec![webhook("onReceived"), code("return [];"), set("x")];
    let run = env.run(&env.live(nodes).await, json!({})).await;
    refused!(env, "explain_execution", {"execution_id": run["execution_id"]}, "came out of Code");
    let many =
        code("return Array.from({length: 400}, (_, n) => ({json: {n, text: 'x'.repeat(3000)}}))");
    let workflow = env.live(vec![webhook("onReceived"), many]).await;
    let run = env.run(&workflow, json!({})).await;
    let arguments = json!({"execution_id": run["execution_id"], "view": "full", "items": 1000});
    let full = done(&env, "get_execution", arguments).await;
    assert_eq!(full["cut"], true);
    let size = full.to_string().len();
    assert!(size < 48 * 1024, "{size}");
    assert_eq!(full["nodes"][1]["items"], 400);
}

#[tokio::test]
async fn secrets_are_shown_where_the_operator_says_so() {
    let Some(env) = Env::with(&["--show-secrets"]).await else {
        return;
    };
    let secrets = code("return [{json: {password: 'hunter2'}}]");
    let workflow = env.live(vec![webhook("lastNode"), secrets]).await;
    let run = env.run(&workflow, json!({})).await;
    assert_eq!(run["output"], json!({"password": "hunter2"}), "{run}");
}
