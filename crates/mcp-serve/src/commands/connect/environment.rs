//! The environment variables that a program needs when a host starts it.

use clap::{Arg, Command};
use mcp_hosts::Value;

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
            false => Value::Text(absolute(arg, value)),
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

/// The value of an option with each path on this machine from the root: hosts start programs in a folder of their own.
pub(super) fn absolute(arg: &Arg, value: String) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let is = |searched: &[&str]| names.iter().any(|name| searched.contains(&name.as_str()));
    let one = |value: &str| match value.split_once('=') {
        Some((name, path)) if is(&["NAME=FILE"]) => format!("{name}={}", from_root(path)),
        _ if is(&["FILE", "DIR"]) => from_root(value),
        _ => value.to_owned(),
    };
    match arg.get_value_delimiter() {
        Some(delimiter) => {
            let values: Vec<_> = value.split(delimiter).map(one).collect();
            values.join(&delimiter.to_string())
        }
        None => one(&value),
    }
}

fn from_root(path: &str) -> String {
    let absolute = std::path::absolute(path.trim()).ok();
    let absolute = absolute.and_then(|path| path.to_str().map(str::to_owned));
    // An empty path has none.
    absolute.unwrap_or_else(|| path.to_owned())
}

/// True if an address among the values has a password. A user name alone is one in a URL of HTTP, where tokens
/// stand in its place, but not in `ssh://me@host`.
pub(super) fn has_password(values: &str) -> bool {
    values.split(',').any(|value| {
        let (scheme, rest) = value.split_once("://").unwrap_or(("", value));
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let user = authority.rsplit_once('@').map(|(user, _)| user);
        user.is_some_and(|user| user.contains(':') || scheme.contains("http"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arg(name: &'static str) -> Arg {
        Arg::new("a").value_name(name)
    }

    #[test]
    fn paths_on_this_machine_are_written_from_the_root() {
        let root = from_root("a");
        let list = arg("FILE").value_delimiter(',');
        assert_eq!(absolute(&list, "a,a".into()), format!("{root},{root}"));
        let named = arg("NAME=FILE").value_delimiter(',');
        let expected = format!("x={root},y={root}");
        assert_eq!(absolute(&named, "x=a,y=a".into()), expected);
        assert_eq!(absolute(&arg("REMOTE_DIR"), "a".into()), "a");
        assert_eq!(absolute(&arg("DIR"), "a".into()), root);
    }

    #[test]
    fn user_name_is_no_password_except_in_a_url_of_http() {
        for with in [
            "tcp://u:pw@h",
            "n8n=http://u:pw@h/mcp",
            "https://TOKEN@h",
            "ssh://h,tcp://:pw@h",
        ] {
            assert!(has_password(with), "{with}");
        }
        for without in ["ssh://me@host", "http://h/@x", "me@host", "a:b,c", ""] {
            assert!(!has_password(without), "{without}");
        }
    }
}
