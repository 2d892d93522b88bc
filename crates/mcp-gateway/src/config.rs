//! Which backends there are, and how the gateway treats them.
//!
//! [`Options`] is the command line; [`Options::load`] reads it, with the file that it names, into a
//! [`Config`] and a [`Source`], which tells of every later change of that file. A file is either ours
//! (TOML) or that of another host (`mcp.json`); what is wrong with it is a [`ConfigError`].

mod backend;
mod cli_backend;
mod duration;
mod error;
mod expand;
mod file;
mod filter;
mod key;
mod mcp_json;
mod options;
mod reader;
mod secret;
mod source;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::events;

pub(crate) use self::backend::{Backend, Child, Remote, Target};
pub(crate) use self::error::ConfigError;
pub(crate) use self::filter::Filter;
pub(crate) use self::key::BackendKey;
pub(crate) use self::options::Options;
pub(crate) use self::secret::Secret;
pub(crate) use self::source::Source;

/// What the start of a backend may take, unless set.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// How many requests may be under way at a backend, unless set.
const MAX_IN_FLIGHT: u32 = 64;

/// How the gateway is configured. Has no `Debug`, as its backends have none.
#[derive(Clone, PartialEq)]
pub(crate) struct Config {
    /// The backends, those that are not used included.
    pub(crate) backends: BTreeMap<BackendKey, Backend>,
    /// With more published tools than this, a search takes the place of their definitions; `None`
    /// for never.
    pub(crate) search_above: Option<usize>,
    /// What is done about a tool that is not what it was.
    pub(crate) tool_changes: ToolChanges,
    /// Where events are kept …
    pub(crate) events: events::StoreLocation,
    /// … and how many of them.
    pub(crate) retention: events::Retention,
}

/// What is done about a tool whose description or schema is not what it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ToolChanges {
    /// An event is recorded.
    #[default]
    Warn,
    /// The tool is not published either, until its backend is restarted by somebody.
    Block,
}

/// The store that a text names: `memory`, an address of PostgreSQL, or a file.
fn store(text: &str, folder: &Path) -> Result<events::StoreLocation, &'static str> {
    match text.trim() {
        "" => Err("names no store: a file, `memory`, or postgres://USER:PASSWORD@HOST/DATABASE"),
        "memory" => Ok(events::StoreLocation::Memory),
        #[cfg(feature = "postgres")]
        address if is_postgres(address) => {
            events::StoreLocation::postgres(address).ok_or("is not a valid address of a database")
        }
        #[cfg(not(feature = "postgres"))]
        address if is_postgres(address) => Err("this gateway was built without PostgreSQL"),
        file => Ok(events::StoreLocation::File(folder.join(file))),
    }
}

fn is_postgres(text: &str) -> bool {
    text.starts_with("postgres://") || text.starts_with("postgresql://")
}

impl Default for Config {
    /// No backends; events in memory.
    fn default() -> Self {
        Self {
            backends: BTreeMap::new(),
            search_above: None,
            tool_changes: ToolChanges::Warn,
            events: events::StoreLocation::Memory,
            retention: events::Retention {
                age: Duration::from_secs(30 * 86_400),
                rows: 1_000_000,
                bytes: 512 << 20,
            },
        }
    }
}

#[cfg(test)]
mod tests;
