//! Tests on a real PostgreSQL, at `MCP_TEST_POSTGRES_URL`.

use std::process::Command;

use super::*;
use crate::state::tests::{address, postgres as location_of, run};

#[test]
fn postgres_passes() {
    if address().is_none() {
        return;
    }
    let mut schemas = 0;
    store::check(&mut || {
        schemas += 1;
        let location = location_of(&format!("store_{schemas}")).unwrap();
        location.connect().unwrap()
    });
}

/// A search through a large log takes longer than a write may.
#[test]
fn reader_has_time_for_a_search() {
    let Some(location) = location_of("searches") else {
        return;
    };
    let mut connection = location.connect().unwrap();
    let mut timeout = || {
        let rows = connection.query("show statement_timeout", &[]).unwrap();
        connection.allow_searches().unwrap();
        rows[0].text(0).map(str::to_owned).unwrap()
    };
    assert_eq!([timeout(), timeout()], ["4s", "15s"]);
}

/// Three gateways with one log; the connections of one of them are cut.
#[tokio::test]
async fn postgres_of_several_gateways_is_one_log_and_reconnects() {
    let Some(StoreLocation::Postgres(address)) = location_of("shared") else {
        return;
    };
    let databases = ["one", "two", "three"].map(|name| {
        let location = StoreLocation::Postgres(format!("{address}&application_name={name}"));
        Database::start(location, Retention::default(), None).unwrap()
    });
    let trace = TraceId::new_v4();
    for n in 0..900 {
        let mut event = event(n);
        event.trace_id = trace;
        databases[n % 3].log.record(event);
        if n == 450 {
            until("some", || databases[1].log.health().written > 0);
            run(
                &address,
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'two'",
            );
        }
    }
    until("all", || {
        databases.iter().all(|one| one.log.health().written == 300)
    });
    // Equal denials at all of them are one event.
    let minute = Timestamp::now().as_second() / 60;
    for (n, database) in databases.iter().cycle().take(90).enumerate() {
        let item = ["b__x", "b__y"][n / 3 % 2];
        let event = denied("mallory", item, &json!({}), minute);
        database.log.record(event);
    }
    let denials = Query {
        principal: Some("mallory".into()),
        ..Query::default()
    };
    let query = Query::default()
        .with_trace(trace)
        .with_limit(MAX_QUERY_LIMIT);
    for database in &databases {
        // Its own are written then.
        database.log.find(denials.clone()).await.unwrap();
    }
    let found = databases[0].log.find(denials).await.unwrap();
    let counts: Vec<Value> = found.iter().map(count).collect();
    assert_eq!(counts, [45, 45]);
    for database in &databases {
        let found = database.log.find(query.clone()).await.unwrap();
        let mut numbers: Vec<_> = found.iter().map(number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..900).collect::<Vec<_>>());
        assert_eq!(database.log.health().degraded, None);
        assert_eq!(database.log.health().dropped, 0);
    }
}

/// Root certificates are a setting of a process: `MCP_TEST_POSTGRES_CA` names the authority of the server.
#[test]
fn postgres_over_tls_must_have_the_name_of_its_certificate() {
    let Some(authority) = std::env::var_os("MCP_TEST_POSTGRES_CA") else {
        eprintln!("skipped: MCP_TEST_POSTGRES_CA is not set");
        return;
    };
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["events::tests::postgres::tls_child", "--exact", "--ignored"])
        .env("SSL_CERT_FILE", authority)
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{output}");
    assert!(output.contains("1 passed"), "{output}");
}

#[test]
#[ignore = "the child process of the test above"]
fn tls_child() {
    let address = address().unwrap();
    let secure = address.replace("sslmode=disable", "sslmode=require");
    run(
        &secure,
        "do $$ begin
            assert (select ssl from pg_stat_ssl where pid = pg_backend_pid());
        end $$",
    );
    let other = secure.replace("@127.0.0.1", "@elsewhere.invalid") + "&hostaddr=127.0.0.1";
    let refused = StoreLocation::Postgres(other).connect().err().unwrap();
    assert_eq!(refused.fault, StoreFault::Unavailable);
    let reason = refused.reason;
    let is_name = reason.contains("TLS") && reason.contains("not valid for name");
    assert!(is_name, "{reason}");
}

#[test]
fn missing_database_degrades_the_log() {
    // The address of a listener that is closed again.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = listener.local_addr().unwrap();
    drop(listener);
    let address = format!("postgres://user:s3cret@{closed}/none");
    let database =
        Database::start(StoreLocation::Postgres(address), Retention::default(), None).unwrap();
    database.log.record(event(0));
    let reason = degraded(&database);
    assert!(reason.starts_with("error connecting to server"), "{reason}");
    assert!(!reason.contains("s3cret"), "{reason}");
    let bad = StoreLocation::parse("postgres://host:port/", std::path::Path::new(""));
    assert!(bad.is_err());
}
