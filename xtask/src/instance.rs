//! One instance of a local service: its folder, its port, and the lock on both.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};

use crate::console::{self, Heartbeat};
use crate::guard;
use crate::layout::{Layout, create_dir};
use crate::process::{Process, Program};

/// What a local service is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// For a person, who finds her data again next time.
    RunAll,
    /// For one run of the tests: cut off from everything else, gone afterwards.
    Test,
}

/// Where a local service lives while it runs. Nobody else uses it as long as this exists.
#[derive(Debug)]
pub(crate) struct Instance {
    /// Its name among those that may run at a time.
    pub(crate) name: String,
    /// What it is for.
    pub(crate) purpose: Purpose,
    /// Its data and keys.
    pub(crate) dir: PathBuf,
    /// Its port on loopback; an engine has none.
    pub(crate) port: u16,
    _lock: File,
}

/// How a service starts.
pub(crate) struct Start<'a> {
    /// Stands before the lines about it.
    pub(crate) who: &'static str,
    /// What is being done.
    pub(crate) step: String,
    /// Where its output goes.
    pub(crate) log: &'a Path,
    /// How long it may take.
    pub(crate) timeout: Duration,
}

impl Instance {
    /// Takes the instance of this name, with this port if it is free, and ends what a killed run left
    /// running there.
    ///
    /// # Errors
    /// When another process has it.
    pub(crate) fn take(
        layout: &Layout,
        name: &str,
        purpose: Purpose,
        port: u16,
    ) -> anyhow::Result<Self> {
        let (folder, port) = match purpose {
            Purpose::RunAll => ("run-all", port),
            Purpose::Test => ("test", 0),
        };
        let folder = format!("{folder}/{name}");
        let dir = layout.backends().join(&folder);
        create_dir(&dir)?;
        // Container runtimes refuse paths with symbolic links in them.
        let dir = dir.canonicalize()?;
        let lock = File::create(dir.with_extension("lock"))?;
        if lock.try_lock().is_err() {
            bail!("another cargo xtask is using the local {folder}; end that one first");
        }
        let mut instance = Self {
            name: folder.replace('/', "-"),
            purpose,
            dir,
            port,
            _lock: lock,
        };
        for mark in [instance.mark_of_server(), instance.mark()] {
            if guard::end_leftover(&mark) {
                let text = format_args!("ended what a killed run had left running as {folder}");
                console::say("xtask", text);
            }
        }
        instance.port = free_port(port)?;
        Ok(instance)
    }

    /// Starts the service and returns when it can be used.
    pub(crate) fn start(
        &self,
        layout: &Layout,
        start: Start<'_>,
        program: Program,
        mut ready: impl FnMut() -> bool,
    ) -> anyhow::Result<Process> {
        let mut beat = Heartbeat::start(start.who, start.step);
        let program = program.marked(self.mark()).log_to(start.log)?;
        let mut process = program.spawn()?;
        process.wait_ready(&layout.stop, start.log, start.timeout, || {
            beat.beat();
            ready()
        })?;
        Ok(process)
    }

    /// Forgets everything that an earlier service in this place kept.
    pub(crate) fn clear(&self) -> anyhow::Result<()> {
        if self.dir.exists() {
            fs::remove_dir_all(&self.dir)
                .with_context(|| format!("could not remove {}", self.dir.display()))?;
        }
        create_dir(&self.dir)
    }

    /// Returns the address of the service, for one that speaks HTTP.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns the mark of the service's processes.
    pub(crate) fn mark(&self) -> OsString {
        self.dir.clone().into_os_string()
    }

    /// Returns the mark of the server in front of it.
    pub(crate) fn mark_of_server(&self) -> OsString {
        self.dir.with_extension("server").into_os_string()
    }

    /// Returns the path of a file in its folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

/// Returns the wished port when it is free, else any other; 0 wishes nothing.
pub(crate) fn free_port(wished: u16) -> anyhow::Result<u16> {
    let bind = |port| {
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).and_then(|listener| listener.local_addr())
    };
    let address = bind(wished).or_else(|_| bind(0)).context("no free port")?;
    Ok(address.port())
}
