//! Lists of many workflows.

use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};

use super::super::site::{Site, Workflow, manual, unique};
use super::super::{call, done};
use crate::n8n::session;

/// This many workflows with names like those that people give.
async fn many(site: &Site, count: usize, prefix: &str) -> Vec<Workflow> {
    let made = stream::iter(0..count).map(|n| {
        let name = format!("{prefix} sync orders {n}");
        site.named(name, vec![manual()], json!({}))
    });
    made.buffer_unordered(8).collect().await
}

async fn delete(site: &Site, workflows: &[Workflow]) {
    let deleted = stream::iter(workflows).map(|workflow| site.delete(workflow));
    deleted.buffer_unordered(8).collect::<Vec<()>>().await;
}

#[tokio::test]
async fn three_hundred_are_paged_through_and_two_hundred_are_cheap() {
    let Some(site) = Site::new() else { return };
    let _alone = site.alone().await;
    let client = session(&site.env_without_mcp()).await;
    let prefix = unique("")[1..9].to_owned();
    let workflows = many(&site, 300, &prefix).await;

    let (mut ids, mut pages, mut cursor) = (Vec::new(), 0, Value::Null);
    loop {
        let mut arguments = json!({"name": prefix});
        if !cursor.is_null() {
            arguments["cursor"] = cursor;
        }
        let page = done(&client, "list_workflows", arguments).await;
        let rows = page["workflows"].as_array().unwrap().clone();
        assert!(!rows.is_empty());
        ids.extend(rows.into_iter().map(|row| row["id"].to_string()));
        pages += 1;
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!((ids.len(), pages), (300, 3));
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 300);

    let arguments = json!({"name": prefix, "limit": 200});
    let list = call(&client, "list_workflows", arguments).await.text();
    assert!(list.len() / 4 < 4_000, "{} tokens", list.len() / 4);
    delete(&site, &workflows).await;
}

#[tokio::test]
async fn filters_are_the_servers() {
    let Some(site) = Site::new() else { return };
    let client = session(&site.env_without_mcp()).await;
    let prefix = unique("")[1..9].to_owned();
    let workflows = many(&site, 3, &prefix).await;
    let ids = async |arguments: Value| {
        let list = done(&client, "list_workflows", arguments).await;
        list["workflows"].as_array().unwrap().len()
    };
    assert_eq!(
        ids(json!({"name": format!("{prefix} sync orders 1")})).await,
        1
    );
    assert_eq!(ids(json!({"name": prefix, "active": false})).await, 3);
    assert_eq!(ids(json!({"name": prefix, "active": true})).await, 0);
    assert_eq!(ids(json!({"name": prefix, "archived": true})).await, 0);
    assert_eq!(ids(json!({"name": prefix, "project_id": "none"})).await, 0);
    let path = format!("/workflows/{}", workflows[0].id);
    let project = site.api("GET", &path, None).await["shared"][0]["projectId"].clone();
    assert_eq!(ids(json!({"name": prefix, "project_id": project})).await, 3);
    delete(&site, &workflows).await;
}
