//! The part `soak` of `cargo xtask nightly`: many clients, `tests/soak`, call three stdio backends through the gateway for
//! some minutes; each gets its own answers, and the gateway's memory and open files do not grow.

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::console::Heartbeat;
use crate::instance::clear_dir;
use crate::process::Program;
use crate::{checks, layout, test_server};

const BACKENDS: [&str; 3] = ["a", "b", "c"];

const SECONDS: u32 = 300;

/// Growth in the second half that is no leak: clients that connect again at that moment, and pages of the allocator.
const MAX_GROWTH: f64 = 1.1;

/// Fewer calls say nothing about memory: the event log's cache fills for about the first 50,000.
const MIN_CALLS: u64 = 100_000;

pub(crate) fn run() -> Result<()> {
    checks::build()?;
    let fixture = test_server::binary();
    let backend = |key| format!("[backends.{key}]\ncommand = [{fixture:?}, \"--stdio\"]\n");
    let config = BACKENDS.map(backend).concat();
    let dir = layout::backends().join("soak");
    clear_dir(&dir)?;
    let events = dir.join("events.db");
    let events = events.to_string_lossy();
    let gateway = test_server::start_gateway("soak-gateway", &config, &events)?;
    let (port, pid) = (gateway.port, gateway.process.pid);
    let load = Program::new(layout::binaries(false).join("soak-load"))
        .words(&format!("--port {port} --pid {pid} --seconds {SECONDS}"))
        .args(BACKENDS.map(|key| format!("--backend={key}")))
        .logged("soak", Some(Heartbeat::start("soak", "calls")))?;
    let output = load.output.trim();
    ensure!(load.has_succeeded, "the load failed: {output}");
    let measured: Value = serde_json::from_str(output)?;
    print_line!("{measured:#}");
    let is_flat = |field| {
        let [half, end] = [1, 2].map(|n| measured["samples"][n][field].as_f64());
        half.is_some() && end <= half.map(|half| half * MAX_GROWTH)
    };
    let calls = measured["calls"].as_u64();
    ensure!(
        calls >= Some(MIN_CALLS),
        "memory cannot be judged by fewer than {MIN_CALLS} calls: run it on a machine with nothing else"
    );
    let is_good = measured["misdelivered"] == 0
        && measured["failed"] == 0
        && is_flat("open_files")
        && is_flat("memory_kib");
    ensure!(is_good, "wrong or failed answers, or growth");
    Ok(())
}
