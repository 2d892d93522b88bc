//! Tests of replicas with another session key on the same database.

use super::*;

/// Beats after which a silent replica counts as gone, and more.
const BEATS: u32 = 7;

fn with_other_key(port: u16) -> ListeningAddress {
    ListeningAddress {
        key: "1".to_owned(),
        signer: Signer::new([2; 32]),
        ..listening(port)
    }
}

/// The task is one of an earlier version, whose row has no key: whether its replica has ended is the same for all.
#[tokio::test]
async fn tasks_of_a_replica_with_another_key_are_lost_only_when_it_has_ended() {
    let Some(location) = location("replicas_other_key").await else {
        return;
    };
    let one = joined(&location, 1).await;
    let other = start(&location, 2);
    other.join(with_other_key(2)).await;
    execute(
        &location,
        "insert into mcp_tasks (owner, id, task, expires, replica)
            values ('\\x01', 'a', '{}', now() + interval '1 hour', 2)",
    )
    .await;
    let mut readings = one.readings();
    let first = *readings.borrow_and_update();
    let read = readings.wait_for(|number| *number >= first + u64::from(BEATS));
    timeout(BEAT_INTERVAL * BEATS * 4, read)
        .await
        .unwrap()
        .unwrap();
    execute(
        &location,
        "do $$ begin assert (select not is_lost from mcp_tasks); end $$",
    )
    .await;
    assert_eq!(one.others(), []);
    assert_eq!(other.others(), []);
    let listed = one.list().into_iter();
    let listed = listed.map(|one| (one.id.bits(), one.is_alive, one.has_same_key));
    assert_eq!(
        listed.collect::<Vec<_>>(),
        [(1, true, true), (2, true, false)]
    );

    let closing = tokio::task::spawn_blocking(move || other.close());
    closing.await.unwrap();
    until(&one, || one.list().len() == 1).await;
    // The beat that has read this marks the tasks before the next one reads.
    let seen = *readings.borrow_and_update();
    let read = readings.wait_for(|number| *number > seen);
    timeout(BEAT_INTERVAL * 8, read).await.unwrap().unwrap();
    execute(
        &location,
        "do $$ begin assert (select is_lost from mcp_tasks); end $$",
    )
    .await;
}
