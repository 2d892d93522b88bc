//! Lists of many pages, and with rows that n8n's own API would not take, in fakes: other tests use the lists of the
//! real one.

use serde_json::{Value, json};

use super::{assert_refused, call, done, rows, server_with_all};
use crate::harness::{FakeService, Request, Response, Server, assert_contains, member_texts};

/// Of every list.
const ROWS: usize = 2_600;

/// The name of the last row.
const LAST: &str = "name-2599";

/// The page of a list that the request asks for.
fn page(request: &Request, row: impl Fn(usize) -> Value) -> Response {
    let query = request
        .target
        .split_once('?')
        .map_or("", |(_, query)| query);
    let number = |name: &str| {
        let value = query.split('&').find_map(|pair| pair.strip_prefix(name));
        value.map_or(0, |value| value.parse::<usize>().unwrap())
    };
    let (start, limit) = (number("cursor="), number("limit="));
    let end = ROWS.min(start + limit);
    let rows: Vec<Value> = (start..end).map(row).collect();
    let next = (end < ROWS).then(|| end.to_string());
    Response::json(200, &json!({"data": rows, "nextCursor": next}))
}

async fn fake() -> (FakeService, Server) {
    let fake = FakeService::start(|request| {
        let path = request.target.split('?').next().unwrap_or_default();
        let path = path.trim_start_matches("/api/v1/");
        match (request.method.as_str(), path) {
            ("GET", "tags") => page(
                request,
                |row| json!({"id": format!("t{row}"), "name": format!("name-{row}")}),
            ),
            ("GET", "credentials") => page(request, |row| {
                let kind = if row % 1_300 == 1_299 {
                    "rare"
                } else {
                    "usual"
                };
                json!({"id": format!("c{row}"), "name": format!("name-{row}"), "type": kind})
            }),
            ("GET", "workflows/w") => Response::json(
                200,
                &json!({"id": "w", "name": "W", "active": false, "nodes": [], "connections": {}}),
            ),
            _ => Response::json(200, &json!([])),
        }
    })
    .await;
    let server = server_with_all(&fake).await;
    (fake, server)
}

#[tokio::test]
async fn rows_on_the_last_of_many_pages_are_found() {
    let (fake, server) = fake().await;
    let client = server.client().await;
    done!(client, "set_workflow_tags", {"workflow_id": "w", "tags": [LAST]});
    let requests = fake.requests();
    let change = requests.iter().rfind(|request| request.method != "GET");
    let change = change.expect("a change");
    assert_eq!(change.method, "PUT");
    assert_eq!(change.target, "/api/v1/workflows/w/tags");
    assert_eq!(change.json(), json!([{"id": "t2599"}]));
    // Credentials of a type are on the first page.
    let first = done!(client, "list_credentials", {"type": "rare", "limit": 1});
    assert_eq!(first["credentials"][0]["id"], "c1299", "{first}");
    let cursor = first["next_cursor"].clone();
    let second = done!(client, "list_credentials", {"type": "rare", "limit": 1, "cursor": cursor});
    assert_eq!(second["credentials"][0]["id"], "c2599", "{second}");
    // Each row of the others is shown once, on full pages.
    let mut arguments = json!({"type": "usual", "limit": 200});
    let mut usual = Vec::new();
    loop {
        let page = done(&client, "list_credentials", arguments.clone()).await;
        let ids = member_texts(&page["credentials"], "id");
        usual.extend(ids.into_iter().map(str::to_owned));
        match page.get("next_cursor") {
            Some(next) => arguments["cursor"] = next.clone(),
            None => break,
        }
        assert_eq!(usual.len() % 200, 0);
    }
    let rows = (0..ROWS).filter(|row| row % 1_300 != 1_299);
    assert!(usual.into_iter().eq(rows.map(|row| format!("c{row}"))));
    let all = done!(client, "list_credentials", {"limit": 100});
    assert_eq!(all["credentials"].as_array().unwrap().len(), 100);
}

/// Tools that list, the member with the rows, that with the id, and the rows of four that can be read.
const LISTS: &str = "\
list_workflows | workflows | id | good odd
list_executions | executions | execution_id | good odd
list_credentials | credentials | id | good
list_tags | tags | id | good
list_data_tables | data_tables | id | good
list_workflow_versions | versions | version_id | good
";

