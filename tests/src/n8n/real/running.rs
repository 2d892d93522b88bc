//! Runs that take long, are cancelled, or are not saved.

use futures_util::future::join_all;
use tokio::sync::mpsc;

use super::*;
use crate::harness::{FakeService, Response};

#[tokio::test]
async fn long_run_is_followed_by_its_id() {
    let Some(env) = Env::urls().await else { return };
    let gate = Gate::start().await;
    let nodes = vec![webhook("lastNode"), gate.node(), echo()];
    let workflow = env.live(nodes).await;
    let (reports, mut reported) = mpsc::channel(64);
    let arguments = json!({"workflow_id": workflow.id, "parameters": {"input": "slow"}});
    let options = Options::default().progress(reports);
    let called = env
        .client
        .call_tool_with("run_workflow", &arguments, options);
    let early = async {
        // It waits for the activation, so that the others use their whole time.
        gate.wait_for(1).await;
        let runs = [0, 1].map(async |seconds| {
            let parameters = json!({"input": "later"});
            let arguments = json!({"workflow_id": workflow.id, "wait_seconds": seconds, "parameters": parameters});
            done(&env, "run_workflow", arguments).await
        });
        let early = join_all(runs).await;
        let first = reported.recv().await.expect("a report");
        assert_eq!(first.total, Some(20.0));
        gate.open();
        early
    };
    let (result, early) = tokio::join!(called, early);
    let result = result.unwrap().structured_content.unwrap();
    let whole: Value = serde_json::from_str(result.get()).unwrap();
    let whole = followed(&env, whole, &arguments).await;
    assert_eq!(whole["output"], json!({"result": "slow"}), "{whole}");
    for early in early {
        assert_eq!(early["status"], "running", "{early}");
        let end = end_of(&env, &early).await;
        assert_has!(end, {"status": "completed", "output": {"result": "later"}});
    }
}

#[tokio::test]
async fn early_reply_of_a_waiting_run_is_not_its_result() {
    let Some(env) = Env::urls().await else { return };
    // If a node waits for 65 s or more, n8n replies 200 at once, with the trigger's data.
    let workflow = env.live(vec![webhook("lastNode"), wait(600), echo()]).await;
    let run = done!(env, "run_workflow", {"workflow_id": workflow.id, "wait_seconds": 12,
        "parameters": {"input": "x"}});
    let id = run["execution_id"].as_str().unwrap();
    // A busy n8n may suspend it only after the deadline of the call.
    env.wait_for_status(&format!("/executions/{id}"), "waiting")
        .await;
    let waiting = done!(env, "get_execution", {"execution_id": id});
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    let open = [json!("waiting"), json!("running")];
    assert!(open.contains(&run["status"]), "{run}");
    for shown in [&run, &waiting] {
        assert_eq!(shown.get("output"), None, "{shown}");
    }
    let path = format!("/executions/{id}/stop");
    env.api("POST", &path, None).await;
    let end = end_of(&env, &run).await;
    assert_eq!(end["status"], "canceled", "{end}");
}

#[tokio::test]
async fn cancelled_call_stops_its_run() {
    let Some(env) = Env::full().await else { return };
    for (trigger, vars) in [
        (webhook("lastNode"), &env.env_without_mcp()[..]),
        (schedule(), &env.env()[..]),
    ] {
        let client = stdio_client(SERVER, vars).await;
        let is_webhook = vars.len() == 2;
        let workflow = env.live(vec![trigger, wait(60)]).await;
        let list = format!("/executions?workflowId={}&status=running", workflow.id);
        let is_time = async |message: &str| match is_webhook {
            true => message.starts_with("Execution "),
            false => env.get(&list).await["data"][0].is_object(),
        };
        let arguments = json!({"workflow_id": workflow.id, "wait_seconds": 25});
        run_and_cancel(&client, &arguments, is_time).await;
        execution_with(&env, &workflow, "canceled").await;
        client.close().await;
    }
}

