//! Workflows are created, edited, replaced and copied.

use std::collections::HashSet;

use futures_util::future::join_all;

use super::node_builders::base;
use super::*;

/// Webhook -> Set, made through the server.
async fn made(env: &Env) -> (TestWorkflow, Value) {
    let name = unique("made");
    let connections = json!({"Webhook": leads_to("Set")});
    let arguments = json!({
        "name": name, "nodes": [webhook("lastNode"), echo()], "connections": connections,
        "settings": {"availableInMCP": true},
    });
    let made = done(env, "create_workflow", arguments).await;
    (env.adopt(&made), made)
}

#[tokio::test]
async fn workflow_with_errors_is_written_only_as_a_draft_and_if_the_caller_says_so() {
    let Some(env) = Env::full().await else { return };
    let name = unique("broken");
    let hook = webhook("lastNode");
    let table = json!([
        [[hook], {"Webhook": leads_to("Nope")}, "\"Nope\", which is not a node"],
        [[echo(), echo()], {}, "Two nodes have this name"],
        [[{"name": "A", "type": "set"}], {}, "not a type of node"],
        [[hook], {"Webhook": 1}, "cannot be read"],
    ]);
    for row in table.as_array().unwrap() {
        let arguments = json!({"name": name, "nodes": row[0], "connections": row[1]});
        let message =
            assert_refused(&env, "create_workflow", arguments, "Nothing was written").await;
        assert_contains(&message, row[2].as_str().unwrap());
    }
    let list = done(&env, "list_workflows", json!({"name": name})).await;
    assert_eq!(list, json!({"workflows": []}));
    // It is written as a draft if the caller says so.
    let none = json!({"name": "Mail", "type": "n8n-nodes-base.madeUp", "typeVersion": 1});
    let mut arguments = json!({"name": unique("draft"), "nodes": [webhook("lastNode"), none],
        "connections": {"Webhook": leads_to("Mail")}});
    assert_refused(&env, "create_workflow", arguments.clone(), "allow_invalid").await;
    arguments["allow_invalid"] = json!(true);
    env.adopt(&done(&env, "create_workflow", arguments).await);
    let live = env.live(vec![webhook("lastNode"), echo()]).await;
    let add = json!({"op": "add_node", "node": "Mail", "type": "n8n-nodes-base.madeUp"});
    let operations = json!([add, {"op": "connect", "node": "Set", "to": "Mail"}]);
    let mut edit = json!({"workflow_id": live.id, "operations": operations});
    assert_refused(&env, "edit_workflow", edit.clone(), "Nothing was written").await;
    edit["allow_invalid"] = json!(true);
    let written = done(&env, "edit_workflow", edit).await;
    assert_has!(written, {"active": true});
    assert_contains(&written["note"], "has not changed");
    let ran = env.run(&live, json!({"input": "x"})).await;
    assert_eq!(ran["output"], json!({"result": "x"}), "{ran}");
}

#[tokio::test]
async fn change_that_n8n_does_not_publish_is_a_draft_or_written_settings() {
    let Some(env) = Env::full().await else { return };
    let live = env.live(vec![webhook("lastNode"), echo()]).await;
    let add = json!({"op": "add_node", "node": "Mail", "type": "n8n-nodes-base.emailSend",
        "version": 2.1});
    let operations = json!([add, {"op": "connect", "node": "Set", "to": "Mail"}]);
    let edit = json!({"workflow_id": live.id, "operations": operations, "publish": true});
    let written = done(&env, "edit_workflow", edit).await;
    assert_has!(written, {"active": true});
    let missing = "Missing required credential: smtp";
    for part in [missing, "has not changed", "activate_workflow"] {
        assert_contains(&written["note"], part);
    }
    let ran = env.run(&live, json!({"input": "x"})).await;
    assert_eq!(ran["output"], json!({"result": "x"}), "{ran}");
    let mend =
        json!({"workflow_id": live.id, "operations": [{"op": "remove_node", "node": "Mail"}]});
    let mended = done(&env, "edit_workflow", mend).await;
    assert_contains(&mended["note"], "activate_workflow");
    done!(env, "activate_workflow", {"workflow_id": live.id});
    let now = env.read(&live).await;
    assert_eq!(now["versionId"], now["activeVersionId"]);
    // New settings are written before n8n refuses to publish with them.
    let called = env.live(vec![called_by_another(), set("called")]).await;
    let calls = base("Call", "executeWorkflow", 1.2, locator(&called.id));
    let workflow = env.live(vec![webhook("lastNode"), calls]).await;
    let path = format!("/workflows/{}/deactivate", called.id);
    env.api("POST", &path, None).await;
    let operation = json!({"op": "set_settings", "settings": {"executionTimeout": 60}});
    let written =
        done!(env, "edit_workflow", {"workflow_id": workflow.id, "operations": [operation]});
    assert_contains(&written["note"], "All of it was written");
    assert_contains(&written["note"], "not published");
    let now = env.read(&workflow).await;
    assert_eq!(now["settings"]["executionTimeout"], 60);
}

