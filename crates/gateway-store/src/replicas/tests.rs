//! Tests of the table on PostgreSQL, if `MCP_TEST_POSTGRES_URL` names one.

mod other_key;

use mcp_core::sign::Signer;
use mcp_serve::ReplicaSet as _;

use super::*;
use crate::state::tests::postgres;

pub(super) fn start(location: &StoreLocation, id: u32) -> ReplicaTable {
    start_slow(location, id, BEAT_INTERVAL)
}

/// One with so much time between its beats.
fn start_slow(location: &StoreLocation, id: u32, interval: Duration) -> ReplicaTable {
    let table = ReplicaTable::start_as(ReplicaId::new(id), location, None, interval);
    table.unwrap().unwrap()
}

fn listening(port: u16) -> ListeningAddress {
    listening_with("0", port)
}

fn listening_with(key: &str, port: u16) -> ListeningAddress {
    ListeningAddress {
        scheme: "http",
        address: ([127, 0, 0, 1], port).into(),
        key: key.to_owned(),
        signer: Signer::new([1; 32]),
    }
}

pub(super) async fn joined(location: &StoreLocation, id: u16) -> ReplicaTable {
    joined_with("0", location, id).await
}

/// One whose session key has this name.
pub(super) async fn joined_with(key: &str, location: &StoreLocation, id: u16) -> ReplicaTable {
    let table = start(location, id.into());
    table.join(listening_with(key, id)).await;
    table
}

