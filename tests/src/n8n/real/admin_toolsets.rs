//! Toolsets for administration: credentials, tags, data tables, and the rest of n8n's API.

use super::*;
use crate::harness::{FakeService, Response, http_client};

#[tokio::test]
async fn credentials_are_returned_without_secrets() {
    let Some(env) = Env::full().await else { return };
    let schema = done!(env, "get_credential_schema", {"type": "httpHeaderAuth"});
    let value = &schema["schema"]["properties"]["value"];
    assert!(value.is_object(), "{schema}");
    let name = unique("credential");
    let data = json!({"name": "X-Key", "value": "SECRET-VALUE"});
    let made = json!({"name": name, "type": "httpHeaderAuth", "data": data});
    let made = done(&env, "create_credential", made).await;
    assert!(!made.to_string().contains("SECRET-VALUE"), "{made}");
    let listed = done!(env, "list_credentials", {"type": "httpHeaderAuth"});
    let rows = listed["credentials"].as_array().unwrap();
    assert!(rows.contains(&made), "{listed}");
    let id = made["id"].as_str().unwrap();
    let tested = done!(env, "test_credential", {"credential_id": id});
    assert_eq!(tested.get("works"), None, "{tested}");
    assert_contains(&tested["message"], "no test");
    let credentials = json!({"httpHeaderAuth": {"id": id, "name": name}});
    let service = FakeService::start(|_| Response::json(200, &json!({}))).await;
    let mut request = http_request(&service.url);
    request["parameters"]["authentication"] = json!("genericCredentialType");
    request["parameters"]["genericAuthType"] = json!("httpHeaderAuth");
    request["credentials"] = credentials;
    let workflow = env.live(vec![webhook("lastNode"), request]).await;
    let listed =
        done!(env, "list_credentials", {"type": "httpHeaderAuth", "uses": true, "limit": 250});
    let rows = listed["credentials"].as_array().unwrap();
    let row = rows.iter().find(|row| row["id"] == id).unwrap();
    let user = format!("{} ({})", workflow.name, workflow.id);
    assert_eq!(row["used_by"], json!([user]));
    let other = format!("{name} b");
    let data = json!({"value": "OTHER-SECRET"});
    let updated =
        done!(env, "update_credential", {"credential_id": id, "name": other, "data": data});
    assert_has!(updated, {"name": other, "type": "httpHeaderAuth"});
    assert_lacks(&updated.to_string(), "SECRET");
    // The field that was left out, the name of the header, stays.
    let ran = env.run(&workflow, json!({})).await;
    assert_eq!(ran["status"], "completed", "{ran}");
    let requests = service.requests();
    assert_eq!(requests[0].headers["x-key"], "OTHER-SECRET");
    refused!(env, "update_credential", {"credential_id": id}, "`name`, `data`");
    let asked = refused!(env, "delete_credential", {"credential_id": id}, &other);
    assert_contains(&asked, &user);
    env.delete(&workflow).await;
    done!(env, "delete_credential", {"credential_id": id, "confirm": id});
    refused!(env, "test_credential", {"credential_id": id}, "list_credentials");
    let wrong = json!({"name": "n", "type": "httpHeaderAuth", "data": {"nme": "SECRET-VALUE"}});
    let message = refused!(env, "create_credential", wrong, "nme");
    assert_lacks(&message, "SECRET-VALUE");
    refused!(env, "get_credential_schema", {"type": "nothing"}, "no such type");
    assert!(!env.server.log().contains("SECRET-VALUE"));
}

#[tokio::test]
async fn tags_are_created_renamed_and_deleted() {
    let Some(env) = Env::full().await else { return };
    let name = tag_name();
    let tag = done(&env, "create_tag", json!({"name": name})).await;
    assert_refused(&env, "create_tag", json!({"name": name}), "already").await;
    refused!(env, "create_tag", {"name": "x".repeat(25)}, "24 characters");
    let id = tag["id"].as_str().unwrap();
    let renamed = done!(env, "rename_tag", {"tag_id": id, "name": format!("{name}x")});
    let rows = all_rows(&env, "list_tags", json!({"limit": 250}), "tags").await;
    assert!(rows.contains(&renamed), "{rows:?}");
    refused!(env, "delete_tag", {"tag_id": id});
    done!(env, "delete_tag", {"tag_id": id, "confirm": id});
    refused!(env, "rename_tag", {"tag_id": id, "name": "y"});
}

