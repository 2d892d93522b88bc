//! The toolsets around workflows: credentials, tags, users, data tables, audit, and what the licence
//! of this n8n does not include.

use serde_json::json;

use super::lab::Lab;
use crate::harness::{assert_contains, assert_lacks};
use crate::n8n::site::{unique, webhook};
use crate::n8n::{done, refused};

#[tokio::test]
async fn credentials_come_without_their_secrets() {
    let Some(lab) = Lab::open().await else { return };
    if lab.is_too_old("list_credentials", json!({})).await {
        return;
    }
    let schema = done!(lab, "get_credential_schema", {"type": "httpHeaderAuth"});
    assert!(
        schema["schema"]["properties"]["value"].is_object(),
        "{schema}"
    );
    let name = unique("credential");
    let data = json!({"name": "X-Key", "value": "SECRET-VALUE"});
    let made = json!({"name": name, "type": "httpHeaderAuth", "data": data});
    let made = done(&lab, "create_credential", made).await;
    assert!(!made.to_string().contains("SECRET-VALUE"), "{made}");
    let listed = done!(lab, "list_credentials", {"type": "httpHeaderAuth"});
    assert!(
        listed["credentials"].as_array().unwrap().contains(&made),
        "{listed}"
    );
    let id = made["id"].as_str().unwrap();
    let tested = done!(lab, "test_credential", {"credential_id": id});
    assert!(tested["works"].is_boolean(), "{tested}");
    refused!(lab, "delete_credential", {"credential_id": id});
    done!(lab, "delete_credential", {"credential_id": id, "confirm": id});
    let message = refused!(lab, "test_credential", {"credential_id": id});
    assert!(message.contains("list_credentials"), "{message}");
    assert!(!lab.server.log().contains("SECRET-VALUE"));
}

#[tokio::test]
async fn a_credential_that_does_not_fit_is_refused_with_the_reason() {
    let Some(lab) = Lab::open().await else { return };
    let data = json!({"nme": "SECRET-VALUE"});
    let wrong = json!({"name": "n", "type": "httpHeaderAuth", "data": data});
    let message = refused(&lab, "create_credential", wrong).await;
    assert_contains(&message, "nme");
    assert_lacks(&message, "SECRET-VALUE");
    let message = refused!(lab, "get_credential_schema", {"type": "nothing"});
    assert!(message.contains("no such type"), "{message}");
}

#[tokio::test]
async fn tags_are_made_renamed_and_deleted() {
    let Some(lab) = Lab::open().await else { return };
    let name = unique("t")[..20].to_owned();
    let tag = done(&lab, "create_tag", json!({"name": name})).await;
    let message = refused(&lab, "create_tag", json!({"name": name})).await;
    assert!(message.contains("already"), "{message}");
    let id = tag["id"].as_str().unwrap();
    let renamed = done!(lab, "rename_tag", {"tag_id": id, "name": format!("{name}x")});
    let listed = done(&lab, "list_tags", json!({"limit": 250})).await;
    assert!(
        listed["tags"].as_array().unwrap().contains(&renamed),
        "{listed}"
    );
    refused(&lab, "delete_tag", json!({"tag_id": id})).await;
    done!(lab, "delete_tag", {"tag_id": id, "confirm": id});
    refused!(lab, "rename_tag", {"tag_id": id, "name": "y"});
}

#[tokio::test]
async fn users_are_listed_and_invited_without_the_link() {
    let Some(lab) = Lab::open().await else { return };
    let email = format!("{}@example.test", &unique("u")[..20]);
    let invited = done(&lab, "invite_user", json!({"email": email})).await;
    assert_eq!(invited["email"], email.as_str());
    assert!(!invited.to_string().contains("token"), "{invited}");
    let listed = done(&lab, "list_users", json!({"limit": 250})).await;
    let users = listed["users"].as_array().unwrap();
    assert!(
        users
            .iter()
            .any(|user| user["email"] == email.as_str() && user["pending"] == true),
        "{listed}"
    );
    assert!(
        users.iter().any(|user| user["role"] == "global:owner"),
        "{listed}"
    );
    let id = invited["id"].as_str().unwrap();
    refused(&lab, "delete_user", json!({"user_id": id})).await;
    done!(lab, "delete_user", {"user_id": id, "confirm": id});
}

