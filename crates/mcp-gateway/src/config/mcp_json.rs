//! Parses the configuration of an MCP host: Claude Desktop, Claude Code and Cursor (`mcpServers`), VS
//! Code (`servers`). Everything else in these files is ignored.

use std::collections::BTreeMap;

use jsonc_parser::ParseOptions;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::error::Problem;
use super::expand::Environment;
use super::reader::FieldReader;
use super::{
    BackendConfig, BackendKey, Child, Config, ConfigError, Remote, RemoteTransport, Target,
};

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
    let file: Map<String, Value> = file.map_err(|error| ConfigError {
        origin: name.to_owned(),
        line: Some(error.line_display()),
        field: String::new(),
        problem: "is not a JSON object with `mcpServers` or `servers`".to_owned(),
    })?;
    read(&file, environment, base).map_err(|problem| problem.at(name, None))
}

fn read(
    file: &Map<String, Value>,
    environment: &Environment<'_>,
    base: Config,
) -> Result<Config, Problem> {
    let settings = file.get("mcp").and_then(Value::as_object);
    let found = ["mcpServers", "servers"].into_iter().find_map(|field| {
        let servers = file.get(field).or_else(|| settings?.get(field))?;
        Some((field, servers))
    });
    let Some((field, servers)) = found else {
        return Err(Problem::new(&[], "has neither `mcpServers` nor `servers`"));
    };
    let Some(servers) = servers.as_object() else {
        return Err(Problem::new(&[field], "must be an object of servers"));
    };
    let mut config = base;
    let mut names: BTreeMap<BackendKey, &str> = BTreeMap::new();
    for (name, server) in servers {
        let at = [field, name.as_str()];
        let key = BackendKey::nearest(name).ok_or_else(|| {
            Problem::new(
                &at,
                "needs a name with letters: a backend's name is of a-z, 0-9 and -",
            )
        })?;
        if let Some(other) = names.insert(key.clone(), name) {
            let text = format!("gets the name `{key}`, like `{other}`: rename one of them");
            return Err(Problem::new(&at, text));
        }
        let server = ServerEntry::deserialize(server).map_err(|_| {
            let text = "must be an object with `command` (a string), `args` (a list of strings) \
                and `env`, or with `url` and `headers`";
            Problem::new(&at, text)
        })?;
        config.backends.insert(key, server.check(at, environment)?);
    }
    Ok(config)
}

impl ServerEntry {
    fn check(self, at: [&str; 2], environment: &Environment<'_>) -> Result<BackendConfig, Problem> {
        let mut reader = FieldReader::new(at, environment);
        let mut disabled = self.disabled.then(|| "by the configuration".to_owned());
        if self.env_file.is_some() {
            let reason = "`envFile` is not supported: use `env`, with ${NAME} or file:PATH";
            disabled = Some(reason.to_owned());
        }
        let target = match (self.command, self.url) {
            (Some(program), _) => {
                let argv = std::iter::once(program).chain(self.args).collect();
                Target::Child(Child {
                    argv: reader.command(argv)?,
                    env: reader.secrets("env", self.env)?,
                    env_pass: Vec::new(),
                    cwd: reader.folder(self.cwd)?,
                })
            }
            (None, Some(url)) => {
                let transport = self.kind.as_deref().and_then(RemoteTransport::parse);
                Target::Http(Remote {
                    url: reader.url(&url)?,
                    // Unknown names are left to the detection.
                    transport: transport
                        .filter(|transport| *transport == RemoteTransport::Sse)
                        .unwrap_or_default(),
                    headers: reader.secrets("headers", self.headers)?,
                    token: None,
                })
            }
            (None, None) => return Err(Problem::new(&at, "needs `command` or `url`")),
        };
        Ok(BackendConfig {
            disabled: disabled.or(reader.missing),
            ..BackendConfig::new(target)
        })
    }
}
