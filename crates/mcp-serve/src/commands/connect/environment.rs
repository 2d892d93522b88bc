//! The environment variables that a program needs when a host starts it.

use clap::{Arg, Command};
use mcp_hosts::Value;

use super::has_password;

/// Variables of servers on the network, which a host that starts the program does not need.
const OF_HTTP: &[&str] = &[
    "MCP_ALLOWED_HOSTS",
    "MCP_BIND",
    "MCP_INSECURE_NO_AUTH",
    "MCP_PORT",
    "MCP_RATE_LIMIT",
    "MCP_SESSION_KEY",
    "MCP_SSE",
    "MCP_STDIO",
    "MCP_STREAM_LIMIT",
    "MCP_TOKEN",
    "MCP_TOKEN_FILE",
];

/// … and those with these beginnings.
const OF_HTTP_STARTS: &[&str] = &["MCP_AUTH_", "MCP_TLS_"];

/// The variables of the server that are set now.
pub(super) fn variables(server: &Command) -> Vec<(String, Value)> {
    let variable = |arg: &Arg| {
        let name = arg.get_env()?.to_str()?.to_owned();
        let of_http = OF_HTTP.contains(&name.as_str())
            || OF_HTTP_STARTS.iter().any(|start| name.starts_with(start));
        let value = std::env::var(&name)
            .ok()
            .filter(|value| !value.is_empty() && !of_http)?;
        let value = match is_secret(arg) || has_password(&value) {
            true => Value::Inherited,
            false if names_file(arg) => Value::Text(absolute(value)),
            false => Value::Text(value),
        };
        Some((name, value))
    };
    server.get_arguments().filter_map(variable).collect()
}

pub(super) fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// True if the value of an option is a secret, and not the name of a file with one.
pub(super) fn is_secret(arg: &Arg) -> bool {
    let names = arg.get_value_names().unwrap_or_default();
    let secrets = ["KEY", "TOKEN", "SECRET", "NAME=TOKEN", "PASSWORD"];
    arg.is_hide_env_values_set() || names.iter().any(|name| secrets.contains(&name.as_str()))
}

/// True if the value is the path of a file or folder.
pub(super) fn names_file(arg: &Arg) -> bool {
    let names = arg.get_value_names().unwrap_or_default();
    names
        .iter()
        .any(|name| matches!(name.as_str(), "FILE" | "DIR"))
}

/// The path from the root.
pub(super) fn absolute(path: String) -> String {
    let absolute = std::path::absolute(&path).ok();
    let absolute = absolute.and_then(|path| path.to_str().map(str::to_owned));
    absolute.unwrap_or(path)
}
