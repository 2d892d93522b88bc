//! `explain_execution`: the cause, the node and the advice for what breaks most often.

use super::node_builders::{base, node};
use super::*;

fn request(url: &str, more: Value) -> Value {
    let mut request = http_request(url);
    let parameters = request["parameters"].as_object_mut().unwrap();
    parameters.extend(more.as_object().unwrap().clone());
    request
}

fn condition(kind: &str, version: f64, right: Value) -> Value {
    let operator = json!({"type": "number", "operation": "gt"});
    let one = json!({"id": "1", "leftValue": "={{ $json.body.input }}", "rightValue": right,
        "operator": operator});
    let options = json!({"caseSensitive": true, "leftValue": "", "typeValidation": "strict",
        "version": 2});
    let all = json!({"options": options, "conditions": [one], "combinator": "and"});
    let parameters = json!({"conditions": all, "options": {}});
    base("Check", kind, version, parameters)
}

fn answer(body: &str) -> Value {
    let mut answer = respond();
    answer["parameters"]["responseBody"] = json!(body);
    answer
}

/// Breaks: a kind of node and its text, parts of the cause and of the advice, and what failed in the node: of code the only
/// line with what n8n names, where it names no line.
const FAILURES: &str = r#"
set | ={{ $('Nobody').item.json.x }} | names a node | Write the name | ={{ $('Nobody').item.json.x }}
set | ={{ $json.body..x }} | syntax error | between {{ and }} | ={{ $json.body..x }}
set | ={{ $env.HOME }} | environment variables | Use a credential | ={{ $env.HOME }}
header | ={{ $env.HOME }} | environment variables | Use a credential | ={{ $env.HOME }}
header | ={{ $('Nobody').item.json.x }} | names a node | Write the name | ={{ $('Nobody').item.json.x }}
request | http://nothing.invalid/x | cannot connect | n8n's own machine | http://nothing.invalid/x
request | http://127.0.0.1:1/x | cannot connect | n8n's own machine
request | N8N/api/v1/nothing | does not exist at that address | Check the URL
request | N8N/api/v1/workflows | refuses the credentials | Renew
body | ={"a": } | cannot be parsed | Look at the text | ={"a": }
body | ={{ $('Nobody').item.json.x }} | names a node | Write the name | ={{ $('Nobody').item.json.x }}
code | const field = 1;\nreturn $json.missing.field | its input does not have | Compare | return $json.missing.field
code | const a = 1;\nreturn [{json: {a: $env.HOME}}]; | environment variables | Use a credential | return [{json: {a: $env.HOME}}];
code | return 5 | something else than items | [{json:
code | const fs = require('fs'); return [] | does not allow | NODE_FUNCTION_ALLOW
credential | gone | has no credentials | Choose credentials
condition | if | another type | Convert types where required
memory | k | a part of another one | Remove that connection
fail | on purpose | on purpose | condition that leads to it
answer | ={nope | cannot be parsed | Look at the text
"#;

/// The broken node of a row of [`FAILURES`].
fn broken(kind: &str, text: &str, url: &str) -> Value {
    match kind {
        "set" => set(text),
        "request" => http_request(&text.replace("N8N", url)),
        "body" => {
            let body = json!({"method": "POST", "sendBody": true, "specifyBody": "json", "jsonBody": text});
            request(url, body)
        }
        "code" => code(&text.replace("\\n", "\n")),
        "header" => {
            let header = |name: &str, value: &str| json!({"name": name, "value": value});
            let all = [header("a", text), header("b", "={{ $json.body.input }}")];
            let all = json!({"sendHeaders": true, "headerParameters": {"parameters": all}});
            request("http://127.0.0.1:1/x", all)
        }
        "credential" => {
            let generic = json!({"authentication": "genericCredentialType", "genericAuthType": "httpHeaderAuth"});
            let mut lost = request(url, generic);
            lost["credentials"] = json!({"httpHeaderAuth": {"id": text, "name": "Gone"}});
            lost
        }
        "condition" => condition(text, 2.2, json!(5)),
        "memory" => {
            let kind = "@n8n/n8n-nodes-langchain.memoryBufferWindow";
            let session = json!({"sessionIdType": "customKey", "sessionKey": text});
            node("Memory", kind, 1.3, session)
        }
        "fail" => fail(text),
        "answer" => answer(text),
        other => panic!("{other}"),
    }
}

fn assert_explained(why: &Value, node: &str, cause: &str, advice: &str) {
    assert_eq!(why["failed"]["node"], node, "{why}");
    assert_contains(&why["likely_cause"], cause);
    assert_contains(&why["advice"], advice);
}

/// All in one workflow, in which each break has a webhook of its own.
#[tokio::test]
async fn common_failures_are_explained() {
    let Some(env) = Env::urls().await else { return };
    let rows: Vec<_> = rows(FAILURES).collect();
    let (mut nodes, mut connections) = (Vec::new(), json!({}));
    for (at, row) in rows.iter().enumerate() {
        let mode = if row[0] == "answer" {
            "responseNode"
        } else {
            "lastNode"
        };
        let (mut hook, mut node) = (webhook(mode), broken(row[0], row[1], &env.config.url));
        hook["name"] = json!(format!("Hook {at}"));
        node["name"] = json!(format!("Node {at}"));
        connections[format!("Hook {at}")] = leads_to(&format!("Node {at}"));
        nodes.extend([hook, node]);
    }
    let workflow = env.connected_nodes(nodes, connections).await;
    for (at, row) in rows.iter().enumerate() {
        let arguments = json!({"workflow_id": workflow.id, "trigger": format!("Hook {at}"),
            "parameters": {"input": "abc"}});
        let ran = run_with(&env, arguments).await;
        let why = done!(env, "explain_execution", {"execution_id": ran["execution_id"]});
        assert_explained(&why, &format!("Node {at}"), row[2], row[3]);
        let description = why["failed"]["description"].as_str().unwrap_or_default();
        assert!(!description.contains('<'), "{why}");
        if let Some(source) = row.get(4) {
            assert_eq!(why["failed"]["source"], *source, "{why}");
        }
    }
    let workflow = env.live(vec![webhook("responseNode"), set("x")]).await;
    // It fails before its trigger has saved the request.
    let ran = env.run(&workflow, json!({})).await;
    assert_has!(ran, {"status": "failed", "response": {"status": 500}});
    assert_contains(&ran["error"]["message"], "No Respond to Webhook node");
    assert_eq!(env.execution(&ran).await["status"], "error");
    let why = done!(env, "explain_execution", {"execution_id": ran["execution_id"]});
    assert_explained(&why, "Webhook", "Respond to Webhook", "responseMode");
}

#[tokio::test]
async fn failed_model_and_sub_workflow_are_named_instead_of_the_node_that_uses_them() {
    let Some(env) = Env::urls().await else { return };
    let data = json!({"apiKey": "none", "url": "http://127.0.0.1:1/v1", "header": false});
    let (name, kind) = (unique("credential"), "openAiApi");
    let id = env.credential(&name, kind, data).await;
    let langchain = |name: &str, kind: &str, version: f64, parameters: Value| {
        let kind = format!("@n8n/n8n-nodes-langchain.{kind}");
        node(name, &kind, version, parameters)
    };
    let agent = json!({"promptType": "define", "text": "hi", "options": {}});
    let agent = langchain("Agent", "agent", 1.7, agent);
    let model = json!({"model": {"__rl": true, "mode": "id", "value": "m"},
        "options": {"maxRetries": 0}});
    let mut model = langchain("Model", "lmChatOpenAi", 1.2, model);
    model["credentials"] = json!({kind: {"id": id, "name": name}});
    let connect =
        |node: &str, kind: &str| json!({kind: [[{"node": node, "type": kind, "index": 0}]]});
    let connections =
        json!({"Webhook": connect("Agent", "main"), "Model": connect("Agent", "ai_languageModel")});
    let workflow = env
        .connected_nodes(vec![webhook("lastNode"), agent, model], connections)
        .await;
    let ran = env.run(&workflow, json!({})).await;
    let why = done!(env, "explain_execution", {"execution_id": ran["execution_id"]});
    assert_explained(&why, "Model", "cannot connect", "Check the URL");
    assert_has!(why["failed"], {"used_by": "Agent"});
    // So is the node of a sub-workflow.
    let nodes = vec![
        webhook("onReceived"),
        called_by_another(),
        fail("deep inside"),
    ];
    let called = json!({"When called": leads_to("Stop")});
    let sub = env.connected_nodes(nodes, called).await;
    // n8n runs it for another one once it is published, which this waits for.
    env.run(&sub, json!({})).await;
    let call = base("Sub", "executeWorkflow", 1.2, locator(&sub.id));
    let workflow = env.live(vec![webhook("lastNode"), call]).await;
    let ran = env.run(&workflow, json!({})).await;
    let why = done!(env, "explain_execution", {"execution_id": ran["execution_id"]});
    assert_explained(&why, "Stop", "on purpose", "condition");
    assert_has!(why["failed"], {"used_by": "Sub"});
    let inner = env.executions(&sub).await;
    assert_eq!(why["sub_execution_id"], inner[0]["id"], "{why}");
}

/// An error that an output of its own, or the next node, goes on with.
#[tokio::test]
async fn handled_errors_and_timeouts_are_explained_and_have_no_stack() {
    let Some(env) = Env::urls().await else { return };
    for how in ["continueErrorOutput", "continueRegularOutput"] {
        let mut node = http_request("http://127.0.0.1:1/handled");
        node["onError"] = json!(how);
        // The answer has the error, too.
        let mut answer = respond();
        answer["parameters"]["respondWith"] = json!("allIncomingItems");
        let nodes = vec![webhook("responseNode"), node, answer, set("x")];
        let workflow = match how {
            "continueRegularOutput" => env.live(nodes).await,
            _ => {
                let errors = json!({"main": [[], [target("Respond")]]});
                let connections = json!({"Webhook": leads_to("HTTP Request"), "HTTP Request": errors,
                    "Respond": leads_to("Set")});
                env.connected_nodes(nodes, connections).await
            }
        };
        let ran = env.run(&workflow, json!({})).await;
        assert_has!(ran, {"status": "completed", "response": {"status": 200}});
        assert_contains(&ran["response"]["body"].to_string(), "\"error\"");
        let note = "HTTP Request\" failed, and the workflow went on";
        assert_contains(&ran["note"], note);
        let id = &ran["execution_id"];
        let full = done!(env, "get_execution", {"execution_id": id, "view": "full"});
        for shown in [&ran, &full] {
            assert_lacks(&shown.to_string(), "node_modules");
            assert_lacks(&shown.to_string(), "    at ");
        }
        let why = done!(env, "explain_execution", {"execution_id": id});
        assert_explained(&why, "HTTP Request", "cannot connect", "n8n's own machine");
        assert_has!(why, {"failed": {"handled": 1, "source": "http://127.0.0.1:1/handled"}});
    }
    let settings = json!({"executionTimeout": 1});
    let nodes = vec![webhook("lastNode"), wait(60), set("x")];
    let workflow = env.live_with(nodes, settings).await;
    let ran = env.run(&workflow, json!({})).await;
    assert_eq!(ran["status"], "canceled", "{ran}");
    assert_contains(&ran["error"]["message"], "timed out");
    let why = done!(env, "explain_execution", {"execution_id": ran["execution_id"]});
    assert_contains(&why["likely_cause"], "longer than its workflow may");
    assert_contains(&why["advice"], "executionTimeout");
}
