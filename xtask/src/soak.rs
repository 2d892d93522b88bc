//! `cargo xtask soak`: many clients call three stdio backends through the gateway for some minutes; each
//! gets its own answers, and the gateway's memory and open files do not grow. The clients are
//! `tests/soak`.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::args::Options;
use crate::cargo;
use crate::console::Heartbeat;
use crate::instance::clear_dir;
use crate::layout::Layout;
use crate::process::Program;
use crate::servers::Gateway;
use crate::test_server;

const BACKENDS: [&str; 3] = ["a", "b", "c"];

const DEFAULT_MINUTES: u16 = 5;

/// Growth in the second half that is not counted as a leak: clients that connect again at that moment,
/// and pages of the allocator.
const MAX_GROWTH: f64 = 1.1;

/// Fewer calls say nothing about memory: the event log's cache fills for about the first 50,000.
const MIN_JUDGED_CALLS: u64 = 100_000;

pub(crate) fn run(layout: &Layout, options: &Options) -> anyhow::Result<ExitCode> {
    if !cargo::run(layout, cargo::BUILD, &[])? {
        return Ok(ExitCode::FAILURE);
    }
    let dir = layout.backends().join("soak");
    clear_dir(&dir)?;
    let fixture = test_server::binary(layout);
    let backend = |key| format!("[backends.{key}]\ncommand = [{fixture:?}, \"--stdio\"]\n");
    let config = dir.join("gateway.toml");
    fs::write(&config, BACKENDS.map(backend).concat())?;
    let events = dir.join("events.db");
    let env = [
        ("MCP_GATEWAY_CONFIG", &*config.to_string_lossy()),
        ("MCP_GATEWAY_EVENTS", &*events.to_string_lossy()),
    ];
    let gateway = test_server::start(layout, Gateway::PROGRAM, "soak-gateway", &env)?;
    let pid = gateway.process.pid().context("no process id")?;
    let seconds = 60 * options.minutes.unwrap_or(DEFAULT_MINUTES);
    let log = layout.fresh_log("soak")?;
    let words = format!("--port {} --pid {pid} --seconds {seconds}", gateway.port);
    let has_succeeded = Program::new(layout.binaries(false).join("soak-load"))?
        .words(&words)
        .args(BACKENDS.map(|key| format!("--backend={key}")))
        .log_to(&log)?
        .succeeds(&layout.shutdown, Some(Heartbeat::start("soak", "calls")))?;
    let output = fs::read_to_string(&log)?;
    ensure!(has_succeeded, "the load failed: {}", output.trim());
    let measured: Value = serde_json::from_str(&output)?;
    print_line!("{measured:#}");
    let is_flat = |field| {
        let [half, end] = [1, 2].map(|n| measured["samples"][n][field].as_f64());
        half.zip(end)
            .is_some_and(|(half, end)| end <= half * MAX_GROWTH)
    };
    let is_judged = measured["calls"].as_u64() >= Some(MIN_JUDGED_CALLS);
    if !is_judged {
        print_line!("fewer than {MIN_JUDGED_CALLS} calls: memory is not judged");
    }
    let is_good = measured["misdelivered"] == 0
        && measured["failed"] == 0
        && is_flat("open_files")
        && (!is_judged || is_flat("memory_kib"));
    print_line!("{}", if is_good { "ok" } else { "FAILED" });
    Ok(cargo::exit_code(is_good))
}
