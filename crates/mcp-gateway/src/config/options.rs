//! The gateway's own command-line options.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gateway_store::events::StoreLocation;

use super::{Config, ConfigError, ConfigSource};

/// Options of `mcp-gateway`.
#[derive(Clone, clap::Args)]
#[command(next_help_heading = "Gateway")]
// The default id is the name of the struct, which the options of `mcp-serve` have as well.
#[group(id = "gateway")]
#[cfg_attr(
    not(any(target_os = "linux", windows)),
    command(
        after_help = "On this system a gateway that is killed closes the stdin of its backends' processes, but cannot \
                      end those that go on without it."
    )
)]
pub(crate) struct Options {
    /// File with the backends: TOML, or the mcp.json of another host.
    ///
    /// Changes are applied while the gateway runs.
    #[arg(long, env = "MCP_GATEWAY_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// A backend: `NAME=COMMAND` starts it, `NAME=URL` connects to it; can be repeated.
    ///
    /// Without this and without a file: the n8n, OpenHands and Docker servers on this machine.
    #[arg(
        long,
        env = "MCP_GATEWAY_BACKENDS",
        value_name = "NAME=COMMAND|URL",
        value_delimiter = '\n'
    )]
    backend: Vec<String>,
    /// Store of events: a file, `memory`, or the URL of a PostgreSQL database, which several gateways can share; they need
    /// the same --session-key, of 32 characters or more [default: a file in the user's state folder].
    #[arg(
        long,
        env = "MCP_GATEWAY_EVENTS",
        value_name = "STORE",
        hide_env_values = true
    )]
    #[arg(hide_short_help = true)]
    events: Option<String>,
    /// Milliseconds between two probes of a backend over HTTP, for tests.
    #[arg(long, hide = true, value_name = "MILLISECONDS")]
    probe_interval: Option<u64>,
}

impl Options {
    /// Every problem of the options and of the file.
    pub(crate) fn problems(&self) -> Vec<ConfigError> {
        let Err(first) = self.clone().load() else {
            return Vec::new();
        };
        let file = self.config.as_deref();
        let mut all = file
            .map(|file| ConfigSource::problems(file, &Config::default()))
            .unwrap_or_default();
        if !all.contains(&first) {
            all.insert(0, first);
        }
        all
    }

    /// Reads the configuration. The source reports its later changes.
    ///
    /// # Errors
    /// The error in the options or in the file.
    pub(crate) fn load(self) -> Result<(Config, ConfigSource), ConfigError> {
        let blank = |text: &String| text.trim().is_empty();
        let file = self.config.filter(|path| !path.as_os_str().is_empty());
        let cli_backends = self
            .backend
            .into_iter()
            .filter(|text| !blank(text))
            .collect();
        let mut base = Config {
            events: default_store(),
            ..Config::default()
        };
        if let Some(interval) = self.probe_interval {
            base.probe_interval = Duration::from_millis(interval);
        }
        let events = self.events.filter(|text| !blank(text));
        if let Some(text) = &events {
            base.events =
                StoreLocation::parse(text, Path::new("")).map_err(|problem| ConfigError {
                    origin: "--events".to_owned(),
                    line: None,
                    field: String::new(),
                    problem: problem.to_owned(),
                })?;
        }
        ConfigSource::open(file, cli_backends, base, events.is_some())
    }
}

/// `mcp-gateway/events.db` in the user's folder for state; in memory if there is none.
fn default_store() -> StoreLocation {
    mcp_serve::state_folder().map_or(StoreLocation::Memory, |state| {
        StoreLocation::File(state.join("mcp-gateway/events.db"))
    })
}
