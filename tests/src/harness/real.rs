//! The real services, which `cargo xtask test` starts.
//!
//! Each is `None` if it is missing; `cargo xtask test` reports the reason and counts the skipped tests.

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

/// A search path with those programs, if they are there.
pub(crate) fn docker_path() -> String {
    let programs = optional("MCP_TEST_COMPOSE_DIR").unwrap_or_default();
    format!("{programs}:/usr/bin:/bin")
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

/// A variable of `cargo xtask test`, without which a test does nothing. With `CI=true` it fails, and also where no service
/// is wanted, since `WITH_SERVICES` in `xtask/src/test.rs` leaves out the tests that need one.
fn variable(name: &str) -> Option<String> {
    let value = optional(name);
    if value.is_none() {
        let is_ci = matches!(optional("CI").as_deref(), Some("true" | "1"));
        let is_unwanted = optional("MCP_TEST_WITHOUT_SERVICES").is_some();
        assert!(!is_ci && !is_unwanted, "{name} is not set");
        eprintln!("skipped: {name} is not set");
    }
    value
}

fn optional(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
