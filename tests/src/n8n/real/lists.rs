//! `list_workflows` with many workflows.

use futures_util::stream::{self, StreamExt as _};

use super::*;

/// Makes this many workflows with realistic names.
async fn many(env: &Env, count: usize, prefix: &str) -> Vec<TestWorkflow> {
    let made = stream::iter(0..count).map(|n| {
        let name = format!("{prefix} sync orders {n}");
        env.named(name, vec![manual()])
    });
    made.buffer_unordered(8).collect().await
}

async fn delete(env: &Env, workflows: &[TestWorkflow]) {
    let deleted = stream::iter(workflows).map(|workflow| env.delete(workflow));
    deleted.buffer_unordered(8).collect::<Vec<()>>().await;
}

#[tokio::test]
async fn pages_hold_all_300_workflows_and_200_rows_are_cheap() {
    let Some(env) = Env::urls().await else { return };
    let prefix = unique("")[1..9].to_owned();
    let workflows = many(&env, 300, &prefix).await;

    let pages = all_pages(&env, "list_workflows", json!({"name": prefix})).await;
    let mut ids = Vec::new();
    for page in &pages {
        let rows = member_texts(&page["workflows"], "id");
        assert!(!rows.is_empty());
        ids.extend(rows);
    }
    assert_eq!((ids.len(), pages.len()), (300, 3));
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 300);

    let arguments = json!({"name": prefix, "limit": 200});
    let list = call(&env, "list_workflows", arguments).await.text();
    assert!(list.len() / 4 < 4_000, "{} tokens", list.len() / 4);
    delete(&env, &workflows).await;
}

#[tokio::test]
async fn filters_are_applied_by_n8n() {
    let Some(env) = Env::urls().await else { return };
    let prefix = unique("")[1..9].to_owned();
    let workflows = many(&env, 3, &prefix).await;
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
    delete(&env, &workflows).await;
}
