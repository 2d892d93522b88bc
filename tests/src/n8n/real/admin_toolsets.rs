//! Toolsets for administration: credentials, tags, data tables, and the rest of n8n's API.

use super::*;

#[tokio::test]
async fn credentials_are_returned_without_secrets() {
    let Some(env) = Env::full().await else { return };
    let schema = done!(env, "get_credential_schema", {"type": "httpHeaderAuth"});
    assert!(
        schema["schema"]["properties"]["value"].is_object(),
        "{schema}"
    );
    let name = unique("credential");
    let data = json!({"name": "X-Key", "value": "SECRET-VALUE"});
    let made = json!({"name": name, "type": "httpHeaderAuth", "data": data});
    let made = done(&env, "create_credential", made).await;
    assert!(!made.to_string().contains("SECRET-VALUE"), "{made}");
    let listed = done!(env, "list_credentials", {"type": "httpHeaderAuth"});
    assert!(
        listed["credentials"].as_array().unwrap().contains(&made),
        "{listed}"
    );
    let id = made["id"].as_str().unwrap();
    let tested = done!(env, "test_credential", {"credential_id": id});
    assert_eq!(tested.get("works"), None, "{tested}");
    assert_contains(&tested["message"], "no test");
    let credentials = json!({"httpHeaderAuth": {"id": id, "name": name}});
    let mut request = http_request("http://127.0.0.1:1/x");
    request["parameters"]["authentication"] = json!("genericCredentialType");
    request["parameters"]["genericAuthType"] = json!("httpHeaderAuth");
    request["credentials"] = credentials;
    let workflow = env.draft(vec![webhook("lastNode"), request]).await;
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
    refused!(env, "update_credential", {"credential_id": id}, "`name`, `data`");
    let asked = refused!(env, "delete_credential", {"credential_id": id}, &other);
    assert_contains(&asked, &user);
    env.delete(&workflow).await;
    done!(env, "delete_credential", {"credential_id": id, "confirm": id});
    refused!(env, "test_credential", {"credential_id": id}, "list_credentials");
    assert!(!env.server.log().contains("SECRET-VALUE"));
}

#[tokio::test]
async fn credential_with_wrong_fields_is_refused_with_the_reason() {
    let Some(env) = Env::full().await else { return };
    let data = json!({"nme": "SECRET-VALUE"});
    let wrong = json!({"name": "n", "type": "httpHeaderAuth", "data": data});
    let message = assert_refused(&env, "create_credential", wrong, "nme").await;
    assert_lacks(&message, "SECRET-VALUE");
    refused!(env, "get_credential_schema", {"type": "nothing"}, "no such type");
}

