//! Faults under load: a replica that is killed, an upgrade of all, a database that is silent or away, and the end of the
//! database server, whose place another one takes. `tests/src/gateway/replicas.rs` has what becomes of the sessions and
//! tasks of a killed one.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use ureq::http::Method;

use super::Row;
use super::cluster::{Cluster, READY_TIMEOUT, REPLICAS};
use super::load::Load;
use crate::http::Client;
use crate::shutdown;

const LOAD_TIME: Duration = Duration::from_secs(60);
/// Of the calls in a minute, those in flight on a replica that is killed.
const MAX_FAILED_PERCENT: f64 = 0.05;
/// A session whose gateway was killed is lost after 5 s; a call that was in flight there fails at once.
const MAX_FAILURE_TIME: Duration = Duration::from_secs(8);

/// The last one leaves another server of the database.
pub(super) const FAULTS: [Row; 4] = [
    (
        "kill -9 of one under load: at most 0.05 % of calls fail",
        kill,
    ),
    ("upgrade of all under load: no call fails", upgrade),
    (
        "PostgreSQL silent: all say so; then away for 60 s under load: no call fails",
        database_away,
    ),
    (
        "failover: kill -9 of PostgreSQL under load, and promotion of its standby: no call fails",
        failover,
    ),
];

fn kill(cluster: &mut Cluster) -> Result<String> {
    let (load, started) = (Load::start(&cluster.clients), Instant::now());
    thread::sleep(LOAD_TIME / 4);
    cluster.kill(1)?;
    thread::sleep(LOAD_TIME / 4);
    cluster.repair()?;
    thread::sleep(LOAD_TIME.saturating_sub(started.elapsed()));
    let measured = load.stop();
    let (shown, percent) = (measured.shown(), measured.failed_percent());
    ensure!(percent <= MAX_FAILED_PERCENT, "{percent:.3} %: {shown}");
    ensure!(measured.slowest_failure <= MAX_FAILURE_TIME, "{shown}");
    Ok(format!("{percent:.3} %: {shown}"))
}

fn upgrade(cluster: &mut Cluster) -> Result<String> {
    let load = Load::start(&cluster.clients);
    for at in 0..REPLICAS {
        thread::sleep(LOAD_TIME / 12);
        cluster.upgrade(at)?;
    }
    thread::sleep(LOAD_TIME / 12);
    load.stop_without_failures()
}

fn database_away(cluster: &mut Cluster) -> Result<String> {
    cluster.are_ready(true)?;
    cluster.signal_database(Signal::SIGSTOP)?;
    let told = cluster.are_ready(false);
    cluster.signal_database(Signal::SIGCONT)?;
    let told = told?.as_millis();
    cluster.are_ready(true)?;
    let load = Load::start(&cluster.clients);
    cluster.signal_database(Signal::SIGKILL)?;
    thread::sleep(LOAD_TIME);
    cluster.restart_database()?;
    cluster.are_ready(true)?;
    let shown = load.stop_without_failures()?;
    // Its queue has an end, so a long outage drops events, which it counts.
    let mut dropped = 0;
    let is_ok = shutdown::wait_until(READY_TIMEOUT, || {
        let status_at = |at: usize| cluster.clients[at].tool("gateway_status", json!({}));
        let statuses = (0..REPLICAS).filter_map(|at| status_at(at).ok());
        let log = |status: Value| status["result"]["structuredContent"]["event_log"].clone();
        let logs: Vec<_> = statuses.map(log).collect();
        dropped = logs.iter().filter_map(|log| log["dropped"].as_u64()).sum();
        logs.len() == REPLICAS && logs.iter().all(|log| log["status"] == "ok")
    });
    ensure!(is_ok, "the event log does not come back: {shown}");
    Ok(format!(
        "{shown}; /readyz told of a silent one after {told} ms; {dropped} events dropped"
    ))
}

fn failover(cluster: &mut Cluster) -> Result<String> {
    let clients = &cluster.clients;
    let [session, ended] = [clients[0].open_session()?, clients[0].open_session()?];
    let end = |client: &Client| client.in_session(&ended).call(Method::DELETE, "/mcp", None);
    let task = start_task(&clients[0], 120)?;
    let load = Load::start(clients);
    thread::sleep(LOAD_TIME / 12);
    cluster.signal_database(Signal::SIGKILL)?;
    let told = cluster.are_ready(false)?;
    cluster.promote()?;
    let back = cluster.are_ready(true)?;
    thread::sleep(LOAD_TIME / 12);
    // Sessions and tasks are in use at the other server.
    ensure!(end(&clients[1])?.status == 204, "a session does not end");
    for client in &clients[..REPLICAS] {
        let listed = client.ask(&session, "tools/list", json!({}))?;
        ensure!(listed["result"]["tools"].is_array(), "{listed}");
        let found = client.modern("tasks/get", task.clone())?;
        ensure!(found["result"]["status"] == "working", "{found}");
        ensure!(end(client)?.status == 404, "a session goes on");
        // A gateway is ready before the events of the outage are written.
        let mut status = Value::Null;
        let is_well = shutdown::wait_until(READY_TIMEOUT, || {
            let answer = client.tool("gateway_status", json!({}));
            status = answer.unwrap_or_default()["result"]["structuredContent"].take();
            status["event_log"]["status"] == "ok" && status["other_gateways"] == REPLICAS - 1
        });
        ensure!(is_well, "{status}");
    }
    let task = start_task(&clients[2], 1)?;
    let has_ended = shutdown::wait_until(READY_TIMEOUT, || {
        let found = clients[1].modern("tasks/get", task.clone());
        found.is_ok_and(|found| found["result"]["status"] == "completed")
    });
    ensure!(has_ended, "a task does not end");
    let shown = load.stop_without_failures()?;
    let (told, back) = (told.as_millis(), back.as_millis());
    Ok(format!(
        "{shown}; /readyz told it after {told} ms, and was 200 at all {back} ms after the promotion"
    ))
}

/// Starts a task, and returns the parameters that name it.
fn start_task(client: &Client, seconds: u32) -> Result<Value> {
    let made = client.tool("slow_compute", json!({"seconds": seconds}))?;
    Ok(json!({"taskId": made["result"]["taskId"]}))
}