/// A change through each tool that writes a workflow, or its copy; afterwards it is `Webhook -> Set`, as before. The first
/// four publish it if they may.
fn writes(workflow: &TestWorkflow) -> Vec<(String, Value)> {
    let notes = json!({"op": "configure_node", "node": "Set", "fields": {"notes": "n"}});
    let rename = json!({"op": "rename_workflow", "to": unique("renamed")});
    let settings = json!({"op": "set_settings", "settings": {"executionTimeout": 60}});
    let table = json!([
        ["edit_workflow", {"operations": [notes], "publish": true}],
        ["update_workflow", {"workflow": {"name": workflow.name}, "publish": true}],
        ["edit_workflow", {"operations": [rename], "publish": true}],
        ["edit_workflow", {"operations": [settings], "publish": true}],
        ["set_workflow_tags", {"tags": []}],
        ["move_workflow", {"folder_id": "root"}],
        ["restore_workflow_version", {}],
        ["duplicate_workflow", {}],
        ["validate_workflow", {}],
    ]);
    serde_json::from_value(table).unwrap()
}

/// A draft that a person has saved and not published is published by an activation only.
#[tokio::test]
async fn draft_of_a_person_is_published_by_no_other_change() {
    let Some(env) = Env::full().await else { return };
    let hook = webhook("lastNode");
    let workflow = env.live(vec![hook.clone(), set("live")]).await;
    let id = &workflow.id;
    let mut result = json!("live");
    for (at, (one, mut arguments)) in writes(&workflow).into_iter().enumerate() {
        let live = env.read(&workflow).await["activeVersionId"].clone();
        let live = live.as_str().unwrap();
        let value = format!("{one} {at}");
        save_draft(&env, &workflow, json!([hook, set(&value)])).await;
        arguments["workflow_id"] = json!(id);
        if one == "restore_workflow_version" {
            arguments["version_id"] = json!(live);
        }
        let answer = done(&env, &one, arguments.clone()).await;
        let now = env.read(&workflow).await;
        assert_eq!(now["activeVersionId"], live, "{one}: {answer}");
        // n8n takes a moment to change over to the version that the round before has published.
        let ran = eventually("a run of what is live", async || {
            let ran = env.run(&workflow, json!({})).await;
            (ran["version_id"] == live).then_some(ran)
        })
        .await;
        assert_eq!(ran["output"]["result"], result, "{one}: {ran}");
        let draft = now["versionId"].as_str().unwrap();
        let version = env.get(&format!("/workflows/{id}/versions/{draft}")).await;
        let [author, time] = ["authors", "createdAt"].map(|part| version[part].as_str().unwrap());
        for part in [draft, live, author, time] {
            assert_contains(&ran["note"], part);
        }
        if at == 0 {
            assert_shown(&env, id, &now).await;
        }
        let note = answer["note"].to_string();
        assert_eq!(note.contains("not published"), at < 4, "{answer}");
        let has_settings = arguments.to_string().contains("set_settings");
        let is_told = note.contains("settings have no versions");
        assert_eq!(is_told, has_settings, "{answer}");
        done!(env, "activate_workflow", {"workflow_id": id});
        result = now["nodes"][1]["parameters"]["assignments"]["assignments"][0]["value"].clone();
        if one == "duplicate_workflow" {
            assert_contains(&note, "copy of the draft");
            env.adopt(&answer);
        }
    }
    let now = done!(env, "get_workflow", {"workflow_id": id});
    assert_eq!(now.get("unpublished"), None, "{now}");
}

