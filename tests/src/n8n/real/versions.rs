//! The history of workflows, and moving them.

use super::authoring::save_draft;
use super::*;

pub(super) async fn versions(env: &Env, workflow: &TestWorkflow) -> Vec<Value> {
    let arguments = json!({"workflow_id": workflow.id, "limit": 2});
    all_rows(env, "list_workflow_versions", arguments, "versions").await
}

#[tokio::test]
async fn versions_are_listed_compared_and_restored() {
    let Some(env) = Env::full().await else { return };
    let trigger = webhook("lastNode");
    let mut node = http_request("http://127.0.0.1:1/old");
    node["parameters"]["options"] = json!({"timeout": 1000});
    let workflow = env.live(vec![trigger.clone(), node.clone()]).await;
    let id = &workflow.id;
    let secret = |value: &str| json!({"parameters": [{"name": "X-Api-Key", "value": value}]});
    node["parameters"]["url"] = json!("http://127.0.0.1:1/new");
    node["parameters"]["headerParameters"] = secret("CANARY-1");
    let code = |middle: &str| code(&format!("const a = 1;\n{middle}\nreturn [];"));
    let nodes = json!([trigger, node, code("a();")]);
    save_draft(&env, &workflow, nodes).await;
    // A new node has the name that another one had.
    let mut another = set("x");
    another["name"] = node["name"].clone();
    node["name"] = json!("Renamed");
    node["parameters"]["headerParameters"] = secret("CANARY-2");
    let parameters = node["parameters"].as_object_mut().unwrap();
    parameters.remove("options");
    let nodes = json!([trigger, node, code("b();"), another]);
    save_draft(&env, &workflow, nodes).await;

    let listed = versions(&env, &workflow).await;
    assert_eq!(listed.len(), 3, "{listed:?}");
    let [newest, middle, oldest] = [0, 1, 2].map(|at| &listed[at]["version_id"]);
    assert_has!(listed[0], {"current": true});
    assert_has!(listed[2], {"live": true});
    let marks = (listed[1].get("current"), listed[1].get("live"));
    assert_eq!(marks, (None, None));

    let shown = done!(env, "get_workflow_version", {"workflow_id": id, "version_id": oldest});
    let names = member_texts(&shown["nodes"], "name");
    assert_eq!(names, ["Webhook", "HTTP Request"]);
    assert_eq!(shown["connections"], json!(["Webhook -> HTTP Request"]));
    for to in [&json!("current"), newest] {
        let shown = done!(env, "get_workflow_version", {"workflow_id": id, "version_id": middle, "changes_to": to});
        assert_lacks(&shown.to_string(), "CANARY");
        let header = "parameters.headerParameters.parameters[0].value";
        let expected = json!({
            "added": ["HTTP Request (n8n-nodes-base.set)"], "renamed": ["HTTP Request -> Renamed"],
            "changed": [
                {"node": "Renamed", "path": header, "before": "***", "after": "***"},
                {"node": "Renamed", "path": "parameters.options.timeout", "before": "1000"},
                {"node": "Code", "path": "parameters.jsCode", "before": "a();", "after": "b();"},
            ],
            "connected": ["Webhook -> Renamed"], "disconnected": ["Webhook -> HTTP Request"],
        });
        assert_eq!(shown["changes"], expected, "{shown}");
    }
    let back = json!({"workflow_id": id, "version_id": newest, "changes_to": middle});
    let back = done(&env, "get_workflow_version", back).await;
    assert_has!(back, {"changes": {"removed": ["HTTP Request (n8n-nodes-base.set)"]}});
    let none = json!({"workflow_id": id, "version_id": newest, "changes_to": "current"});
    let none = done(&env, "get_workflow_version", none).await;
    assert_eq!(none["changes"], json!({}));

    let restored =
        done!(env, "restore_workflow_version", {"workflow_id": id, "version_id": middle});
    assert_contains(&restored["note"], "live has not changed");
    let now = env.read(&workflow).await;
    assert_eq!(
        now["nodes"][1]["parameters"]["headerParameters"],
        secret("CANARY-1")
    );
    assert_eq!(now["activeVersionId"], *oldest);
    let listed = versions(&env, &workflow).await;
    assert_eq!(&listed[1]["version_id"], newest, "the old draft is kept");
    refused!(env, "get_workflow_version", {"workflow_id": id, "version_id": "no"}, "list_workflow_versions");
}

#[tokio::test]
async fn workflow_is_moved_and_restored_only_where_n8n_and_the_rules_allow_it() {
    let Some(env) = Env::full().await else { return };
    let workflow = env.draft(vec![webhook("lastNode")]).await;
    let id = &workflow.id;
    let project = env.read(&workflow).await["shared"][0]["projectId"].clone();
    let to = |project: &Value| json!({"workflow_id": id, "project_id": project});
    refused!(env, "move_workflow", {"workflow_id": id}, "`project_id`, `folder_id`");
    let tool = "move_workflow";
    let elsewhere = agreed(&env, tool, to(&json!("no"))).await;
    // The agreement to one project is none to another.
    let mut other = elsewhere.clone();
    other["project_id"] = project.clone();
    assert_refused(&env, tool, other, "Nothing was done yet").await;
    assert_refused(&env, tool, elsewhere, "no such project").await;
    let own = agreed(&env, tool, to(&project)).await;
    assert_refused(&env, tool, own, "t transfer a workflow into the").await;
    refused!(env, "move_workflow", {"workflow_id": id, "folder_id": "no"}, "only with a licence");
    let before = env.read(&workflow).await;
    let moved = done!(env, "move_workflow", {"workflow_id": id, "folder_id": "root"});
    assert_has!(moved, {"moved": id.as_str()});
    assert_eq!(env.read(&workflow).await["nodes"], before["nodes"]);

    let project = format!("project:{}", project.as_str().unwrap());
    for (option, rule, target) in [
        ("--allow-workflows", project.as_str(), "other"),
        ("--deny-workflows", "project:other", "other"),
    ] {
        let guarded = Env::limited(&[option, rule]).await.unwrap();
        let arguments = to(&json!(target));
        assert_refused(&guarded, "move_workflow", arguments, "Nothing was moved").await;
    }
    let credential = json!({"credential_id": "no", "project_id": "no"});
    let moved = agreed(&env, "transfer_credential", credential).await;
    assert_refused(&env, "transfer_credential", moved, "no such credential").await;
    // A restored version obeys the rules, too.
    let closed = env.draft(vec![called_by_another(), echo()]).await;
    let call = node_builders::base("Call", "executeWorkflow", 1.2, locator(&closed.id));
    let trigger = webhook("lastNode");
    let workflow = env.draft(vec![trigger.clone(), call]).await;
    save_draft(&env, &workflow, json!([trigger, set("x")])).await;
    let listed = versions(&env, &workflow).await;
    let arguments = json!({"workflow_id": workflow.id, "version_id": listed[1]["version_id"]});
    let tool = "restore_workflow_version";
    let guarded = Env::limited(&["--deny-workflows", &closed.id])
        .await
        .unwrap();
    assert_refused(&guarded, tool, arguments.clone(), "N8N_DENY_WORKFLOWS").await;
    env.activate(&workflow).await;
    let reviewed = Env::limited(&["--require-review"]).await.unwrap();
    assert_refused(&reviewed, tool, arguments.clone(), "review").await;
    assert_eq!(versions(&env, &workflow).await.len(), 2);
}
