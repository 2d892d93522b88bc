//! A backend in place of a host's server.

use std::path::Path;

use mcp_hosts::Listed;
use serde_json::{Map, Value, json};

/// Parts of names of variables, headers and options that hold secrets.
const SECRET_WORDS: &[&str] = &[
    "KEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "CREDENTIAL",
    "AUTHORIZATION",
];

/// A backend in the form of the gateway's file.
pub(super) struct Taken {
    pub(super) value: Value,
    /// The variables that stand for secrets, which were not copied.
    pub(super) variables: Vec<String>,
}

/// Stands for the name of the backend in the name of a variable.
const KEY: &str = "{KEY}";

impl Taken {
    /// Puts the name of the backend in.
    pub(super) fn named(mut self, key: &str) -> Self {
        let key = key.to_uppercase().replace('-', "_");
        for variable in &mut self.variables {
            *variable = variable.replace(KEY, &key);
        }
        if let Some(headers) = self.value.get_mut("headers").and_then(Value::as_object_mut) {
            for header in headers.values_mut() {
                let text = header.as_str().unwrap_or_default().replace(KEY, &key);
                *header = text.into();
            }
        }
        self
    }
}

/// Makes a backend of a server. `can_refer`: `${` refers to a variable in this host.
///
/// # Errors
/// The reason why it cannot be one.
pub(super) fn take(server: &Listed, can_refer: bool) -> Result<Taken, String> {
    let text = |text: &str| match can_refer {
        true => text.to_owned(),
        false => text.replace("${", "$${"),
    };
    let program = server
        .command
        .first()
        .map(Path::new)
        .and_then(Path::file_stem);
    if program.is_some_and(|program| program == "mcp-gateway") {
        return Err("it is the gateway itself".to_owned());
    }
    if server.is_disabled {
        return Err("it is switched off in the host".to_owned());
    }
    let all = server
        .env
        .iter()
        .chain(&server.headers)
        .map(|(_, value)| value);
    if all
        .chain(&server.command)
        .any(|value| value.contains("${input:"))
    {
        return Err("it asks for an input, which the gateway cannot: use a variable".to_owned());
    }
    if let Some(option) = secret_option(&server.command) {
        return Err(format!(
            "{option} may hold a secret on a command line: move it to a variable"
        ));
    }
    let (mut value, mut variables) = (Map::new(), Vec::new());
    match (server.command.is_empty(), &server.url) {
        (false, _) => {
            let command: Vec<_> = server.command.iter().map(|word| text(word)).collect();
            value.insert("command".to_owned(), json!(command));
            if let Some(folder) = &server.cwd {
                value.insert("cwd".to_owned(), text(folder).into());
            }
            let mut env = Map::new();
            for (name, old) in &server.env {
                let new = match is_secret(name) && !old.starts_with('$') && !old.is_empty() {
                    true => {
                        variables.push(name.clone());
                        format!("${{{name}}}")
                    }
                    false => text(&braced(old)),
                };
                env.insert(name.clone(), new.into());
            }
            if !env.is_empty() {
                value.insert("env".to_owned(), env.into());
            }
            if !server.env_pass.is_empty() {
                value.insert("env_pass".to_owned(), json!(server.env_pass));
            }
        }
        (true, Some(url)) => {
            let (_, query) = url.split_once('?').unwrap_or((url, ""));
            if query
                .split('&')
                .any(|part| is_secret(part.split('=').next().unwrap_or(part)))
            {
                return Err("its URL may hold a secret: move it to a header".to_owned());
            }
            value.insert("url".to_owned(), text(url).into());
            if server.is_sse {
                value.insert("transport".to_owned(), "sse".into());
            }
            if let Some(name) = &server.token_variable {
                value.insert("token".to_owned(), format!("${{{name}}}").into());
            }
            let mut headers = Map::new();
            for (name, old) in &server.headers {
                let is_literal = !old.contains('$') && !old.is_empty();
                let new = match is_secret(name) && is_literal {
                    true => {
                        let variable = format!("{KEY}_TOKEN");
                        let scheme = if old.starts_with("Bearer ") {
                            "Bearer "
                        } else {
                            ""
                        };
                        let new = format!("{scheme}${{{variable}}}");
                        variables.push(variable);
                        new
                    }
                    false => text(old),
                };
                headers.insert(name.clone(), new.into());
            }
            if !headers.is_empty() {
                value.insert("headers".to_owned(), headers.into());
            }
        }
        (true, None) => return Err("it has neither a command nor a URL".to_owned()),
    }
    Ok(Taken {
        value: value.into(),
        variables,
    })
}

/// `$NAME`, as Gemini CLI has it, in the form of the gateway.
fn braced(text: &str) -> String {
    let name = text.strip_prefix('$').unwrap_or_default();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match is_name {
        true => format!("${{{name}}}"),
        false => text.to_owned(),
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_uppercase();
    let names_file = name.ends_with("_FILE");
    !names_file && SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// The option of a command line with a secret as its value.
fn secret_option(command: &[String]) -> Option<&str> {
    let mut words = command.iter().skip(1).peekable();
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix("--") else {
            continue;
        };
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let names_file = name.ends_with("file") || name.ends_with("env");
        let has_value =
            !value.is_empty() || words.peek().is_some_and(|next| !next.starts_with('-'));
        let refers =
            value.starts_with('$') || words.peek().is_some_and(|next| next.starts_with('$'));
        if is_secret(name) && has_value && !names_file && !refers {
            let end = word.find('=').unwrap_or(word.len());
            return Some(&word[..end]);
        }
    }
    None
}
