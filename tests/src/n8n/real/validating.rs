//! `validate_workflow`

use super::counting_proxy::CountingProxy;
use super::*;

/// The findings of a workflow in which the first of these nodes leads to all others.
async fn findings(env: &Env, nodes: &Value) -> Value {
    let all = nodes.as_array().unwrap();
    let target = |node: &Value| json!({"node": node["name"], "type": "main", "index": 0});
    let targets: Vec<_> = all[1..].iter().map(target).collect();
    let connections = json!({all[0]["name"].as_str().unwrap(): {"main": [targets]}});
    let workflow = json!({"name": "V", "nodes": nodes, "connections": connections});
    done(env, "validate_workflow", json!({ "workflow": workflow })).await
}

#[track_caller]
fn assert_found(found: &Value, severity: &str, node: &str, part: &str) {
    let all = found["findings"].as_array().unwrap();
    let hit = all.iter().any(|one| {
        let message = one["message"].as_str().unwrap();
        one["severity"] == severity && one["node"] == node && message.contains(part)
    });
    assert!(hit, "{found:#}");
}

fn node(name: &str, kind: &str, version: f64, parameters: Value) -> Value {
    json!({"name": name, "type": kind, "typeVersion": version, "parameters": parameters})
}

#[tokio::test]
async fn working_workflow_is_valid() {
    let Some(env) = Env::full().await else { return };
    let workflow = env.live(vec![webhook("lastNode"), echo()]).await;
    let arguments = json!({"workflow_id": workflow.id});
    let found = done(&env, "validate_workflow", arguments).await;
    assert_has!(found, {"valid": true, "findings": []});
    assert!(found["unchecked"].is_null(), "{found}");
    let both = json!({"workflow_id": workflow.id, "workflow": {}});
    for arguments in [json!({}), both] {
        assert_refused(&env, "validate_workflow", arguments, "either").await;
    }
    env.delete(&workflow).await;
}

#[tokio::test]
async fn errors_of_structure_and_expressions_are_found() {
    let Some(env) = Env::full().await else { return };
    let set = |name: &str, value: &str| node(name, "n8n-nodes-base.set", 3.4, json!({"x": value}));
    let nodes = json!([
        webhook("lastNode"),
        set("A", "={{ $('Nope').item }}"),
        set("B", "={{ $json.a"),
        set("C", "{{ $json.a }}"),
        node(
            "D",
            "n8n-nodes-base.code",
            2.0,
            json!({"jsCode": "return []"})
        ),
    ]);
    let found = findings(&env, &nodes).await;
    // n8n publishes it; the runs would fail.
    assert_eq!(found["valid"], true, "{found}");
    assert_found(&found, "warning", "A", "\"Nope\"");
    assert_found(&found, "warning", "B", "without");
    assert_found(&found, "warning", "C", "does not start with");
    assert_found(&found, "warning", "D", "runs code");
    let alone = findings(&env, &json!([set("A", "x")])).await;
    assert!(alone.to_string().contains("No trigger"), "{alone}");
}

#[tokio::test]
async fn unknown_nodes_and_parameters_are_found() {
    let Some(env) = Env::full().await else { return };
    let unknown_operation = json!({"resource": "message", "operation": "sing"});
    let nodes = json!([
        webhook("lastNode"),
        node("A", "n8n-nodes-base.madeUp", 1.0, json!({})),
        node("B", "n8n-nodes-base.set", 99.0, json!({})),
        node("C", "n8n-nodes-base.httpRequest", 4.2, json!({})),
        node("D", "n8n-nodes-base.slack", 2.2, unknown_operation),
    ]);
    let found = findings(&env, &nodes).await;
    // n8n does not check publishing then, and the webhook asks for no authentication.
    let all = found["findings"].as_array().unwrap();
    assert!(all.iter().all(|one| one["node"] != "Webhook"), "{found}");
    assert_eq!(found["valid"], false);
    assert_found(&found, "error", "A", "no node of type");
    assert_found(&found, "error", "B", "no version 99");
    assert_found(&found, "error", "C", "url");
    assert_found(&found, "warning", "D", "sing");
}

#[tokio::test]
async fn missing_credentials_are_found() {
    let Some(env) = Env::full().await else { return };
    let parameters = json!({"resource": "message", "operation": "post", "select": "channel"});
    let bare = node("A", "n8n-nodes-base.slack", 2.2, parameters);
    let mut gone = bare.clone();
    gone["name"] = json!("B");
    gone["credentials"] = json!({"slackApi": {"id": unique("x")[..16], "name": "gone"}});
    let found = findings(&env, &json!([webhook("lastNode"), bare, gone])).await;
    assert_found(&found, "error", "A", "Missing required credential");
    assert_found(&found, "warning", "B", "does not exist");
    // n8n names the credentials of this node by its version.
    let query = json!({"operation": "executeQuery", "query": "select 1"});
    let bare = node("P", "n8n-nodes-base.postgres", 2.5, query);
    let found = findings(&env, &json!([webhook("lastNode"), bare])).await;
    assert_found(&found, "error", "P", "Missing required credential");
}

