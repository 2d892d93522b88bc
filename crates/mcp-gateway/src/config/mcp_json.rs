//! The configuration of another host: Claude Desktop, Claude Code and Cursor (`mcpServers`), VS Code
//! (`servers`).
//!
//! These files belong to somebody else: what they say beside the servers is ignored.

use std::collections::BTreeMap;

use jsonc_parser::ParseOptions;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::error::Problem;
use super::expand::Place;
use super::reader::Reader;
use super::{Backend, BackendKey, Child, Config, ConfigError, Remote, Target};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Server {
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

/// Reads the file of another host; `name` is how it is called in errors.
pub(super) fn parse(
    text: &str,
    name: &str,
    place: &Place<'_>,
    base: Config,
) -> Result<Config, ConfigError> {
    // With comments and trailing commas, as editors take them.
    let file = jsonc_parser::parse_to_serde_value(text, &ParseOptions::default());
    let file: Map<String, Value> = file.map_err(|error| ConfigError {
        place: name.to_owned(),
        line: Some(error.line_display()),
        field: String::new(),
        problem: "is not a JSON object with `mcpServers` or `servers`".to_owned(),
    })?;
    read(&file, place, base).map_err(|problem| problem.at(name, None))
}

fn read(file: &Map<String, Value>, place: &Place<'_>, base: Config) -> Result<Config, Problem> {
    let settings = file.get("mcp").and_then(Value::as_object);
    let found = ["mcpServers", "servers"].into_iter().find_map(|field| {
        let servers = file.get(field).or_else(|| settings?.get(field))?;
        Some((field, servers))
    });
    let Some((field, servers)) = found else {
        return Err(Problem::new(
            &[],
            "holds neither `mcpServers` nor `servers`",
        ));
    };
    let Some(servers) = servers.as_object() else {
        return Err(Problem::new(&[field], "must be an object of servers"));
    };
    let mut config = base;
    let mut names: BTreeMap<BackendKey, &str> = BTreeMap::new();
    for (name, server) in servers {
        let at = [field, name.as_str()];
        let key = BackendKey::nearest(name).ok_or_else(|| {
            Problem::new(&at, "has no name that a backend can have: a-z, 0-9 and -")
        })?;
        if let Some(other) = names.insert(key.clone(), name) {
            let what = format!("would be called `{key}`, like `{other}`: rename one of them");
            return Err(Problem::new(&at, what));
        }
        let server = Server::deserialize(server).map_err(|_| {
            let what = "must be an object with `command` (a text), `args` (a list of texts) and `env`, or with `url` and `headers`";
            Problem::new(&at, what)
        })?;
        config.backends.insert(key, server.check(at, place)?);
    }
    Ok(config)
}

impl Server {
    fn check(self, at: [&str; 2], place: &Place<'_>) -> Result<Backend, Problem> {
        let mut reader = Reader::new(at, place);
        let mut disabled = self.disabled.then(|| "by the configuration".to_owned());
        if self.env_file.is_some() {
            disabled =
                Some("`envFile` is not read: use `env`, with ${NAME} or file:PATH".to_owned());
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
                if self.kind.as_deref() == Some("sse") {
                    disabled = Some(
                        "the transport of 2024-11-05 (`sse`) is not spoken: use the server's Streamable HTTP address"
                            .to_owned(),
                    );
                }
                Target::Http(Remote {
                    url: reader.url(&url)?,
                    headers: reader.secrets("headers", self.headers)?,
                    token: None,
                })
            }
            (None, None) => return Err(Problem::new(&at, "needs `command` or `url`")),
        };
        Ok(Backend {
            disabled: disabled.or(reader.missing),
            ..Backend::new(target)
        })
    }
}