#[tokio::test]
async fn rows_of_a_data_table_are_read_and_changed() {
    let Some(env) = Env::full().await else { return };
    let columns =
        json!([{"name": "city", "type": "string"}, {"name": "degrees", "type": "number"}]);
    let table = done!(env, "create_data_table", {"name": unique("table"), "columns": columns});
    let id = table["id"].as_str().unwrap();
    let rows = json!([{"city": "Rome", "degrees": 30}, {"city": "Oslo", "degrees": 9}]);
    let added = done!(env, "insert_data_table_rows", {"data_table_id": id, "rows": rows});
    assert_eq!(added["rows"], 2);
    assert_eq!(added["ids"], json!([1, 2]));
    let columns = format!("data-tables/{id}/columns");
    let body = json!({"name": "wind", "type": "number"});
    let column = change(&env, "POST", &columns, json!({ "body": body })).await;
    let path = format!("{columns}/{}", column["id"].as_str().unwrap());
    let gusts = json!({"method": "PATCH", "path": path, "body": {"name": "gusts"}});
    let gusts = agreed(&env, "call_n8n_api", gusts).await;
    // The agreement to one change is none to another, nor to a deletion.
    for (method, body) in [("PATCH", json!({"name": "other"})), ("DELETE", Value::Null)] {
        let mut other = gusts.clone();
        other["method"] = json!(method);
        match body {
            Value::Null => _ = other.as_object_mut().unwrap().remove("body"),
            body => other["body"] = body,
        }
        assert_refused(&env, "call_n8n_api", other, "Nothing was done yet").await;
    }
    done(&env, "call_n8n_api", gusts).await;
    let listed = done!(env, "read_n8n_api", {"path": columns});
    assert_contains(&listed, "gusts");
    refused!(env, "call_n8n_api", {"method": "DELETE", "path": path}, "with all values in it");
    change(&env, "DELETE", &path, json!({"confirm": column["id"]})).await;
    let listed = done!(env, "read_n8n_api", {"path": columns});
    assert_lacks(&listed.to_string(), "gusts");
    refused!(env, "get_data_table_rows", {"data_table_id": id, "sort_by": "nope:asc"}, "cannot sort by");
    let warm = json!([{"column": "degrees", "is": "gt", "value": 20}]);
    let found = done!(env, "get_data_table_rows", {"data_table_id": id, "where": warm});
    assert_eq!(member_texts(&found["rows"], "city"), ["Rome"]);
    let oslo = json!([{"column": "city", "is": "eq", "value": "Oslo"}]);
    let update = json!({"data_table_id": id, "where": oslo, "set": {"degrees": 25}});
    assert_refused(
        &env,
        "update_data_table_rows",
        update.clone(),
        "Overwrites 1 rows",
    )
    .await;
    let update = agreed(&env, "update_data_table_rows", update).await;
    let updated = done(&env, "update_data_table_rows", update).await;
    assert_eq!(updated["rows"], 1);
    let bern = json!([{"column": "city", "is": "eq", "value": "Bern"}]);
    let upsert =
        json!({"data_table_id": id, "where": bern, "set": {"degrees": 21}, "or_insert": true});
    done(&env, "update_data_table_rows", upsert.clone()).await;
    // It has the value of the condition, so it is found again.
    assert_refused(&env, "update_data_table_rows", upsert, "Overwrites 1 rows").await;
    let none = json!([{"column": "degrees", "is": "gt", "value": 900}]);
    let mut missed = json!({"data_table_id": id, "where": none, "set": {"degrees": 1}});
    let unchanged = done(&env, "update_data_table_rows", missed.clone()).await;
    assert_eq!(unchanged["rows"], 0);
    missed["or_insert"] = json!(true);
    assert_refused(&env, "update_data_table_rows", missed, "`where[0]`").await;
    refused!(env, "delete_data_table_rows", {"data_table_id": id, "where": warm}, "Deletes 3 rows");
    let delete = json!({"data_table_id": id, "where": warm, "confirm": id});
    let delete = agreed(&env, "delete_data_table_rows", delete).await;
    // The agreement counts neither for other conditions nor for other rows.
    let mut other = delete.clone();
    other["where"] = json!([{"column": "degrees", "is": "gt", "value": 10}]);
    assert_refused(&env, "delete_data_table_rows", other, "Deletes 3 rows").await;
    let lima = json!([{"city": "Lima", "degrees": 22}]);
    done!(env, "insert_data_table_rows", {"data_table_id": id, "rows": lima});
    let tool = "delete_data_table_rows";
    assert_refused(&env, tool, delete.clone(), "Deletes 4 rows").await;
    let delete = agreed(&env, tool, delete).await;
    let deleted = done(&env, tool, delete).await;
    assert_eq!(deleted["rows"], 4);
    let empty = done!(env, "get_data_table_rows", {"data_table_id": id});
    assert_eq!(empty["rows"], json!([]));
    refused!(env, "delete_data_table_rows", {"data_table_id": id, "where": [], "confirm": id});
    done!(env, "delete_data_table", {"data_table_id": id, "confirm": id});
    refused!(env, "get_data_table_rows", {"data_table_id": id}, "list_data_tables");
}