/// All tools that show a workflow say that its draft is not what is live.
async fn assert_shown(env: &Env, id: &str, now: &Value) {
    let both = json!({"draft_version": now["versionId"], "live_version": now["activeVersionId"]});
    for (tool, arguments) in [
        ("get_workflow", json!({"workflow_id": id, "full": true})),
        ("get_workflow", json!({"workflow_id": id})),
        ("validate_workflow", json!({"workflow_id": id})),
        ("list_workflows", json!({"name": now["name"]})),
    ] {
        let mut shown = done(env, tool, arguments).await;
        if tool == "list_workflows" {
            let rows = shown["workflows"].as_array().unwrap();
            shown = rows.iter().find(|row| row["id"] == *id).unwrap().clone();
        }
        assert_has!(shown["unpublished"], both);
        for part in ["changed_by", "changed_at"] {
            assert!(shown["unpublished"][part].is_string(), "{shown}");
        }
    }
}

/// Saves nodes as the editor does: what is live stays.
pub(super) async fn save_draft(env: &Env, workflow: &TestWorkflow, nodes: Value) {
    let connections = json!({"Webhook": leads_to(nodes[1]["name"].as_str().unwrap())});
    let body =
        json!({"name": workflow.name, "nodes": nodes, "connections": connections, "settings": {}});
    let path = format!("/workflows/{}?publishIfActive=false", workflow.id);
    env.api("PUT", &path, Some(body)).await;
}

#[tokio::test]
async fn concurrent_changes_are_all_kept() {
    let Some(env) = Env::full().await else { return };
    let (workflow, _) = made(&env).await;
    let id = &workflow.id;
    let add = async |n: usize, version: Option<&Value>| {
        let operation =
            json!({"op": "add_node", "node": format!("N{n}"), "type": "n8n-nodes-base.noOp"});
        let arguments = json!({"workflow_id": id, "operations": [operation], "version": version});
        call(&env, "edit_workflow", arguments).await
    };
    // Beside other changes of the same workflow.
    let tag = tag_name();
    let others = async {
        done!(env, "set_workflow_tags", {"workflow_id": id, "tags": [tag]});
        done!(env, "update_workflow", {"workflow_id": id, "workflow": {"settings": {"executionTimeout": 61}}});
        done!(env, "activate_workflow", {"workflow_id": id});
        let rename = json!([{"op": "rename_workflow", "to": format!("{} b", workflow.name)}]);
        done!(env, "edit_workflow", {"workflow_id": id, "operations": rename});
        done!(env, "deactivate_workflow", {"workflow_id": id});
    };
    let (added, ()) = tokio::join!(join_all((0..8).map(|n| add(n, None))), others);
    for added in added {
        assert!(!added.is_error, "{}", added.text());
    }
    let now = env.read(&workflow).await;
    let names: HashSet<_> = member_texts(&now["nodes"], "name").into_iter().collect();
    assert_eq!(names.len(), 10, "{names:?}");
    assert_has!(now, {"active": false, "name": format!("{} b", workflow.name)});
    assert_has!(now, {"settings": {"executionTimeout": 61}});
    assert_eq!(member_texts(&now["tags"], "name"), [tag.as_str()]);
    // One of two changes that name the same version is done.
    for round in 0..4 {
        let before = env.read(&workflow).await;
        let both = [8, 9].map(|n| add(10 * round + n, Some(&before["updatedAt"])));
        let (written, refused): (Vec<_>, Vec<_>) = join_all(both)
            .await
            .into_iter()
            .partition(|one| !one.is_error);
        assert_eq!((written.len(), refused.len()), (1, 1));
        assert_contains(&refused[0].text(), "changed since");
        let now = env.read(&workflow).await;
        assert_eq!(now["nodes"].as_array().unwrap().len(), 11 + round);
    }
    let first = versions::versions(&env, &workflow).await.pop().unwrap();
    let restore = json!({"workflow_id": id, "version_id": first["version_id"]});
    let archive = async {
        done!(env, "archive_workflow", {"workflow_id": id});
        done!(env, "unarchive_workflow", {"workflow_id": id});
    };
    let restored = async {
        let restored = call(&env, "restore_workflow_version", restore).await;
        // n8n changes no archived workflow.
        assert!(
            !restored.is_error || restored.text().contains("archived"),
            "{}",
            restored.text()
        );
    };
    tokio::join!(archive, restored);

    env.keep(&format!("/tags/{}", now["tags"][0]["id"].as_str().unwrap()));
}

