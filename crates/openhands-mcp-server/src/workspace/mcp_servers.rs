//! MCP servers that the agents of tasks may call: n8n, Docker, a gateway or any other.
//!
//! A task gets them as a plugin of its conversation, so other conversations do not have them. The
//! plugin is a file on the machine of the agent server. Tokens are not in the file but in the secrets
//! of the conversation, which the agent server encrypts and masks in the output of commands.

use futures_util::future::join_all;
use mcp_core::tool::ToolError;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::api::{AgentServer, Plugin};
use crate::named_urls::{NamedUrl, OptionNames};

/// The directory of the plugins, below the root of tasks.
const PLUGIN_DIRECTORY: &str = ".mcp-servers";

const OPTIONS: OptionNames = OptionNames {
    urls: "OPENHANDS_MCP_SERVERS",
    tokens: "OPENHANDS_MCP_TOKENS",
    files: "OPENHANDS_MCP_TOKEN_FILES",
};

/// Parses `NAME=URL` of each server, and `NAME=TOKEN` or `NAME=FILE` of servers with a token.
///
/// # Errors
/// An option is invalid; the error says which and why, but never shows a token.
pub(crate) fn parse_options(
    servers: &[String],
    tokens: &[String],
    files: &[String],
) -> anyhow::Result<Vec<NamedUrl>> {
    let mut servers = OPTIONS.parse(servers, tokens, files)?;
    for server in &mut servers {
        server.url = OPTIONS.parse_url(&server.name, &server.url)?.into();
    }
    Ok(servers)
}

/// Uploads the plugin with the MCP servers of a task to a directory below `root`, without the `dead` ones if
/// the agent server could not start the task with them. Returns `None` if there are no others.
///
/// # Errors
/// A token cannot be read, or the agent server does not take the file.
pub(crate) async fn install_plugin(
    server: &AgentServer,
    root: &str,
    mcp_servers: &[NamedUrl],
    dead: &[&str],
) -> Result<Option<Plugin>, ToolError> {
    let mut given: Vec<&NamedUrl> = mcp_servers.iter().collect();
    if !dead.is_empty() && !server.known_version().await?.ignores_dead_servers() {
        given.retain(|server| !dead.contains(&server.name.as_str()));
    }
    if given.is_empty() {
        return Ok(None);
    }
    let (file, secrets) = plugin_file(&given)?;
    // The id depends on the content: after a change of the servers, waiting tasks keep their plugin.
    let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, file.as_bytes()).simple();
    let directory = format!("{root}/{PLUGIN_DIRECTORY}/{id}");
    // Uploaded at every start, because agents could have changed it.
    let path = format!("{directory}/.mcp.json");
    server.upload(&path, file.into_bytes()).await?;
    Ok(Some(Plugin { directory, secrets }))
}

/// The names of the MCP servers that do not answer the agent server now. One that it cannot check counts as
/// answering.
pub(crate) async fn dead_servers<'a>(
    server: &AgentServer,
    mcp_servers: &'a [NamedUrl],
) -> Vec<&'a str> {
    let checks = mcp_servers
        .iter()
        .map(|NamedUrl { name, url, token }| async {
            let token = token.get().ok().flatten();
            let answers = server.mcp_server_answers(url, token.as_deref()).await;
            matches!(answers, Ok(false)).then_some(name.as_str())
        });
    join_all(checks).await.into_iter().flatten().collect()
}

/// The content of the plugin's file, and the secrets that it refers to.
fn plugin_file(servers: &[&NamedUrl]) -> Result<(String, Map<String, Value>), ToolError> {
    let (mut described, mut secrets) = (Map::new(), Map::new());
    for NamedUrl { name, url, token } in servers {
        let mut server = json!({"type": "http", "url": url});
        let token = token.get().map_err(|cause| {
            let message = format!(
                "The token of the MCP server {name} cannot be read (yet), so no task was started: \
                 check OPENHANDS_MCP_TOKEN_FILES."
            );
            ToolError::unauthorized(message).caused_by(cause)
        })?;
        if let Some(token) = token {
            let variable = format!("MCP_{}_TOKEN", name.to_uppercase().replace('-', "_"));
            server["headers"] = json!({"Authorization": format!("Bearer ${{{variable}}}")});
            secrets.insert(variable, json!({"kind": "StaticSecret", "value": token}));
        }
        described.insert(name.clone(), server);
    }
    Ok((json!({"mcpServers": described}).to_string(), secrets))
}