#[tokio::test]
async fn runs_that_n8n_does_not_save_return_the_reply_at_once_unless_it_may_be_a_refusal() {
    let Some(env) = Env::urls().await else { return };
    let settings = json!({"saveDataSuccessExecution": "none", "saveDataErrorExecution": "none"});
    let nodes = vec![webhook("lastNode"), echo()];
    let workflow = env.live_with(nodes, settings.clone()).await;
    // The first waits for the activation.
    env.run(&workflow, json!({"input": "first"})).await;
    let runs = (0..5).map(|at| env.run(&workflow, json!({"input": format!("run {at}")})));
    for (at, ran) in join_all(runs).await.into_iter().enumerate() {
        let output = json!({"result": format!("run {at}")});
        assert_has!(ran, {"status": "completed", "output": output, "response": {"status": 200}});
        assert_contains(&ran["note"], "keeps no execution");
    }
    // A workflow may answer as n8n or a proxy does that refuses a request: without an execution nobody can tell.
    for (status, other) in [
        (429, "busy or not ready"),
        (503, "busy or not ready"),
        (404, "set N8N_WEBHOOK_URL"),
        (401, "asks for authentication"),
        (302, "redirects"),
    ] {
        let mut answer = respond();
        answer["parameters"]["options"] = json!({"responseCode": status});
        let nodes = vec![webhook("responseNode"), answer];
        let workflow = env.live_with(nodes, settings.clone()).await;
        let run = json!({"workflow_id": workflow.id});
        // An execution that is seen before its end is known to have run.
        let refused = eventually("a run that n8n does not show", async || {
            let ran = call(&env, "run_workflow", run.clone()).await;
            let is_seen = !ran.is_error && ran.text().contains("execution_id");
            (!is_seen).then_some(ran)
        });
        let refused = refused.await;
        let said = refused.text();
        assert!(refused.is_error, "{said}");
        assert_contains(&said, &format!("HTTP {status}, and n8n shows no execution"));
        assert_contains(&said, "may have run or not; it was not repeated");
        assert_contains(&said, other);
        assert_lacks(&said, "did not accept");
        assert_lacks(&said, "Try again");
    }
}

#[tokio::test]
async fn answer_of_the_webhook_is_part_of_the_result() {
    let Some(env) = Env::urls().await else { return };
    let mut answer = respond();
    answer["parameters"]["options"] = json!({"responseCode": 422});
    let workflow = env.live(vec![webhook("responseNode"), answer]).await;
    let ran = env.run(&workflow, json!({"input": "x"})).await;
    assert_has!(ran, {"status": "completed", "response": {"status": 422,
        "body": {"said": "by the node"}}});
    // The output of the node that responds is the request itself, with its headers.
    assert_eq!(ran.get("output"), None, "{ran}");
    assert_contains(&ran["note"], "the request itself");
    assert_contains(&ran["response"]["content_type"], "application/json");
    // It is shown if the reply came before.
    let all = set("={{ JSON.stringify($json.headers) }}");
    let workflow = env.live(vec![webhook("onReceived"), all]).await;
    let ran = env.run(&workflow, json!({})).await;
    assert_contains(&ran["output"]["result"], "x-mcp-request-id");
    // The places in n8n's source are not.
    let workflow = env
        .live(vec![webhook("lastNode"), code("return [];")])
        .await;
    let ran = env.run(&workflow, json!({})).await;
    assert_eq!(ran["response"]["status"], 500, "{ran}");
    assert_contains(&ran["response"]["body"]["message"], "No item to return");
    assert_lacks(&ran.to_string(), "stack");
}

#[tokio::test]
async fn answer_is_shown_once_and_obeys_the_selection() {
    let Some(env) = Env::urls().await else { return };
    let text = "return Array.from({length: 200}, (_, i) => ({json: {i, text: 'x'.repeat(50)}}))";
    let mut hook = webhook("lastNode");
    hook["parameters"]["responseData"] = json!("allEntries");
    let workflow = env.live(vec![hook, code(text)]).await;
    let id = &workflow.id;
    env.run(&workflow, json!({})).await;
    for arguments in [
        json!({"workflow_id": id}),
        json!({"workflow_id": id, "items": 1, "fields": ["i"]}),
    ] {
        let ran = run_with(&env, arguments).await;
        assert_eq!(ran["status"], "completed", "{ran}");
        assert_eq!(ran["response"].get("body"), None, "{ran}");
    }
    let mut answer = respond();
    answer["parameters"]["responseBody"] = json!("[{\"a\": 1, \"b\": 2}, {\"a\": 3, \"b\": 4}]");
    let workflow = env.live(vec![webhook("responseNode"), answer]).await;
    let selected = json!({"workflow_id": workflow.id, "items": 1, "fields": ["a"]});
    let ran = run_with(&env, selected).await;
    assert_eq!(ran["response"]["body"], json!([{"a": 1}]), "{ran}");
}

#[tokio::test]
async fn page_of_something_in_front_of_n8n_is_no_success() {
    let Some(env) = Env::urls().await else { return };
    let page = FakeService::start(|_| Response::html(200)).await;
    let [url, key] = env.env_without_mcp();
    let vars = [url, key, ("N8N_WEBHOOK_URL", page.url.as_str())];
    let server = Server::start(SERVER, &vars).await;
    // With an execution that is kept, and with none.
    for settings in [
        json!({}),
        json!({"saveDataSuccessExecution": "none", "saveDataErrorExecution": "none"}),
    ] {
        let nodes = vec![webhook("lastNode"), echo()];
        let workflow = env.live_with(nodes, settings).await;
        let ran = done!(server.client().await, "run_workflow", {"workflow_id": workflow.id});
        assert_has!(ran, {"status": "unknown", "response": {"status": 200}});
        assert_contains(&ran["note"], "login page");
    }
}