/// Waits until a reading has brought it.
pub(super) async fn until(table: &ReplicaTable, is_so: impl Fn() -> bool) {
    let seen = table.shared.until(|_| is_so());
    timeout(Duration::from_secs(10), seen).await.unwrap();
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
    let started = Instant::now();
    let tables = [1, 2, 3].map(|id| start(&location, id));
    let joining = tables.iter().zip(1..);
    let joining = joining.map(|(table, port)| table.join(listening(port)));
    futures_util::future::join_all(joining).await;
    let all = [1, 2, 3].map(ReplicaId::new);
    for (table, own) in tables.iter().zip(all) {
        let others = all.into_iter().filter(|id| *id != own);
        assert_eq!(table.others(), others.collect::<Vec<_>>());
        assert_eq!(table.place(own, Instant::now()), Place::Here);
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
    assert_eq!(third.place(all[1], started), Place::Gone);
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
        .until(|peers| peers.place(dead, Instant::now()) == Place::There(dead))
        .await;
    let fifth = start(&location, 5);
    fifth.join(listening(3)).await;
    timeout(BEAT_INTERVAL * 2, third.gone(dead)).await.unwrap();
    assert_eq!(fifth.shared.peers.read().rival(), None);
}

pub(super) async fn execute(location: &StoreLocation, sql: &'static str) {
    let location = location.clone();
    let executed = tokio::task::spawn_blocking(move || {
        let connection = worker::connect(&location).unwrap();
        let client = &connection.client;
        connection
            .within(async { Ok(client.batch_execute(sql).await?) })
            .unwrap();
    });
    executed.await.unwrap();
}

/// Access to the database alone gets no requests.
#[tokio::test]
async fn rows_that_no_replica_has_signed_are_not_used() {
    let Some(location) = location("replicas_forged").await else {
        return;
    };
    let [first, second] = [1, 2].map(|id| start(&location, id));
    first.join(listening(1)).await;
    second.join(listening(2)).await;
    assert_eq!(first.others(), [ReplicaId::new(2)]);
    execute(
        &location,
        "
        insert into mcp_replicas (id, address, version, key, signature)
            select 3, address, version, key, signature from mcp_replicas where id = 2;
        insert into mcp_replicas (id, address, version, key) values (4, 'http://127.0.0.1:4', '1', '0');
        insert into mcp_replicas (id, address, version, key) values (5, 'http://127.0.0.1:5', '1', 'x');
        ",
    )
    .await;
    assert!(first.refresh(Instant::now()).await);
    assert_eq!(first.others(), [ReplicaId::new(2)]);
    let listed = |table: &ReplicaTable| {
        let listed = table.list().into_iter();
        let listed = listed.map(|one| (one.id.bits(), one.has_same_key));
        listed.collect::<Vec<_>>()
    };
    assert_eq!(listed(&first), [(1, true), (2, true), (5, false)]);
    // The row of another one: until it writes it again.
    let forged = "update mcp_replicas set address = 'http://127.0.0.1:6' where id = 2";
    execute(&location, forged).await;
    assert!(first.refresh(Instant::now()).await);
    let address = first.address(ReplicaId::new(2));
    assert_ne!(address.as_deref(), Some("http://127.0.0.1:6"));
    timeout(
        BEAT_INTERVAL * 3,
        first.shared.until(|peers| !peers.others().is_empty()),
    )
    .await
    .unwrap();
    let address = first.address(ReplicaId::new(2));
    assert_eq!(address.as_deref(), Some("http://127.0.0.1:2"));
}

#[tokio::test]
async fn replicas_have_the_time_of_the_database() {
    let Some(location) = location("replicas_time").await else {
        return;
    };
    let [first, second] = [1, 2].map(|id| start(&location, id));
    assert_eq!(first.time(), None);
    first.join(listening(1)).await;
    second.join(listening(2)).await;
    let times = [&first, &second].map(|table| table.time().unwrap());
    let now = std::time::UNIX_EPOCH.elapsed().unwrap();
    for time in times {
        // The database is on this machine.
        assert!(
            time.abs_diff(now) < Duration::from_secs(1),
            "{time:?} {now:?}"
        );
    }
}

#[tokio::test]
async fn replica_that_has_just_started_is_found_by_another_look() {
    let Some(location) = location("replicas_refresh").await else {
        return;
    };
    let first = start(&location, 1);
    first.join(listening(1)).await;
    let new = ReplicaId::new(2);
    let second = start(&location, 2);
    second.send(Job::Join(listening(2)));
    second.shared.until(Peers::has_joined).await;
    let arrived = Instant::now();
    assert!(first.refresh(arrived).await);
    assert_eq!(first.place(new, arrived), Place::There(new));
    let unknown = ReplicaId::new(3);
    assert_eq!(first.place(unknown, arrived), Place::Gone);
    let later = Instant::now();
    assert_eq!(first.place(unknown, later), Place::Unknown(unknown));
    let first = tokio::task::spawn_blocking(move || {
        first.close();
        first
    });
    let first = first.await.unwrap();
    assert!(!first.refresh(Instant::now()).await);
}

#[tokio::test]
async fn address_of_this_machine_is_refused_with_a_database_elsewhere() {
    let elsewhere = StoreLocation::Postgres("postgres://a@db.invalid/b".to_owned());
    let address = Some("http://127.0.0.1:3455".to_owned());
    let refused = ReplicaTable::start_as(ReplicaId::new(1), &elsewhere, address, BEAT_INTERVAL);
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

async fn until_ended(table: &ReplicaTable, session: u128, limit: Duration) {
    let ended = table.shared.until(|_| table.has_ended(session));
    timeout(limit, ended).await.unwrap();
}

/// Of two replicas: only the news of a change can come before the next beat, which is an hour away.
#[tokio::test]
async fn change_is_seen_before_the_next_beat() {
    let Some(location) = location("replicas_news").await else {
        return;
    };
    let hour = Duration::from_secs(3_600);
    let [first, second] = [1, 2].map(|id| start_slow(&location, id, hour));
    first.ready().await;
    second.ready().await;
    for session in 1..=3 {
        first.end_session(session).await;
        until_ended(&second, session, Duration::from_secs(10)).await;
    }
    // Also one that joins, and who leaves.
    first.send(Job::Join(listening(1)));
    let has_first = |peers: &Peers| peers.address(ReplicaId::new(1)).is_some();
    let seen = second.shared.until(has_first);
    timeout(Duration::from_secs(10), seen).await.unwrap();
    let left = second.gone(ReplicaId::new(1));
    let close = tokio::task::spawn_blocking(move || first.close());
    close.await.unwrap();
    timeout(Duration::from_secs(10), left).await.unwrap();
    // A flood of them is answered with a beat from time to time.
    let before = *second.readings().borrow();
    let flood = tokio::time::Instant::now();
    let many = "do $$ begin for one in 1..300 loop
            insert into mcp_ended_sessions (session) values (decode(lpad(to_hex(one), 32, '0'), 'hex'))
                on conflict do nothing; commit;
        end loop; end $$";
    execute(&location, many).await;
    until_ended(&second, 300, Duration::from_secs(10)).await;
    let beats = u128::from(*second.readings().borrow() - before);
    let most = flood.elapsed().as_millis() / news::spacing(0).as_millis() + 2;
    assert!((1..=most).contains(&beats), "{beats} of at most {most}");
}

/// Without notifications, or after the end of the connection.
#[tokio::test]
async fn lost_news_cost_a_beat_at_most() {
    let location = location("replicas_lost_news").await;
    let Some(StoreLocation::Postgres(address)) = location else {
        return;
    };
    let location = StoreLocation::Postgres(format!("{address}&application_name=lost_news"));
    let [first, second] = [1, 2].map(|id| start(&location, id));
    first.ready().await;
    second.ready().await;
    execute(&location, "drop trigger mcp_changed on mcp_ended_sessions").await;
    first.end_session(1).await;
    until_ended(&second, 1, BEAT_INTERVAL * 4).await;
    let end = "select pg_terminate_backend(pid) from pg_stat_activity
        where pid <> pg_backend_pid() and application_name = 'lost_news'";
    execute(&location, end).await;
    first.end_session(2).await;
    until_ended(&second, 2, BEAT_INTERVAL * 4).await;
}

/// A primary that takes no writes any more says so with 25006: the next connection looks for one that does.
#[tokio::test]
async fn connection_that_refuses_writes_is_replaced() {
    let location = location("replicas_read_only").await;
    let Some(StoreLocation::Postgres(address)) = location else {
        return;
    };
    let location = StoreLocation::Postgres(format!("{address}&application_name=read_only"));
    let table = joined(&location, 1).await;
    let refuse = "
        create function mcp_refuse() returns trigger language plpgsql as
            $$ begin raise exception 'read-only' using errcode = '25006'; end $$;
        create trigger mcp_refuse before insert or update on mcp_replicas
            for each statement execute function mcp_refuse();
        create table mcp_before as select pid from pg_stat_activity where application_name = 'read_only';
    ";
    execute(&location, refuse).await;
    let outage = async {
        while table.outage().is_none() {
            tokio::time::sleep(BEAT_INTERVAL / 5).await;
        }
    };
    timeout(Duration::from_secs(20), outage).await.unwrap();
    execute(&location, "drop trigger mcp_refuse on mcp_replicas").await;
    until(&table, || table.outage().is_none()).await;
    // Of the connections for the table none is left; `execute` has one of its own.
    let check = "do $$ begin
        if (select count(*) from pg_stat_activity join mcp_before using (pid)
            where application_name = 'read_only' and query like '%mcp_replicas%') > 0 then
            raise exception 'a connection that has refused a write is still in use';
        end if;
    end $$";
    execute(&location, check).await;
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
        reason.contains("version 9, of a newer gateway; this one knows 8"),
        "{reason}"
    );
}