#[tokio::test]
async fn verdict_is_that_of_publishing_and_leaves_nothing_behind() {
    let Some(env) = Env::full().await else { return };
    let path = unique("taken");
    let mut hook = webhook("lastNode");
    hook["parameters"]["path"] = json!(path);
    let live = env.live(vec![hook.clone(), echo()]).await;
    let own = done!(env, "validate_workflow", {"workflow_id": live.id});
    assert_has!(own, {"valid": true, "findings": []});
    let call = json!({"workflowId": {"__rl": true, "mode": "id", "value": "none"}});
    let nodes = json!([
        hook,
        node("Sub", "n8n-nodes-base.executeWorkflow", 1.2, call),
        node(
            "Mail",
            "n8n-nodes-base.emailSend",
            2.1,
            json!({"subject": "x"})
        ),
        node("Old", "n8n-nodes-base.set", 99.0, json!({})),
    ]);
    let found = findings(&env, &nodes).await;
    let all = found.to_string();
    assert!(all.contains("same method and path"), "{all}");
    assert_found(&found, "error", "Sub", "references workflow none");
    assert_found(&found, "error", "Mail", "fromEmail");
    assert_found(&found, "error", "Old", "no version 99");
    // Other tests have copies at the same time, for a moment.
    wait_until("copies to be deleted", async || {
        let left = done!(env, "list_workflows", {"name": "publish check"});
        left == json!({"workflows": []})
    })
    .await;
    env.delete(&live).await;
}

/// The server is killed while n8n has a copy.
#[tokio::test]
async fn copy_of_a_killed_server_is_deleted_at_the_next_start() {
    let Some(n8n) = Instance::new() else { return };
    let proxy = CountingProxy::start(&n8n.config.url).await;
    let env = [
        ("N8N_URL", proxy.url.as_str()),
        ("N8N_API_KEY", n8n.config.api_key.as_str()),
    ];
    let args = ["--toolsets", "all"];
    let server = Box::pin(Server::with_args(SERVER, &args, &env)).await;
    let client = Box::pin(server.client()).await;
    // A first check: the next one makes its own copy at once.
    let workflow = n8n.draft(vec![webhook("lastNode"), echo()]).await;
    let arguments = json!({"workflow_id": workflow.id});
    done(&client, "validate_workflow", arguments.clone()).await;
    proxy.take();
    let held = proxy.hold("POST /api/v1/workflows/");
    tokio::select! {
        _ = call(&client, "validate_workflow", arguments) => panic!("it is held"),
        () = held.reached() => {}
    }
    server.kill().await;
    let activation = proxy.take().pop().unwrap();
    let id = activation.split('/').nth(4).unwrap().to_owned();
    let copy = n8n.get(&format!("/workflows/{id}")).await;
    let name = copy["name"].as_str().unwrap().to_owned();
    assert_starts_with(&name, "publish check ");
    // Those of users: the name of a copy without its mark, its nodes under another name, and a similar name.
    let nodes = copy["nodes"].as_array().unwrap();
    let own = [
        n8n.named(name.clone(), vec![webhook("lastNode"), echo()])
            .await,
        n8n.named(format!("{name} copy"), nodes.clone()).await,
        n8n.named("publish check 1, deleted at once".to_owned(), nodes.clone())
            .await,
    ];
    let _server = Box::pin(Server::with_args(SERVER, &args, &n8n.env())).await;
    let listed = async || {
        let path = "/workflows?limit=250&name=publish%20check";
        let listed = n8n.get(path).await;
        member_texts(&listed["data"], "id")
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    wait_until("the copy to be deleted", async || {
        !listed().await.contains(&id)
    })
    .await;
    let left = listed().await;
    for one in &own {
        assert!(left.contains(&one.id), "{left:?}");
        n8n.delete(one).await;
    }
    n8n.delete(&workflow).await;
}

#[tokio::test]
async fn skipped_check_says_what_to_configure() {
    let Some(env) = Env::urls().await else { return };
    let workflow = json!({"name": "V", "nodes": [webhook("lastNode")]});
    let found = done!(env, "validate_workflow", {"workflow": workflow});
    assert_contains(&found["unchecked"], "N8N_MCP_TOKEN");
}