/// A condition goes to n8n in the URL or in the body, and must arrive as it is either way.
#[tokio::test]
async fn conditions_take_any_text() {
    let Some(env) = Env::full().await else { return };
    let columns = json!([{"name": "text", "type": "string"}, {"name": "found", "type": "number"}]);
    let table = done!(env, "create_data_table", {"name": unique("table"), "columns": columns});
    let id = table["id"].as_str().unwrap();
    let texts = [
        "Anna Schmidt",
        "1 + 1 = 2",
        "%20",
        "a&b=c",
        "日本語 🎉",
        "it's \"so\"",
        "a/b\\c",
        "?#[]@!$&'()*+,;=:",
        "{\"type\":\"or\"}",
        "tab\tand\nline",
        "null",
        " ",
    ];
    let rows = texts.map(|text| json!({"text": text, "found": 0}));
    done!(env, "insert_data_table_rows", {"data_table_id": id, "rows": rows});
    for text in texts {
        let is = json!([{"column": "text", "is": "eq", "value": text}]);
        let found = done!(env, "get_data_table_rows", {"data_table_id": id, "where": is});
        assert_eq!(member_texts(&found["rows"], "text"), [text]);
        for or_insert in [false, true] {
            let arguments = json!({"data_table_id": id, "where": is, "set": {"found": 1}, "or_insert": or_insert});
            let arguments = agreed(&env, "update_data_table_rows", arguments).await;
            let updated = done(&env, "update_data_table_rows", arguments).await;
            assert_eq!(updated["rows"], 1, "{text}");
        }
        let delete = json!({"data_table_id": id, "where": is, "confirm": id});
        let delete = agreed(&env, "delete_data_table_rows", delete).await;
        let deleted = done(&env, "delete_data_table_rows", delete).await;
        assert_eq!(deleted["rows"], 1, "{text}");
    }
    let all = done!(env, "get_data_table_rows", {"data_table_id": id, "sort_by": "text:asc"});
    assert_eq!(all["rows"], json!([]));
    done!(env, "delete_data_table", {"data_table_id": id, "confirm": id});
}