/// Nothing locks a workflow for two servers: the one whose change replaces another says so.
#[tokio::test]
async fn change_of_another_server_is_not_lost_without_a_word() {
    let Some(env) = Env::full().await else { return };
    let other = Env::full().await.unwrap();
    let (workflow, _) = made(&env).await;
    for round in 0..8 {
        let add = async |env: &Env, name: String| {
            let operation = json!({"op": "add_node", "node": name, "type": "n8n-nodes-base.noOp"});
            let arguments = json!({"workflow_id": workflow.id, "operations": [operation]});
            (call(env, "edit_workflow", arguments).await, name)
        };
        let one = add(&env, format!("A{round}"));
        let (one, two) = tokio::join!(one, add(&other, format!("B{round}")));
        let now = env.read(&workflow).await["nodes"].to_string();
        let is_told = |answer: &str| {
            ["changed since", "in the same moment"]
                .iter()
                .any(|part| answer.contains(part))
        };
        for (answer, name) in [&one, &two] {
            let is_told = is_told(&one.0.text()) || is_told(&two.0.text());
            assert!(
                is_told || now.contains(&format!("{name:?}")),
                "{name}: {} {now}",
                answer.text()
            );
        }
    }
}

#[tokio::test]
async fn small_operations_change_a_workflow() {
    let Some((proxy, env)) = Env::counted().await else {
        return;
    };
    let (workflow, made) = made(&env).await;
    let arguments = json!({"workflow_id": workflow.id, "version": made["version"], "operations": [
        {"op": "rename_node", "node": "Webhook", "to": "In's"},
        {"op": "add_node", "node": "Last", "type": "n8n-nodes-base.noOp"},
        {"op": "connect", "node": "Set", "to": "Last"},
        {"op": "configure_node", "node": "Last", "fields": {"notes": "the end"}},
        {"op": "set_settings", "settings": {"executionTimeout": 60}},
    ]});
    let edited = done(&env, "edit_workflow", arguments).await;
    assert_ne!(edited["version"], made["version"]);
    let now = env.read(&workflow).await;
    assert_eq!(member_texts(&now["nodes"], "name"), ["In's", "Set", "Last"]);
    assert!(now["nodes"][1].to_string().contains(r"$('In\\'s')"));
    assert_eq!(now["nodes"][2]["notes"], "the end");
    assert_eq!(now["connections"]["Set"]["main"][0][0]["node"], "Last");
    assert_has!(now, {"active": false, "settings": {"executionTimeout": 60, "availableInMCP": true,
        "executionOrder": "v1"}});

    let empty = json!({"main": [[target("Set")], []]});
    let body = json!({"name": now["name"], "nodes": now["nodes"], "settings": {},
        "connections": {"In's": empty, "Set": leads_to("Last")}});
    env.api("PUT", &format!("/workflows/{}", workflow.id), Some(body))
        .await;
    let arguments = json!({"workflow_id": workflow.id, "operations": [
        {"op": "disconnect", "node": "Set", "to": "Last"},
        {"op": "remove_node", "node": "Last"},
    ]});
    done(&env, "edit_workflow", arguments).await;
    let now = env.read(&workflow).await;
    assert_eq!(now["connections"], json!({"In's": empty}));
    assert_eq!(now["nodes"].as_array().unwrap().len(), 2);
    // Only validate_workflow makes copies.
    let sent = proxy.take();
    let made = sent.iter().filter(|one| *one == "POST /api/v1/workflows");
    assert_eq!(made.count(), 1);
    env.activate(&workflow).await;
    let ran = env.run(&workflow, json!({"input": "x"})).await;
    assert_eq!(ran["output"], json!({"result": "x"}), "{ran}");
}

