//! Reads the servers of a host's file.

use std::path::Path;

use serde_json::{Map, Value};

use crate::host::{Host, Reference};

/// A server in a host's file. Values of variables and headers may be secrets, so it has no `Debug`.
pub struct Listed {
    /// The name of its entry.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The environment variables of the program.
    pub env: Vec<(String, String)>,
    /// Variables that are taken from the environment of the host.
    pub env_pass: Vec<String>,
    /// The working directory of the program.
    pub cwd: Option<String>,
    /// The URL.
    pub url: Option<String>,
    /// The headers of requests to the URL.
    pub headers: Vec<(String, String)>,
    /// The variable with the bearer token.
    pub token_variable: Option<String>,
    /// True if the host does not use it.
    pub is_disabled: bool,
}

pub(crate) fn read(host: &Host, name: &str, entry: &Map<String, Value>) -> Listed {
    // Others read `${NAME}` as a reference.
    let value = |value: &str| match host.reference {
        Reference::BareEnv => value.replace("{env:", "${env:"),
        _ => value.to_owned(),
    };
    let text = |field: &str| Some(value(entry.get(field)?.as_str()?));
    let list = |field: &str| {
        let values = entry.get(field).and_then(Value::as_array);
        let texts = values.into_iter().flatten().filter_map(Value::as_str);
        texts.map(value).collect::<Vec<_>>()
    };
    let pairs = |field: &str| {
        let members = entry.get(field).and_then(Value::as_object);
        let members = members.into_iter().flatten();
        let texts = members.filter_map(|(name, text)| Some((name.clone(), value(text.as_str()?))));
        texts.collect::<Vec<_>>()
    };
    let flag = |field: &str| entry.get(field).and_then(Value::as_bool);
    let mut command = Vec::from_iter(text("command"));
    match command.is_empty() {
        true => command = list("command"),
        false => command.extend(list("args")),
    }
    let mut env = pairs("env");
    env.extend(pairs("environment"));
    let mut headers = pairs("headers");
    headers.extend(pairs("http_headers"));
    Listed {
        name: name.to_owned(),
        command,
        env,
        env_pass: list("env_vars"),
        cwd: text("cwd"),
        url: text("httpUrl")
            .or_else(|| text("serverUrl"))
            .or_else(|| text("url")),
        headers,
        token_variable: text("bearer_token_env_var"),
        is_disabled: flag("disabled") == Some(true) || flag("enabled") == Some(false),
    }
}

impl Listed {
    /// The name of its program, without folder and `.exe`.
    pub fn program(&self) -> Option<&str> {
        Path::new(self.command.first()?).file_stem()?.to_str()
    }

    /// The URL that it calls through the bridge of the gateway.
    pub fn bridged(&self) -> Option<&str> {
        let is_bridge = self.command.get(1).is_some_and(|arg| arg == "bridge");
        self.command
            .get(2)
            .filter(|_| is_bridge)
            .map(String::as_str)
    }
}
