//! Faults under load: a replica that is killed, an upgrade of all, a database that is away, a partition.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::json;

use super::Row;
use super::client::request;
use super::cluster::{Cluster, REPLICAS};
use super::load::Load;
use super::proxy::Mode;

const LOAD_TIME: Duration = Duration::from_secs(60);
/// Of the calls in a minute, those in flight on a replica that is killed.
const MAX_FAILED_PERCENT: f64 = 0.05;
/// A session whose gateway was killed is lost after 5 s; a call that was in flight there fails at once.
const MAX_FAILURE_TIME: Duration = Duration::from_secs(8);
/// The time in which a partition shows, or its end.
const PARTITION_TIMEOUT: Duration = Duration::from_secs(10);
/// Sessions and tasks of a killed gateway are lost after 5 s.
const LOST_TIMEOUT: Duration = Duration::from_secs(15);

pub(super) const FAULTS: [Row; 5] = [
    Row::new(
        "kill -9 of one: its task has failed, its session is 404, others go on",
        kill_with_task,
    ),
    Row::new(
        "kill -9 of one under load: at most 0.05 % of calls fail",
        kill,
    ),
    Row::new("upgrade of all under load: no call fails", upgrade),
    Row::new(
        "PostgreSQL away for 60 s under load: no call fails",
        database_away,
    ),
    Row::new(
        "partition: a gateway without its database says so",
        partition,
    ),
];

type Shown = anyhow::Result<String>;

fn kill(cluster: &mut Cluster<'_>) -> Shown {
    let load = Load::start(&cluster.client);
    thread::sleep(LOAD_TIME / 4);
    cluster.kill(1)?;
    thread::sleep(LOAD_TIME / 4);
    cluster.restart(1)?;
    thread::sleep(LOAD_TIME.saturating_sub(load.elapsed()));
    let measured = load.stop();
    let (shown, percent) = (measured.shown(), measured.failed_percent());
    ensure!(percent <= MAX_FAILED_PERCENT, "{percent:.3} %: {shown}");
    ensure!(measured.slowest_failure <= MAX_FAILURE_TIME, "{shown}");
    Ok(format!("{percent:.3} %: {shown}"))
}

fn kill_with_task(cluster: &mut Cluster<'_>) -> Shown {
    let client = cluster.client.clone();
    let [lost, other] = [(2, client.session(2)?), (1, client.session(1)?)];
    for (at, session) in [&lost, &other] {
        client.ask(*at, session, "tools/list", json!({}))?;
    }
    let compute = json!({"name": "slow_compute", "arguments": {"seconds": 60}});
    let made = client.modern(2, "tools/call", compute)?;
    let id = json!({"taskId": made["result"]["taskId"]});
    cluster.kill(2)?;
    let killed = Instant::now();
    let mut last = String::new();
    let has_failed = cluster.layout.shutdown.wait_until(LOST_TIMEOUT, || {
        let found = client.modern(0, "tasks/get", id.clone());
        last = found.map(|found| found.to_string()).unwrap_or_default();
        last.contains("\"failed\"") && last.contains("has ended, and the task with it")
    });
    ensure!(has_failed, "the task: {last:.200}");
    let time = killed.elapsed().as_millis();
    let status = client.post(0, &lost.1, &request("ping", json!({})))?.status;
    ensure!(status == 404, "its session: {status}");
    let listed = client.ask(0, &other.1, "tools/list", json!({}))?;
    ensure!(
        listed["result"]["tools"].is_array(),
        "another session: {listed}"
    );
    cluster.restart(2)?;
    Ok(format!("after {time} ms"))
}

fn upgrade(cluster: &mut Cluster<'_>) -> Shown {
    let load = Load::start(&cluster.client);
    for at in 0..REPLICAS {
        thread::sleep(LOAD_TIME / 12);
        cluster.stop(at)?;
        cluster.restart(at)?;
    }
    thread::sleep(LOAD_TIME / 12);
    let measured = load.stop();
    ensure!(measured.failures() == 0, "{}", measured.shown());
    Ok(measured.shown())
}

fn database_away(cluster: &mut Cluster<'_>) -> Shown {
    let load = Load::start(&cluster.client);
    for proxy in &cluster.proxies {
        proxy.set(Mode::Away);
    }
    thread::sleep(LOAD_TIME);
    for proxy in &cluster.proxies {
        proxy.set(Mode::Open);
    }
    thread::sleep(LOAD_TIME / 12);
    let measured = load.stop();
    ensure!(measured.failures() == 0, "{}", measured.shown());
    // Its queue has an end, so a long outage drops events, which it counts.
    let mut dropped = 0;
    let is_ok = cluster.layout.shutdown.wait_until(PARTITION_TIMEOUT, || {
        let log_at = |at| {
            let status = cluster
                .client
                .call(at, "", "gateway_status", json!({}))
                .ok()?;
            Some(status["result"]["structuredContent"]["event_log"].clone())
        };
        let logs: Vec<_> = (0..REPLICAS).filter_map(log_at).collect();
        dropped = logs.iter().filter_map(|log| log["dropped"].as_u64()).sum();
        logs.len() == REPLICAS && logs.iter().all(|log| log["status"] == "ok")
    });
    ensure!(
        is_ok,
        "the event log does not come back: {}",
        measured.shown()
    );
    Ok(format!("{}; {dropped} events dropped", measured.shown()))
}

fn partition(cluster: &mut Cluster<'_>) -> Shown {
    let client = cluster.client.clone();
    let ready = |at| client.page(at, "/readyz").map_or(0, |(status, _)| status);
    ensure!((0..REPLICAS).all(|at| ready(at) == 200), "not ready before");
    cluster.proxies[1].set(Mode::Silent);
    let started = Instant::now();
    let is_told = cluster
        .layout
        .shutdown
        .wait_until(PARTITION_TIMEOUT, || ready(1) != 200);
    let time = started.elapsed();
    let others = [ready(0), ready(2)];
    cluster.proxies[1].set(Mode::Open);
    let is_back = cluster
        .layout
        .shutdown
        .wait_until(3 * PARTITION_TIMEOUT, || ready(1) == 200);
    ensure!(is_told, "/readyz stays 200");
    ensure!(others == [200; 2], "the others answer {others:?}");
    ensure!(is_back, "/readyz does not come back");
    Ok(format!("after {} ms", time.as_millis()))
}
