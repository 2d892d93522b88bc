//! A backend in place of a host's server.

use std::collections::BTreeMap;
use std::path::Path;

use mcp_hosts::Listed;
use serde_json::{Map, Value, json};

use super::secret;

/// A backend in the form of the gateway's file.
pub(super) struct Taken {
    pub(super) value: Value,
    secrets: Vec<Secret>,
}

/// A value that was not copied.
struct Secret {
    /// `env` or `headers`.
    place: &'static str,
    name: String,
    value: String,
}

/// The secrets for which variables stand, by the names of the variables.
pub(super) type Variables = BTreeMap<String, String>;

impl Taken {
    /// Puts references to variables in place of secrets. Returns the variables. `is_used`: the file of the gateway
    /// refers to it.
    pub(super) fn named(
        mut self,
        key: &str,
        known: &mut Variables,
        is_used: impl Fn(&str) -> bool,
    ) -> (Value, Vec<String>) {
        let key = key.to_uppercase();
        let (mut variables, mut has_header) = (Vec::new(), false);
        for Secret { place, name, value } in self.secrets {
            let (scheme, _) = match place {
                "headers" => secret::scheme(&value),
                _ => ("", ""),
            };
            let own = match place {
                "headers" if !has_header => variable(&format!("{key}_TOKEN")),
                "headers" => variable(&format!("{key}_{}", name.to_uppercase())),
                _ => variable(&name),
            };
            has_header |= place == "headers";
            let is_free = |variable: &String| {
                known
                    .get(variable)
                    .map_or(!is_used(variable), |other| *other == value)
            };
            let numbered = (2..).map(|number| {
                format!(
                    "{}_{number}",
                    variable(&format!("{key}_{}", name.to_uppercase()))
                )
            });
            let mut all = [
                own.clone(),
                variable(&format!("{key}_{}", name.to_uppercase())),
            ]
            .into_iter()
            .chain(numbered);
            let chosen = all.find(is_free).unwrap_or(own);
            self.value[place][&name] = format!("{scheme}${{{chosen}}}").into();
            known.insert(chosen.clone(), value);
            variables.push(chosen);
        }
        (self.value, variables)
    }
}

/// The nearest name of a variable.
fn variable(text: &str) -> String {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name: String = text
        .chars()
        .map(|c| if is_letter(c) { c } else { '_' })
        .collect();
    match name.starts_with(|c: char| c.is_ascii_digit()) {
        true => format!("_{name}"),
        false => name,
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
    if let Some(found) = secret::in_command(&server.command, can_refer) {
        return Err(format!(
            "{found} may hold a secret on a command line: move it to a variable"
        ));
    }
    let (mut value, mut secrets) = (Map::new(), Vec::new());
    let mut pairs = |place, pairs: &[(String, String)]| -> Map<String, Value> {
        let pairs = pairs.iter().map(|(name, old)| {
            let new = match secret::is_plain(name, old, can_refer) {
                true => text(&braced(old)),
                false => {
                    secrets.push(Secret {
                        place,
                        name: name.clone(),
                        value: old.clone(),
                    });
                    String::new()
                }
            };
            (name.clone(), new.into())
        });
        pairs.collect()
    };
    match (server.command.is_empty(), &server.url) {
        (false, _) => {
            let command: Vec<_> = server.command.iter().map(|word| text(word)).collect();
            value.insert("command".to_owned(), json!(command));
            if let Some(folder) = &server.cwd {
                value.insert("cwd".to_owned(), text(folder).into());
            }
            let env = pairs("env", &server.env);
            if !env.is_empty() {
                value.insert("env".to_owned(), env.into());
            }
            if !server.env_pass.is_empty() {
                value.insert("env_pass".to_owned(), json!(server.env_pass));
            }
        }
        (true, Some(url)) => {
            if secret::has_password(url) {
                return Err("its URL has a user: move the password to a header".to_owned());
            }
            let (_, query) = url.split_once('?').unwrap_or((url, ""));
            if query
                .split('&')
                .any(|part| secret::is_named(part.split('=').next().unwrap_or(part)))
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
            let headers = pairs("headers", &server.headers);
            if !headers.is_empty() {
                value.insert("headers".to_owned(), headers.into());
            }
        }
        (true, None) => return Err("it has neither a command nor a URL".to_owned()),
    }
    Ok(Taken {
        value: value.into(),
        secrets,
    })
}

/// `$NAME`, as Gemini CLI has it, in the form of the gateway.
fn braced(text: &str) -> String {
    let (scheme, rest) = secret::scheme(text);
    let name = rest.strip_prefix('$').unwrap_or_default();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match is_name {
        true => format!("{scheme}${{{name}}}"),
        false => text.to_owned(),
    }
}
