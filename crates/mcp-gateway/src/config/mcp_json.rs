//! Parses the configuration of an MCP host: Claude Desktop, Claude Code and Cursor (`mcpServers`), VS
//! Code (`servers`). Everything else in these files is ignored.

use std::borrow::Cow;
use std::collections::BTreeMap;

use gateway_access::Filter;
use jsonc_parser::ParseOptions;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::file::BackendEntry;
use super::reader::Environment;
use super::{BackendConfig, BackendKey, Config, ConfigError, DisabledReason, RemoteTransport};
use crate::servers::SERVERS;

/// The field of the servers: of most hosts, and of VS Code.
const SERVER_FIELDS: [&str; 2] = ["mcpServers", "servers"];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServerEntry {
    #[serde(rename = "type", alias = "transport")]
    kind: Option<String>,
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    env: Option<BTreeMap<String, String>>,
    env_file: Option<String>,
    cwd: Option<String>,
    #[serde(alias = "serverUrl")]
    url: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    #[serde(default)]
    disabled: bool,
    /// The switch of Zed and opencode.
    enabled: Option<bool>,
    /// The tools that a host offers: of Gemini CLI, Copilot CLI, and others.
    tools: Option<Vec<String>>,
    include_tools: Option<Vec<String>>,
    enabled_tools: Option<Vec<String>>,
    allowed_tools: Option<Vec<String>>,
    /// The tools that a host leaves out: of Gemini CLI, Windsurf, and others.
    disabled_tools: Option<Vec<String>>,
    exclude_tools: Option<Vec<String>>,
}

/// Parses the file of another host; `name` stands for it in errors.
pub(super) fn parse(
    text: &str,
    name: &str,
    environment: &Environment<'_>,
    base: Config,
) -> Result<Config, ConfigError> {
    // Comments and trailing commas are allowed, as in VS Code.
    let file = jsonc_parser::parse_to_serde_value(text, &ParseOptions::default());
    let file: Map<String, Value> = file.map_err(|error| {
        let text = "is not a JSON object with `mcpServers` or `servers`";
        let line = Some(error.line_display());
        ConfigError {
            line,
            ..ConfigError::new(&[], text)
        }
        .at(name, "")
    })?;
    read(&file, environment, base).map_err(|error| error.at(name, text))
}

fn read(
    file: &Map<String, Value>,
    environment: &Environment<'_>,
    base: Config,
) -> Result<Config, ConfigError> {
    let settings = file.get("mcp").and_then(Value::as_object);
    let found = SERVER_FIELDS.into_iter().find_map(|field| {
        let servers = file.get(field).or_else(|| settings?.get(field))?;
        Some((field, servers))
    });
    let Some((field, servers)) = found else {
        return Err(ConfigError::new(
            &[],
            "has neither `mcpServers` nor `servers`",
        ));
    };
    let Some(servers) = servers.as_object() else {
        return Err(ConfigError::new(&[field], "must be an object of servers"));
    };
    let mut config = base;
    for (name, server) in servers {
        let at = [field, name.as_str()];
        let key = BackendKey::nearest(name).ok_or_else(|| {
            ConfigError::new(
                &at,
                "needs a name with letters: a backend's name is of a-z, 0-9 and -",
            )
        })?;
        let server = ServerEntry::deserialize(server).map_err(|_| {
            let text = "must be an object with `command` (a string), `args` (a list of strings) \
                and `env`, or with `url` and `headers`; lists of tools are lists of names";
            ConfigError::new(&at, text)
        })?;
        let backend = server.check(at, environment)?;
        if config.backends.insert(key.clone(), backend).is_some() {
            let text = format!(
                "gets the name `{key}`, which another server of the file has: rename one of them"
            );
            return Err(ConfigError::new(&at, text));
        }
    }
    Ok(config)
}

impl ServerEntry {
    /// The lists of tools, all of which count.
    fn tools(&self) -> Vec<Filter> {
        let offered = [
            &self.tools,
            &self.include_tools,
            &self.enabled_tools,
            &self.allowed_tools,
        ];
        let offered = offered.into_iter().flatten().map(|list| match &**list {
            [] => Filter::new(&[], &["*".to_owned()]),
            names => Filter::new(names, &[]),
        });
        let left_out = [&self.disabled_tools, &self.exclude_tools];
        let left_out = left_out.into_iter().flatten();
        let left_out = left_out.map(|names| Filter::new(&[], names));
        offered.chain(left_out).collect()
    }

    fn check(
        self,
        at: [&str; 2],
        environment: &Environment<'_>,
    ) -> Result<BackendConfig, ConfigError> {
        let disabled = self.disabled || self.enabled == Some(false);
        let needs_file = self.env_file.is_some() && !disabled;
        let tools = self.tools();
        let entry = BackendEntry {
            disabled,
            ..BackendEntry::default()
        };
        let entry = match (self.command, self.url) {
            (Some(program), _) => BackendEntry {
                command: Some(std::iter::once(program).chain(self.args).collect()),
                env: self.env,
                cwd: self.cwd,
                ..entry
            },
            (None, Some(url)) => BackendEntry {
                url: Some(url),
                // Other names are left to the detection.
                transport: self
                    .kind
                    .filter(|kind| RemoteTransport::parse(kind) == Some(RemoteTransport::Sse)),
                headers: self.headers,
                ..entry
            },
            (None, None) => return Err(ConfigError::new(&at, "needs `command` or `url`")),
        };
        let mut backend = entry.check(at, environment)?;
        backend.tools_of_host = tools;
        if needs_file {
            backend.disabled = Some(DisabledReason::EnvFile);
        }
        Ok(backend)
    }
}

/// Parses one `--backend`.
pub(super) fn parse_option(
    text: &str,
    environment: &Environment<'_>,
) -> Result<(BackendKey, BackendConfig), ConfigError> {
    let (name, target) = text.split_once('=').ok_or_else(|| {
        let expected = "must be `NAME=COMMAND` or `NAME=URL`, such as `files=npx -y @modelcontextprotocol/server-filesystem .`";
        ConfigError::new(&[], expected)
    })?;
    let (name, target) = (name.trim(), target.trim());
    let key = BackendKey::parse(name).map_err(|text| ConfigError::new(&[name], text))?;
    let entry = if target.starts_with("http://") || target.starts_with("https://") {
        of_url(target.to_owned())
    } else {
        // In paths of Windows a backslash escapes nothing.
        let target = match cfg!(windows) {
            true => Cow::Owned(target.replace('\\', r"\\")),
            false => Cow::Borrowed(target),
        };
        let argv = shlex::split(&target)
            .ok_or_else(|| ConfigError::new(&[name], "has a quote that is not closed"))?;
        BackendEntry {
            command: Some(argv),
            ..BackendEntry::default()
        }
    };
    let backend = entry.check(["backends", name], environment)?;
    Ok((key, backend))
}

fn of_url(url: String) -> BackendEntry {
    BackendEntry {
        url: Some(url),
        ..BackendEntry::default()
    }
}

/// The servers of this workspace, at their default ports.
pub(super) fn local(environment: &Environment<'_>) -> Vec<(BackendKey, BackendConfig)> {
    let backend = |(name, _, port): (&str, &str, u16)| {
        let entry = of_url(format!("http://127.0.0.1:{port}/mcp"));
        let backend = entry.check(["backends", name], environment);
        Some((BackendKey::parse(name).ok()?, backend.ok()?))
    };
    SERVERS.iter().copied().filter_map(backend).collect()
}
