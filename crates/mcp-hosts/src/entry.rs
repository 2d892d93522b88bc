//! A server in the form of a host's entry.

use serde_json::{Map, Value as Json, json};

use crate::host::{Form, Host, Reference};

/// A server, as a host should list it.
pub struct Server {
    /// The name of its entry.
    pub name: String,
    /// The way the host reaches it.
    pub launch: Launch,
}

/// The way a host reaches a server.
pub enum Launch {
    /// It starts a program, with MCP on its stdin and stdout.
    Program {
        /// The program, as an absolute path.
        command: String,
        /// Its arguments, without secrets.
        args: Vec<String>,
        /// Its environment variables.
        env: Vec<(String, Value)>,
    },
    /// It calls a URL.
    Url {
        /// The URL.
        url: String,
        /// The bearer token.
        token: Option<Token>,
        /// The program `mcp-gateway`, whose command `bridge` serves hosts that cannot call the URL themselves.
        bridge: Option<String>,
    },
}

/// The value of an environment variable of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// This text, which is no secret.
    Text(String),
    /// The value that the variable has in the environment of the host.
    Inherited,
}

/// The place of the bearer token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// In this environment variable of the host.
    Variable(String),
    /// In this file.
    File(String),
}

/// An entry, and notes for the user.
#[derive(Debug, PartialEq)]
pub struct Entry {
    /// The entry as JSON, also for a file in TOML.
    pub value: Json,
    /// Notes, such as on a secret that the entry lacks.
    pub warnings: Vec<String>,
}

impl Server {
    /// Returns the entry for this host.
    ///
    /// # Errors
    /// Why the host cannot use the server, and what to do.
    pub fn entry(&self, host: &Host) -> Result<Entry, String> {
        let Self { name, launch } = self;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
            let text =
                format!("the name {name:?} must be 1 to 64 characters of a-z, A-Z, 0-9, - and _");
            return Err(text);
        }
        match launch {
            Launch::Program { .. } if host.form == Form::Node => Err(format!(
                "{} starts no programs: start the server yourself, and connect it with --http URL",
                host.name
            )),
            Launch::Program { command, args, env } => Ok(program(host, command, args, env)),
            Launch::Url { url, token, bridge } => address(host, name, url, token.as_ref(), bridge),
        }
    }
}

impl Host {
    fn reference(&self, variable: &str) -> Option<String> {
        match self.reference {
            Reference::Braces => Some(format!("${{{variable}}}")),
            Reference::Env => Some(format!("${{env:{variable}}}")),
            Reference::BareEnv => Some(format!("{{env:{variable}}}")),
            Reference::Named | Reference::Unsupported => None,
        }
    }
}

fn program(host: &Host, command: &str, args: &[String], env: &[(String, Value)]) -> Entry {
    let (mut texts, mut names, mut warnings) = (Map::new(), Vec::new(), Vec::new());
    for (name, value) in env {
        match (value, host.reference(name)) {
            (Value::Text(text), _) => _ = texts.insert(name.clone(), text.as_str().into()),
            (Value::Inherited, Some(reference)) => {
                texts.insert(name.clone(), reference.into());
            }
            (Value::Inherited, None) if host.reference == Reference::Named => {
                names.push(name.as_str());
            }
            (Value::Inherited, None) => warnings.push(format!(
                "{name} is not in the entry: {} cannot refer to a variable, and a secret does not belong into its \
                 file. Put it into a file and set {name}_FILE, or set {name} for {}",
                host.name, host.name
            )),
        }
    }
    if let Some(first) = inherited(env)
        && warnings.is_empty()
    {
        warnings.push(format!(
            "the entry refers to {first}: it must be set where {} is started",
            host.name
        ));
    }
    let mut entry = Map::new();
    match host.form {
        Form::Typed => _ = entry.insert("type".to_owned(), "stdio".into()),
        Form::Opencode => _ = entry.insert("type".to_owned(), "local".into()),
        _ => {}
    }
    let env = if host.form == Form::Opencode {
        let words: Vec<&str> = std::iter::once(command)
            .chain(args.iter().map(String::as_str))
            .collect();
        entry.insert("command".to_owned(), json!(words));
        "environment"
    } else {
        entry.insert("command".to_owned(), command.into());
        entry.insert("args".to_owned(), json!(args));
        "env"
    };
    if !texts.is_empty() {
        entry.insert(env.to_owned(), texts.into());
    }
    if !names.is_empty() {
        entry.insert("env_vars".to_owned(), json!(names));
    }
    if host.form == Form::Transport {
        entry.insert("transport".to_owned(), "stdio".into());
    }
    Entry {
        value: entry.into(),
        warnings,
    }
}

