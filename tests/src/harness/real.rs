//! The real services, which `cargo xtask test` starts.
//!
//! Each is `None` if it is missing; `cargo xtask test` reports the reason and counts the skipped tests.

use mcp_client::{CallToolResult, Client};
use serde_json::Value;

/// The result of a call. A tool that only reads is called again, a few times, if its busy service does not answer in
/// time.
pub(crate) async fn call_until_answered(
    client: &Client,
    tool: &str,
    arguments: &Value,
) -> CallToolResult {
    let verbs = ["get_", "list_", "explain_", "validate_", "wait_"];
    let tries = if verbs.iter().any(|verb| tool.starts_with(verb)) {
        4
    } else {
        1
    };
    let mut result = client.call_tool(tool, arguments).await.unwrap();
    for _ in 1..tries {
        if !(result.is_error && result.text().contains("did not answer")) {
            break;
        }
        result = client.call_tool(tool, arguments).await.unwrap();
    }
    result
}

/// A real n8n.
pub(crate) struct N8n {
    pub(crate) url: String,
    pub(crate) api_key: String,
    /// The token of its built-in MCP server.
    pub(crate) mcp_token: String,
}

/// A real OpenHands agent server whose model is scripted by the prompt.
pub(crate) struct OpenHands {
    pub(crate) url: String,
    pub(crate) api_key: String,
}

pub(crate) fn n8n() -> Option<N8n> {
    Some(N8n {
        url: variable("MCP_TEST_N8N_URL")?,
        api_key: variable("MCP_TEST_N8N_API_KEY")?,
        mcp_token: variable("MCP_TEST_N8N_MCP_TOKEN")?,
    })
}

pub(crate) fn openhands() -> Option<OpenHands> {
    Some(OpenHands {
        url: variable("MCP_TEST_OPENHANDS_URL")?,
        api_key: variable("MCP_TEST_OPENHANDS_API_KEY")?,
    })
}

/// The command of an agent server of that version, without the arguments for its address: a list in JSON.
pub(crate) fn openhands_command() -> Option<Vec<String>> {
    let command = variable("MCP_TEST_OPENHANDS_COMMAND")?;
    Some(serde_json::from_str(&command).unwrap())
}

/// The folder with the programs `claude`, `gemini` and `codex`, such as `node_modules/.bin`.
pub(crate) fn host_programs() -> Option<std::path::PathBuf> {
    variable("MCP_TEST_HOST_PROGRAMS").map(Into::into)
}

/// A real V1 app server of OpenHands, which `cargo xtask nightly openhands-app` starts.
pub(crate) fn openhands_app() -> Option<OpenHands> {
    Some(OpenHands {
        url: variable("MCP_TEST_OPENHANDS_APP_URL")?,
        api_key: variable("MCP_TEST_OPENHANDS_APP_API_KEY")?,
    })
}

/// `DOCKER_HOST` of a real engine with the image `busybox:test`.
pub(crate) fn docker() -> Option<String> {
    variable("MCP_TEST_DOCKER_HOST")
}

/// All real engines: that one, and those of other versions.
pub(crate) fn docker_engines() -> Vec<String> {
    let more = std::env::var("MCP_TEST_DOCKER_HOSTS").unwrap_or_default();
    let more = more.split(' ').filter(|host| !host.is_empty());
    docker()
        .into_iter()
        .chain(more.map(str::to_owned))
        .collect()
}

/// The command of a third-party server, a list in JSON: `EVERYTHING`, `FILESYSTEM`, `PYTHON`,
/// `FASTMCP` or `RMCP`.
pub(crate) fn third_party_server(name: &str) -> Option<Vec<String>> {
    let command = variable(&format!("MCP_TEST_{name}"))?;
    Some(serde_json::from_str(&command).unwrap())
}

/// `DOCKER_HOST` of Podman, with the same image: an additional engine, for `cargo xtask nightly`.
pub(crate) fn podman() -> Option<String> {
    optional("MCP_TEST_PODMAN_HOST")
}

/// The folder of the programs `docker-compose` and `docker-buildx`.
pub(crate) fn compose_dir() -> Option<String> {
    variable("MCP_TEST_COMPOSE_DIR")
}

/// The program `docker`.
pub(crate) fn docker_command() -> Option<String> {
    variable("MCP_TEST_DOCKER_COMMAND")
}

/// The program `docker-registry`.
pub(crate) fn registry() -> Option<String> {
    variable("MCP_TEST_REGISTRY")
}

/// The program `promtool` of Prometheus.
pub(crate) fn promtool() -> Option<String> {
    variable("MCP_TEST_PROMTOOL")
}

/// The root of the programs and libraries of an SSH server, and the program `docker`.
pub(crate) fn ssh() -> Option<(String, String)> {
    Some((
        variable("MCP_TEST_SSH_ROOT")?,
        variable("MCP_TEST_DOCKER_COMMAND")?,
    ))
}

/// The URL of a database in a real PostgreSQL.
pub(crate) fn postgres() -> Option<String> {
    variable("MCP_TEST_POSTGRES_URL")
}

/// A variable of `cargo xtask test`. With `CI=true` a test without its service fails, unless no service is wanted.
fn variable(name: &str) -> Option<String> {
    let value = optional(name);
    if value.is_none() {
        let is_ci = std::env::var("CI").is_ok_and(|value| value == "true" || value == "1");
        let is_wanted = std::env::var_os("MCP_TEST_WITHOUT_SERVICES").is_none();
        assert!(!is_ci || !is_wanted, "{name} is not set");
        eprintln!("skipped: {name} is not set");
    }
    value
}

fn optional(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
