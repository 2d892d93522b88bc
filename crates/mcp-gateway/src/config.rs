//! The configuration: the backends and the settings of the gateway.
//!
//! [`Options`] is the command line; [`Options::load`] reads it and the file that it names into a
//! [`Config`] and a [`ConfigSource`], which reports every later change of that file. The file is TOML,
//! or the `mcp.json` of an MCP host. An error in it is a [`ConfigError`].

mod backend;
mod file;
mod lost;
mod mcp_json;
mod reader;
mod roles;
mod source;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gateway_access::{Roles, Rule, View};
pub(crate) use gateway_approvals::approvals::ApprovalConfig;
pub(crate) use gateway_approvals::pins::{FirstSight, PinMode, PinPolicy};
use gateway_store::events;

pub(crate) use self::backend::{
    BackendConfig, BackendKey, Child, DisabledReason, Isolation, MAX_NAME_LEN, Remote,
    RemoteTransport, Secret, Target, is_portable,
};
pub(crate) use self::file::{OAuthSettings, schema};
pub(crate) use self::reader::ConfigError;
pub(crate) use self::source::{ConfigSource, Options};

/// The default of `start_timeout`.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval of the probes of a backend over HTTP: with the interval at which the gateway looks at its own state, 5 s, a
/// dead one is shown after 20 s.
const PROBE_INTERVAL: Duration = Duration::from_secs(15);

/// The default of `max_in_flight`.
const MAX_IN_FLIGHT: u32 = 64;

/// The default of `max_instances`.
const MAX_INSTANCES: u32 = 16;

/// The same where `isolation` is not set, so that nobody has thought of the number of tokens.
const MAX_INSTANCES_UNSET: u32 = 64;

/// The configuration of the gateway. Has no `Debug`, since backends may hold secrets.
#[derive(Clone, PartialEq)]
pub(crate) struct Config {
    /// All backends, also disabled ones.
    pub(crate) backends: BTreeMap<BackendKey, BackendConfig>,
    /// With more published tools than this, the search tools are listed instead of them.
    pub(crate) search_above: Option<usize>,
    pub(crate) approvals: ApprovalConfig,
    /// For backends that set nothing else.
    pub(crate) pins: PinPolicy,
    pub(crate) events: events::StoreLocation,
    pub(crate) retention: events::Retention,
    /// The tools and the names of their arguments whose values are recorded.
    pub(crate) record: Vec<(Rule, Rule)>,
    /// `None` if every caller may use everything.
    pub(crate) roles: Option<Arc<Roles>>,
    /// In the order of their names.
    pub(crate) views: Vec<Arc<View>>,
    /// Interval at which backends over HTTP are asked whether they are there.
    pub(crate) probe_interval: Duration,
}

impl Config {
    /// The view with this name.
    pub(crate) fn view(&self, name: &str) -> Option<&Arc<View>> {
        self.views.iter().find(|view| *view.name == *name)
    }

    /// The backends that are not used, and the reason of each.
    pub(crate) fn disabled(&self) -> impl Iterator<Item = (&BackendKey, &DisabledReason)> {
        let backends = self.backends.iter();
        backends.filter_map(|(key, backend)| Some((key, backend.disabled.as_ref()?)))
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            backends: BTreeMap::new(),
            search_above: None,
            approvals: ApprovalConfig::default(),
            pins: PinPolicy::default(),
            events: events::StoreLocation::Memory,
            retention: events::Retention::default(),
            record: Vec::new(),
            roles: None,
            views: Vec::new(),
            probe_interval: PROBE_INTERVAL,
        }
    }
}

#[cfg(test)]
mod tests;