#[tokio::test]
async fn rows_of_a_data_table_are_read_and_changed() {
    let Some(lab) = Lab::open().await else { return };
    if lab.is_too_old("list_data_tables", json!({})).await {
        return;
    }
    let columns =
        json!([{"name": "city", "type": "string"}, {"name": "degrees", "type": "number"}]);
    let table = done!(lab, "create_data_table", {"name": unique("table"), "columns": columns});
    let id = table["id"].as_str().unwrap();
    let rows = json!([{"city": "Rome", "degrees": 30}, {"city": "Oslo", "degrees": 9}]);
    let added = done!(lab, "insert_data_table_rows", {"data_table_id": id, "rows": rows});
    assert_eq!(added["rows"], 2);
    let warm = json!([{"column": "degrees", "is": "gt", "value": 20}]);
    let found = done!(lab, "get_data_table_rows", {"data_table_id": id, "where": warm});
    assert_eq!(found["rows"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["rows"][0]["city"], "Rome");
    let oslo = json!([{"column": "city", "is": "eq", "value": "Oslo"}]);
    let update = json!({"data_table_id": id, "where": oslo, "set": {"degrees": 25}});
    assert_eq!(
        done(&lab, "update_data_table_rows", update).await["rows"],
        1
    );
    let bern = json!([{"column": "city", "is": "eq", "value": "Bern"}]);
    let upsert = json!({"data_table_id": id, "where": bern, "set": {"city": "Bern", "degrees": 21}, "or_insert": true});
    done(&lab, "update_data_table_rows", upsert).await;
    let delete =
        |confirm: Option<&str>| json!({"data_table_id": id, "where": warm, "confirm": confirm});
    let message = refused(&lab, "delete_data_table_rows", delete(None)).await;
    assert!(message.contains("Deletes 3 rows"), "{message}");
    assert_eq!(
        done(&lab, "delete_data_table_rows", delete(Some(id))).await["rows"],
        3
    );
    let empty = done!(lab, "get_data_table_rows", {"data_table_id": id});
    assert_eq!(empty["rows"], json!([]));
    refused!(lab, "delete_data_table_rows", {"data_table_id": id, "where": [], "confirm": id});
    done!(lab, "delete_data_table", {"data_table_id": id, "confirm": id});
    let message = refused!(lab, "get_data_table_rows", {"data_table_id": id});
    assert!(message.contains("list_data_tables"), "{message}");
}

#[tokio::test]
async fn an_audit_names_places() {
    let Some(lab) = Lab::open().await else { return };
    let workflow = lab.site.live(vec![webhook("lastNode")]).await;
    let audit = done!(lab, "audit_n8n", {"categories": ["instance"]});
    let risks = audit["risks"].as_array().unwrap();
    let open = risks
        .iter()
        .find(|risk| risk["title"].as_str().unwrap().contains("webhook"))
        .unwrap();
    assert!(open["count"].as_u64().unwrap() > 0, "{open}");
    assert_contains(&open["places"][0], "workflow ");
    lab.site.delete(&workflow).await;
}

#[tokio::test]
async fn what_the_licence_does_not_include_is_one_line() {
    let Some(lab) = Lab::open().await else { return };
    for (tool, arguments) in [
        ("list_variables", json!({})),
        ("set_variable", json!({"key": "a", "value": "b"})),
        ("list_projects", json!({})),
        ("create_project", json!({"name": "x"})),
        ("source_control_status", json!({})),
        ("pull_from_source_control", json!({"confirm": "repository"})),
    ] {
        if tool == "source_control_status" && lab.is_too_old(tool, json!({})).await {
            continue;
        }
        let message = refused(&lab, tool, arguments).await;
        assert!(message.contains("licence"), "{tool}: {message}");
        assert!(!message.contains('\n'), "{tool}: {message}");
    }
}

#[tokio::test]
async fn toolsets_are_off_unless_they_are_chosen() {
    let Some(lab) = Lab::with(&["--toolsets", "default,tags"]).await else {
        return;
    };
    let tools = lab.tools().await;
    assert!(tools.iter().any(|name| name == "list_tags"), "{tools:?}");
    assert!(
        tools.iter().any(|name| name == "get_execution"),
        "{tools:?}"
    );
    for off in [
        "list_credentials",
        "delete_execution",
        "list_users",
        "install_community_package",
    ] {
        assert!(!tools.iter().any(|name| name == off), "{tools:?}");
    }
}
