//! Toolsets for administration: credentials, tags, users, data tables, audit, and tools that require
//! a licence.

use super::*;

#[tokio::test]
async fn credentials_are_returned_without_secrets() {
    let Some(env) = Env::full().await else { return };
    if env.is_too_old("list_credentials", json!({})).await {
        return;
    }
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
    assert!(tested["works"].is_boolean(), "{tested}");
    refused!(env, "delete_credential", {"credential_id": id});
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
async fn users_are_listed_and_invited_without_the_link() {
    let Some(env) = Env::full().await else { return };
    let email = format!("{}@example.test", &unique("u")[..20]);
    let invited = done(&env, "invite_user", json!({"email": email})).await;
    assert_eq!(invited["email"], email.as_str());
    assert!(!invited.to_string().contains("token"), "{invited}");
    let listed = done(&env, "list_users", json!({"limit": 250})).await;
    let mut users = listed["users"].as_array().unwrap().iter();
    let pending = users.clone().find(|user| user["email"] == email.as_str());
    assert_has!(pending.unwrap(), {"pending": true});
    assert!(users.any(|user| user["role"] == "global:owner"), "{listed}");
    let id = invited["id"].as_str().unwrap();
    refused!(env, "delete_user", {"user_id": id});
    done!(env, "delete_user", {"user_id": id, "confirm": id});
}

#[tokio::test]
async fn rows_of_a_data_table_are_read_and_changed() {
    let Some(env) = Env::full().await else { return };
    if env.is_too_old("list_data_tables", json!({})).await {
        return;
    }
    let columns =
        json!([{"name": "city", "type": "string"}, {"name": "degrees", "type": "number"}]);
    let table = done!(env, "create_data_table", {"name": unique("table"), "columns": columns});
    let id = table["id"].as_str().unwrap();
    let rows = json!([{"city": "Rome", "degrees": 30}, {"city": "Oslo", "degrees": 9}]);
    let added = done!(env, "insert_data_table_rows", {"data_table_id": id, "rows": rows});
    assert_eq!(added["rows"], 2);
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
    if env.is_old().await {
        return;
    }
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

#[tokio::test]
async fn audit_lists_places() {
    let Some(env) = Env::full().await else { return };
    let workflow = env.live(vec![webhook("lastNode")]).await;
    let audit = done!(env, "audit_n8n", {"categories": ["instance"]});
    let mut risks = audit["risks"].as_array().unwrap().iter();
    let open = risks.find(|risk| risk["title"].as_str().unwrap().contains("webhook"));
    let open = open.unwrap();
    assert!(open["count"].as_u64().unwrap() > 0, "{open}");
    assert_contains(&open["places"][0], "workflow ");
    env.delete(&workflow).await;
}

#[tokio::test]
async fn missing_licence_is_reported_in_one_line() {
    let Some(env) = Env::full().await else { return };
    for (tool, arguments) in [
        ("list_variables", json!({})),
        ("set_variable", json!({"key": "a", "value": "b"})),
        ("list_projects", json!({})),
        ("create_project", json!({"name": "x"})),
        ("list_folders", json!({"project_id": "p"})),
        ("create_folder", json!({"project_id": "p", "name": "x"})),
        (
            "delete_folder",
            json!({"project_id": "p", "folder_id": "f", "confirm": "f"}),
        ),
        ("source_control_status", json!({})),
        ("pull_from_source_control", json!({"confirm": "repository"})),
    ] {
        let is_new = tool == "source_control_status" || tool.contains("folder");
        if is_new && env.is_too_old(tool, arguments.clone()).await {
            continue;
        }
        let message = assert_refused(&env, tool, arguments, "licence").await;
        assert!(!message.contains('\n'), "{tool}: {message}");
    }
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
        "list_users",
        "install_community_package",
    ] {
        assert_lacks(&tools, off);
    }
}
