//! Values that are shown hidden are put back when a workflow is written, or the call is refused: n8n never stores
//! the placeholder.

use super::node_builders::base;
use super::*;

/// A change of a node: of a text in the JSON of its parameters, which another takes the place of.
type Change = (&'static str, &'static str, &'static str);

fn nodes() -> Vec<Value> {
    let pair = |name: &str, value: &str| json!({"name": name, "value": value});
    let request = json!({
        "url": "https://bob:Pw1Secret@h.example/v1?api_key=K1Secret99&b=2", "sendHeaders": true,
        "headerParameters": {"parameters": [pair("X-Api-Key", "H1Secret99"), pair("Authorization", "Bearer H2Secret99")]},
        "sendQuery": true, "queryParameters": {"parameters": [pair("token", "Q1Secret99"), pair("page", "1")]},
        "sendBody": true, "specifyBody": "json",
        "jsonBody": "{ \"password\": \"B1Secret99\", \"n\": 1 }",
        "options": {"deep": {"clientSecret": "D1Secret99", "n": 1, "note": "={{ $('Set').item }} token=N1Secret99"},
            "field": pair("token", "F1Secret99"), "link": "https://h.example/?token=L1Secret99",
            "db": "postgres://u:P1Secret99@db/x"},
    });
    let text = "const apiKey = 'C1Secret99';\nconst other = { password: 'C2Secret99' };\nconst mask = 'a'.replace('a', '***');\nreturn [{json: {n: 1}}];";
    let assigned = |id: &str, name: &str, value: &str| json!({"id": id, "name": name, "value": value, "type": "string"});
    let set = json!({"assignments": {"assignments": [assigned("1", "apiKey", "S1Secret99"), assigned("2", "city", "Rome")]}, "options": {}});
    vec![
        webhook("lastNode"),
        base("Request", "httpRequest", 4.2, request),
        code(text),
        base("Set", "set", 3.4, set),
    ]
}

/// Changes after which each value is put back: the node, a text and its replacement.
const RESTORED: &str = r#"
Request
Code
Set
Request | "deep":{ | "timeout":5000,"deep":{
Request | [{"name":"X-Api-Key" | [{"name":"Accept","value":"*/*"},{"name":"X-Api-Key"
Request | "name":"page","value":"1" | "name":"page","value":"2"
Request | /v1? | /v2/more?
Request | postgres://u: | mysql://u:
Code | n: 1 | n: 2
Code | const other | let other
Set | [{"id":"1" | [{"id":"3","name":"n","value":"***bold***","type":"string"},{"id":"1"
"#;

/// Changes after which it is not certain which value is meant, and the place that is named.
const REFUSED: &str = r#"
Request | X-Api-Key | X-Other | node "Request", parameters.headerParameters.parameters[1].value
Request | Accept","value":"*/* | New","value":"*** | headerParameters.parameters[0].value
Request | api_key= | key= | parameters.url
Request | {"url" | {"body":"***","url" | parameters.body
Request | ?token= | ?page.token= | parameters.options.link
Request | mysql://u: | http://evil/?u: | parameters.options.db
Code | { password | { 'page.password' | node "Code", parameters.jsCode
Code | const apiKey | const next | node "Code", parameters.jsCode
Set | "name":"apiKey" | "name":"other" | node "Set", parameters.assignments.assignments[1].value
"#;

/// The change of a row.
fn change(row: &[&'static str]) -> Change {
    let [old, new] = [1, 2].map(|at| row.get(at).copied().unwrap_or_default());
    (row[0], old, new)
}

/// What the change makes of the parameters of its node.
fn changed(workflow: &Value, (node, old, new): Change) -> Value {
    let text = workflow["nodes"][at(workflow, node)]["parameters"].to_string();
    assert!(text.contains(old), "{old}: {text}");
    serde_json::from_str(&text.replacen(old, new, 1)).unwrap()
}

fn at(workflow: &Value, name: &str) -> usize {
    let nodes = workflow["nodes"].as_array().unwrap();
    nodes.iter().position(|node| node["name"] == name).unwrap()
}

/// The call that writes what was shown of a node, changed and renamed.
fn call_with(tool: &str, id: &str, shown: &Value, change: Change, to: &str) -> Value {
    let (mut definition, (node, ..)) = (shown.clone(), change);
    let node_now = &mut definition["nodes"][at(shown, node)];
    node_now["parameters"] = changed(shown, change);
    if tool == "update_workflow" {
        node_now["name"] = json!(to);
        let connections = definition["connections"].to_string();
        let connections = connections.replace(&format!("{node:?}"), &format!("{to:?}"));
        definition["connections"] = serde_json::from_str(&connections).unwrap();
        return json!({"workflow_id": id, "workflow": definition});
    }
    let configure =
        json!({"op": "configure_node", "node": node, "parameters": node_now["parameters"]});
    let rename = json!({"op": "rename_node", "node": node, "to": to});
    let operations = match node == to {
        true => json!([configure]),
        false => json!([configure, rename]),
    };
    json!({"workflow_id": id, "operations": operations})
}

#[tokio::test]
async fn hidden_values_are_put_back_or_the_write_is_refused() {
    let Some(env) = Env::full().await else { return };
    for tool in ["edit_workflow", "update_workflow"] {
        let workflow = env.draft(nodes()).await;
        let id = &workflow.id;
        for row in rows(RESTORED) {
            let change = change(&row);
            let before = env.read(&workflow).await;
            let shown = done!(env, "get_workflow", {"workflow_id": id, "full": true});
            let shown = &shown["definition"];
            let text = shown.to_string();
            assert!(text.contains("***") && !text.contains("Secret99"), "{text}");
            done(&env, tool, call_with(tool, id, shown, change, change.0)).await;
            let now = env.read(&workflow).await;
            let now = &now["nodes"][at(&now, change.0)]["parameters"];
            assert_eq!(*now, changed(&before, change), "{tool}, {change:?}");
        }
        let before = env.read(&workflow).await;
        for row in rows(REFUSED) {
            let change = change(&row);
            let shown = done!(env, "get_workflow", {"workflow_id": id, "full": true});
            let arguments = call_with(tool, id, &shown["definition"], change, change.0);
            assert_refused(&env, tool, arguments, row[3]).await;
        }
        assert_eq!(env.read(&workflow).await["nodes"], before["nodes"]);
        // A node keeps its values with its id, whatever its new name looks like.
        let name = "password=x9x9x9";
        let shown = done!(env, "get_workflow", {"workflow_id": id, "full": true});
        let arguments = call_with(tool, id, &shown["definition"], ("Set", "", ""), name);
        done(&env, tool, arguments).await;
        let now = env.read(&workflow).await;
        if tool == "edit_workflow" {
            // What refers to the node follows its name, beside a hidden value, too.
            let note = &now["nodes"][at(&now, "Request")]["parameters"]["options"]["deep"]["note"];
            assert_eq!(
                note, "={{ $('password=x9x9x9').item }} token=N1Secret99",
                "{now}"
            );
        }
        let set = &now["nodes"][at(&now, name)];
        assert_eq!(
            set["parameters"],
            before["nodes"][at(&before, "Set")]["parameters"]
        );
    }
}

/// A node, a path, a text in it and its replacement, or a node and parameters; and why that is refused.
const EDITS: &str = r#"
Code | jsCode | C1Secret99 | x | 0 times
Code | jsCode | const | let | 3 times
Code | jsCode | const apiKey | const other | parameters.jsCode
Code | code | a | b | Code" has:
Request | headerParameters.parameters[0].name | X-Api-Key | X-Memo | parameters.headerParameters.parameters[0].value
Code | jsCode | { password | { 'page.password' | parameters.jsCode
Request | url | @h.example | @evil.example | parameters.url
Request | options.link | ?token= | ?page.token= | parameters.options.link
Request | options.link | ?token= | /token= | parameters.options.link
Request | options.db | postgres://u:***@db/x | http://evil/?u:***@db | parameters.options.db
Request | jsonBody | "password" | "page.password" | parameters.jsonBody
Request | {"options": {"field": {"name": "memo"}}} | parameters.options.field.value
Request | {"options": {"link": "https://h.example/?page.token=***"}} | parameters.options.link
Code | jsCode | n: 1 | n: 2
Request | jsonBody | "n": 1 | "n": 2
Request | {"options": {"field": {"name": "memo", "value": "own"}}}
Request | {"jsonBody": "{\"password\": \"***\", \"token\": \"Other1Secret99\"}"}
Code | jsCode | const apiKey = '***'; | const apiKey = '***'; // kept
Request | parameters.url | /v1? | /v2?
Request | headerParameters.parameters[0].name | X-Api-Key | X-Auth-Token
"#;

/// A text with a hidden value is shown with line feeds; its line ends stay where nothing changes.
#[tokio::test]
async fn line_ends_stay_beside_hidden_values() {
    let Some(env) = Env::full().await else { return };
    let heart = "❤\u{fe0f}";
    for (secret, stays) in [("C1Secret99", "'C1Secret99'"), ("", "''")] {
        let text = format!(
            "const a = 1;\r\nconst b = 2;\r\nconst password = '{secret}';\r\n// {heart}\r\nreturn [];"
        );
        let workflow = env.draft(vec![webhook("lastNode"), code(&text)]).await;
        let replace = json!({"op": "replace_text", "node": "Code", "path": "jsCode",
            "find": "a = 1;\nconst b", "replace": "a = 3;\nconst b"});
        let edit = json!({"workflow_id": workflow.id, "operations": [replace]});
        done(&env, "edit_workflow", edit).await;
        let now = env.read(&workflow).await;
        let text = now["nodes"][1]["parameters"]["jsCode"].as_str().unwrap();
        let rest = format!("const b = 2;\r\nconst password = {stays};\r\n// {heart}\r\nreturn [];");
        assert_contains(&text, "const a = 3;");
        assert!(text.ends_with(&rest), "{text:?}");
    }
}

/// Texts are replaced in what was shown, so that no value is found out by looking for it.
#[tokio::test]
async fn texts_are_replaced_beside_hidden_values() {
    let Some(env) = Env::full().await else { return };
    let workflow = env.draft(nodes()).await;
    let before = env.read(&workflow).await;
    let edit = |row: &[&str]| {
        let operation = match *row {
            [node, path, find, replace, ..] => {
                json!({"op": "replace_text", "node": node, "path": path, "find": find, "replace": replace})
            }
            _ => {
                let parameters: Value = serde_json::from_str(row[1]).unwrap();
                json!({"op": "configure_node", "node": row[0], "parameters": parameters})
            }
        };
        json!({"workflow_id": workflow.id, "operations": [operation]})
    };
    let (refused, done_rows): (Vec<_>, Vec<_>) = rows(EDITS).partition(|row| row.len() % 2 == 1);
    for row in refused {
        let (part, row) = row.split_last().unwrap();
        assert_refused(&env, "edit_workflow", edit(row), part).await;
    }
    // Also not in a text that was changed before, as it names another node.
    let mut renamed = edit(&["Request", "options.deep.note", "N1Secret99", "x"]);
    let rename = json!({"op": "rename_node", "node": "Set", "to": "Other"});
    renamed["operations"] = json!([rename, renamed["operations"][0]]);
    assert_refused(&env, "edit_workflow", renamed, "0 times").await;
    assert_eq!(env.read(&workflow).await["nodes"], before["nodes"]);
    for row in done_rows {
        done(&env, "edit_workflow", edit(&row)).await;
    }
    let now = env.read(&workflow).await;
    let code = now["nodes"][at(&now, "Code")]["parameters"]["jsCode"].to_string();
    assert_contains(&code, "const apiKey = 'C1Secret99'; // kept");
    assert_contains(&code, "n: 2");
    assert_lacks(&now["nodes"].to_string().replace("'***'", ""), "***");
    let request = &now["nodes"][at(&now, "Request")]["parameters"];
    assert_eq!(
        request["url"],
        "https://bob:Pw1Secret@h.example/v2?api_key=K1Secret99&b=2"
    );
    let shown = done!(env, "get_workflow", {"workflow_id": workflow.id, "nodes": ["Code"]});
    assert_eq!(member_texts(&shown["whole_nodes"], "name"), ["Code"]);
    assert_lacks(&shown.to_string(), "Secret99");
    assert_eq!(shown.get("nodes"), None, "{shown}");
    refused!(env, "get_workflow", {"workflow_id": workflow.id, "nodes": ["No"]}, "Webhook, Request");
    // A copy and a restored version have them, too.
    let copy = env.adopt(&done!(env, "duplicate_workflow", {"workflow_id": workflow.id}));
    let copied = env.read(&copy).await;
    assert_eq!(
        copied["nodes"][1]["parameters"],
        now["nodes"][1]["parameters"]
    );
    let version = &before["versionId"];
    done!(env, "restore_workflow_version", {"workflow_id": workflow.id, "version_id": version});
    assert_eq!(env.read(&workflow).await["nodes"], before["nodes"]);
}

#[tokio::test]
async fn parts_that_a_node_lacks_stay_and_nothing_is_written_that_hides_nothing() {
    let Some(env) = Env::full().await else { return };
    let data = json!({"name": "X-Key", "value": "v"});
    let (trigger, ..) = env
        .secured_webhook("headerAuth", "httpHeaderAuth", data)
        .await;
    let workflow = env.draft(vec![trigger, set("a")]).await;
    let before = env.read(&workflow).await;
    let mut definition = json!({"name": before["name"], "nodes": before["nodes"], "connections": before["connections"]});
    for node in definition["nodes"].as_array_mut().unwrap() {
        let members = node.as_object_mut().unwrap();
        members.retain(|key, _| ["name", "type"].contains(&key.as_str()));
    }
    done!(env, "update_workflow", {"workflow_id": workflow.id, "workflow": definition});
    assert_eq!(env.read(&workflow).await["nodes"], before["nodes"]);
    // A credential without an id is the one of its name.
    let kind = "httpSslAuth";
    let names = ["first", "second", "third"].map(unique);
    let mut ids = Vec::new();
    for name in &names[..2] {
        ids.push(env.credential(name, kind, json!({"passphrase": "x"})).await);
    }
    let named = |name: &str| json!({"credentials": {kind: {"name": name}}});
    let mut node = http_request("https://h.example");
    node["credentials"] = named(&names[1])["credentials"].take();
    let request = json!({"name": unique("named"), "nodes": [webhook("lastNode"), node]});
    let workflow = env.adopt(&done(&env, "create_workflow", request).await);
    let has = async || env.read(&workflow).await["nodes"][1]["credentials"][kind].take();
    assert_eq!(has().await["id"], ids[1]);
    for (name, id) in [(&names[0], json!(ids[0])), (&names[2], Value::Null)] {
        let operation =
            json!({"op": "configure_node", "node": "HTTP Request", "fields": named(name)});
        done!(env, "edit_workflow", {"workflow_id": workflow.id, "operations": [operation]});
        assert_eq!(has().await["id"], id, "{name}");
    }
    // Placeholders are not written where nothing was hidden.
    let name = unique("hidden");
    let request =
        |url: &str| json!({"name": name, "nodes": [webhook("lastNode"), http_request(url)]});
    let with_key = request("https://h.example/?api_key=***");
    let place = "node \"HTTP Request\", parameters.url";
    assert_refused(&env, "create_workflow", with_key, place).await;
    let listed = done!(env, "list_workflows", {"name": name});
    assert_eq!(listed["workflows"], json!([]));
    let note = json!({"name": name, "nodes": [webhook("lastNode"), sticky("***bold*** and ****")]});
    env.adopt(&done(&env, "create_workflow", note).await);
    let is = json!({"column": "a", "is": "eq", "value": "b"});
    let not = json!({"column": "token", "is": "neq", "value": "***"});
    let secret = json!({"token": "***"});
    let table = json!([
        ["create_credential", {"name": name, "type": "httpHeaderAuth", "data": secret}, "`data.token`"],
        ["insert_data_table_rows", {"data_table_id": "x", "rows": [secret]}, "`rows[0].token`"],
        ["update_data_table_rows", {"data_table_id": "x", "where": [is], "set": secret}, "`set.token`"],
        ["delete_data_table_rows", {"data_table_id": "x", "where": [not]}, "`where[0].value`"],
        ["call_n8n_api", {"method": "POST", "path": "variables", "body": secret}, "`body.token`"],
    ]);
    assert_all_refused(&env, table).await;
}

/// Parts of nodes that n8n keeps and that are not in the form of its newest version.
#[tokio::test]
async fn odd_workflow_can_be_read_written_started_and_deleted() {
    let Some(env) = Env::full().await else { return };
    // A type that no other test makes: n8n itself puts any credential of the type in the place of one without an id.
    let odd = [
        json!({"credentials": {"httpDigestAuth": "Name"}}),
        json!({"credentials": {"httpDigestAuth": {"id": 7, "name": "N"}}}),
        json!({"credentials": {"httpDigestAuth": null}}),
        json!({"credentials": {"httpDigestAuth": {"id": null, "name": "N"}}}),
        json!({"credentials": {"httpDigestAuth": ["x"], "other": 7}}),
        json!({"position": [1.5, 2.5]}),
    ];
    let (mut nodes, mut targets) = (vec![webhook("lastNode")], Vec::new());
    for (at, odd) in odd.iter().enumerate() {
        let mut node = set("a");
        let members = node.as_object_mut().unwrap();
        members.extend(odd.as_object().unwrap().clone());
        node["name"] = json!(format!("Set {at}"));
        targets.push(target(&format!("Set {at}")));
        nodes.push(node);
    }
    // Made by the tool, which reports no error for what it has made.
    let name = unique("odd");
    let connections = json!({"Webhook": {"main": [null, targets]}});
    let made = done!(env, "create_workflow", {"name": name, "nodes": nodes, "connections": connections,
        "settings": {"errorWorkflow": null, "timezone": null}});
    let workflow = env.adopt(&made);
    let id = &workflow.id;
    let listed = done!(env, "list_workflows", {"name": name});
    assert_eq!(listed["workflows"].as_array().unwrap().len(), 1, "{listed}");
    done!(env, "get_workflow", {"workflow_id": id});
    done!(env, "get_workflow", {"workflow_id": id, "full": true});
    done!(env, "validate_workflow", {"workflow_id": id});
    let rename = json!([{"op": "rename_workflow", "to": format!("{name} 2")}]);
    done!(env, "edit_workflow", {"workflow_id": id, "operations": rename});
    let now = env.read(&workflow).await;
    for (at, odd) in odd.iter().enumerate() {
        for (key, value) in odd.as_object().unwrap() {
            assert_eq!(now["nodes"][at + 1][key], *value, "{odd}");
        }
    }
    env.adopt(&done!(env, "duplicate_workflow", {"workflow_id": id}));
    done!(env, "set_workflow_tags", {"workflow_id": id, "tags": []});
    done!(env, "activate_workflow", {"workflow_id": id});
    env.run(&workflow, json!({})).await;
    for tool in [
        "deactivate_workflow",
        "archive_workflow",
        "unarchive_workflow",
    ] {
        done!(env, tool, {"workflow_id": id});
    }
    done!(env, "delete_workflow", {"workflow_id": id, "confirm": id});
}
