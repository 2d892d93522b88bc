//! The gateway's own command-line options.

use std::path::{Path, PathBuf};

use super::{Config, ConfigError, ConfigSource};
use crate::events;

/// Options of `mcp-gateway`.
#[derive(clap::Args)]
#[command(next_help_heading = "Gateway")]
// The default id is the name of the struct, which the options of `mcp-serve` have as well.
#[group(id = "gateway")]
pub struct Options {
    /// File with the backends: TOML, or the mcp.json of another host. Changes are applied while the
    /// gateway runs.
    #[arg(long, env = "MCP_GATEWAY_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// A backend: `NAME=COMMAND` starts it, `NAME=URL` connects to it; can be repeated. Without this
    /// and without a file: the n8n, OpenHands and Docker servers on this machine.
    #[arg(
        long,
        env = "MCP_GATEWAY_BACKENDS",
        value_name = "NAME=COMMAND|URL",
        value_delimiter = '\n'
    )]
    backend: Vec<String>,
    /// Store of events: a file, `memory`, or the URL of a PostgreSQL database [default: a file in the
    /// user's state folder].
    #[arg(
        long,
        env = "MCP_GATEWAY_EVENTS",
        value_name = "STORE",
        hide_env_values = true
    )]
    events: Option<String>,
}

impl Options {
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
        let events = self.events.filter(|text| !blank(text));
        if let Some(text) = &events {
            base.events =
                super::parse_store(text, Path::new("")).map_err(|problem| ConfigError {
                    origin: "--events".to_owned(),
                    line: None,
                    field: String::new(),
                    problem: problem.to_owned(),
                })?;
        }
        ConfigSource::open(file, cli_backends, base, events.is_some())
    }
}

/// `$XDG_STATE_HOME/mcp-gateway/events.db`; in memory if neither that variable nor `HOME` is set.
fn default_store() -> events::StoreLocation {
    let set = |name| std::env::var_os(name).filter(|path| !path.is_empty());
    let folder = |name| set(name).map(PathBuf::from);
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")));
    state.map_or(events::StoreLocation::Memory, |state| {
        events::StoreLocation::File(state.join("mcp-gateway/events.db"))
    })
}
