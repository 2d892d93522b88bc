//! Against a real n8n.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::join_all;
use mcp_client::{Client, Options};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::site::{
    Site, Workflow, called_by_another, chat, echo, fail, form, manual, respond, schedule, set,
    unique, wait, webhook, webhook_at,
};
use super::{SERVER, done, refused};
use crate::harness::{Server, stdio};

async fn run(client: &Client, workflow: &Workflow, parameters: Value) -> Value {
    let arguments = json!({"workflow_id": workflow.id, "parameters": parameters});
    done(client, "run_workflow", arguments).await
}

/// Asks until the execution has left `running` and `waiting`, as a caller would.
async fn end_of(client: &Client, run: &Value) -> Value {
    let followed = timeout(Duration::from_secs(30), async {
        loop {
            let arguments = json!({"execution_id": run["execution_id"]});
            let now = done(client, "get_execution", arguments).await;
            if now["status"] != "running" && now["status"] != "waiting" {
                return now;
            }
            sleep(Duration::from_millis(200)).await;
        }
    });
    followed.await.expect("it ends")
}

/// Every kind of trigger that has a URL, over one transport. The workflows are run the moment they
/// were activated, which n8n takes a moment to notice.
async fn urls(site: &Site, client: &Client) {
    for mode in ["lastNode", "onReceived"] {
        let workflow = site.live(vec![webhook(mode), echo()]).await;
        let run = run(client, &workflow, json!({"input": "Hello, World!"})).await;
        assert_eq!(run["status"], "completed", "{run}");
        assert_eq!(run["output"], json!({"result": "Hello, World!"}), "{run}");
        assert_eq!(run["way"], "webhook");
        let execution = site.execution(&run).await;
        assert_eq!(execution["workflowId"], *workflow.id);
        assert_eq!(execution["status"], "success");
        site.delete(&workflow).await;
    }

    let workflow = site
        .live(vec![webhook("responseNode"), echo(), respond()])
        .await;
    let answered = run(client, &workflow, json!({"input": "x"})).await;
    assert_eq!(answered["status"], "completed", "{answered}");
    assert_eq!(answered["output"], json!({"result": "x"}));
    site.delete(&workflow).await;

    let workflow = site.live(vec![webhook("lastNode"), fail("boom")]).await;
    let failed = run(client, &workflow, json!({})).await;
    assert_eq!(failed["status"], "failed", "{failed}");
    assert_eq!(failed["error"], json!({"node": "Stop", "message": "boom"}));
    site.delete(&workflow).await;

    let path = format!("{}/:item/of/:group", unique("items"));
    let expression = "={{ $json.params.item + ' ' + $json.params.group + ' ' + $json.query.q }}";
    let workflow = site
        .live(vec![webhook_at(&path, "GET", "lastNode"), set(expression)])
        .await;
    let got = run(
        client,
        &workflow,
        json!({"item": "a b", "group": 7, "q": "ü&=?"}),
    )
    .await;
    assert_eq!(got["output"], json!({"result": "a b 7 ü&=?"}), "{got}");
    for item in [json!(null), json!(".."), json!("a/b")] {
        let arguments =
            json!({"workflow_id": workflow.id, "parameters": {"item": item, "group": 1}});
        let message = refused(client, "run_workflow", arguments).await;
        assert!(message.contains("`parameters.item`"), "{message}");
    }
    site.delete(&workflow).await;

    let workflow = site
        .live(vec![chat(), set("={{ 'echo ' + $json.chatInput }}")])
        .await;
    let said = run(client, &workflow, json!({"chatInput": "hi"})).await;
    assert_eq!(
        (&said["output"], &said["way"]),
        (&json!({"result": "echo hi"}), &json!("chat"))
    );
    site.execution(&said).await;
    site.delete(&workflow).await;
}

#[tokio::test]
async fn triggers_with_a_url_run_over_http() {
    let Some(site) = Site::new() else { return };
    let server = Server::start(SERVER, &site.env_without_mcp()).await;
    urls(&site, &server.client().await).await;
    let info = server.result("mcp.getServerInfo", json!({})).await;
    assert_eq!(info["status"], "online");
}

#[tokio::test]
async fn triggers_with_a_url_run_over_stdio() {
    let Some(site) = Site::new() else { return };
    let client = stdio(SERVER, &site.env_without_mcp()).await;
    urls(&site, &client).await;
    client.close().await;
}

