//! `mcp-gateway explain`: says which line of the configuration allows or denies an item to a principal.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;
use mcp_core::server::{AccessItem, Principal};

use super::CONFIG_ERROR;
use crate::config::Options;

/// Says which line of the configuration allows or denies a tool, prompt or resource to a principal. Starts
/// nothing. Exit code: 0 allowed, 1 denied, 78 unusable configuration.
#[derive(Parser)]
#[command(name = "mcp-gateway explain")]
struct Explain {
    /// Name of the principal's token, `role:NAME` of the token file, or `sub:…`, `group:…` or `scope:…` of an
    /// OAuth token. Can be repeated; without it a client without a token.
    #[arg(long = "as", value_name = "PRINCIPAL")]
    principal: Vec<String>,
    /// Published name of a tool or prompt (BACKEND__NAME), or the URI of a resource.
    item: String,
    #[command(flatten)]
    options: Options,
}

/// Runs the command with its arguments, the program's name first.
pub(super) fn run(args: Vec<OsString>) -> ExitCode {
    let Explain {
        principal,
        item,
        options,
    } = Explain::parse_from(args);
    let (line, code) = match options.load() {
        Err(error) => (error.to_string(), ExitCode::from(CONFIG_ERROR)),
        Ok((config, _)) => match config.roles {
            None => ("allowed: there are no roles".to_owned(), ExitCode::SUCCESS),
            Some(roles) => {
                let role = roles.role(named(principal).as_ref());
                let decision = role.decide(match item.contains("://") {
                    true => AccessItem::Resource(&item),
                    false => AccessItem::Tool {
                        name: &item,
                        effect: None,
                    },
                });
                let code = ExitCode::from(u8::from(!decision.is_allowed()));
                (format!("role {}: {decision}", role.name), code)
            }
        },
    };
    // A closed pipe changes nothing.
    let _ = writeln!(std::io::stdout(), "{line}");
    code
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
