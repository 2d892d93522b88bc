//! Tests on PostgreSQL, if `MCP_TEST_POSTGRES_URL` names one.

use mcp_core::server::{StoredTask, TaskOwner, TaskStore as _};
use serde_json::json;

use super::*;
use crate::Database;
use crate::database::StoreLocation;
use crate::events::Retention;
use crate::events::tests::until;
use crate::state::tests::postgres;

const OWNER: TaskOwner = [7; 32];
const LIFETIME: Duration = Duration::from_secs(600);

/// Starts the gateway of this process; its end is that of the database.
fn start(location: &StoreLocation, process: u32) -> (Database, Arc<SharedTables>) {
    let retention = Retention::default();
    let database = Database::start(location.clone(), retention, Some(process)).unwrap();
    let tables = Arc::clone(database.shared.as_ref().unwrap());
    (database, tables)
}

fn task(number: u32, outcome: &serde_json::Value) -> StoredTask {
    let id = format!("{number:032x}");
    let task = json!({
        "id": id, "created": 1, "updated": 1, "ttl": 1, "message": null, "outcome": outcome,
    });
    serde_json::from_value(task).unwrap()
}

#[tokio::test]
async fn task_of_a_gateway_is_found_cancelled_and_lost_with_it() {
    let Some(location) = postgres("shared_tasks") else {
        return;
    };
    let ((first, a), (_second, b)) = (start(&location, 1), start(&location, 2));
    tokio::join!(a.ready(), b.ready());
    let running = task(1, &json!(null));
    let ended = task(2, &json!("Cancelled"));
    a.save(OWNER, running.clone(), LIFETIME).await;
    a.save(OWNER, ended.clone(), LIFETIME).await;
    // The first outcome stays.
    b.save(OWNER, task(2, &json!(null)), LIFETIME).await;
    let found = b.find(OWNER, &ended.id).await.unwrap().unwrap();
    assert!(found.has_ended() && !found.is_lost);
    let found = b.find(OWNER, &running.id).await.unwrap().unwrap();
    assert!(!found.has_ended() && !found.is_lost);
    assert_eq!(b.list(OWNER).await.unwrap().len(), 2);
    assert!(b.find([8; 32], &running.id).await.unwrap().is_none());
    // An id that PostgreSQL refuses keeps the connection.
    for id in ["", "\0", "x"] {
        assert!(b.find(OWNER, id).await.unwrap().is_none());
    }
    let cancelled = a.cancelled(&running.id);
    b.cancel(&running.id).await.unwrap();
    timeout(Duration::from_secs(60), cancelled).await.unwrap();
    until("the other gateway", || b.others() == 1);
    drop(first);
    until("its end", || b.others() == 0);
    assert!(b.find(OWNER, &running.id).await.unwrap().unwrap().is_lost);
}

#[tokio::test]
async fn writes_wait_for_a_database_that_is_away() {
    // Nothing listens there.
    let location = StoreLocation::Postgres("postgres://x@127.0.0.1:1/x".into());
    let (database, tables) = start(&location, 1);
    tables.save(OWNER, task(1, &json!(null)), LIFETIME).await;
    tables.end(1).await;
    assert!(tables.has_ended(1) && tables.outage().is_some());
    // Calls of a session go on.
    assert!(tables.claim(2).await);
    assert!(tables.find(OWNER, &task(1, &json!(null)).id).await.is_err());
    tokio::task::spawn_blocking(move || database.close())
        .await
        .unwrap();
}