#[tokio::test]
async fn tags_are_created_renamed_and_deleted() {
    let Some(env) = Env::full().await else { return };
    let name = unique("t")[..20].to_owned();
    let tag = done(&env, "create_tag", json!({"name": name})).await;
    assert_refused(&env, "create_tag", json!({"name": name}), "already").await;
    let id = tag["id"].as_str().unwrap();
    let renamed = done!(env, "rename_tag", {"tag_id": id, "name": format!("{name}x")});
    let listed = done(&env, "list_tags", json!({"limit": 250})).await;
    assert!(
        listed["tags"].as_array().unwrap().contains(&renamed),
        "{listed}"
    );
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
    change(&env, "PATCH", &path, json!({"body": {"name": "gusts"}})).await;
    let listed = done!(env, "read_n8n_api", {"path": columns});
    assert_contains(&listed, "gusts");
    refused!(env, "call_n8n_api", {"method": "DELETE", "path": path}, "with all values in it");
    change(&env, "DELETE", &path, json!({"confirm": column["id"]})).await;
    let listed = done!(env, "read_n8n_api", {"path": columns});
    assert_lacks(&listed.to_string(), "gusts");
    let warm = json!([{"column": "degrees", "is": "gt", "value": 20}]);
    let found = done!(env, "get_data_table_rows", {"data_table_id": id, "where": warm});
    assert_eq!(member_texts(&found["rows"], "city"), ["Rome"]);
    let oslo = json!([{"column": "city", "is": "eq", "value": "Oslo"}]);
    let update = json!({"data_table_id": id, "where": oslo, "set": {"degrees": 25}});
    let updated = done(&env, "update_data_table_rows", update).await;
    assert_eq!(updated["rows"], 1);
    let bern = json!([{"column": "city", "is": "eq", "value": "Bern"}]);
    let upsert = json!({"data_table_id": id, "where": bern, "set": {"city": "Bern", "degrees": 21}, "or_insert": true});
    done(&env, "update_data_table_rows", upsert).await;
    refused!(env, "delete_data_table_rows", {"data_table_id": id, "where": warm}, "Deletes 3 rows");
    let delete = json!({"data_table_id": id, "where": warm, "confirm": id});
    let deleted = done(&env, "delete_data_table_rows", delete).await;
    assert_eq!(deleted["rows"], 3);
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
        "a+b",
        "1 + 1 = 2",
        "100%",
        "%20",
        "%2B",
        "a&b=c",
        "Überweisung prüfen",
        "日本語 テスト",
        "🎉 done",
        "it's",
        "say \"hi\"",
        "a/b\\c",
        "*",
        "a*b",
        "?#[]@!$&'()*+,;=:",
        "{\"type\":\"or\"}",
        "a,b;c",
        "tab\tand\nline",
        "~-._",
        "null",
        " ",
    ];
    let rows: Vec<_> = texts
        .iter()
        .map(|text| json!({"text": text, "found": 0}))
        .collect();
    done!(env, "insert_data_table_rows", {"data_table_id": id, "rows": rows});
    for text in texts {
        let is = json!([{"column": "text", "is": "eq", "value": text}]);
        let found = done!(env, "get_data_table_rows", {"data_table_id": id, "where": is});
        assert_eq!(member_texts(&found["rows"], "text"), [text]);
        for or_insert in [false, true] {
            let set = json!({"found": 1});
            let arguments =
                json!({"data_table_id": id, "where": is, "set": set, "or_insert": or_insert});
            let updated = done(&env, "update_data_table_rows", arguments).await;
            assert_eq!(updated["rows"], 1, "{text}");
        }
        let delete = json!({"data_table_id": id, "where": is, "confirm": id});
        let deleted = done(&env, "delete_data_table_rows", delete).await;
        assert_eq!(deleted["rows"], 1, "{text}");
        let upsert =
            json!({"data_table_id": id, "where": is, "set": {"text": text}, "or_insert": true});
        done(&env, "update_data_table_rows", upsert).await;
        let found = done!(env, "get_data_table_rows", {"data_table_id": id, "where": is});
        assert_eq!(member_texts(&found["rows"], "text"), [text]);
    }
    let all = done!(env, "get_data_table_rows", {"data_table_id": id, "sort_by": "text:asc"});
    assert_eq!(all["rows"].as_array().unwrap().len(), texts.len());
    done!(env, "delete_data_table", {"data_table_id": id, "confirm": id});
}

/// A change of the rest of n8n's API.
async fn change(env: &Env, method: &str, path: &str, rest: Value) -> Value {
    let mut arguments = json!({"method": method, "path": path});
    arguments
        .as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    done(env, "call_n8n_api", arguments).await["answer"].take()
}

#[tokio::test]
async fn users_are_listed_invited_without_the_link_and_deleted_by_consent() {
    let Some(env) = Env::full().await else { return };
    let email = format!("{}@example.test", &unique("u")[..20]);
    let body = json!([{"email": email, "role": "global:member"}]);
    let invited = change(&env, "POST", "users", json!({ "body": body })).await;
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
    let delete = json!({"method": "DELETE", "path": path});
    assert_refused(&env, "call_n8n_api", delete, "all personal workflows").await;
    refused!(env, "call_n8n_api", {"method": "DELETE", "path": path, "confirm": "another"}, "Nothing was done");
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
    env.delete(&workflow).await;
    let scopes = done!(env, "read_n8n_api", {"path": "discover"});
    assert!(scopes["answer"].is_object(), "{scopes}");
    let packages = done!(env, "read_n8n_api", {"path": "community-packages"});
    assert!(packages["answer"].is_array(), "{packages}");
    let name = "n8n-nodes-nobody-has-published-this";
    let install = json!({"method": "POST", "path": "community-packages", "body": {"name": name}});
    assert_refused(
        &env,
        "call_n8n_api",
        install.clone(),
        "Nothing was done yet",
    )
    .await;
    let mut agreed = install;
    agreed["confirm"] = json!(name);
    assert_refused(&env, "call_n8n_api", agreed, "vetted").await;
    for method in ["PATCH", "DELETE"] {
        let path = format!("community-packages/@scope/{name}");
        let mut arguments = json!({"method": method, "path": path});
        assert_refused(
            &env,
            "call_n8n_api",
            arguments.clone(),
            "Nothing was done yet",
        )
        .await;
        arguments["confirm"] = json!(format!("@scope/{name}"));
        assert_refused(&env, "call_n8n_api", arguments, "").await;
    }
}

