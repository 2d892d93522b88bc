//! `get_execution` in all of its views, and the toolset `executions`.

use serde_json::{Value, json};

use super::lab::{Lab, code, http_request};
use crate::harness::{assert_contains, eventually};
use crate::n8n::site::{called_by_another, echo, fail, set, wait, webhook};
use crate::n8n::{done, refused};

fn ids(page: &Value) -> Vec<&str> {
    let rows = page["executions"].as_array().unwrap().iter();
    rows.map(|row| row["execution_id"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_list_is_filtered_by_n8n_and_goes_on_behind_its_cursor() {
    let Some(lab) = Lab::open().await else { return };
    let workflow = lab.site.live(vec![webhook("lastNode"), echo()]).await;
    let mut runs = Vec::new();
    for input in ["a", "b", "c"] {
        let run = lab.run(&workflow, json!({"input": input})).await;
        runs.insert(0, run["execution_id"].as_str().unwrap().to_owned());
    }
    let first = done!(lab, "list_executions", {"workflow_id": workflow.id, "limit": 2});
    assert_eq!(ids(&first), runs[..2], "{first}");
    let cursor = json!({"workflow_id": workflow.id, "limit": 2, "cursor": first["next_cursor"]});
    let second = done(&lab, "list_executions", cursor).await;
    assert_eq!(ids(&second), runs[2..], "{second}");
    assert_eq!(second.get("next_cursor"), None);
    let row = &second["executions"][0];
    assert_has!(row, {"status": "completed", "mode": "webhook"});
    let failed = json!({"workflow_id": workflow.id, "status": "failed"});
    assert!(ids(&done(&lab, "list_executions", failed).await).is_empty());
    lab.site.delete(&workflow).await;
}

#[tokio::test]
async fn what_runs_or_waits_is_in_the_list() {
    let Some(lab) = Lab::open().await else { return };
    let workflow = lab.site.live(vec![webhook("onReceived"), wait(60)]).await;
    let run = done!(lab, "run_workflow", {"workflow_id": workflow.id, "wait_seconds": 1});
    let listed = done!(lab, "list_executions", {"workflow_id": workflow.id});
    assert_eq!(
        ids(&listed),
        [run["execution_id"].as_str().unwrap()],
        "{listed}"
    );
    let stopped = json!({"execution_id": run["execution_id"]});
    if lab.is_too_old("stop_execution", stopped.clone()).await {
        lab.site.delete(&workflow).await;
        return;
    }
    let stopped = done(&lab, "stop_execution", stopped).await;
    assert_eq!(stopped["status"], "canceled");
    let canceled = json!({"workflow_id": workflow.id, "status": "canceled"});
    let canceled = done(&lab, "list_executions", canceled).await;
    assert_eq!(ids(&canceled), ids(&listed));
    let message = refused!(lab, "stop_execution", {"execution_id": run["execution_id"]});
    assert!(message.contains("ended already"), "{message}");
    lab.site.delete(&workflow).await;
}

#[tokio::test]
async fn a_list_begins_at_a_time() {
    let Some(lab) = Lab::open().await else { return };
    let workflow = lab.site.live(vec![webhook("lastNode"), echo()]).await;
    lab.run(&workflow, json!({})).await;
    for (since, count) in [("1h", 1), ("2020-01-01", 1), ("2099-01-01T00:00:00Z", 0)] {
        let listed = done!(lab, "list_executions", {"workflow_id": workflow.id, "since": since});
        assert_eq!(ids(&listed).len(), count, "{since}: {listed}");
    }
    let message = refused!(lab, "list_executions", {"since": "soon"});
    assert!(message.contains("how long ago"), "{message}");
    let message = refused!(lab, "list_executions", {"cursor": "made up"});
    assert!(message.contains("next_cursor"), "{message}");
    lab.site.delete(&workflow).await;
}

#[tokio::test]
async fn every_view_shows_what_it_should() {
    let Some(lab) = Lab::open().await else { return };
    let workflow = lab
        .site
        .live(vec![
            webhook("lastNode"),
            code("return [1, 2, 3].map(n => ({json: {n}}))"),
        ])
        .await;
    let run = lab.run(&workflow, json!({"input": "x"})).await;
    assert_eq!(run["status"], "completed", "{run}");
    let view = async |more: Value| {
        let mut arguments = json!({"execution_id": run["execution_id"]});
        arguments
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        done(&lab, "get_execution", arguments).await
    };
    let result = view(json!({})).await;
    assert_eq!(result["output"], json!([{"n": 1}, {"n": 2}, {"n": 3}]));
    assert_eq!(result["workflow_id"], workflow.id);
    assert_eq!(result.get("nodes"), None);

    let preview = view(json!({"view": "preview"})).await;
    let rows = preview["nodes"].as_array().unwrap();
    assert_eq!(
        (&rows[0]["node"], &rows[1]["node"]),
        (&json!("Webhook"), &json!("Code"))
    );
    assert_eq!(
        (&rows[1]["items"], &rows[1]["from"]),
        (&json!(3), &json!(["Webhook"]))
    );
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
    let message = refused(&lab, "get_execution", none).await;
    assert!(message.contains("Webhook, Code"), "{message}");
    lab.site.delete(&workflow).await;
}

#[tokio::test]
async fn large_items_are_cut_and_say_so() {
    let Some(lab) = Lab::open().await else { return };
    let many =
        code("return Array.from({length: 400}, (_, n) => ({json: {n, text: 'x'.repeat(3000)}}))");
    let workflow = lab.site.live(vec![webhook("onReceived"), many]).await;
    let run = lab.run(&workflow, json!({})).await;
    let arguments = json!({"execution_id": run["execution_id"], "view": "full", "items": 1000});
    let full = done(&lab, "get_execution", arguments).await;
    assert_eq!(full["cut"], true);
    assert!(
        full.to_string().len() < 48 * 1024,
        "{}",
        full.to_string().len()
    );
    assert_eq!(full["nodes"][1]["items"], 400);
    lab.site.delete(&workflow).await;
}

#[tokio::test]
async fn secrets_that_a_node_has_seen_are_hidden() {
    let Some(lab) = Lab::open().await else { return };
    let workflow = lab
        .site
        .live(vec![
            webhook("lastNode"),
            code(
                "return [{json: {password: 'hunter2', note: 'Bearer abcdef123456', kept: 'yes'}}]",
            ),
        ])
        .await;
    let run = lab.run(&workflow, json!({"api_key": "SECRET"})).await;
    assert_eq!(
        run["output"],
        json!({"password": "***", "note": "Bearer ***", "kept": "yes"})
    );
    let full = done!(lab, "get_execution", {"execution_id": run["execution_id"], "view": "full"});
    assert_eq!(full["nodes"][0]["output"][0]["body"]["api_key"], "***");
    assert!(!full.to_string().contains("hunter2"));
    let open = Lab::with(&["--show-secrets"]).await.unwrap();
    let shown = done!(open, "get_execution", {"execution_id": run["execution_id"]});
    assert_eq!(shown["output"]["password"], "hunter2");
    lab.site.delete(&workflow).await;
}

#[tokio::test]
async fn a_failure_is_explained() {
    let Some(lab) = Lab::open().await else { return };
    for (node, name, message, cause) in [
        (fail("boom"), "Stop", "boom", "on purpose"),
        (
            code("return $input.first().json.missing.field"),
            "Code",
            "undefined",
            "its input does not have",
        ),
        (
            http_request("http://127.0.0.1:1/x"),
            "HTTP Request",
            "",
            "cannot connect",
        ),
    ] {
        let workflow = lab
            .site
            .live(vec![webhook("lastNode"), set("given"), node])
            .await;
        let run = lab.run(&workflow, json!({"input": "x"})).await;
        assert_eq!(run["status"], "failed", "{run}");
        let why = done!(lab, "explain_execution", {"execution_id": run["execution_id"]});
        assert_eq!(why["failed"]["node"], name, "{why}");
        assert_contains(&why["failed"]["message"], message);
        assert_contains(&why["likely_cause"], cause);
        assert_eq!(why["failed"]["input_from"], json!(["Set"]), "{why}");
        assert_eq!(
            why["failed"]["input"],
            json!([{"result": "given"}]),
            "{why}"
        );
        assert_eq!(why["workflow_name"], workflow.name);
        assert!(!why.to_string().contains("node_modules"), "{why}");
        let error = json!({"execution_id": run["execution_id"], "view": "error"});
        let error = done(&lab, "get_execution", error).await;
        assert_eq!(error["failed"]["node"], name);
        lab.site.delete(&workflow).await;
    }
}

#[tokio::test]
async fn what_did_not_fail_is_not_explained() {
    let Some(lab) = Lab::open().await else { return };
    let workflow = lab.site.live(vec![webhook("lastNode"), echo()]).await;
    let run = lab.run(&workflow, json!({})).await;
    let id = json!({"execution_id": run["execution_id"]});
    let message = refused(&lab, "explain_execution", id.clone()).await;
    assert!(message.contains("did not fail"), "{message}");
    let message = refused(&lab, "retry_execution", id).await;
    assert!(message.contains("n8n retries only those"), "{message}");
    let message = refused!(lab, "explain_execution", {"execution_id": "999999999"});
    assert!(message.contains("no execution 999999999"), "{message}");
    lab.site.delete(&workflow).await;
}

#[tokio::test]
async fn a_failed_execution_is_retried_as_it_was_and_as_it_is_now() {
    let Some(lab) = Lab::open().await else { return };
    let workflow = lab.site.live(vec![webhook("lastNode"), fail("boom")]).await;
    let run = lab.run(&workflow, json!({})).await;
    let id = &run["execution_id"];
    let again = done!(lab, "retry_execution", {"execution_id": id});
    assert_eq!(again["status"], "failed", "{again}");
    assert_ne!(again["execution_id"], *id);
    let listed = done!(lab, "list_executions", {"workflow_id": workflow.id});
    assert_eq!(listed["executions"][0]["retry_of"], *id, "{listed}");
    lab.site.delete(&workflow).await;
}

#[tokio::test]
async fn an_execution_is_deleted_only_after_a_yes() {
    let Some(lab) = Lab::open().await else { return };
    let workflow = lab.site.live(vec![webhook("lastNode"), echo()]).await;
    let run = lab.run(&workflow, json!({})).await;
    let id = run["execution_id"].as_str().unwrap();
    let message = refused!(lab, "delete_execution", {"execution_id": id});
    assert!(message.contains("Nothing was done yet"), "{message}");
    refused!(lab, "delete_execution", {"execution_id": id, "confirm": "1"});
    done(&lab, "get_execution", json!({"execution_id": id})).await;
    let yes = json!({"execution_id": id, "confirm": id});
    assert_eq!(
        done(&lab, "delete_execution", yes).await,
        json!({"deleted": id})
    );
    refused!(lab, "get_execution", {"execution_id": id});
    lab.site.delete(&workflow).await;
}

#[tokio::test]
async fn a_sub_workflow_shows_up_as_an_execution_of_its_own() {
    let Some(lab) = Lab::open().await else { return };
    let nodes = vec![called_by_another(), set("from below")];
    // n8n 1 has nothing to activate in it, n8n 2 calls only what is published.
    let sub = if lab.site.is_old().await {
        lab.site.draft(nodes, json!({})).await
    } else {
        lab.site.live(nodes).await
    };
    let call = json!({
        "id": uuid::Uuid::new_v4().to_string(), "name": "Sub", "type": "n8n-nodes-base.executeWorkflow",
        "typeVersion": 1.2, "position": [0, 0],
        "parameters": {"workflowId": {"__rl": true, "mode": "id", "value": sub.id}, "options": {}},
    });
    let workflow = lab.site.live(vec![webhook("lastNode"), call]).await;
    let run = lab.run(&workflow, json!({})).await;
    assert_eq!(run["output"], json!({"result": "from below"}), "{run}");
    let listed = eventually("its end", async || {
        let listed = done!(lab, "list_executions", {"workflow_id": sub.id});
        (listed["executions"][0]["status"] == "completed").then_some(listed)
    })
    .await;
    assert_eq!(listed["executions"][0]["mode"], "integrated", "{listed}");
    lab.site.delete(&workflow).await;
    lab.site.delete(&sub).await;
}
