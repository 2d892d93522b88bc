//! One backend, as it is configured.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::{Filter, Secret};

/// A backend. Has no `Debug`: arguments, addresses and variables may hold secrets.
#[derive(Clone, PartialEq)]
pub struct Backend {
    /// How it is reached.
    pub target: Target,
    /// Which of its items are published.
    pub filter: Filter,
    /// Its items keep their names, without `KEY__` before them.
    pub bare: bool,
    /// What a call may take; the server's own limit where it is not set.
    pub timeout: Option<Duration>,
    /// What its start may take, up to the first lists.
    pub start_timeout: Duration,
    /// How long it may run without being asked for anything; then it is ended, and started again
    /// when it is. Only of a child.
    pub idle_timeout: Option<Duration>,
    /// Requests that may be under way at it; more wait for a while.
    pub max_in_flight: u32,
    /// Why it is not used; `None` for one that is.
    pub disabled: Option<String>,
}

/// How a backend is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum Target {
    /// A child process that speaks MCP on its stdin and stdout.
    Child(Child),
    /// Streamable HTTP.
    Http(Remote),
    /// JSON-RPC over POST without a handshake, the kind of server that seed 000 describes.
    Rpc(Remote),
}

/// A child process. No shell is involved.
#[derive(Clone, PartialEq, Eq)]
pub struct Child {
    /// The program and its arguments; at least the program.
    pub argv: Vec<String>,
    /// Variables that it gets beside `PATH`, `HOME` and the like.
    pub env: BTreeMap<String, Secret>,
    /// Variables of the gateway that it gets too, where they are set.
    pub env_pass: Vec<String>,
    /// Where it runs; where the gateway runs unless set.
    pub cwd: Option<PathBuf>,
}

/// A server on the network.
#[derive(Clone, PartialEq, Eq)]
pub struct Remote {
    /// Its address, `http` or `https`.
    pub url: String,
    /// What every request carries.
    pub headers: BTreeMap<String, Secret>,
    /// Sent as `Authorization: Bearer TOKEN`.
    pub token: Option<Secret>,
}

impl Backend {
    pub(super) fn new(target: Target) -> Self {
        Self {
            target,
            filter: Filter::default(),
            bare: false,
            timeout: None,
            start_timeout: super::START_TIMEOUT,
            idle_timeout: None,
            max_in_flight: super::MAX_IN_FLIGHT,
            disabled: None,
        }
    }

    /// True for a child process.
    pub fn is_child(&self) -> bool {
        matches!(self.target, Target::Child(_))
    }
}

impl Child {
    pub(super) fn new(argv: Vec<String>) -> Self {
        Self {
            argv,
            env: BTreeMap::new(),
            env_pass: Vec::new(),
            cwd: None,
        }
    }
}

impl Remote {
    pub(super) fn new(url: String) -> Self {
        Self {
            url,
            headers: BTreeMap::new(),
            token: None,
        }
    }
}