#[tokio::test]
async fn all_operations_are_applied_or_none() {
    let Some(env) = Env::full().await else { return };
    let (workflow, _) = made(&env).await;
    let before = env.read(&workflow).await;
    let first = json!({"op": "rename_workflow", "to": "never"});
    let table = json!([
        [{"op": "remove_node", "node": "Nope"}, "operations[1] (remove_node)"],
        [{"op": "add_node", "node": "Set", "type": "a.b"}, "already"],
        [{"op": "add_node", "node": "New"}, "`type` is missing"],
        [{"op": "connect", "node": "Set"}, "`to` is missing"],
        [{"op": "disconnect", "node": "Set", "to": "Webhook"}, "not connected"],
        [{"op": "disconnect", "node": "Webhook", "to": "Set", "output": 1}, "another way: output 0, input 0, kind main"],
        [{"op": "configure_node", "node": "Set", "fields": {"name": "x"}}, "cannot contain"],
        [{"op": "rename_node", "node": "Set", "to": "Webhook"}, "already"],
        [{"op": "set_settings", "settings": {"foo": 1}}, "no setting \"foo\""],
        [{"op": "connect", "node": "Webhook", "to": "Set", "output": 65_535}, "above 100"],
        [{"op": "connect", "node": "Webhook", "to": "Set", "input": 101}, "above 100"],
        [{"op": "rename_workflow", "to": " "}, "must not be empty"],
        [{"op": "explode"}, "operations[1].op: unknown variant, expected one of `add_node`"],
    ]);
    for row in table.as_array().unwrap() {
        let arguments = json!({"workflow_id": workflow.id, "operations": [first, row[0]]});
        assert_refused(&env, "edit_workflow", arguments, row[1].as_str().unwrap()).await;
    }
    let dry = json!({"workflow_id": workflow.id, "operations": [first], "dry_run": true});
    let dry = done(&env, "edit_workflow", dry).await;
    assert_contains(&dry["note"], "nothing was written");
    assert_has!(env.read(&workflow).await, {"updatedAt": before["updatedAt"]});
    // Connections that lead nowhere are told.
    let add = json!({"op": "add_node", "node": "If", "type": "n8n-nodes-base.if", "version": 2.2});
    let table = json!([
        [{"node": "Webhook", "to": "Set", "kind": "ai_bogus"}, "n8n has no connections of kind"],
        [{"node": "Set", "to": "Webhook"}, "A trigger has no input"],
        [{"node": "If", "to": "Set", "output": 2}, "It has 2 outputs"],
    ]);
    let table: Vec<(Value, String)> = serde_json::from_value(table).unwrap();
    for (mut connect, part) in table {
        connect["op"] = json!("connect");
        let arguments = json!({"workflow_id": workflow.id, "operations": [add, connect], "dry_run": true,
            "allow_invalid": true});
        let found = done(&env, "edit_workflow", arguments).await;
        assert_contains(&found["warnings"], &part);
    }
}