#[tokio::test]
async fn the_builtin_mcp_server_starts_the_others() {
    let Some(site) = Site::new() else { return };
    let server = Server::start(SERVER, &site.env()).await;
    let client = server.client().await;

    let active = [
        (vec![schedule(), set("scheduled")], json!({}), "scheduled"),
        (
            vec![form(), set("={{ $json.input }}")],
            json!({"input": "filled"}),
            "filled",
        ),
    ];
    for (nodes, parameters, result) in active {
        let workflow = site.live(nodes).await;
        let ran = run(&client, &workflow, parameters).await;
        assert_eq!(ran["output"], json!({ "result": result }), "{ran}");
        assert_eq!(ran["way"], "mcp_production");
        assert_eq!(site.execution(&ran).await["workflowId"], *workflow.id);
        site.delete(&workflow).await;
    }
    let inactive = [
        (vec![manual(), set("by hand")], json!({}), "by hand"),
        (
            vec![webhook("lastNode"), echo()],
            json!({"input": "draft"}),
            "draft",
        ),
    ];
    for (nodes, parameters, result) in inactive {
        let workflow = site.draft(nodes, json!({})).await;
        let ran = run(&client, &workflow, parameters).await;
        assert_eq!(ran["output"], json!({ "result": result }), "{ran}");
        assert_eq!(ran["way"], "mcp_manual");
        site.delete(&workflow).await;
    }

    let workflow = site.draft(vec![manual()], json!({})).await;
    let arguments = json!({"workflow_id": workflow.id, "parameters": {"input": 1}});
    let message = refused(&client, "run_workflow", arguments).await;
    assert!(message.contains("takes no parameters"), "{message}");
    site.delete(&workflow).await;
}

#[tokio::test]
async fn what_cannot_be_run_says_what_to_do() {
    let Some(site) = Site::new() else { return };
    let server = Server::start(SERVER, &site.env_without_mcp()).await;
    let client = server.client().await;

    let archived = site.draft(vec![webhook("lastNode")], json!({})).await;
    site.api("POST", &format!("/workflows/{}/archive", archived.id), None)
        .await;
    let cases = [
        (site.draft(vec![manual()], json!({})).await, "N8N_MCP_TOKEN"),
        (
            site.draft(vec![schedule()], json!({})).await,
            "N8N_MCP_TOKEN",
        ),
        (
            site.draft(vec![webhook("lastNode")], json!({})).await,
            "activate it in n8n",
        ),
        (
            site.draft(vec![called_by_another()], json!({})).await,
            "add a Webhook trigger",
        ),
        (site.draft(vec![set("x")], json!({})).await, "no trigger"),
        (archived, "archived"),
    ];
    for (workflow, advice) in &cases {
        let message = refused(&client, "run_workflow", json!({"workflow_id": workflow.id})).await;
        assert!(message.contains(advice), "{message}");
        site.delete(workflow).await;
    }

    let several = vec![webhook("lastNode"), {
        let mut second = webhook("lastNode");
        second["name"] = json!("Second");
        second
    }];
    let workflow = site.live(several).await;
    let message = refused(&client, "run_workflow", json!({"workflow_id": workflow.id})).await;
    assert!(
        message.contains("`Webhook` (webhook), `Second` (webhook)"),
        "{message}"
    );
    let arguments = json!({"workflow_id": workflow.id, "trigger": "Third"});
    let message = refused(&client, "run_workflow", arguments).await;
    assert!(message.contains("no trigger \"Third\""), "{message}");
    let arguments = json!({"workflow_id": workflow.id, "trigger": "Second"});
    let ran = done(&client, "run_workflow", arguments).await;
    assert_eq!(
        (&ran["status"], &ran["trigger"]),
        (&json!("completed"), &json!("Second"))
    );
    site.delete(&workflow).await;
}

#[tokio::test]
async fn parallel_runs_keep_their_executions_apart() {
    let Some(site) = Site::new() else { return };
    let server = Server::start(SERVER, &site.env_without_mcp()).await;
    let client = server.client().await;
    for mode in ["lastNode", "onReceived"] {
        let workflow = site.live(vec![webhook(mode), echo()]).await;
        let one = async |n: usize| {
            let input = format!("number {n}");
            let ran = run(&client, &workflow, json!({ "input": input })).await;
            assert_eq!(ran["output"], json!({ "result": input }), "{ran}");
            let execution = site.execution(&ran).await.to_string();
            assert!(
                execution.contains(&format!("{input:?}")),
                "{ran} is not {input}"
            );
            ran["execution_id"].as_str().unwrap().to_owned()
        };
        let ids: HashSet<String> = join_all((0..20).map(one)).await.into_iter().collect();
        assert_eq!(ids.len(), 20);
        let all = site
            .api(
                "GET",
                &format!("/executions?workflowId={}", workflow.id),
                None,
            )
            .await;
        assert_eq!(all["data"].as_array().unwrap().len(), 20, "none ran twice");
        site.delete(&workflow).await;
    }
}

