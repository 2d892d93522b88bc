//! One instance of a local service: its folder, its port, and the lock on both.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};

use crate::console::Heartbeat;
use crate::layout::{Layout, create_dir};
use crate::process::{Process, Program};
use crate::reaper;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// For a person; keeps its data.
    RunAll,
    /// For one run of the tests: isolated, and removed afterwards.
    Test,
}

/// The place of a local service while it runs; no other process uses it.
#[derive(Debug)]
pub(crate) struct Instance {
    service: &'static str,
    /// A name that no other instance has.
    pub(crate) name: String,
    pub(crate) purpose: Purpose,
    /// The folder of its data and keys.
    pub(crate) dir: PathBuf,
    /// Its port on loopback; unused by an engine.
    pub(crate) port: u16,
    _lock: File,
}

impl Instance {
    /// Locks the instance of this name, with this port if it is free, and ends the processes that a
    /// killed run has left there.
    ///
    /// # Errors
    /// When another process has it.
    pub(crate) fn lock(
        layout: &Layout,
        service: &'static str,
        purpose: Purpose,
        port: u16,
    ) -> anyhow::Result<Self> {
        let (folder, port) = match purpose {
            Purpose::RunAll => ("run-all", port),
            Purpose::Test => ("test", 0),
        };
        let folder = format!("{folder}/{service}");
        let dir = layout.backends().join(&folder);
        create_dir(&dir)?;
        // Container runtimes refuse paths with symbolic links in them.
        let dir = dir.canonicalize()?;
        let lock = File::create(dir.with_extension("lock"))?;
        if lock.try_lock().is_err() {
            bail!("another cargo xtask is using the local {folder}; end that one first");
        }
        let mut instance = Self {
            service,
            name: folder.replace('/', "-"),
            purpose,
            dir,
            port,
            _lock: lock,
        };
        for mark in [instance.mark_of_server(), instance.mark()] {
            if reaper::end_leftovers(&mark) {
                print_as!(
                    "xtask",
                    "ended processes that a killed run had left in {folder}"
                );
            }
        }
        instance.port = free_port(port)?;
        File::create(instance.log(layout)?)?;
        Ok(instance)
    }

    /// Starts the service and returns when it is ready; its output goes to the log.
    pub(crate) fn start(
        &self,
        layout: &Layout,
        step: &str,
        timeout: Duration,
        program: Program,
        mut ready: impl FnMut() -> bool,
    ) -> anyhow::Result<Process> {
        let mut heartbeat = Heartbeat::start(self.service, step);
        let log = self.log(layout)?;
        let program = program.marked(self.mark()).log_to(&log)?;
        let mut process = program.spawn()?;
        let started = process.wait_ready(&layout.shutdown, &log, timeout, || {
            heartbeat.beat();
            ready()
        });
        if layout.shutdown.requested() {
            heartbeat.stopped();
        }
        started?;
        heartbeat.succeeded();
        Ok(process)
    }

    /// Returns the log of the service.
    pub(crate) fn log(&self, layout: &Layout) -> anyhow::Result<PathBuf> {
        layout.log(&format!("service-{}", self.name))
    }

    pub(crate) fn clear(&self) -> anyhow::Result<()> {
        clear_dir(&self.dir)
    }

    /// Returns the address of an HTTP service.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn mark(&self) -> OsString {
        self.dir.clone().into_os_string()
    }

    pub(crate) fn mark_of_server(&self) -> OsString {
        self.dir.with_extension("server").into_os_string()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

/// Creates an empty folder, or empties an existing one.
pub(crate) fn clear_dir(dir: &Path) -> anyhow::Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("could not remove {}", dir.display()))?;
    }
    create_dir(dir)
}

/// Returns the preferred port if it is free, else any other; 0 stands for no preference.
pub(crate) fn free_port(preferred: u16) -> anyhow::Result<u16> {
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port))?.local_addr();
    let address = bind(preferred)
        .or_else(|_| bind(0))
        .context("no free port")?;
    Ok(address.port())
}