#[tokio::test]
async fn definition_from_get_workflow_is_accepted() {
    let Some(env) = Env::full().await else { return };
    let (workflow, _) = made(&env).await;
    let before = env.read(&workflow).await;
    let full = done!(env, "get_workflow", {"workflow_id": workflow.id, "full": true});
    let mut theirs = before.clone();
    theirs["settings"]["madeUp"] = json!(1);
    theirs["nodes"][0]["color"] = json!("red");
    // The whole answer, its definition alone, and n8n's own JSON with unknown fields.
    for given in [full.clone(), full["definition"].clone(), theirs] {
        let arguments = json!({"workflow_id": workflow.id, "workflow": given});
        let written = done(&env, "update_workflow", arguments).await;
        assert_eq!(written["name"], workflow.name, "{written}");
        if let Some(left_out) = written["left_out"].as_array() {
            assert!(left_out.contains(&json!("settings: madeUp")), "{written}");
            assert!(left_out.contains(&json!("Webhook: color")), "{written}");
        }
        let now = env.read(&workflow).await;
        for part in ["nodes", "connections", "settings", "name"] {
            assert_eq!(now[part], before[part], "{part}");
        }
    }
    // The whole answer names the version that was read.
    let rename = json!([{"op": "rename_workflow", "to": unique("renamed")}]);
    done!(env, "edit_workflow", {"workflow_id": workflow.id, "operations": rename});
    refused!(env, "update_workflow", {"workflow_id": workflow.id, "workflow": full}, "changed since");
    // Without a version, what is lost is named: a node that is renamed, or has got a new id, is not.
    let mut alone = full["definition"].clone();
    let nodes = alone["nodes"].as_array_mut().unwrap();
    nodes[0]["name"] = json!("First");
    nodes[1]["id"] = json!("new");
    alone["connections"] = json!({});
    let update = async |definition: &Value| {
        let arguments = json!({"workflow_id": workflow.id, "workflow": definition});
        done(&env, "update_workflow", arguments).await
    };
    assert_lacks(&update(&alone).await.to_string(), "Removed");
    let before = env.read(&workflow).await;
    alone["nodes"].as_array_mut().unwrap().truncate(1);
    let removed = format!(
        "Removed: \"Set\"; the draft before is version {}.",
        before["versionId"].as_str().unwrap()
    );
    assert_contains(&update(&alone).await["note"], &removed);
}