#[tokio::test]
async fn a_long_run_is_followed_by_its_id() {
    let Some(site) = Site::new() else { return };
    let server = Server::start(SERVER, &site.env_without_mcp()).await;
    let client = server.client().await;

    let workflow = site.live(vec![webhook("lastNode"), wait(4), echo()]).await;
    // The first run rides out the activation, so that the bounds of the others are theirs.
    let (reports, mut reported) = mpsc::channel(64);
    let arguments = json!({"workflow_id": workflow.id, "parameters": {"input": "slow"}});
    let options = Options::default().progress(reports);
    let result = client
        .call_tool_with("run_workflow", &arguments, options)
        .await
        .unwrap();
    let whole: Value = serde_json::from_str(result.structured_content.unwrap().get()).unwrap();
    assert_eq!(whole["output"], json!({"result": "slow"}), "{whole}");
    let first = reported.recv().await.expect("a report");
    assert_eq!(first.total, Some(20.0));

    for seconds in [0, 1] {
        let arguments = json!({"workflow_id": workflow.id, "wait_seconds": seconds, "parameters": {"input": "later"}});
        let early = done(&client, "run_workflow", arguments).await;
        assert_eq!(early["status"], "running", "{early}");
        let end = end_of(&client, &early).await;
        assert_eq!(end["status"], "completed", "{end}");
        assert_eq!(end["output"], json!({"result": "later"}));
    }
    site.delete(&workflow).await;
}

#[tokio::test]
async fn an_early_reply_of_a_waiting_run_is_seen_through() {
    let Some(site) = Site::new() else { return };
    let server = Server::start(SERVER, &site.env_without_mcp()).await;
    let client = server.client().await;
    // From 65 s on n8n answers 200 at once, with what the trigger received.
    let workflow = site.live(vec![webhook("lastNode"), wait(90), echo()]).await;
    let arguments =
        json!({"workflow_id": workflow.id, "wait_seconds": 4, "parameters": {"input": "x"}});
    let waiting = done(&client, "run_workflow", arguments).await;
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    assert_eq!(waiting.get("output"), None);
    let id = waiting["execution_id"].as_str().unwrap();
    site.api("POST", &format!("/executions/{id}/stop"), None)
        .await;
    let end = end_of(&client, &waiting).await;
    assert_eq!(end["status"], "canceled", "{end}");
    site.delete(&workflow).await;
}

#[tokio::test]
async fn a_cancelled_call_stops_its_run() {
    let Some(site) = Site::new() else { return };
    let client = stdio(SERVER, &site.env_without_mcp()).await;
    let workflow = site.live(vec![webhook("lastNode"), wait(60), echo()]).await;
    let (reports, mut reported) = mpsc::channel(64);
    let arguments = json!({"workflow_id": workflow.id, "parameters": {"input": "x"}});
    let options = Options::default().progress(reports);
    tokio::select! {
        result = client.call_tool_with("run_workflow", &arguments, options) => panic!("{result:?}"),
        // Dropping the call cancels it, once its execution is known.
        () = async {
            while let Some(report) = reported.recv().await {
                if report.message.is_some_and(|message| message.starts_with("Execution ")) {
                    return;
                }
            }
        } => {}
    }
    let list = format!("/executions?workflowId={}", workflow.id);
    let stopped = timeout(Duration::from_secs(10), async {
        while site.api("GET", &list, None).await["data"][0]["status"] != "canceled" {
            sleep(Duration::from_millis(100)).await;
        }
    });
    stopped.await.expect("it is stopped");
    site.delete(&workflow).await;
    client.close().await;
}

#[tokio::test]
async fn a_run_that_n8n_does_not_keep_returns_the_reply() {
    let Some(site) = Site::new() else { return };
    let server = Server::start(SERVER, &site.env_without_mcp()).await;
    let client = server.client().await;
    let settings = json!({"saveDataSuccessExecution": "none"});
    let workflow = site
        .live_with(vec![webhook("lastNode"), echo()], settings)
        .await;
    let ran = run(&client, &workflow, json!({"input": "gone"})).await;
    assert_eq!(ran["status"], "completed", "{ran}");
    assert_eq!(ran["output"], json!({"result": "gone"}));
    assert!(
        ran["note"].as_str().unwrap().contains("keeps no execution"),
        "{ran}"
    );
    site.delete(&workflow).await;
}
