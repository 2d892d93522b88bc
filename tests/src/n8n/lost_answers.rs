//! Every tool that writes, in an n8n whose answers to changes are lost: each says that the change may have
//! happened all the same.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::{SERVER, agreed, assert_refused, call, done, server_with_all};
use crate::harness::{FakeService, Request, Response, Server, assert_contains, assert_lacks};

const MAY_HAVE_HAPPENED: &str = "It may have happened all the same";

/// The tools that change n8n, with arguments that it would take; `?` stands for the value that a question names.
fn writes() -> Vec<(String, Value)> {
    let condition = json!([{"column": "c", "is": "eq", "value": 1}]);
    let hook = json!({"name": "Hook", "type": "n8n-nodes-base.webhook", "typeVersion": 2,
        "parameters": {"path": "p"}});
    let rename = json!({"op": "rename_workflow", "to": "V"});
    let relations = json!([{"userId": "u", "role": "project:admin"}]);
    let table = json!([
        ["create_workflow", {"name": "W", "nodes": [hook]}],
        ["edit_workflow", {"workflow_id": "w", "operations": [rename]}],
        ["update_workflow", {"workflow_id": "w", "workflow": {"name": "V"}}],
        ["duplicate_workflow", {"workflow_id": "w"}],
        ["activate_workflow", {"workflow_id": "w"}],
        ["deactivate_workflow", {"workflow_id": "w"}],
        ["archive_workflow", {"workflow_id": "w"}],
        ["unarchive_workflow", {"workflow_id": "w"}],
        ["set_workflow_tags", {"workflow_id": "w", "tags": ["t"]}],
        ["move_workflow", {"workflow_id": "w", "project_id": "p", "confirm": "?"}],
        ["move_workflow", {"workflow_id": "w", "folder_id": "root"}],
        ["delete_workflow", {"workflow_id": "w", "confirm": "w"}],
        ["restore_workflow_version", {"workflow_id": "w", "version_id": "v"}],
        ["retry_execution", {"execution_id": "1"}],
        ["stop_execution", {"execution_id": "2"}],
        ["delete_execution", {"execution_id": "1", "confirm": "1"}],
        ["create_credential", {"name": "C", "type": "httpHeaderAuth", "data": {}}],
        ["update_credential", {"credential_id": "c", "name": "D"}],
        ["transfer_credential", {"credential_id": "c", "project_id": "p", "confirm": "?"}],
        ["delete_credential", {"credential_id": "c", "confirm": "c"}],
        ["create_tag", {"name": "u"}],
        ["rename_tag", {"tag_id": "t", "name": "u"}],
        ["delete_tag", {"tag_id": "t", "confirm": "t"}],
        ["create_data_table", {"name": "T", "columns": [{"name": "c", "type": "number"}]}],
        ["delete_data_table", {"data_table_id": "d", "confirm": "d"}],
        ["insert_data_table_rows", {"data_table_id": "d", "rows": [{"c": 1}]}],
        ["update_data_table_rows", {"data_table_id": "d", "where": condition, "set": {"c": 2}, "confirm": "?"}],
        ["delete_data_table_rows", {"data_table_id": "d", "where": condition, "confirm": "?"}],
        ["call_n8n_api", {"method": "POST", "path": "projects/p/users", "confirm": "?",
            "body": {"relations": relations}}],
    ]);
    serde_json::from_value(table).unwrap()
}