/// Everything else needs a licence, which this n8n lacks: each path is n8n's.
#[tokio::test]
async fn missing_licence_is_reported_in_one_line() {
    let Some(env) = Env::full().await else { return };
    for path in [
        "variables",
        "projects",
        "projects/p/users",
        "projects/p/folders",
        "projects/p/folders/f",
        "source-control/status",
    ] {
        let message = assert_refused(&env, "read_n8n_api", json!({"path": path}), "licence").await;
        assert!(!message.contains('\n'), "{path}: {message}");
    }
    let name = json!({"name": "x"});
    let variable = json!({"key": "a", "value": "b"});
    let relations = json!({"relations": [{"userId": "u", "role": "project:viewer"}]});
    let commit = json!({"commitMessage": "m", "fileNames": [{"id": "i", "type": "workflow"}]});
    for (method, path, body, confirm) in [
        (
            "PATCH",
            "users/6ba7b810-9dad-41d1-80b4-00c04fd430c8/role",
            json!({"newRoleName": "global:admin"}),
            "",
        ),
        ("POST", "projects", name.clone(), ""),
        ("PUT", "projects/p", name.clone(), ""),
        ("DELETE", "projects/p", Value::Null, "p"),
        ("POST", "projects/p/users", relations, ""),
        (
            "PATCH",
            "projects/p/users/u",
            json!({"role": "project:viewer"}),
            "",
        ),
        ("DELETE", "projects/p/users/u", Value::Null, "u"),
        ("POST", "projects/p/folders", name.clone(), ""),
        ("PATCH", "projects/p/folders/f", name, ""),
        ("DELETE", "projects/p/folders/f", Value::Null, "f"),
        ("POST", "variables", variable.clone(), ""),
        ("PUT", "variables/v", variable, ""),
        ("DELETE", "variables/v", Value::Null, "v"),
        ("POST", "source-control/push", commit, ""),
        (
            "POST",
            "source-control/pull",
            json!({"force": false}),
            "source-control/pull",
        ),
    ] {
        let mut arguments = json!({"method": method, "path": path});
        if !body.is_null() {
            arguments["body"] = body;
        }
        if !confirm.is_empty() {
            assert_refused(
                &env,
                "call_n8n_api",
                arguments.clone(),
                "Nothing was done yet",
            )
            .await;
            arguments["confirm"] = json!(confirm);
        }
        let message = assert_refused(&env, "call_n8n_api", arguments, "licence").await;
        assert!(!message.contains('\n'), "{method} {path}: {message}");
    }
}

#[tokio::test]
async fn what_has_tools_of_its_own_is_not_reached_and_read_only_servers_only_read() {
    let Some(env) = Env::with(&["--toolsets", "all", "--read-only"]).await else {
        return;
    };
    let tools = env.tool_names().await;
    assert!(tools.iter().any(|name| name == "read_n8n_api"));
    assert!(!tools.iter().any(|name| name == "call_n8n_api"));
    let env = Env::full().await.unwrap();
    for path in [
        "workflows",
        "workflows/1",
        "executions",
        "credentials",
        "data-tables",
        "tags",
        "users/..",
    ] {
        refused!(env, "read_n8n_api", {"path": path}, "is not offered here");
        let arguments = json!({"method": "DELETE", "path": path, "confirm": path});
        assert_refused(&env, "call_n8n_api", arguments, "is not offered here").await;
    }
    // n8n itself says what it does not know.
    refused!(env, "read_n8n_api", {"path": "users", "query": {"nonsense": "1"}}, "nonsense");
}

#[tokio::test]
async fn only_chosen_toolsets_are_listed() {
    let Some(env) = Env::with(&["--toolsets", "default,tags"]).await else {
        return;
    };
    let tools = env.tool_names().await.join(" ");
    for name in ["list_tags", "get_execution"] {
        assert_contains(&tools, name);
    }
    for off in [
        "list_credentials",
        "delete_execution",
        "read_n8n_api",
        "call_n8n_api",
    ] {
        assert_lacks(&tools, off);
    }
}