#[tokio::test]
async fn one_bad_row_spoils_no_list() {
    let odd = json!({
        "id": "odd", "name": "Odd", "active": null, "tags": null, "shared": null, "settings": null, "meta": null,
        "connections": {"A": null}, "pinData": null, "updatedAt": null,
        "nodes": [null, {"name": 7, "parameters": null, "credentials": [], "webhookId": {}, "typeVersion": "2"}],
    });
    let runs =
        json!({"resultData": {"runData": {"Set": [{"data": 7}]}, "lastNodeExecuted": "Set"}});
    let odd_execution = json!({"id": "odd", "status": "success", "mode": 7, "startedAt": {}, "workflowId": [],
        "retryOf": 1, "data": runs});
    let fake = FakeService::start(move |request| {
        let path = request.target.split('?').next().unwrap_or_default();
        let list = |odd: &Value| {
            let good = json!({"id": "good", "name": "Good", "type": "t", "status": "success",
                "versionId": "good", "createdAt": ""});
            let rows = json!([good, {"name": "No id"}, 7, odd]);
            Response::json(200, &json!({"data": rows, "nextCursor": null}))
        };
        match path.trim_start_matches("/api/v1/") {
            "workflows" => list(&odd),
            "executions" => list(&odd_execution),
            "credentials" | "tags" | "data-tables" | "workflows/odd/history" => {
                list(&json!({"id": 1, "name": "Bad", "versionId": 1}))
            }
            "workflows/odd/versions/v" => {
                Response::json(200, &json!({"versionId": "v", "createdAt": 7}))
            }
            "executions/good" | "executions/odd" => Response::json(200, &odd_execution),
            _ => Response::json(200, &odd),
        }
    })
    .await;
    let server = server_with_all(&fake).await;
    let client = server.client().await;
    for row in rows(LISTS) {
        let [tool, member, id, good] = row.try_into().unwrap();
        let good: Vec<_> = good.split(' ').collect();
        let arguments = match member {
            "versions" => json!({"workflow_id": "odd"}),
            _ => json!({}),
        };
        let listed = done(&client, tool, arguments).await;
        assert_eq!(member_texts(&listed[member], id), good, "{listed}");
        let named = listed["left_out"].as_array().unwrap();
        assert_eq!(named.len(), 4 - good.len(), "{listed}");
        assert_contains(&named[0], "No id");
        assert_contains(&named[0], "missing field");
    }
    // The lists that a change looks into, too.
    done!(client, "set_workflow_tags", {"workflow_id": "odd", "tags": ["Good"]});
    refused!(client, "delete_credential", {"credential_id": "good"}, "\"Good\"");
    // So is one object, and where that is not possible the cause is told.
    let shown = done!(client, "get_execution", {"execution_id": "odd"});
    assert_has!(shown, {"execution_id": "odd", "status": "completed"});
    assert_contains(
        &shown["note"],
        "cannot read all data of this execution: the runs of \"Set\"",
    );
    let version = json!({"workflow_id": "odd", "version_id": "v"});
    let cause = "missing field `nodes`";
    assert_refused(&client, "get_workflow_version", version, cause).await;
    let grouped = done!(client, "list_executions", {"group": true});
    assert_eq!(grouped["groups"][0]["count"], 2, "{grouped}");
    let requests = fake.requests();
    let listed = requests
        .iter()
        .rfind(|one| one.target.contains("/executions?"));
    assert_contains(&listed.unwrap().target, "limit=250");
    let resource = server
        .result("resources/read", json!({"uri": "n8n://workflows"}))
        .await;
    assert!(resource.to_string().contains("good"), "{resource}");
    for full in [false, true] {
        let shown = done!(client, "get_workflow", {"workflow_id": "odd", "full": full});
        assert_eq!(shown["name"], "Odd", "{shown}");
    }
    let archive = json!({"workflow_id": "odd"});
    let delete = json!({"workflow_id": "odd", "confirm": "odd"});
    for (tool, arguments) in [("archive_workflow", archive), ("delete_workflow", delete)] {
        let text = call(&client, tool, arguments).await.text();
        assert!(!text.contains("does not answer like"), "{tool}: {text}");
    }
}
