//! `mcp-gateway explain`: says which line of the configuration allows or denies an item to a principal.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;
use mcp_core::server::{AccessItem, Principal};

use gateway_access::Role;
use serde_json::value::RawValue;

use super::CONFIG_ERROR;
use crate::config::Options;

/// Says which line of the configuration allows or denies a tool, prompt or resource to a principal.
///
/// Starts nothing. Exit code: 0 allowed, 1 denied, 78 unusable configuration.
#[derive(Parser)]
pub(super) struct Explain {
    /// Name of the principal's token, `role:NAME` of the token file, or `sub:…`, `group:…` or `scope:…` of an
    /// OAuth token. Can be repeated; without it a client without a token.
    #[arg(long = "as", value_name = "PRINCIPAL")]
    principal: Vec<String>,
    /// Published name of a tool or prompt (BACKEND__NAME), or the URI of a resource.
    item: String,
    /// Arguments of a call of the tool, as a JSON object, for the conditions of the role.
    #[arg(long, value_name = "JSON", value_parser = arguments)]
    args: Option<Box<RawValue>>,
    #[command(flatten)]
    options: Options,
}

/// Runs the command.
pub(super) fn run(explain: Explain) -> ExitCode {
    let Explain {
        principal,
        item,
        args,
        options,
    } = explain;
    let (line, code) = match options.load() {
        Err(error) => (error.to_string(), ExitCode::from(CONFIG_ERROR)),
        Ok((config, _)) => match config.roles {
            None => ("allowed: there are no roles".to_owned(), ExitCode::SUCCESS),
            Some(roles) => {
                let principal = named(principal);
                let role = roles.role(principal.as_ref());
                let decision = decide(role, principal.as_ref(), &item, args.as_deref());
                let (text, code) = match decision {
                    Ok(text) => (text, ExitCode::SUCCESS),
                    Err(text) => (text, ExitCode::FAILURE),
                };
                (format!("role {}: {text}", role.name), code)
            }
        },
    };
    // A closed pipe changes nothing.
    let _ = writeln!(std::io::stdout(), "{line}");
    code
}

/// The decision about an item, and about a call of it if there are arguments. The error is that it is denied.
fn decide(
    role: &Role,
    principal: Option<&Principal>,
    item: &str,
    arguments: Option<&RawValue>,
) -> Result<String, String> {
    let is_resource = item.contains("://");
    let decision = role.decide(match is_resource {
        true => AccessItem::Resource(item),
        false => AccessItem::Tool {
            name: item,
            effect: None,
        },
    });
    let mut text = decision.to_string();
    if !decision.is_allowed() {
        return Err(text);
    }
    // Only calls of tools are judged.
    if is_resource {
        return Ok(text);
    }
    let verb = match arguments {
        Some(arguments) => {
            let tool = item.replacen([':', '.'], "__", 1);
            gateway_access::check(role, principal, &tool, arguments)?;
            "; its arguments meet"
        }
        None => ", if its arguments meet",
    };
    for condition in &role.conditions {
        text.push_str(&format!("{verb} {condition}"));
    }
    if let Some(limit) = &role.limit {
        text.push_str(&format!("; limited by {limit}"));
    }
    Ok(text)
}

fn arguments(text: &str) -> Result<Box<RawValue>, String> {
    let json = RawValue::from_string(text.to_owned()).map_err(|error| error.to_string())?;
    match json.get().starts_with('{') {
        true => Ok(json),
        false => Err("must be a JSON object".to_owned()),
    }
}

/// The principal with this name and these claims; `None` without any.
fn named(texts: Vec<String>) -> Option<Principal> {
    if texts.is_empty() {
        return None;
    }
    let (claims, names): (Vec<_>, Vec<_>) = texts
        .into_iter()
        .partition(|text| Principal::is_claim(text));
    let name = names.into_iter().next().unwrap_or_default();
    Some(Principal {
        claims: claims.into_iter().map(Into::into).collect(),
        ..Principal::new(name)
    })
}
