//! A second server that copies the first one, and takes its place after its end.

use std::fs;

use anyhow::Context;

use super::{Postgres, SERVER_OPTIONS, START_TIMEOUT, data_folder, program};
use crate::console::Heartbeat;
use crate::instance::Instance;
use crate::layout::Layout;
use crate::process::{Process, last_line};

/// The folder of its files in that of the instance.
const FOLDER: &str = "standby";

impl Postgres {
    /// Starts a server on another port that follows the one of this instance.
    pub(crate) fn start_standby(
        &self,
        layout: &Layout,
        instance: &Instance,
        port: u16,
    ) -> anyhow::Result<Process> {
        let data = data_folder(instance, FOLDER)?;
        let log = layout.fresh_log("service-standby")?;
        let primary = instance.port;
        let copied = program(layout, instance, "pg_basebackup")?
            .words(&format!(
                "-h 127.0.0.1 -p {primary} -U mcp -R -X stream -c fast --no-sync -D"
            ))
            .args([&data])
            .log_to(&log)?
            .run(
                &layout.shutdown,
                Heartbeat::start("postgres", "pg_basebackup"),
            );
        copied.with_context(|| format!("pg_basebackup: {}", last_line(&log)))?;
        let mut standby = program(layout, instance, "postgres")?
            .args(["-D".as_ref(), data.as_os_str()])
            .words(SERVER_OPTIONS)
            .args([port.to_string()])
            .log_to(&log)?
            .spawn()?;
        standby.wait_ready(&layout.shutdown, &log, START_TIMEOUT, || {
            let output = fs::read_to_string(&log).unwrap_or_default();
            output.contains("ready to accept read") && output.contains("started streaming")
        })?;
        Ok(standby)
    }

    /// Makes the standby the primary.
    pub(crate) fn promote(&self, layout: &Layout, instance: &Instance) -> anyhow::Result<()> {
        let log = layout.log("service-standby")?;
        program(layout, instance, "pg_ctl")?
            .words("promote -D")
            .args([instance.file(FOLDER)])
            .log_to(&log)?
            .run(
                &layout.shutdown,
                Heartbeat::start("postgres", "pg_ctl promote"),
            )
            .with_context(|| format!("pg_ctl promote: {}", last_line(&log)))
    }
}
