//! `mcp-gateway explain`: says which line of the configuration allows or denies an item to a principal.

use std::process::ExitCode;

use clap::Parser;
use gateway_access::{Role, View, WITHOUT_VIEW};
use mcp_core::server::{AccessItem, Principal};
use mcp_core::suggestion::suggestion;
use serde_json::value::RawValue;

use super::{Failure, load, print};
use crate::config::{Config, Options};

/// Says which rule allows or denies a tool, prompt or resource to a principal.
///
/// Starts nothing. Exit code: 0 allowed (a resource also if only one of the backends may have it), 1 denied, 78 unusable
/// configuration.
#[derive(Parser)]
pub(super) struct Explain {
    /// Name of the principal's token, `role:NAME` of the token file, or `sub:…`, `group:…` or `scope:…` of an
    /// OAuth token. Can be repeated; without it a client without a token.
    #[arg(long = "as", value_name = "PRINCIPAL")]
    principal: Vec<String>,
    /// View that the client uses; without it the gateway itself.
    #[arg(long, value_name = "NAME")]
    view: Option<String>,
    /// Published name of a tool or prompt (BACKEND__NAME), or its name in the view, or the URI of a resource.
    item: String,
    /// Arguments of a call of the tool, as a JSON object, for the patterns of the role.
    #[arg(long, value_name = "JSON", value_parser = arguments)]
    args: Option<Box<RawValue>>,
    #[command(flatten)]
    options: Options,
}

/// Runs the command.
pub(super) fn run(explain: Explain) -> ExitCode {
    let Explain {
        principal,
        view,
        item,
        args,
        options,
    } = explain;
    let explained = load(options).and_then(|config| {
        let principal = named(principal);
        let (view, args) = (view.as_deref(), args.as_deref());
        let text = explained(&config, principal.as_ref(), view, &item, args);
        print(&text.map_err(Failure::new)?);
        Ok(0)
    });
    Failure::exit_code(explained)
}

/// The decisions of the role and of the view about an item. The error is that one of them denies it.
fn explained(
    config: &Config,
    principal: Option<&Principal>,
    view: Option<&str>,
    item: &str,
    arguments: Option<&RawValue>,
) -> Result<String, String> {
    let role = config.roles.as_ref().map(|roles| roles.role(principal));
    let found = view.map(|name| {
        config.view(name).ok_or_else(|| {
            let names = config.views.iter().map(|view| &*view.name);
            format!(
                "denied: there is no view {name:?}{}",
                suggestion(name, names)
            )
        })
    });
    let found = found.transpose()?;
    if let Some(role) = role {
        let name = view.unwrap_or(WITHOUT_VIEW);
        if !role.may_use_view(name) {
            let rules = role.views.iter().flatten().map(ToString::to_string);
            let rules: Vec<String> = rules.collect();
            let rules = rules.join(", ");
            return Err(format!(
                "role {}: denied: {rules} does not have {name}",
                role.name
            ));
        }
    }
    let original = found.map_or(item, |view| view.original(item));
    let mut parts = Vec::new();
    if let Some(role) = role {
        let decided = decide(config, role, found.map(|view| &**view), original, arguments);
        let text = |text| format!("role {}: {text}", role.name);
        parts.push(decided.map(text).map_err(text)?);
    }
    if let Some(view) = found {
        let decision = view.decide(as_item(item), None);
        let mut text = format!("view {}: {decision}", view.name);
        if !decision.is_allowed() {
            return Err(text);
        }
        // Only a backend that runs tells its resources.
        if item.contains("://") && view.backends.is_some() {
            text += ", if one of its backends has it";
        }
        parts.push(text);
    }
    if parts.is_empty() {
        parts.push("allowed: there are no roles".to_owned());
    }
    let of_role = role
        .iter()
        .flat_map(|role| role.confirm.iter().chain(&role.approve));
    let of_all = config
        .approvals
        .confirm
        .iter()
        .chain(&config.approvals.approve);
    let is_tool = !item.contains("://");
    let tool = original.replacen([':', '.'], "__", 1);
    let people = of_role
        .chain(of_all)
        .filter(|rule| is_tool && rule.matches(&tool));
    parts.extend(people.map(|rule| format!("a call needs a person by {rule}")));
    Ok(parts.join("; "))
}

/// A text with `://` is the URI of a resource.
fn as_item(text: &str) -> AccessItem<'_> {
    match text.contains("://") {
        true => AccessItem::Resource(text),
        false => AccessItem::Tool {
            name: text,
            effect: None,
        },
    }
}

/// The decision about an item, and about a call of it if there are arguments. The error is that it is denied.
fn decide(
    config: &Config,
    role: &Role,
    view: Option<&View>,
    item: &str,
    arguments: Option<&RawValue>,
) -> Result<String, String> {
    let decision = role.decide(as_item(item), None);
    let mut text = decision.to_string();
    // Only calls of tools are judged.
    if item.contains("://") {
        // A rule may be about the resources of one backend, and only a backend that runs tells its resources.
        let owners = config.backends.iter().filter_map(|(key, backend)| {
            let is_in_view = view.is_none_or(|view| view.has_backend(key.as_str()));
            if backend.disabled.is_some() || !is_in_view {
                return None;
            }
            let own = role.decide(as_item(item), Some(key.as_str()));
            let differs = own.is_allowed() != decision.is_allowed();
            differs.then(|| format!("; if it is of the backend {key}: {own}"))
        });
        let owners: String = owners.collect();
        text += &owners;
        return match decision.is_allowed() || !owners.is_empty() {
            true => Ok(text),
            false => Err(text),
        };
    }
    if !decision.is_allowed() {
        return Err(text);
    }
    if let Some(arguments) = arguments {
        let tool = item.replacen([':', '.'], "__", 1);
        let rule = role.judge(&tool, None, arguments)?;
        if let Some((rule, patterns)) = rule.and_then(|rule| Some((rule, rule.arguments.as_ref()?)))
        {
            text = format!("allowed by {rule}; its arguments match {patterns}");
        }
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
