//! `validate_workflow`

use super::node_builders::{base, node};
use super::*;

/// The findings of a workflow in which the first of these nodes leads to all others.
async fn findings(env: &Env, nodes: &Value) -> Value {
    let names = member_texts(nodes, "name");
    let targets: Vec<_> = names[1..].iter().map(|name| target(name)).collect();
    let connections = json!({names[0]: {"main": [targets]}});
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

#[tokio::test]
async fn errors_of_structure_and_expressions_are_found() {
    let Some(env) = Env::full().await else { return };
    let set = |name: &str, value: &str| base(name, "set", 3.4, json!({"x": value}));
    let code = |name: &str, code: &str| base(name, "code", 2.0, json!({"jsCode": code}));
    let is = |kind: &str, operation: &str| {
        json!({"id": operation, "leftValue": "={{ $json.a }}", "rightValue": "",
        "operator": {"type": kind, "operation": operation, "singleValue": true}})
    };
    let options =
        json!({"caseSensitive": true, "leftValue": "", "typeValidation": "strict", "version": 2});
    let conditions = json!({"options": options, "combinator": "and",
        "conditions": [is("string", "notEmpty"), is("string", "isNotEmpty"), is("string", "gt"),
            is("text", "equals"), is("any", "exists")]});
    let conditions = json!({ "conditions": conditions });
    let memory = json!({"sessionIdType": "customKey", "sessionKey": "k"});
    let old = json!({"values": {"string": [{"name": "a", "value": "1"}]}, "disabled": true});
    let mut ignores = set("Ignores", "x");
    ignores["onError"] = json!("ignore");
    let nodes = json!([
        webhook("lastNode"),
        ignores,
        set("Inner", "{{DateTime.fromISO($json.at)}}"),
        set("Template", "{{name}} costs {{ range $i, $e := .Items }} $"),
        base("Newer", "code", 99.0, json!({"jsCode": "return []"})),
        set("A", "={{ $('Nope').item }}"),
        set("B", "={{ $json.a"),
        set("C", "{{ $json.a }}"),
        set("E", "={{ }}"),
        set("F", "={{ {a:{b:1}} }}"),
        base("H", "filter", 2.2, conditions),
        base("I", "set", 3.4, old),
        node(
            "J",
            "@n8n/n8n-nodes-langchain.memoryBufferWindow",
            1.3,
            memory
        ),
        set("K", "={{ $env.HOME }}"),
        code("L", "return [{json: {a: $env.HOME}}];"),
        // Not within braces, it is no reference to a node.
        set("Fine", "={\"html\": \"$('title')\"}{{ {a: {b: 1} } }}"),
        code("G", "return $('Y').all()"),
        code("D", "return []"),
    ]);
    let found = findings(&env, &nodes).await;
    // n8n publishes it; the runs would fail.
    assert_eq!(found["valid"], true, "{found}");
    for (node, part) in [
        ("A", "\"Nope\""),
        ("B", "without"),
        ("C", "does not start with"),
        ("D", "runs code"),
        ("E", "empty"),
        ("F", "a space between the braces"),
        ("G", "\"Y\""),
        ("H", "no operator \"isNotEmpty\""),
        ("H", "no operator \"gt\" for values of type string"),
        ("H", "no values of type \"text\""),
        ("Ignores", "`onError`"),
        ("Inner", "does not start with"),
        ("Newer", "no version 99"),
        ("I", "ignores the parameter `values`"),
        ("I", "ignores the parameter `disabled`"),
        ("J", "`main` connection"),
        ("K", "environment variables"),
        ("L", "environment variables"),
    ] {
        assert_found(&found, "warning", node, part);
    }
    let all = found.to_string();
    for fine in ["title", "Template", "\"any\""] {
        assert_lacks(&all, fine);
    }
    let alone = findings(&env, &json!([set("A", "x")])).await;
    assert!(alone.to_string().contains("No trigger"), "{alone}");
    for zone in ["Mars/Olympus", "UTC+2", "europe/berlin"] {
        let workflow = json!({"name": "V", "nodes": [webhook("lastNode")], "connections": {},
            "settings": {"timezone": zone}});
        let found = done(&env, "validate_workflow", json!({ "workflow": workflow })).await;
        let is_told = found["findings"].to_string().contains("no time zone");
        assert_eq!(is_told, zone != "europe/berlin", "{found}");
    }
}

#[tokio::test]
async fn unknown_nodes_and_parameters_and_missing_credentials_are_found() {
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
    let parameters = json!({"resource": "message", "operation": "post", "select": "channel"});
    let slack = |name: &str| base(name, "slack", 2.2, parameters.clone());
    let mut gone = slack("B");
    gone["credentials"] = json!({"slackApi": {"id": unique("x")[..16], "name": "gone"}});
    let found = findings(&env, &json!([webhook("lastNode"), slack("A"), gone])).await;
    assert_found(&found, "error", "A", "Missing required credential");
    assert_found(&found, "warning", "B", "does not exist");
    // n8n finds one without an id by its name and type.
    let name = unique("credential");
    let data = json!({"name": "X-Key", "value": "v"});
    let id = env.credential(&name, "httpHeaderAuth", data).await;
    let request = |node_name: &str, kind: &str, credential: Value| {
        let parameters = json!({"url": "http://127.0.0.1:9", "authentication": "genericCredentialType",
            "genericAuthType": kind});
        let mut request = node(node_name, "n8n-nodes-base.httpRequest", 4.2, parameters);
        request["credentials"] = json!({kind: credential});
        request
    };
    let named = request("N", "httpHeaderAuth", json!({"name": name}));
    let other = request("O", "httpBasicAuth", json!({"id": id, "name": name}));
    let found = findings(&env, &json!([webhook("lastNode"), named, other])).await;
    assert_found(&found, "warning", "O", "type httpHeaderAuth");
    assert_lacks(&found["findings"], "does not exist");
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
    // n8n registers its path in a moment.
    env.run(&live, json!({})).await;
    let own = done!(env, "validate_workflow", {"workflow_id": live.id});
    assert_has!(own, {"valid": true, "findings": []});
    assert!(own["unchecked"].is_null(), "{own}");
    let both = json!({"workflow_id": live.id, "workflow": {}});
    for arguments in [json!({}), both] {
        assert_refused(&env, "validate_workflow", arguments, "either").await;
    }
    let (call, mail) = (locator("none"), json!({"subject": "x"}));
    let nodes = json!([
        hook,
        node("Sub", "n8n-nodes-base.executeWorkflow", 1.2, call),
        node("Mail", "n8n-nodes-base.emailSend", 2.1, mail),
        node("Old", "n8n-nodes-base.set", 99.0, json!({})),
        set(&path),
    ]);
    let found = findings(&env, &nodes).await;
    let all = found.to_string();
    assert!(all.contains("same method and path"), "{all}");
    assert_found(&found, "error", "Sub", "references workflow none");
    assert_found(&found, "error", "Mail", "fromEmail");
    assert_found(&found, "error", "Old", "no version 99");
    // Other tests have copies at the same time.
    let left = env.get("/workflows?name=publish").await;
    assert_lacks(&left, &path);
}

#[tokio::test]
async fn connections_without_effect_are_found() {
    let Some(env) = Env::full().await else { return };
    let tool = "@n8n/n8n-nodes-langchain.toolCalculator";
    let (mut hook, mut work) = (webhook("lastNode"), set("x"));
    hook["id"] = json!("w-1");
    work["id"] = json!("s-1");
    let work_name = work["name"].as_str().unwrap().to_owned();
    let nodes = json!([hook, work, node("Sum", tool, 1.0, json!({}))]);
    let by_id = json!({"w-1": {"main": [[target("s-1")]]}});
    let by_name = json!({"Webhook": {"main": [[target(&work_name)]]}, "Sum": {"main": [[target(&work_name)]]}});
    let mut found = Vec::new();
    for connections in [by_id, by_name] {
        let workflow = json!({"name": "V", "nodes": nodes, "connections": connections});
        found.push(done(&env, "validate_workflow", json!({ "workflow": workflow })).await);
    }
    assert_found(&found[0], "error", "Webhook", "its id, \"w-1\"");
    assert_found(&found[0], "error", &work_name, "its id, \"s-1\"");
    assert_lacks(&found[0], "not a node of the workflow");
    assert_eq!(found[1]["valid"], true, "{}", found[1]);
    assert_found(&found[1], "warning", "Sum", "comes from it");
    let mut fallible = base("Fallible", "noOp", 1.0, json!({}));
    fallible["onError"] = json!("continueErrorOutput");
    let nodes = json!([
        webhook("lastNode"),
        fallible,
        base("One", "noOp", 1.0, json!({})),
        set("x")
    ]);
    let second = json!({"main": [[], [target("One")]]});
    let connections = json!({"Webhook": leads_to("Fallible"), "Fallible": second,
        "One": {"main": [[], [target(&work_name)]]}});
    let workflow = json!({"name": "V", "nodes": nodes, "connections": connections});
    let found = done(&env, "validate_workflow", json!({ "workflow": workflow })).await;
    assert_found(&found, "warning", "One", "its output 1");
    assert_lacks(&found, "Fallible");
}