#[tokio::test]
async fn output_of_many_items_is_short_and_that_of_branches_and_filters_not_mistaken() {
    let Some(env) = Env::urls().await else { return };
    let many =
        "return Array.from({length: 10000}, (_, at) => ({json: {at, text: 'x'.repeat(50)}}));";
    let workflow = env.live(vec![webhook("onReceived"), code(many)]).await;
    let ran = env.run(&workflow, json!({})).await;
    assert_contains(&ran["note"], "of 10000 items");
    let size = ran.to_string().len();
    assert!(size < 10_000, "{size}");
    let chosen = json!({"workflow_id": workflow.id, "items": 2, "fields": ["at"]});
    let ran = run_with(&env, chosen).await;
    assert_eq!(ran["output"], json!([{"at": 0}, {"at": 1}]), "{ran}");
    let arguments = json!({"execution_id": ran["execution_id"], "items": 1, "fields": ["at"]});
    let got = done(&env, "get_execution", arguments).await;
    assert_eq!(got["output"], json!([{"at": 0}]), "{got}");
    let large = set("={{ 'x'.repeat(300000) }}");
    let workflow = env.live(vec![webhook("lastNode"), large]).await;
    let ran = env.run(&workflow, json!({})).await;
    assert_eq!(ran["status"], "completed");
    assert!(ran.to_string().len() < 40_000, "{}", ran.to_string().len());
    assert_starts_with(&ran["note"], "Cut:");
    let (mut a, mut b) = (set("a"), set("b"));
    (a["name"], b["name"]) = (json!("A"), json!("B"));
    let connections = json!({"Webhook": {"main": [[target("A"), target("B")]]}});
    let nodes = vec![webhook("lastNode"), a, b];
    let workflow = env.connected_nodes(nodes, connections).await;
    let ran = env.run(&workflow, json!({})).await;
    // Both are at one place, and n8n runs them in either order.
    let is_b = ran["output"]["result"] == "b";
    let other = if is_b { "A" } else { "B" };
    assert_contains(&ran["note"], &format!("Other branches ended at: {other}."));

    let operator = json!({"type": "number", "operation": "equals"});
    let never = json!({"id": "1", "leftValue": 1, "rightValue": 2, "operator": operator});
    let options = json!({"version": 2, "caseSensitive": true, "typeValidation": "strict"});
    let all = json!({"options": options, "conditions": [never], "combinator": "and"});
    let all = json!({"conditions": all, "options": {}});
    let filter = node_builders::base("Filter", "filter", 2.2, all);
    let workflow = env.live(vec![webhook("onReceived"), filter]).await;
    let ran = env.run(&workflow, json!({})).await;
    assert_has!(ran, {"status": "completed", "output": []});
}

/// n8n lists executions of this size only after seconds, and holds up everybody else meanwhile.
#[tokio::test]
async fn runs_with_large_outputs_end_each_with_its_own() {
    let Some(env) = Env::urls().await else { return };
    let large =
        "return [{json: {input: $('Webhook').item.json.body.input, text: 'x'.repeat(5e6)}}];";
    let workflow = env.live(vec![webhook("lastNode"), code(large)]).await;
    let mut ids = std::collections::HashSet::new();
    for n in 0..5 {
        let arguments =
            json!({"workflow_id": workflow.id, "parameters": {"input": n}, "fields": ["input"]});
        let ran = run_with(&env, arguments).await;
        assert_eq!(ran["status"], "completed", "{n}: {ran}");
        assert_eq!(ran["output"], json!({"input": n}));
        assert!(ids.insert(ran["execution_id"].to_string()));
    }
}

/// The reply is there before the execution has ended: there is nothing more to wait for.
#[tokio::test]
async fn run_ends_with_the_reply_of_its_webhook() {
    let Some((proxy, env)) = Env::counted().await else {
        return;
    };
    let workflow = env.live(vec![webhook("lastNode"), echo()]).await;
    // It is found in a list, and read. A busy n8n may write an execution later, and be asked again.
    eventually("a run with three requests after its reply", async || {
        proxy.take();
        let ran = env.run(&workflow, json!({"input": "x"})).await;
        assert_eq!(ran["output"], json!({"result": "x"}), "{ran}");
        let sent = proxy.take();
        let after = sent.iter().rev();
        let after = after.take_while(|sent| !sent.starts_with("POST"));
        (after.count() <= 3).then_some(())
    })
    .await;
}
