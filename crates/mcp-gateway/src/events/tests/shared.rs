//! The log in a real PostgreSQL, which `MCP_TEST_POSTGRES_URL` names.

use super::postgres::Postgres;
use super::*;

fn address() -> Option<String> {
    let address = std::env::var("MCP_TEST_POSTGRES_URL").ok();
    let address = address.filter(|address| !address.is_empty());
    if address.is_none() {
        eprintln!("skipped: MCP_TEST_POSTGRES_URL names no database");
    }
    address
}

/// In a thread of its own: a store blocks, which a test with a runtime may not.
fn run(address: &str, sql: &str) {
    let work = || Postgres::open(address).unwrap().run(sql);
    std::thread::scope(|scope| scope.spawn(work).join().unwrap());
}

#[test]
fn it_does_what_every_store_does() {
    let Some(address) = address() else { return };
    let mut schemas = 0;
    contract::hold(&mut || {
        schemas += 1;
        let mut store = Postgres::open(&address).unwrap();
        store.enter(&format!("contract_{schemas}"));
        Box::new(store)
    });
}

/// Three gateways, one log; the connections of one are cut in the midst of it.
#[tokio::test]
async fn gateways_share_one_log_and_outlive_its_connections() {
    let Some(address) = address() else { return };
    run(
        &address,
        "drop schema if exists shared cascade; create schema shared",
    );
    let named = |name: &str| {
        let more = if address.contains('?') { '&' } else { '?' };
        format!("{address}{more}options=-csearch_path%3Dshared&application_name={name}")
    };
    let logs = ["one", "two", "three"]
        .map(|name| Log::start(StoreLocation::Postgres(named(name)), PLENTY).unwrap());
    let trace = TraceId::random();
    for n in 0..900 {
        let mut event = event(n);
        event.trace_id = trace;
        logs[n % 3].record(event);
        if n == 450 {
            until("some", || logs[1].health().written > 0);
            run(
                &address,
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'two'",
            );
        }
    }
    until("all", || logs.iter().all(|log| log.health().written == 300));
    let query = Query::default().with_trace(trace).with_limit(MAX_LIMIT);
    for log in &logs {
        let found = log.find(query.clone()).await.unwrap();
        let mut numbers: Vec<_> = found.iter().map(number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..900).collect::<Vec<_>>());
        assert_eq!(log.health().degraded, None);
        assert_eq!(log.health().dropped, 0);
    }
}

/// `SSL_CERT_FILE` names who vouches for the server, by the names that clients here use.
#[test]
fn over_tls_it_is_the_same_log_of_a_server_that_is_who_it_says() {
    let Some(address) = address() else { return };
    let secure = address.replace("sslmode=disable", "sslmode=require");
    run(
        &secure,
        "do $$ begin
            assert (select ssl from pg_stat_ssl where pid = pg_backend_pid());
        end $$",
    );
    let mut store = Postgres::open(&secure).unwrap();
    store.enter("over_tls");
    let record = Record::from(event(7));
    store.append(std::slice::from_ref(&record)).unwrap();
    let query = Query::default().with_trace(record.trace_id);
    let found = store.find(&query).unwrap();
    assert_eq!(found.iter().map(number).collect::<Vec<_>>(), [7]);

    let other = secure.replace("@127.0.0.1", "@elsewhere.invalid") + "&hostaddr=127.0.0.1";
    let refused = Postgres::open(&other).err().unwrap();
    assert_eq!(refused.fault, Fault::Unavailable);
    let why = refused.reason;
    assert!(
        why.contains("TLS") && why.contains("not valid for name"),
        "{why}"
    );
}

#[test]
fn a_database_that_is_not_there_costs_nothing() {
    // The port of a listener that is closed again.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let address = format!("postgres://user:s3cret@127.0.0.1:{port}/none");
    let log = Log::start(StoreLocation::Postgres(address), PLENTY).unwrap();
    log.record(event(0));
    until("degraded", || log.health().degraded.is_some());
    let why = log.health().degraded.unwrap();
    assert!(
        why.starts_with("error connecting to server") && !why.contains("s3cret"),
        "{why}"
    );
    assert!(StoreLocation::postgres("postgres://host:port/").is_none());
}
