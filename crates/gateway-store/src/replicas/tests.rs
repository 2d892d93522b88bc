//! Tests of the table on PostgreSQL, if `MCP_TEST_POSTGRES_URL` names one.

use mcp_serve::ReplicaSet as _;

use super::*;
use crate::state::tests::postgres;

pub(super) fn start(location: &StoreLocation, id: u32) -> ReplicaTable {
    let table = ReplicaTable::start_as(ReplicaId::new(id), location, None);
    table.unwrap().unwrap()
}

fn listening(port: u16) -> ListeningAddress {
    ListeningAddress {
        scheme: "http",
        address: ([127, 0, 0, 1], port).into(),
        key: "0".to_owned(),
    }
}

/// The database blocks.
pub(super) async fn location(schema: &'static str) -> Option<StoreLocation> {
    let location = tokio::task::spawn_blocking(move || postgres(schema));
    location.await.unwrap()
}

#[tokio::test]
async fn replicas_that_start_together_see_each_other_and_who_leaves() {
    let Some(location) = location("replicas_start").await else {
        return;
    };
    let tables = [1, 2, 3].map(|id| start(&location, id));
    let joining = tables.iter().zip(1..);
    let joining = joining.map(|(table, port)| table.join(listening(port)));
    futures_util::future::join_all(joining).await;
    let all = [1, 2, 3].map(ReplicaId::new);
    for (table, own) in tables.iter().zip(all) {
        let others = all.into_iter().filter(|id| *id != own);
        assert_eq!(table.others(), others.collect::<Vec<_>>());
        assert_eq!(table.place(own), Place::Here);
        let address = table.address(all[1]);
        assert_eq!(address.as_deref(), Some("http://127.0.0.1:2"));
        assert!(table.outage().is_none());
    }
    let [first, second, third] = tables;
    let left = third.gone(all[1]);
    tokio::task::spawn_blocking(move || second.close())
        .await
        .unwrap();
    timeout(BEAT_INTERVAL * 3, left).await.unwrap();
    assert_eq!(third.others(), [all[0]]);
    assert_eq!(third.place(all[1]), Place::Gone);
    drop(first);
}

#[tokio::test]
async fn two_replicas_with_one_address_do_not_remove_each_other() {
    let Some(location) = location("replicas_address").await else {
        return;
    };
    let [first, second, third] = [1, 2, 3].map(|id| start(&location, id));
    first.join(listening(1)).await;
    second.join(listening(1)).await;
    tokio::time::sleep(BEAT_INTERVAL * 3).await;
    let rivals = [&first, &second].map(|table| table.shared.peers.read().rival());
    let rivals = rivals.map(|rival| rival.unwrap().0);
    assert_eq!(rivals, [ReplicaId::new(2), ReplicaId::new(1)]);
    for _ in 0..20 {
        assert_eq!(third.others(), [ReplicaId::new(1), ReplicaId::new(2)]);
        tokio::time::sleep(BEAT_INTERVAL / 8).await;
    }
    // The row of one that has ended without a word is removed by the next one with its address.
    let dead = ReplicaId::new(4);
    let written = tokio::task::spawn_blocking(move || {
        let connection = worker::connect(&location).unwrap();
        let row = "insert into mcp_replicas (id, address, version, key)
            values (4, 'http://127.0.0.1:3', '1', '0')";
        let client = &connection.client;
        connection
            .within(async { Ok(client.batch_execute(row).await?) })
            .unwrap();
        location
    });
    let location = written.await.unwrap();
    third
        .shared
        .until(|peers| peers.place(dead) == Place::There(dead))
        .await;
    let fifth = start(&location, 5);
    fifth.join(listening(3)).await;
    timeout(BEAT_INTERVAL * 2, third.gone(dead)).await.unwrap();
    assert_eq!(fifth.shared.peers.read().rival(), None);
}

#[tokio::test]
async fn address_of_this_machine_is_refused_with_a_database_elsewhere() {
    let elsewhere = StoreLocation::Postgres("postgres://a@db.invalid/b".to_owned());
    let address = Some("http://127.0.0.1:3455".to_owned());
    let refused = ReplicaTable::start_as(ReplicaId::new(1), &elsewhere, address);
    let reason = refused.err().unwrap().to_string();
    assert!(reason.contains("--replica-address"), "{reason}");
    // The same for the port; it does not wait for others then.
    let table = start(&elsewhere, 1);
    let joined = timeout(BEAT_INTERVAL, table.join(listening(1)));
    joined.await.unwrap();
}

#[tokio::test]
async fn session_that_ends_at_one_replica_has_ended_at_all_within_two_seconds() {
    let Some(location) = location("replicas_sessions").await else {
        return;
    };
    let [first, second] = [1, 2].map(|id| start(&location, id));
    first.ready().await;
    second.ready().await;
    first.end_session(7).await;
    assert!(first.has_ended(7) && !first.has_ended(8));
    let seen = async {
        while !second.has_ended(7) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(BEAT_INTERVAL * 2, seen).await.unwrap();
    // Also at one that starts later.
    let third = start(&location, 3);
    third.ready().await;
    assert!(third.has_ended(7));
}

#[tokio::test]
async fn tables_of_a_newer_gateway_are_refused() {
    let Some(location) = location("replicas_newer").await else {
        return;
    };
    let reason = tokio::task::spawn_blocking(move || {
        let migrated = || worker::connect(&location);
        let connection = migrated().unwrap();
        let newer = "update mcp_replica_schema set version = version + 1";
        let client = &connection.client;
        connection
            .within(async { Ok(client.batch_execute(newer).await?) })
            .unwrap();
        migrated().err().unwrap().reason
    });
    let reason = reason.await.unwrap();
    assert!(
        reason.contains("version 3, of a newer gateway; this one knows 2"),
        "{reason}"
    );
}
