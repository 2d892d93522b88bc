//! The hosts, which are programs that use MCP servers, and the files in which they list their servers.
//!
//! * [`HOSTS`] is the table of them: a host's file, the form of its entries, how it refers to a secret.
//! * [`entry()`] is a server in the form of a host.
//! * [`connect`] and [`disconnect`] plan the change of a file, and [`Plan::apply`] writes it: one key, with
//!   comments, order, indentation and line ends as they were.
//! * [`listed()`] reads the servers of a file.

mod edit;
mod entry;
mod folders;
mod host;
mod listed;
mod plan;

pub use entry::{Entry, Launch, Token, Variable, entry};
pub use folders::{Folders, System};
pub use host::{Form, Format, HOSTS, Host, Reference};
pub use listed::Listed;
pub use plan::{IsOwn, Plan, connect, disconnect, file_with};

use std::path::Path;

use serde_json::Value;

/// Reads the servers of a host's file. A file that is not there has none.
///
/// # Errors
/// If the file cannot be read, or is broken.
pub fn listed(host: &Host, path: &Path) -> anyhow::Result<Vec<Listed>> {
    let text = plan::read(path)?.unwrap_or_default();
    let file = edit::read(host, &text);
    let file = file.map_err(|fault| anyhow::anyhow!("{}{fault}", path.display()))?;
    let Some(servers) = file.get(host.key).and_then(Value::as_object) else {
        return Ok(Vec::new());
    };
    let entries = servers.iter();
    let entries = entries.filter_map(|(name, entry)| Some((name, entry.as_object()?)));
    Ok(entries
        .map(|(name, entry)| listed::read(host, name, entry))
        .collect())
}
