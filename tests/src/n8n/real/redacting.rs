//! Secrets that users write into workflows are shown by no tool, resource or prompt.

use super::node_builders::base;
use super::*;

/// Texts with a secret in the place of `SECRET`, as they stand in parameters, code, notes and errors: one for each way
/// to find it. The tests of `upstream` have all forms.
const PLACES: &[&str] = &[
    "https://h.example/x?a=1&access_token=SECRET&b=2",
    "https://bob:SECRET@h.example/x",
    "https://hooks.slack.com/services/T0/B0/SECRET",
    "{\"password\": \"SECRET\"}",
    "={\"name\": \"X-Api-Key\", \"value\": \"SECRET\"}",
    "={ \"token\": \"SECRET\", \"at\": \"{{ $now }}\" }",
    "Server=db;User=sa;Password=SECRET;",
    "const apiKey = 'SECRET';",
    "Authorization: Bearer SECRETxyz",
    "curl -H 'X-Api-Key: SECRET' http://h.example",
    "ghp_SECRET0123456789abcdef",
    "The API key: SECRET",
    "eyJhbGciOiJIUzI1NiJ9.SECRET123.c2ln",
    "-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----",
    "<password>SECRET</password> password=SECRET",
];
/// Members of JSON that hold nothing but a secret.
const MEMBERS: &str = "password x-api-key clientSecret Authorization Cookie";

/// A text that appears nowhere else; with digits, as real secrets have.
fn canary(at: usize) -> String {
    format!("C4n4ry{at:02}Zq7")
}

/// The calls that show texts of a workflow or of an execution. The other tools write, and answer with ids, names and the
/// findings of validate_workflow, or show nothing of those; the file of an execution has its own test, with a secret.
fn calls_that_show(workflow: &Value, execution: &Value) -> Vec<(String, Value)> {
    let (id, version) = (&workflow["id"], &workflow["versionId"]);
    let nodes = member_texts(&workflow["nodes"], "name");
    let rename = json!([{"op": "rename_node", "node": "Webhook", "to": "Hook"}]);
    let table = json!([
        ["list_workflows", {}],
        ["get_workflow", {"workflow_id": id}],
        ["get_workflow", {"workflow_id": id, "full": true}],
        ["get_workflow", {"workflow_id": id, "nodes": nodes}],
        ["validate_workflow", {"workflow_id": id}],
        ["list_executions", {"workflow_id": id}],
        ["list_workflow_versions", {"workflow_id": id}],
        ["run_workflow", {"workflow_id": id}],
        ["get_workflow_version", {"workflow_id": id, "version_id": version}],
        ["get_workflow_version", {"workflow_id": id, "version_id": version, "changes_to": "current"}],
        ["edit_workflow", {"workflow_id": id, "operations": rename, "dry_run": true}],
        ["get_execution", {"execution_id": execution}],
        ["get_execution", {"execution_id": execution, "view": "preview"}],
        ["get_execution", {"execution_id": execution, "view": "summary"}],
        ["get_execution", {"execution_id": execution, "view": "full"}],
        ["get_execution", {"execution_id": execution, "view": "error"}],
        ["explain_execution", {"execution_id": execution}],
        ["retry_execution", {"execution_id": execution}],
        ["resume_execution", {"execution_id": execution}],
        ["get_execution_file", {"execution_id": execution}],
    ]);
    serde_json::from_value(table).unwrap()
}

#[tokio::test]
async fn no_answer_shows_a_secret_of_a_workflow() {
    // Workflows of other tests are no tools here.
    let Some(env) = Env::limited(&["--tool-tag", ""]).await else {
        return;
    };
    let texts = PLACES.iter().enumerate();
    let texts: Vec<String> = texts
        .map(|(at, text)| text.replace("SECRET", &canary(at)))
        .collect();
    let members = MEMBERS.split(' ').enumerate();
    let members = members.map(|(at, name)| (name.to_owned(), canary(PLACES.len() + at).into()));
    let members: serde_json::Map<String, Value> = members.collect();
    let count = PLACES.len() + members.len();
    // In parameters, in headers, in code, in notes, in items, and in an error.
    let assigned = texts.iter().enumerate();
    let assigned: Vec<Value> = assigned
        .map(|(at, text)| {
            let text = text.trim_start_matches('=');
            json!({"id": at.to_string(), "name": format!("f{at}"), "value": text, "type": "string"})
        })
        .collect();
    let set_all = json!({"assignments": {"assignments": assigned}, "options": {}});
    let headers: Vec<Value> = members
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    let mut request = http_request("http://127.0.0.1:1/x");
    request["disabled"] = json!(true);
    request["parameters"]["sendHeaders"] = json!(true);
    request["parameters"]["headerParameters"] = json!({"parameters": headers});
    request["parameters"]["jsonBody"] = json!(Value::Object(members.clone()).to_string());
    // Older versions of the node have the values in members with the names of their types.
    let fields: Vec<Value> = members
        .iter()
        .map(|(name, value)| json!({"name": name, "stringValue": value}))
        .collect();
    let old = json!({"fields": {"values": fields}, "options": {}});
    let notes = sticky(&texts.join("\n"));
    let items = code(&format!("return [{{json: {}}}];", Value::Object(members)));
    let nodes = vec![
        webhook("lastNode"),
        request,
        base("All", "set", 3.4, set_all),
        items,
        base("Old", "set", 3.2, old),
        notes,
    ];
    let connections = json!({"Webhook": leads_to("HTTP Request"), "HTTP Request": leads_to("All"),
        "All": leads_to("Code")});
    let workflow = env.connected_nodes(nodes, connections).await;
    let text = texts.join(" ; ").replace('\n', " ");
    let failing = env.live(vec![webhook("lastNode"), fail(&text)]).await;
    let ran = env.run(&workflow, json!({"given": texts})).await;
    let failed = env.run(&failing, json!({"given": texts})).await;

    let now = env.read(&workflow).await;
    let described = json!({"name": now["name"], "nodes": now["nodes"], "connections": now["connections"],
        "settings": {}, "description": texts.join("\n")});
    let path = format!("/workflows/{}", workflow.id);
    env.api("PUT", &path, Some(described)).await;
    let mut shown = vec![ran.to_string(), failed.to_string()];
    let ids = [(&workflow.id, &ran), (&failing.id, &failed)];
    for (workflow, run) in ids {
        let execution = &run["execution_id"];
        let whole = env.get(&format!("/workflows/{workflow}")).await;
        for (tool, arguments) in calls_that_show(&whole, execution) {
            shown.push(call(&env, &tool, arguments).await.text());
        }
        for uri in [
            format!("n8n://workflows/{workflow}"),
            format!("n8n://executions/{}", execution.as_str().unwrap()),
        ] {
            let uri = json!({ "uri": uri });
            let read = env.server.result("resources/read", uri).await;
            shown.push(read.to_string());
        }
        let review = json!({"name": "review_workflow", "arguments": {"workflow_id": workflow}});
        shown.push(env.server.result("prompts/get", review).await.to_string());
    }
    let debug =
        json!({"name": "debug_execution", "arguments": {"execution_id": failed["execution_id"]}});
    shown.push(env.server.result("prompts/get", debug).await.to_string());
    let found: Vec<(usize, String)> = (0..count)
        .filter_map(|at| {
            let text = shown.iter().find(|text| text.contains(&canary(at)))?;
            let start = text.find(&canary(at))?;
            let start = text.floor_char_boundary(start.saturating_sub(60));
            Some((at, text[start..].chars().take(100).collect()))
        })
        .collect();
    assert!(found.is_empty(), "{} shown: {found:#?}", found.len());
}