/// The answers of an n8n that loses those to changes in the way of `lost`.
fn answer(request: &Request, lost: &Response) -> Response {
    let target = request.target.split('?').next().unwrap();
    let hook = json!({"name": "Hook", "type": "n8n-nodes-base.webhook", "typeVersion": 2,
        "webhookId": "h", "parameters": {"path": "p", "httpMethod": "POST"}});
    let workflow = json!({"id": "w", "name": "W", "active": true, "nodes": [hook], "connections": {},
        "settings": {}, "updatedAt": "2026-01-01", "versionId": "v", "activeVersionId": "v"});
    let execution = |id: &str, status: &str| json!({"id": id, "status": status, "workflowId": "w"});
    let found = match (request.method.as_str(), target) {
        ("GET", "/api/v1/workflows/w") => workflow,
        ("GET", "/api/v1/workflows/w/versions/v") => {
            json!({"versionId": "v", "createdAt": "", "nodes": [hook], "connections": {}})
        }
        ("GET", "/api/v1/tags") => json!({"data": [{"id": "t", "name": "t"}]}),
        ("GET", "/api/v1/tags/t") => json!({"id": "t", "name": "t"}),
        ("GET", "/api/v1/data-tables/d") => json!({"id": "d", "name": "T", "columns": []}),
        ("GET", "/api/v1/executions/1") => execution("1", "error"),
        ("GET", "/api/v1/executions/2") => execution("2", "running"),
        ("GET", _) => json!({"data": [], "nextCursor": null}),
        (_, _) if request.target.contains("dryRun=true") => json!([]),
        ("PATCH", _) if request.has(r#""dryRun":true"#) => json!([{"id": 1}]),
        _ => return lost.clone(),
    };
    Response::json(200, &found)
}

#[tokio::test]
async fn lost_answers_of_all_tools_that_write_say_that_it_may_have_happened() {
    for (lost, part) in [
        (Response::Cut, MAY_HAVE_HAPPENED),
        (Response::html(502), MAY_HAVE_HAPPENED),
        (Response::html(200), "n8n has accepted the request"),
    ] {
        let fake = FakeService::start(move |request| answer(request, &lost)).await;
        let server = server_with_all(&fake).await;
        let client = server.client().await;
        for (tool, mut arguments) in writes() {
            if arguments["confirm"] == "?" {
                arguments = agreed(&client, &tool, arguments).await;
            }
            assert_refused(&client, &tool, arguments, part).await;
        }
        // A test changes nothing.
        let refused = refused!(client, "test_credential", {"credential_id": "c"});
        assert_lacks(&refused, "all the same");
        let run = json!({"workflow_id": "w", "wait_seconds": 1});
        let run = call(&client, "run_workflow", run).await;
        assert_lacks(&run.text(), "nothing was started");
        // An n8n that cannot be asked gives no verdict.
        let checked = done!(client, "validate_workflow", {"workflow_id": "w"});
        assert_eq!(checked.get("valid"), None, "{checked}");
        assert_contains(&checked["unchecked"][0], "publishing");
        assert_lacks(&checked["unchecked"], "all the same");
        // None was left out.
        let listed = client.list_tools().await.unwrap();
        let reads = |raw: &str| raw.contains(r#""readOnlyHint":true"#);
        let changes = listed.iter().filter(|tool| !reads(tool.raw.get()));
        let changes: BTreeSet<_> = changes.map(|tool| tool.name.as_str()).collect();
        let writes = writes();
        let mut known: BTreeSet<_> = writes.iter().map(|(tool, _)| tool.as_str()).collect();
        // They say what is known of the execution, and of the copy.
        known.extend(["run_workflow", "resume_execution", "validate_workflow"]);
        assert_eq!(changes, known);
    }
}

/// n8n answers OK to the stop of an execution that it has not begun, and runs it all the same.
#[tokio::test]
async fn execution_that_goes_on_after_its_stop_is_stopped_again() {
    let stops = AtomicUsize::new(0);
    let fake = FakeService::start(move |request| {
        let is_stop = request.target.ends_with("/stop");
        let count = stops.fetch_add(is_stop.into(), Ordering::Relaxed);
        let status = if count < 2 { "running" } else { "canceled" };
        let execution = json!({"id": "2", "status": status, "workflowId": "w"});
        Response::json(200, &execution)
    })
    .await;
    let server = server_with_all(&fake).await;
    let stopped = done!(server.client().await, "stop_execution", {"execution_id": "2"});
    assert_eq!(stopped["status"], "canceled", "{stopped}");
    let requests = fake.requests();
    let stops = requests.iter().filter(|one| one.target.ends_with("/stop"));
    assert_eq!(stops.count(), 2);
}

/// Another client writes between the server's first look and its own write, which takes a second look.
#[tokio::test]
async fn change_from_outside_during_a_change_is_not_overwritten() {
    let looks = AtomicUsize::new(0);
    let fake = FakeService::start(move |request| match request.target.as_str() {
        "/api/v1/workflows/w" => {
            let look = looks.fetch_add(1, Ordering::Relaxed);
            Response::json(
                200,
                &json!({"id": "w", "name": "W", "nodes": [], "connections": {},
                "updatedAt": format!("2026-01-0{look}"), "versionId": "v"}),
            )
        }
        _ => Response::json(200, &json!({"data": [], "nextCursor": null})),
    })
    .await;
    let server = server_with_all(&fake).await;
    let rename = json!([{"op": "rename_workflow", "to": "ours"}]);
    let edit = json!({"workflow_id": "w", "operations": rename, "allow_invalid": true});
    let client = server.client().await;
    assert_refused(&client, "edit_workflow", edit, "changed since").await;
    assert!(fake.requests().iter().all(|one| one.method == "GET"));
}

/// A workflow whose id is not known cannot be marked, so it has nothing yet that could run.
#[tokio::test]
async fn workflow_is_created_without_nodes_until_it_is_marked_for_a_review() {
    let fake = FakeService::start(|request| answer(request, &Response::Cut)).await;
    let env = [("N8N_URL", fake.url.as_str()), ("N8N_API_KEY", "k")];
    let options = ["--toolsets", "all", "--require-review"];
    let server = Server::with_args(SERVER, &options, &env).await;
    let client = server.client().await;
    let (tool, new) = writes().swap_remove(0);
    assert_refused(&client, &tool, new, MAY_HAVE_HAPPENED).await;
    refused!(client, "duplicate_workflow", {"workflow_id": "w"}, MAY_HAVE_HAPPENED);
    let sent = fake.requests();
    let created = sent.iter().filter(|request| request.method == "POST");
    let created: Vec<_> = created
        .map(|request| request.json()["nodes"].take())
        .collect();
    assert_eq!(created, [json!([]), json!([])]);
}
