//! A server in the form of a host's entry.

use serde_json::{Map, Value, json};

use crate::host::{Form, Host, Reference};

/// The way a host reaches a server.
pub enum Launch {
    /// It starts a program, with MCP on its stdin and stdout.
    Program {
        /// The program, as an absolute path.
        command: String,
        /// Its arguments, without secrets.
        args: Vec<String>,
        /// Its environment variables.
        env: Vec<(String, Variable)>,
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

/// The value of an environment variable.
pub enum Variable {
    /// No secret.
    Plain(String),
    /// That of the host's environment, since it has a secret.
    Inherited {
        /// A sentence without its end about what helps where the host cannot refer to a variable.
        otherwise: String,
    },
}

/// The place of the bearer token.
pub enum Token {
    /// In this environment variable of the host.
    Variable(String),
    /// In this file.
    File(String),
}

/// An entry as JSON, also for a file in TOML, and notes for the user, such as on a secret that it lacks.
pub type Entry = (Value, Vec<String>);

/// Returns the entry of a server for a host.
///
/// # Errors
/// Why the host cannot use the server, and what to do.
pub fn entry(host: &Host, name: &str, launch: &Launch) -> Result<Entry, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
        let text = "must be 1 to 64 characters of a-z, A-Z, 0-9, - and _";
        return Err(format!("the name {name:?} {text}"));
    }
    match launch {
        Launch::Program { .. } if host.form == Form::Node => Err(format!(
            "{} starts no programs: start the server yourself, and connect it with --http URL",
            host.name
        )),
        Launch::Program { command, args, env } => Ok(program(host, command, args, env)),
        Launch::Url { url, token, .. } if host.form == Form::Node => {
            Ok((node(name, url, token.is_some()), Vec::new()))
        }
        Launch::Url { url, token, bridge } => address(host, url, token.as_ref(), bridge.as_deref()),
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

    /// Returns an entry with the kind that its form names, and these members.
    fn with_kind(&self, [kind, of_opencode]: [&str; 2], members: Map<String, Value>) -> Value {
        let mut entry = Map::new();
        match self.form {
            Form::Typed => _ = entry.insert("type".to_owned(), kind.into()),
            Form::Opencode => _ = entry.insert("type".to_owned(), of_opencode.into()),
            _ => {}
        }
        entry.extend(members);
        if self.form == Form::Transport {
            entry.insert("transport".to_owned(), kind.into());
        }
        entry.into()
    }

    fn must_be_set(&self, variable: &str) -> String {
        let name = self.name;
        format!("the entry refers to {variable}: it must be set where {name} is started")
    }
}

fn program(host: &Host, command: &str, args: &[String], env: &[(String, Variable)]) -> Entry {
    let (mut texts, mut names, mut warnings) = (Map::new(), Vec::new(), Vec::new());
    for (name, value) in env {
        let otherwise = match value {
            Variable::Plain(text) => {
                texts.insert(name.clone(), text.as_str().into());
                continue;
            }
            Variable::Inherited { otherwise } => otherwise,
        };
        match host.reference(name) {
            Some(text) => _ = texts.insert(name.clone(), text.into()),
            None if host.reference == Reference::Named => names.push(name.as_str()),
            None => warnings.push(format!(
                "{name} is not in the entry: {0} cannot refer to a variable, and a secret does not belong into its \
                 file. {otherwise}, or set {name} for {0}",
                host.name
            )),
        }
    }
    let is_inherited = |value: &Variable| matches!(value, Variable::Inherited { .. });
    let inherited = env.iter().find(|(_, value)| is_inherited(value));
    if let Some((first, _)) = inherited.filter(|_| warnings.is_empty()) {
        warnings.push(host.must_be_set(first));
    }
    let mut entry = Map::new();
    let env = if host.form == Form::Opencode {
        let args = args.iter().map(String::as_str);
        let words: Vec<&str> = std::iter::once(command).chain(args).collect();
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
    (host.with_kind(["stdio", "local"], entry), warnings)
}

fn address(
    host: &Host,
    url: &str,
    token: Option<&Token>,
    bridge: Option<&str>,
) -> Result<Entry, String> {
    let takes_token = match token {
        None => true,
        Some(Token::Variable(_)) => host.reference != Reference::Unsupported,
        Some(Token::File(_)) => false,
    };
    if host.form == Form::Programs || !takes_token {
        let bridge = bridge.ok_or_else(|| {
            format!(
                "{} needs `mcp-gateway bridge` to reach this URL: install mcp-gateway beside this program",
                host.name
            )
        })?;
        let (mut args, mut env) = (vec!["bridge", url], Vec::new());
        match token {
            Some(Token::File(path)) => args.extend(["--token-file", path]),
            Some(Token::Variable(variable)) => {
                args.extend(["--token-env", variable]);
                let otherwise = "Put it into a file and connect with --token-file FILE".to_owned();
                env.push((variable.clone(), Variable::Inherited { otherwise }));
            }
            None => {}
        }
        let args: Vec<_> = args.into_iter().map(str::to_owned).collect();
        return Ok(program(host, bridge, &args, &env));
    }
    let field = match host.form {
        Form::ServerUrl => "serverUrl",
        Form::HttpUrl => "httpUrl",
        _ => "url",
    };
    let (mut entry, mut warnings) = (Map::new(), Vec::new());
    entry.insert(field.to_owned(), url.into());
    if let Some(Token::Variable(variable)) = token {
        let (field, value) = match host.reference(variable) {
            Some(reference) => (
                "headers",
                json!({"Authorization": format!("Bearer {reference}")}),
            ),
            None => ("bearer_token_env_var", variable.as_str().into()),
        };
        entry.insert(field.to_owned(), value);
        warnings.push(host.must_be_set(variable));
    }
    Ok((host.with_kind(["http", "remote"], entry), warnings))
}

/// A node as n8n copies it to the clipboard.
fn node(name: &str, url: &str, has_token: bool) -> Value {
    json!({
        "nodes": [{
            "parameters": {
                "endpointUrl": url,
                "serverTransport": "httpStreamable",
                "authentication": if has_token { "bearerAuth" } else { "none" },
                "options": {},
            },
            "type": "@n8n/n8n-nodes-langchain.mcpClientTool",
            "typeVersion": 1.2,
            "position": [0, 0],
            "name": name,
        }],
        "connections": {},
    })
}
