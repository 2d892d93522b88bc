//! Tests of the tasks on PostgreSQL, if `MCP_TEST_POSTGRES_URL` names one.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::*;
use crate::replicas::tests::{joined, joined_with, location, start};
use crate::replicas::worker::Job;
use mcp_serve::ReplicaSet as _;

const OWNER: TaskOwner = [7; 32];
const LIFETIME: Duration = Duration::from_secs(600);

fn id(number: u32) -> String {
    format!("{number:032x}")
}

/// A task with a message of this many bytes.
fn task(id: String, bytes: usize) -> StoredTask {
    let task = json!({
        "id": id, "created": 1, "updated": 1, "ttl": 1, "message": "x".repeat(bytes), "outcome": null,
    });
    serde_json::from_value(task).unwrap()
}

async fn ids(table: &ReplicaTable) -> Vec<String> {
    let found = TaskStore::list(table, OWNER).await.unwrap();
    found.into_iter().map(|task| task.id).collect()
}

#[test]
fn ids_have_the_form_of_those_that_are_made() {
    let long = format!("{}.{}", id(1), "x".repeat(MAX_ID_BYTES));
    for (text, expected) in [
        (id(1), true),
        (id(1) + ".run_workflow.17", true),
        (id(1) + ".ü", true),
        (id(1) + ".a\0", false),
        (id(1) + "a", false),
        (id(0xa).to_uppercase(), false),
        (format!("{}\0", &id(1)[1..]), false),
        (format!("{}é", &id(1)[1..]), false),
        (id(1)[1..].to_owned(), false),
        (String::new(), false),
        (long, false),
    ] {
        assert_eq!(is_id(&text), expected, "{text:?}");
    }
}

#[tokio::test]
async fn task_is_found_and_a_strange_id_keeps_the_connection() {
    let Some(location) = location("replicas_tasks").await else {
        return;
    };
    let table = start(&location, 1);
    drop(table.save(OWNER, task(id(1), 0), LIFETIME));
    drop(table.save(OWNER, task(id(2) + ".tool.17", 0), LIFETIME));
    let found = table.find(OWNER, &id(1)).await.unwrap();
    assert_eq!(found.unwrap().id, id(1));
    assert_eq!(ids(&table).await, [id(1), id(2) + ".tool.17"]);
    assert!(table.find(OWNER, "a\0").await.unwrap().is_none());
    assert!(table.find([8; 32], &id(1)).await.unwrap().is_none());
    // The same past the check: the database refuses it, and goes on.
    let refused = table.tasks.read(OWNER, Some("a\0".to_owned())).await;
    assert!(refused.unwrap().is_empty());
    assert!(table.find(OWNER, &id(1)).await.unwrap().is_some());
    assert!(table.outage().is_none());
}

#[test]
fn refused_question_is_no_failure_of_the_connection() {
    let Some(location) = crate::state::tests::postgres("replicas_refused") else {
        return;
    };
    let connection = crate::replicas::worker::connect(&location).unwrap();
    let (answer, mut answered) = oneshot::channel();
    let query = TaskQuery {
        owner: OWNER,
        id: Some("a\0".to_owned()),
        answer,
    };
    query.answer(Some(&connection), None).unwrap();
    assert!(answered.try_recv().unwrap().unwrap().is_empty());
    let (answer, answered) = oneshot::channel();
    let (owner, id) = (OWNER, None);
    let query = TaskQuery { owner, id, answer };
    assert!(!query.is_cancelled());
    drop(answered);
    assert!(query.is_cancelled());
}

#[tokio::test]
async fn lists_have_a_limit_of_bytes_and_keep_the_newest() {
    let Some(location) = location("replicas_lists").await else {
        return;
    };
    let table = start(&location, 1);
    for number in 0..12 {
        drop(table.save(OWNER, task(id(number), 1024 * 1024), LIFETIME));
    }
    // Eight of them are a little more than the limit.
    let found = ids(&table).await;
    assert_eq!(found, (4..12).map(id).collect::<Vec<_>>());
}

#[tokio::test]
async fn work_of_clients_does_not_delay_the_beats() {
    let Some(location) = location("replicas_load").await else {
        return;
    };
    let table = start(&location, 1);
    table.ready().await;
    let mut readings = table.shared.readings.subscribe();
    let first = *readings.borrow_and_update();
    // The queue is never empty.
    let jobs = table.jobs.clone();
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_over);
    let ends = tokio::task::spawn_blocking(move || {
        for session in (0..).take_while(|_| !ends.load(Ordering::Relaxed)) {
            let (stored, _) = oneshot::channel();
            let job = Job::EndSession(session, stored);
            assert!(jobs.blocking_send(job).is_ok());
        }
    });
    let questions = async {
        loop {
            let asked = (0..200).map(|_| TaskStore::list(&table, OWNER));
            futures_util::future::join_all(asked).await;
        }
    };
    let beats = readings.wait_for(|number| *number >= first + 4);
    let beats = timeout(crate::replicas::BEAT_INTERVAL * 8, beats);
    let is_in_time = tokio::select! {
        done = beats => done.is_ok(),
        () = questions => false,
    };
    is_over.store(true, Ordering::Relaxed);
    ends.await.unwrap();
    assert!(is_in_time);
}

/// Replicas with another key have other clients, also if those have the same names.
#[tokio::test]
async fn tasks_belong_to_the_replicas_with_one_key() {
    let Some(location) = location("replicas_task_keys").await else {
        return;
    };
    let owner = joined(&location, 1).await;
    let other = joined_with("1", &location, 2).await;
    drop(owner.save(OWNER, task(id(1), 0), LIFETIME));
    assert_eq!(ids(&owner).await, [id(1)]);
    assert!(ids(&other).await.is_empty());
    assert!(other.find(OWNER, &id(1)).await.unwrap().is_none());
    // Its replica leaves without the end of it: who says so has the same key.
    let close = tokio::task::spawn_blocking(move || owner.close());
    close.await.unwrap();
    for _ in 0..3 {
        assert!(other.refresh(Instant::now()).await);
    }
    let next = joined(&location, 3).await;
    let lost = async {
        loop {
            let found = next.find(OWNER, &id(1)).await.unwrap().unwrap();
            if found.is_lost {
                return found.replica;
            }
            assert!(next.refresh(Instant::now()).await);
        }
    };
    let by = timeout(Duration::from_secs(10), lost).await.unwrap();
    assert_eq!(by, Some(ReplicaId::new(3)));
}
