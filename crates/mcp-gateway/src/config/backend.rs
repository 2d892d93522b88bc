//! One backend, as it is configured.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::{Filter, Secret};

/// A backend. Has no `Debug`: arguments, addresses and variables may hold secrets.
#[derive(Clone, PartialEq)]
pub(crate) struct Backend {
    /// How it is reached.
    pub(crate) target: Target,
    /// Which of its items are published.
    pub(crate) filter: Filter,
    /// Its items keep their names, without `KEY__` before them.
    pub(crate) bare: bool,
    /// What a call may take; the server's own limit where it is not set.
    pub(crate) timeout: Option<Duration>,
    /// What its start may take, up to the first lists.
    pub(crate) start_timeout: Duration,
    /// How long it may run without being asked for anything; then it is ended, and started again
    /// when it is. Only of a child.
    pub(crate) idle_timeout: Option<Duration>,
    /// Requests that may be under way at it; more wait for a while.
    pub(crate) max_in_flight: u32,
    /// Why it is not used; `None` for one that is.
    pub(crate) disabled: Option<String>,
}

/// How a backend is reached.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// A child process that speaks MCP on its stdin and stdout.
    Child(Child),
    /// Streamable HTTP.
    Http(Remote),
    /// JSON-RPC over POST without a handshake, the kind of server that seed 000 describes.
    Rpc(Remote),
}

/// A child process. No shell is involved.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Child {
    /// The program and its arguments; at least the program.
    pub(crate) argv: Vec<String>,
    /// Variables that it gets beside `PATH`, `HOME` and the like.
    pub(crate) env: BTreeMap<String, Secret>,
    /// Variables of the gateway that it gets too, where they are set.
    pub(crate) env_pass: Vec<String>,
    /// Where it runs; where the gateway runs unless set.
    pub(crate) cwd: Option<PathBuf>,
}

/// A server on the network.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Remote {
    /// Its address, `http` or `https`.
    pub(crate) url: String,
    /// What every request carries.
    pub(crate) headers: BTreeMap<String, Secret>,
    /// Sent as `Authorization: Bearer TOKEN`.
    pub(crate) token: Option<Secret>,
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
    pub(crate) fn is_child(&self) -> bool {
        matches!(self.target, Target::Child(_))
    }
}
