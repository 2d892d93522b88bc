//! One instance of a local service: its folder, its port, and the lock on both.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::console::Heartbeat;
use crate::layout::{self, create_dir};
use crate::process::{Process, Program, end_leftovers};
use crate::{secrets, shutdown};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// For a person; keeps its data.
    RunAll,
    /// For one run of the tests: isolated, and removed afterwards.
    Test,
}

/// The place of a local service while it runs; no other process uses it.
pub(crate) struct Instance {
    pub(crate) service: &'static str,
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
    /// Locks the instance, with this port if it is free, and ends the processes that a killed run has left there.
    pub(crate) fn lock(service: &'static str, purpose: Purpose, port: u16) -> Result<Self> {
        let (folder, port) = match purpose {
            Purpose::RunAll => ("run-all", port),
            Purpose::Test => ("test", 0),
        };
        let folder = format!("{folder}/{service}");
        let dir = layout::backends().join(&folder);
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
            if end_leftovers(&mark) {
                let text = "ended processes that a killed run had left in";
                print_as!("xtask", "{text} {folder}");
            }
        }
        instance.port = free_port(port)?;
        File::create(instance.log()?)?;
        Ok(instance)
    }

    /// Starts the service and returns when it is ready; its output goes to the log.
    pub(crate) fn start(
        &self,
        step: &str,
        timeout: Duration,
        program: Program,
        mut ready: impl FnMut() -> bool,
    ) -> Result<Process> {
        let mut heartbeat = Heartbeat::start(self.service, step);
        let log = self.log()?;
        let program = program.marked(self.mark()).log_to(&log)?;
        let mut process = program.spawn()?;
        let started = process.wait_ready(&log, timeout, || {
            heartbeat.beat();
            ready()
        });
        if shutdown::requested() {
            heartbeat.stopped();
        }
        started?;
        heartbeat.succeeded();
        Ok(process)
    }

    pub(crate) fn log(&self) -> Result<PathBuf> {
        layout::log(&format!("service-{}", self.name))
    }

    pub(crate) fn clear(&self) -> Result<()> {
        clear_dir(&self.dir)
    }

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

    /// Returns the secret in one of its files, or nothing.
    pub(crate) fn secret(&self, name: &str) -> OsString {
        secrets::read(&self.file(name)).unwrap_or_default().into()
    }
}

/// Creates an empty folder, or empties an existing one.
pub(crate) fn clear_dir(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("could not remove {}", dir.display()))?;
    }
    create_dir(dir)
}

/// Returns the preferred port if it is free, else any other; 0 stands for no preference.
pub(crate) fn free_port(preferred: u16) -> Result<u16> {
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port))?.local_addr();
    let address = bind(preferred).or_else(|_| bind(0));
    Ok(address.context("no free port")?.port())
}