/// The name of the first variable that is taken from the host.
fn inherited(env: &[(String, Value)]) -> Option<&str> {
    let found = env.iter().find(|(_, value)| *value == Value::Inherited);
    found.map(|(name, _)| name.as_str())
}

fn address(
    host: &Host,
    name: &str,
    url: &str,
    token: Option<&Token>,
    bridge: &Option<String>,
) -> Result<Entry, String> {
    let takes_token = match token {
        None => true,
        Some(Token::Variable(_)) => host.reference != Reference::Unsupported,
        Some(Token::File(_)) => false,
    };
    if host.form == Form::Node {
        return Ok(node(name, url, token));
    }
    if host.form == Form::Programs || !takes_token {
        let Some(bridge) = bridge else {
            return Err(format!(
                "{} needs `mcp-gateway bridge` to reach this URL: install mcp-gateway beside this program",
                host.name
            ));
        };
        let mut args = vec!["bridge".to_owned(), url.to_owned()];
        let mut env = Vec::new();
        match token {
            Some(Token::File(path)) => args.extend(["--token-file".to_owned(), path.clone()]),
            Some(Token::Variable(variable)) => {
                args.extend(["--token-env".to_owned(), variable.clone()]);
                env.push((variable.clone(), Value::Inherited));
            }
            None => {}
        }
        return Ok(program(host, bridge, &args, &env));
    }
    let mut entry = Map::new();
    match host.form {
        Form::Typed => _ = entry.insert("type".to_owned(), "http".into()),
        Form::Opencode => _ = entry.insert("type".to_owned(), "remote".into()),
        _ => {}
    }
    let field = match host.form {
        Form::ServerUrl => "serverUrl",
        Form::HttpUrl => "httpUrl",
        _ => "url",
    };
    entry.insert(field.to_owned(), url.into());
    let mut warnings = Vec::new();
    if let Some(Token::Variable(variable)) = token {
        match host.reference(variable) {
            Some(reference) => {
                let headers = json!({"Authorization": format!("Bearer {reference}")});
                entry.insert("headers".to_owned(), headers);
            }
            None => {
                let variable = variable.as_str();
                entry.insert("bearer_token_env_var".to_owned(), variable.into());
            }
        }
        warnings.push(format!(
            "the entry refers to {variable}: it must be set where {} is started",
            host.name
        ));
    }
    if host.form == Form::Transport {
        entry.insert("transport".to_owned(), "http".into());
    }
    Ok(Entry {
        value: entry.into(),
        warnings,
    })
}

/// A node as n8n copies it to the clipboard.
fn node(name: &str, url: &str, token: Option<&Token>) -> Entry {
    let authentication = if token.is_some() {
        "bearerAuth"
    } else {
        "none"
    };
    let value = json!({
        "nodes": [{
            "parameters": {
                "endpointUrl": url,
                "serverTransport": "httpStreamable",
                "authentication": authentication,
                "options": {},
            },
            "type": "@n8n/n8n-nodes-langchain.mcpClientTool",
            "typeVersion": 1.2,
            "position": [0, 0],
            "name": name,
        }],
        "connections": {},
    });
    Entry {
        value,
        warnings: Vec::new(),
    }
}
