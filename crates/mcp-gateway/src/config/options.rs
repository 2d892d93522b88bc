//! The command line of the gateway, as far as it is not every server's.

use std::path::{Path, PathBuf};

use super::{Config, ConfigError, Source};
use crate::events;

/// Options of `mcp-gateway`.
#[derive(clap::Args)]
#[command(next_help_heading = "Gateway")]
// clap names the group after the struct, and the options of the edges have a struct of that name.
#[group(id = "gateway")]
pub struct Options {
    /// File that says which backends there are: TOML, or the mcp.json of another host. Changes are
    /// taken over while the gateway runs.
    #[arg(long, env = "MCP_GATEWAY_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// A backend: `NAME=COMMAND` starts one, `NAME=URL` reaches one; several times for several. With
    /// neither this nor a file: the n8n, OpenHands and Docker servers on this machine.
    #[arg(
        long,
        env = "MCP_GATEWAY_BACKENDS",
        value_name = "NAME=COMMAND|URL",
        value_delimiter = '\n'
    )]
    backend: Vec<String>,
    /// Where events are kept: a file, `memory`, or the address of a PostgreSQL database [default: a
    /// file in the state folder of the user].
    #[arg(
        long,
        env = "MCP_GATEWAY_EVENTS",
        value_name = "STORE",
        hide_env_values = true
    )]
    events: Option<String>,
}

impl Options {
    /// The configuration, and what tells of its changes.
    ///
    /// # Errors
    /// What is wrong with the options or the file.
    pub(crate) fn load(self) -> Result<(Config, Source), ConfigError> {
        let blank = |text: &String| text.trim().is_empty();
        let file = self.config.filter(|path| !path.as_os_str().is_empty());
        let quick = self
            .backend
            .into_iter()
            .filter(|text| !blank(text))
            .collect();
        let mut base = Config {
            events: kept(),
            ..Config::default()
        };
        let events = self.events.filter(|text| !blank(text));
        if let Some(text) = &events {
            base.events = super::store(text, Path::new("")).map_err(|what| ConfigError {
                place: "--events".to_owned(),
                line: None,
                field: String::new(),
                problem: what.to_owned(),
            })?;
        }
        Source::open(file, quick, base, events.is_some())
    }
}

/// `$XDG_STATE_HOME/mcp-gateway/events.db`; in memory where there is no place for it.
fn kept() -> events::StoreLocation {
    let folder = |name| {
        std::env::var_os(name)
            .filter(|path| !path.is_empty())
            .map(PathBuf::from)
    };
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")));
    state.map_or(events::StoreLocation::Memory, |state| {
        events::StoreLocation::File(state.join("mcp-gateway/events.db"))
    })
}
