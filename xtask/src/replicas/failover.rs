//! The end of the database server under load, and another server that takes its place.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::json;

use super::Row;
use super::cluster::{Cluster, REPLICAS};
use super::load::Load;

/// The time in which gateways say that the database is away, or is back.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// The load before the end of the server, and after the failover.
const QUIET_TIME: Duration = Duration::from_secs(5);

pub(super) const FAILOVER: [Row; 1] = [Row::new(
    "failover: kill -9 of PostgreSQL under load, and promotion of its standby: no call fails",
    failover,
)];

fn failover(cluster: &mut Cluster<'_>) -> anyhow::Result<String> {
    let client = cluster.client.clone();
    let shutdown = &cluster.layout.shutdown;
    let [session, ended] = [client.session(0)?, client.session(0)?];
    let compute = json!({"name": "slow_compute", "arguments": {"seconds": 120}});
    let made = client.modern(0, "tools/call", compute)?;
    let task = json!({"taskId": made["result"]["taskId"]});
    let load = Load::start(&client);
    thread::sleep(QUIET_TIME);
    let all_are = |is_ready: bool| {
        let ready = |at| client.page(at, "/readyz").map_or(0, |(status, _)| status);
        shutdown.wait_until(READY_TIMEOUT, || {
            (0..REPLICAS).all(|at| (ready(at) == 200) == is_ready)
        })
    };
    cluster.kill_database()?;
    let killed = Instant::now();
    ensure!(all_are(false), "/readyz stays 200 without a database");
    let told = killed.elapsed();
    cluster.promote()?;
    let promoted = Instant::now();
    ensure!(all_are(true), "/readyz does not come back");
    let back = promoted.elapsed();
    thread::sleep(QUIET_TIME);
    // Sessions and tasks are in use at the other server.
    ensure!(client.delete(1, &ended)? == 204, "a session does not end");
    for at in 0..REPLICAS {
        let listed = client.ask(at, &session, "tools/list", json!({}))?;
        ensure!(listed["result"]["tools"].is_array(), "{listed}");
        let found = client.modern(at, "tasks/get", task.clone())?;
        ensure!(found["result"]["status"] == "working", "{found}");
        ensure!(client.delete(at, &ended)? == 404, "a session goes on");
        let status = client.call(at, "", "gateway_status", json!({}))?;
        let status = &status["result"]["structuredContent"];
        ensure!(status["event_log"]["status"] == "ok", "{status}");
        ensure!(status["other_gateways"] == REPLICAS - 1, "{status}");
    }
    let compute = json!({"name": "slow_compute", "arguments": {"seconds": 1}});
    let made = client.modern(2, "tools/call", compute)?;
    let task = json!({"taskId": made["result"]["taskId"]});
    let has_ended = shutdown.wait_until(READY_TIMEOUT, || {
        let found = client.modern(1, "tasks/get", task.clone());
        found.is_ok_and(|found| found["result"]["status"] == "completed")
    });
    ensure!(has_ended, "a task does not end");
    let measured = load.stop();
    ensure!(measured.failures() == 0, "{}", measured.shown());
    let (told, back) = (told.as_millis(), back.as_millis());
    Ok(format!(
        "{}; /readyz told it after {told} ms, and was 200 at all {back} ms after the promotion",
        measured.shown()
    ))
}