/// n8n on SQLite compares a time with others of its day as texts of two forms.
#[tokio::test]
async fn conditions_on_times_are_exact() {
    let Some(env) = Env::full().await else { return };
    let columns = json!([{"name": "at", "type": "date"}, {"name": "n", "type": "number"}]);
    let table = done!(env, "create_data_table", {"name": unique("table"), "columns": columns});
    let id = table["id"].as_str().unwrap();
    let days = [
        "2025-12-31T23:59:59.999Z",
        "2026-01-01T00:00:00Z",
        "2026-01-01T10:00:00Z",
    ];
    let rows = days.map(|day| json!({"at": day, "n": 1}));
    done!(env, "insert_data_table_rows", {"data_table_id": id, "rows": rows});
    let five = "2026-01-01T05:00:00Z";
    for (is, value, ids) in [
        ("lt", five, vec![1, 2]),
        ("lte", "2026-01-01T00:00:00.000Z", vec![1, 2]),
        ("gt", "2026-01-01T06:00:00+01:00", vec![3]),
        ("gte", "2026-01-01 10:00", vec![3]),
        ("eq", "2026-01-01", vec![2]),
        ("neq", "2026-01-01T10:00:00.000Z", vec![1, 2]),
    ] {
        let condition = json!([{"column": "at", "is": is, "value": value}]);
        let found = done!(env, "get_data_table_rows", {"data_table_id": id, "where": condition});
        let found: Vec<_> = found["rows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["id"].as_u64())
            .collect();
        assert_eq!(
            found,
            ids.into_iter().map(Some).collect::<Vec<_>>(),
            "{condition}"
        );
    }
    let condition = json!([{"column": "createdAt", "is": "gt", "value": "01/02/2026"}]);
    refused!(env, "get_data_table_rows", {"data_table_id": id, "where": condition}, "is no time");
    // Nothing is written where n8n would take others.
    for (is, value, ids) in [
        ("lt", five, "1, 2."),
        ("gt", five, "3."),
        ("eq", days[2], "3."),
    ] {
        let condition = json!([{"column": "at", "is": is, "value": value}]);
        let part = format!("meet the conditions: {ids}");
        let delete = json!({"data_table_id": id, "where": condition, "confirm": id});
        assert_refused(&env, "delete_data_table_rows", delete, &part).await;
        let update = json!({"data_table_id": id, "where": condition, "set": {"n": 2}, "or_insert": is == "eq"});
        assert_refused(&env, "update_data_table_rows", update, &part).await;
    }
    let end = json!([{"column": "at", "is": "lte", "value": days[0]}, {"column": "createdAt", "is": "gt", "value": "2025-01-01"}]);
    let delete = json!({"data_table_id": id, "where": end, "confirm": id});
    let delete = agreed(&env, "delete_data_table_rows", delete).await;
    assert_eq!(
        done(&env, "delete_data_table_rows", delete).await["rows"],
        1
    );
    let name = table["name"].as_str().unwrap();
    refused!(env, "delete_data_table", {"data_table_id": id}, name);
    done!(env, "delete_data_table", {"data_table_id": id, "confirm": id});
}

/// A change of the rest of n8n's API; with a `confirm` of any value, the one that its question names.
async fn change(env: &Env, method: &str, path: &str, rest: Value) -> Value {
    let mut arguments = rest;
    arguments["method"] = json!(method);
    arguments["path"] = json!(path);
    if arguments["confirm"].is_string() {
        arguments = agreed(env, "call_n8n_api", arguments).await;
    }
    done(env, "call_n8n_api", arguments).await["answer"].take()
}

#[tokio::test]
async fn users_are_listed_invited_without_the_link_and_deleted_by_consent() {
    let Some(env) = Env::full().await else { return };
    let email = format!("{}@example.test", &unique("u")[..20]);
    let body = json!([{"email": email, "role": "global:member"}]);
    refused!(env, "call_n8n_api", {"method": "POST", "path": "users", "body": body}, &email);
    let given = json!({"body": body, "confirm": "users"});
    let invited = change(&env, "POST", "users", given).await;
    let user = &invited[0]["user"];
    assert_has!(user, {"email": email, "inviteAcceptUrl": "***"});
    assert_lacks(&invited, "token");
    let query = json!({"limit": 250, "includeRole": true});
    let listed = done!(env, "read_n8n_api", {"path": "users", "query": query});
    let mut users = listed["answer"]["data"].as_array().unwrap().iter();
    assert!(
        users.clone().any(|user| user["role"] == "global:owner"),
        "{listed}"
    );
    assert!(users.any(|user| user["email"] == email.as_str() && user["isPending"] == true));
    let one = done!(env, "read_n8n_api", {"path": format!("users/{email}")});
    assert_eq!(one["answer"]["id"], user["id"]);
    let path = format!("users/{}", user["id"].as_str().unwrap());
    refused!(env, "call_n8n_api", {"method": "DELETE", "path": path}, "all personal workflows");
    refused!(env, "call_n8n_api", {"method": "DELETE", "path": path, "confirm": "another"}, "Nothing was done");
    // The consent to a deletion is none to giving all to another person.
    let mut transfer = json!({"method": "DELETE", "path": path});
    transfer = agreed(&env, "call_n8n_api", transfer).await;
    transfer["query"] = json!({"transferId": "of-another"});
    assert_refused(&env, "call_n8n_api", transfer, "of-another").await;
    change(&env, "DELETE", &path, json!({"confirm": user["id"]})).await;
    refused!(env, "read_n8n_api", {"path": path}, "nothing at this path");
}

#[tokio::test]
async fn audit_packages_and_scopes_are_those_of_n8n() {
    let Some(env) = Env::full().await else { return };
    let workflow = env.live(vec![webhook("lastNode")]).await;
    let body = json!({"additionalOptions": {"categories": ["instance"]}});
    let audit = change(&env, "POST", "audit", json!({ "body": body })).await;
    assert_contains(&audit, &workflow.id);
    let scopes = done!(env, "read_n8n_api", {"path": "discover"});
    assert!(scopes["answer"].is_object(), "{scopes}");
    let packages = done!(env, "read_n8n_api", {"path": "community-packages"});
    assert!(packages["answer"].is_array(), "{packages}");
    let name = "n8n-nodes-nobody-has-published-this";
    let mut install =
        json!({"method": "POST", "path": "community-packages", "body": {"name": name}});
    refused!(env, "call_n8n_api", install, "Nothing was done yet");
    install = agreed(&env, "call_n8n_api", install).await;
    assert_refused(&env, "call_n8n_api", install, "vetted").await;
}

/// The changes in n8n's OpenAPI file: method, path and scope.
fn changes(openapi: &str) -> Vec<(String, String, String)> {
    let (mut all, mut path, mut method) = (Vec::new(), "", "");
    for line in openapi.lines() {
        if let Some(key) = line.strip_prefix("  /") {
            path = key.trim_end_matches(':');
        } else if let Some(scope) = line.trim().strip_prefix("x-required-scope: ") {
            all.push((method.to_uppercase(), path.to_owned(), scope.to_owned()));
        } else if let Some(key) = line
            .strip_prefix("    ")
            .filter(|key| !key.starts_with(' '))
        {
            method = key.trim_end_matches(':');
        }
    }
    all.retain(|(method, ..)| method != "GET");
    all
}

/// All but reading and adding asks, as n8n's own scopes say what is what; and whoever adds a user gives rights.
#[tokio::test]
async fn what_gives_rights_or_destroys_asks_by_the_scopes_of_n8n() {
    let Some(env) = Env::full().await else { return };
    let url = format!("{}/api/v1/openapi.yml", env.config.url);
    let openapi = http_client().get(url).send().await.unwrap();
    let all = changes(&openapi.text().await.unwrap());
    let mut seen = 0;
    for (method, path, scope) in &all {
        let mut segments = path.split('/');
        let is_offered = match segments.next() {
            Some("data-tables") => segments.nth(1) == Some("columns"),
            Some(first) => scope != "none" && OFFERED.split(' ').any(|one| one == first),
            None => false,
        };
        if !is_offered {
            continue;
        }
        seen += 1;
        let id = |segment: &str| match segment {
            "{name}" => "n8n-nodes-x".to_owned(),
            id if id.starts_with('{') => "x1".to_owned(),
            other => other.to_owned(),
        };
        let given = path.split('/').map(id).collect::<Vec<_>>().join("/");
        let (resource, action) = scope.split_once(':').unwrap();
        let is_free = ["create", "generate"].contains(&action) && resource != "user";
        let arguments = json!({"method": method, "path": given, "body": {}});
        let answer = call(&env, "call_n8n_api", arguments).await.text();
        assert_lacks(&answer, "is not offered");
        let asks = answer.contains("Nothing was done yet");
        assert_eq!(asks, !is_free, "{method} {path} ({scope}): {answer}");
    }
    assert!(seen >= 22, "{seen} of {}", all.len());
}

/// The resources of n8n's API that call_n8n_api offers, beside the columns of data tables.
const OFFERED: &str = "users projects variables source-control audit community-packages";

#[tokio::test]
async fn what_has_tools_of_its_own_or_needs_a_licence_is_not_reached() {
    let Some(env) = Env::full().await else { return };
    let closed = "workflows workflows/1 executions credentials data-tables tags users/.. users/%2e%2e/workflows \
        users/a/../../workflows users?includeRole=true community-packages/../n8n-nodes-b community-packages/other \
        community-packages/n8n-nodes-a/../b ";
    for path in closed.split(' ') {
        refused!(env, "read_n8n_api", {"path": path}, "is not offered here");
        let arguments = json!({"method": "DELETE", "path": path, "confirm": path});
        assert_refused(&env, "call_n8n_api", arguments, "is not offered here").await;
    }
    // n8n itself says what it does not know.
    refused!(env, "read_n8n_api", {"path": "users", "query": {"nonsense": "1"}}, "nonsense");
    // Everything else needs a licence, which this n8n lacks: each path is n8n's.
    let licensed = "variables projects projects/p/users projects/p/folders projects/p/folders/f source-control/status";
    for path in licensed.split(' ') {
        let message = assert_refused(&env, "read_n8n_api", json!({"path": path}), "licence").await;
        assert!(!message.contains('\n'), "{path}: {message}");
    }
    let variable =
        json!({"method": "POST", "path": "variables", "body": {"key": "a", "value": "b"}});
    let pull = json!({"method": "POST", "path": "source-control/pull", "body": {"force": false}});
    let pull = agreed(&env, "call_n8n_api", pull).await;
    for arguments in [variable, pull] {
        let message = assert_refused(&env, "call_n8n_api", arguments, "licence").await;
        assert!(!message.contains('\n'), "{message}");
    }
}
