//! Reading workflows, and arguments that are refused.

use super::*;

#[tokio::test]
async fn workflows_are_listed_filtered_and_described() {
    let Some(env) = Env::urls().await else { return };

    let (tag, tag_id) = env.tag().await;
    let live = env.live(vec![webhook("lastNode"), echo()]).await;
    let draft = env.draft(vec![manual(), set("x")]).await;
    for workflow in [&live, &draft] {
        env.set_tags(workflow, &[&tag_id]).await;
    }

    let row = |workflow: &TestWorkflow, active| json!({"id": workflow.id, "name": workflow.name, "active": active, "tags": [tag]});
    let tagged = done!(env, "list_workflows", {"tags": [tag], "active": true});
    assert_eq!(tagged, json!({"workflows": [row(&live, true)]}));
    let tagged = json!({"tags": [tag], "limit": 1});
    let rows = all_rows(&env, "list_workflows", tagged, "workflows").await;
    assert_eq!(rows.len(), 2);
    for expected in [row(&live, true), row(&draft, false)] {
        assert!(rows.contains(&expected), "{rows:?}");
    }
    let none = done!(env, "list_workflows", {"tags": [unique("no")]});
    assert_eq!(none, json!({"workflows": []}));

    let summary = done!(env, "get_workflow", {"workflow_id": live.id});
    assert_eq!(summary["connections"], json!(["Webhook -> Set"]));
    assert_eq!(summary["triggers"][0]["runnable"], true, "{summary}");
    let full = done!(env, "get_workflow", {"workflow_id": live.id, "full": true});
    let theirs = env.read(&live).await;
    for part in ["name", "nodes", "connections", "settings"] {
        assert_eq!(full["definition"][part], theirs[part]);
    }

    let prefix = unique("")[1..9].to_owned();
    let mut workflows = Vec::new();
    for n in 0..3 {
        let name = format!("{prefix} sync orders {n}");
        let made = env.create(name, vec![manual()], json!({}), json!({}));
        workflows.push(made.await);
    }
    let project = env.read(&workflows[0]).await["shared"][0]["projectId"].clone();
    for (arguments, count) in [
        (json!({"name": format!("{prefix} sync orders 1")}), 1),
        (json!({"name": prefix, "active": false}), 3),
        (json!({"name": prefix, "active": true}), 0),
        (json!({"name": prefix, "archived": true}), 0),
        (json!({"name": prefix, "project_id": "none"}), 0),
        (json!({"name": prefix, "project_id": project}), 3),
    ] {
        let list = done(&env, "list_workflows", arguments).await;
        assert_eq!(list["workflows"].as_array().unwrap().len(), count, "{list}");
    }
}

#[tokio::test]
async fn bad_arguments_are_refused_with_the_reason() {
    let Some(env) = Env::urls().await else { return };
    let table = json!([
        ["get_workflow", {"workflow_id": "doesNotExist"}, "no workflow doesNotExist"],
        ["run_workflow", {"workflow_id": "doesNotExist"}, "no workflow doesNotExist"],
        ["get_execution", {"execution_id": "987654321"}, "no execution 987654321"],
        ["get_execution", {"execution_id": "letters"}, "no execution letters"],
        ["get_workflow", {"workflow_id": "../users"}, "workflow_id"],
        ["run_workflow", {"workflow_id": "1%2F..%2F2"}, "workflow_id"],
        ["run_workflow", {"workflow_id": "x".repeat(65)}, "workflow_id"],
        ["get_execution", {"execution_id": ""}, "execution_id"],
        ["run_workflow", {"workflow_id": "1", "wait_seconds": 26}, "wait_seconds"],
        ["run_workflow", {"workflow_id": "1", "parameters": [1]}, "parameters"],
        ["run_workflow", {"workflow_id": "1", "input": 1}, "input"],
        ["list_workflows", {"cursor": "made up"}, "`cursor`"],
        ["list_workflows", {"limit": 0}, "limit"],
        ["list_workflows", {"tags": ["a,b"]}, "`tags`"],
    ]);
    assert_all_refused(&env, table).await;
}

#[tokio::test]
async fn trigger_has_a_schema_of_its_parameters() {
    let Some(env) = Env::full().await else { return };
    let rows = json!({"values": [{"name": "count", "type": "number"}, {"name": "what"}]});
    let mut by_rows = called_by_another();
    by_rows["parameters"] = json!({ "workflowInputs": rows });
    let mut by_example = called_by_another();
    by_example["parameters"] =
        json!({"inputSource": "jsonExample", "jsonExample": "{\"count\": 1, \"what\": \"x\"}"});
    let typed = json!({"count": {"type": "number"}, "what": {"type": "string"}});
    let message = json!({"chatInput": {"type": "string", "description": "The message."}});
    for (trigger, expected) in [
        (by_rows, typed.clone()),
        (by_example, typed),
        (called_by_another(), Value::Null),
        (chat(), message),
    ] {
        let workflow = env.draft(vec![trigger]).await;
        let shown = done!(env, "get_workflow", {"workflow_id": workflow.id});
        let parameters = &shown["triggers"][0]["parameters"];
        assert_eq!(parameters["properties"], expected, "{shown}");
    }
}
