//! The MCP servers that the agents of tasks may call: n8n, Docker, a gateway, any other.
//!
//! They are handed to a task as a plugin of its conversation, so they concern nobody else's. The
//! plugin is a file on the agent server's side; tokens are not in it but among the conversation's
//! secrets, which the agent server keeps encrypted and masks in what commands print.

use anyhow::{Context as _, anyhow, ensure};
use mcp_core::tool::{ToolError, ToolErrorKind};
use mcp_serve::Secret;
use serde_json::{Map, Value, json};
use upstream::http::Url;
use uuid::Uuid;

use crate::api::{AgentServer, Plugin};

/// Where the plugins are, below the root of tasks.
const DIRECTORY: &str = ".mcp-servers";

/// The options that name servers.
const SERVERS: &str = "OPENHANDS_MCP_SERVERS";

/// An MCP server that the agents of tasks may call.
pub(crate) struct McpServer {
    name: String,
    url: Url,
    token: Secret,
}

/// Reads `NAME=URL` of each server, `NAME=TOKEN` and `NAME=FILE` of those that want a token.
///
/// # Errors
/// Which of them cannot be used, and why; never shows a token.
pub(crate) fn read(
    servers: &[String],
    tokens: &[String],
    files: &[String],
) -> anyhow::Result<Vec<McpServer>> {
    let tokens = pairs(tokens).context("OPENHANDS_MCP_TOKENS must be NAME=TOKEN, with commas")?;
    let files = pairs(files).context("OPENHANDS_MCP_TOKEN_FILES must be NAME=FILE, with commas")?;
    let mut read: Vec<McpServer> = Vec::new();
    let given =
        pairs(servers).with_context(|| format!("{SERVERS} must be NAME=URL, with commas"))?;
    for (name, url) in given {
        let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.len() <= 20
            && name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        ensure!(
            is_name,
            "{SERVERS}: a name is 1 to 20 of a-z, 0-9 and -, and begins with a letter"
        );
        ensure!(
            read.iter().all(|server| server.name != name),
            "{SERVERS} names {name} twice"
        );
        let url =
            Url::parse(url).map_err(|reason| anyhow!("{SERVERS}: {name} has no URL: {reason}"))?;
        ensure!(
            matches!(url.scheme(), "http" | "https")
                && url.username().is_empty()
                && url.password().is_none(),
            "{SERVERS}: the URL of {name} must be http or https and hold no password"
        );
        let of = |pairs: &[(&str, &str)]| {
            let mut found = pairs.iter().filter(|(other, _)| *other == name);
            found.next().map(|(_, value)| (*value).to_owned())
        };
        read.push(McpServer {
            token: Secret::new(of(&tokens), of(&files).map(Into::into)),
            name: name.to_owned(),
            url,
        });
    }
    for (name, _) in tokens.iter().chain(&files) {
        let is_known = read.iter().any(|server| server.name == *name);
        ensure!(
            is_known,
            "there is a token for {name:?}, but {SERVERS} does not name it"
        );
    }
    Ok(read)
}

/// Blank ones do not count: compose files pass unset variables on as empty ones.
fn pairs(texts: &[String]) -> anyhow::Result<Vec<(&str, &str)>> {
    let texts = texts.iter().map(|text| text.trim());
    let pairs = texts.filter(|text| !text.is_empty()).map(|text| {
        let (name, value) = text.split_once('=').context("there is no '='")?;
        Ok((name.trim(), value.trim()))
    });
    pairs.collect()
}

/// Puts the plugin in place, below the root of tasks, that gives a task its MCP servers; `None` where
/// there are none.
///
/// # Errors
/// A token cannot be read, or the agent server does not take the file.
pub(crate) async fn install_plugin(
    server: &AgentServer,
    root: &str,
    mcp_servers: &[McpServer],
) -> Result<Option<Plugin>, ToolError> {
    if mcp_servers.is_empty() {
        return Ok(None);
    }
    let (file, secrets) = describe(mcp_servers)?;
    // Other servers are another plugin, so that tasks which wait keep theirs.
    let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, file.as_bytes()).simple();
    let directory = format!("{root}/{DIRECTORY}/{id}");
    // At every start: agents can reach it.
    let path = format!("{directory}/.mcp.json");
    server.upload(&path, file).await?;
    Ok(Some(Plugin { directory, secrets }))
}

/// The plugin's file, and the tokens that it asks for by name.
fn describe(servers: &[McpServer]) -> Result<(String, Map<String, Value>), ToolError> {
    let (mut described, mut secrets) = (Map::new(), Map::new());
    for McpServer { name, url, token } in servers {
        let mut server = json!({"type": "http", "url": url.as_str()});
        let token = token.get().map_err(|cause| {
            let message = format!(
                "The token of the MCP server {name} cannot be read (yet), so no task was started: \
                 check OPENHANDS_MCP_TOKEN_FILES."
            );
            ToolError::new(ToolErrorKind::Unauthorized, message).caused_by(cause)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn tokens_are_secrets_and_not_in_the_file() {
        let servers = texts(&["n8n=http://127.0.0.1:3456/mcp", " my-docker=https://d/mcp "]);
        let servers = read(&servers, &texts(&["my-docker=tok"]), &[]).unwrap();
        let (file, secrets) = describe(&servers).unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&file).unwrap(),
            json!({"mcpServers": {
                "n8n": {"type": "http", "url": "http://127.0.0.1:3456/mcp"},
                "my-docker": {"type": "http", "url": "https://d/mcp",
                    "headers": {"Authorization": "Bearer ${MCP_MY_DOCKER_TOKEN}"}},
            }})
        );
        let secret = json!({"kind": "StaticSecret", "value": "tok"});
        assert_eq!(
            Value::Object(secrets),
            json!({"MCP_MY_DOCKER_TOKEN": secret})
        );
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        assert!(read(&texts(&[""]), &[], &[]).unwrap().is_empty());
        for servers in [
            &["n8n"][..],
            &["N8N=http://h/mcp"],
            &["a/b=http://h/mcp"],
            &["n8n=file:///etc"],
            &["n8n=http://u:p@h/mcp"],
            &["n8n=http://h/mcp", "n8n=http://i/mcp"],
        ] {
            assert!(read(&texts(servers), &[], &[]).is_err(), "{servers:?}");
        }
        let servers = texts(&["n8n=http://h/mcp"]);
        let error = read(&servers, &texts(&["docker=key-that-nobody-may-see"]), &[]);
        let error = format!("{:#}", error.err().unwrap());
        assert!(!error.contains("nobody-may-see"), "{error}");
        let error = read(&servers, &texts(&["key-that-nobody-may-see"]), &[]);
        let error = format!("{:#}", error.err().unwrap());
        assert!(!error.contains("nobody-may-see"), "{error}");
    }
}