#[tokio::test]
async fn change_of_an_active_workflow_is_a_draft_until_it_is_published() {
    let Some(env) = Env::full().await else { return };
    let workflow = env.live(vec![webhook("lastNode"), set("old")]).await;
    let ran = env.run(&workflow, json!({})).await;
    assert_eq!(ran["output"], json!({"result": "old"}), "{ran}");
    let edit = |value: &str, publish: bool| {
        let operation = json!({"op": "replace_text", "node": "Set",
            "path": "assignments.assignments[0].value", "find": value, "replace": format!("{value}+")});
        json!({"workflow_id": workflow.id, "operations": [operation], "publish": publish})
    };
    let written = done(&env, "edit_workflow", edit("old", false)).await;
    assert_contains(&written["note"], "live has not changed");
    let ran = env.run(&workflow, json!({})).await;
    assert_eq!(ran["output"], json!({"result": "old"}), "{ran}");
    // The draft holds changes of this server only. Until n8n has changed over, a run says that it ran the version before.
    for value in ["old+", "old++", "old+++"] {
        let written = done(&env, "edit_workflow", edit(value, true)).await;
        assert_contains(&written["note"], "the change is live");
        let now = env.read(&workflow).await;
        assert_eq!(now["versionId"], now["activeVersionId"]);
        eventually("a run of what is live", async || {
            let ran = env.run(&workflow, json!({})).await;
            let is_new = ran["version_id"] == now["activeVersionId"];
            let expected = if is_new {
                format!("{value}+")
            } else {
                value.to_owned()
            };
            assert_eq!(ran["output"], json!({ "result": expected }), "{ran}");
            if !is_new {
                assert_contains(&ran["note"], "n8n takes a moment to change over");
            }
            is_new.then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn copy_runs_beside_the_original() {
    let Some(env) = Env::full().await else { return };
    let mut own_path = form();
    own_path["parameters"]["options"] = json!({"path": unique("form")});
    let mut tools = chat();
    tools["type"] = json!("@n8n/n8n-nodes-langchain.mcpTrigger");
    tools["typeVersion"] = json!(2.0);
    tools["parameters"] = json!({"path": unique("mcp")});
    for nodes in [
        vec![webhook("lastNode"), echo()],
        vec![own_path],
        vec![tools],
    ] {
        let workflow = env.live(nodes).await;
        let found = done!(env, "validate_workflow", {"workflow_id": workflow.id});
        assert_eq!(found["valid"], true, "{found}");
        let copy = done!(env, "duplicate_workflow", {"workflow_id": workflow.id});
        assert_has!(copy, {"name": format!("{} copy", workflow.name), "active": false});
        let copy = env.adopt(&copy);
        done!(env, "activate_workflow", {"workflow_id": copy.id});
        for workflow in [&workflow, &copy] {
            let nodes = env.read(workflow).await["nodes"].to_string();
            if !nodes.contains("mcpTrigger") {
                let ran = env.run(workflow, json!({"input": "x"})).await;
                let execution = env.execution(&ran).await;
                assert_eq!(execution["workflowId"], *workflow.id);
            }
        }
    }
}

/// n8n keeps pinned output by names of nodes, and refuses a workflow with a group of nodes that are gone.
#[tokio::test]
async fn pinned_output_and_groups_follow_their_nodes() {
    let Some(env) = Env::full().await else { return };
    let nodes = vec![webhook("lastNode"), set("a"), code("return [];")];
    let workflow = env.draft(nodes).await;
    let id = &workflow.id;
    let mut whole = env.read(&workflow).await;
    let member = |at: usize| whole["nodes"][at]["id"].clone();
    let (first, second) = (member(1), member(2));
    let group = |ids: Value| json!([{"id": "g", "name": "G", "nodeIds": ids}]);
    let groups = group(json!([first, second]));
    let smaller = group(json!([first]));
    let pins = json!([{"json": {"n": 1}}]);
    let body = json!({"name": whole["name"], "nodes": whole["nodes"], "connections": whole["connections"],
        "settings": {}, "pinData": {"Set": pins}, "nodeGroups": groups});
    env.api("PUT", &format!("/workflows/{id}"), Some(body))
        .await;
    whole = env.read(&workflow).await;
    let operations = json!([{"op": "rename_node", "node": "Set", "to": "A"}, {"op": "remove_node", "node": "Code"}]);
    done!(env, "edit_workflow", {"workflow_id": id, "operations": operations});
    let now = env.read(&workflow).await;
    assert_has!(now, {"pinData": {"A": pins}, "nodeGroups": smaller});
    assert_eq!(now["pinData"].as_object().unwrap().len(), 1);
    let copy = env.adopt(&done!(env, "duplicate_workflow", {"workflow_id": id}));
    assert_has!(env.read(&copy).await, {"pinData": now["pinData"], "nodeGroups": now["nodeGroups"]});
    done!(env, "restore_workflow_version", {"workflow_id": id, "version_id": whole["versionId"]});
    let now = env.read(&workflow).await;
    assert_has!(now, {"pinData": {"Set": pins}, "nodeGroups": groups});
    let shown = done!(env, "get_workflow", {"workflow_id": id, "full": true});
    let mut definition = shown["definition"].clone();
    definition["nodes"].as_array_mut().unwrap().truncate(2);
    definition["nodes"][1]["name"] = json!("B");
    definition["connections"] = json!({});
    done!(env, "update_workflow", {"workflow_id": id, "workflow": definition});
    let now = env.read(&workflow).await;
    assert_has!(now, {"pinData": {"B": pins}, "nodeGroups": smaller});
}

/// n8n keeps each setting that a change leaves out.
#[tokio::test]
async fn settings_are_taken_away_or_kept_as_was_said() {
    let Some(env) = Env::full().await else { return };
    let settings = json!({"timezone": "Europe/Rome", "executionTimeout": 60, "saveManualExecutions": true,
        "callerPolicy": "workflowsFromAList", "callerIds": "w"});
    let nodes = vec![webhook("lastNode")];
    let workflow = env.draft_with(nodes, settings).await;
    let id = &workflow.id;
    let set = |settings: Value| {
        let operation = json!({"op": "set_settings", "settings": settings});
        json!({"workflow_id": id, "operations": [operation]})
    };
    for setting in ["saveManualExecutions", "callerPolicy"] {
        let unset = set(json!({setting: null}));
        assert_refused(&env, "edit_workflow", unset, "another value").await;
    }
    done(&env, "edit_workflow", set(json!({"timezone": null}))).await;
    let left_out = json!({"settings": {"executionTimeout": null, "callerIds": null}});
    done!(env, "update_workflow", {"workflow_id": id, "workflow": left_out});
    let ignored = set(json!({"credentialResolverId": "r"}));
    let ignored = done(&env, "edit_workflow", ignored).await;
    let left_out = json!(["settings: credentialResolverId"]);
    assert_eq!(ignored["left_out"], left_out);
    // Settings that n8n writes in another way are kept, and those that it does not take are left out.
    let settings = json!({"executionTimeout": 60.0, "errorWorkflow": "DEFAULT", "callerIds": "", "timezone": "UTC",
        "binaryMode": "combined", "madeUp": 1});
    let nodes = [webhook("lastNode")];
    let made = done!(env, "create_workflow", {"name": unique("odd"), "nodes": nodes, "settings": settings});
    env.adopt(&made);
    let left_out = json!(["settings: binaryMode", "settings: madeUp"]);
    assert_eq!(made["left_out"], left_out);
    let now = env.read(&workflow).await["settings"].clone();
    for (setting, expected) in [
        ("timezone", Value::Null),
        ("executionTimeout", Value::Null),
        ("callerIds", json!("")),
        ("callerPolicy", json!("workflowsFromAList")),
        ("availableInMCP", json!(true)),
    ] {
        assert_eq!(now[setting], expected, "{setting}: {now}");
    }
}

#[tokio::test]
async fn empty_names_are_refused_and_mended() {
    let Some(env) = Env::full().await else { return };
    let blank = json!(" ");
    let id = "x";
    let columns = json!([{"name": "c", "type": "number"}]);
    let table = json!([
        ["create_workflow", {"name": blank, "nodes": [webhook("lastNode")]}],
        ["duplicate_workflow", {"workflow_id": id, "name": blank}],
        ["create_credential", {"name": "", "type": "httpHeaderAuth", "data": {}}],
        ["update_credential", {"credential_id": id, "name": blank}],
        ["update_credential", {"credential_id": id, "name": "", "data": {"value": "x"}}],
        ["create_tag", {"name": blank}],
        ["rename_tag", {"tag_id": id, "name": blank}],
        ["create_data_table", {"name": blank, "columns": columns}],
        ["call_n8n_api", {"method": "POST", "path": "variables", "body": {"key": "", "value": "v"}}],
        ["call_n8n_api", {"method": "POST", "path": "projects", "body": {"name": blank}}],
        ["call_n8n_api", {"method": "PATCH", "path": "projects/p/folders/f", "body": {"name": ""}}],
    ]);
    let table: Vec<(String, Value)> = serde_json::from_value(table).unwrap();
    for (tool, arguments) in table {
        assert_refused(&env, &tool, arguments, "must not be empty").await;
    }
    let blank = json!([{"name": blank, "type": "number"}]);
    refused!(env, "create_data_table", {"name": unique("table"), "columns": blank}, "n8n does not accept this");
    // One that n8n has already.
    let workflow = env.draft(vec![webhook("lastNode"), set("x")]).await;
    let mut whole = env.read(&workflow).await;
    let parts = ["nodes", "connections", "settings"].map(|part| (part, whole[part].take()));
    let mut body: Value = parts.into_iter().collect();
    body["name"] = json!("");
    let path = format!("/workflows/{}", workflow.id);
    env.api("PUT", &path, Some(body)).await;
    let id = &workflow.id;
    done!(env, "get_workflow", {"workflow_id": id, "full": true});
    done!(env, "validate_workflow", {"workflow_id": id});
    let mend = json!([{"op": "configure_node", "node": "Set", "fields": {"notes": "n"}}]);
    let edited = done!(env, "edit_workflow", {"workflow_id": id, "operations": mend});
    assert_eq!(edited["name"], "");
    // The definition as it is shown, and a part of it, keep the name.
    let shown = done!(env, "get_workflow", {"workflow_id": id, "full": true});
    for given in [
        shown["definition"].clone(),
        json!({"settings": {"executionTimeout": 61}}),
    ] {
        let updated = done!(env, "update_workflow", {"workflow_id": id, "workflow": given});
        assert_eq!(updated["name"], "", "{updated}");
    }
    let blank = json!({"name": " "});
    refused!(env, "update_workflow", {"workflow_id": id, "workflow": blank}, "Leave it out to keep the name");
    let name = unique("named");
    let rename = json!([{"op": "rename_workflow", "to": name}]);
    let named = done!(env, "edit_workflow", {"workflow_id": id, "operations": rename});
    assert_eq!(named["name"], name.as_str());
}
