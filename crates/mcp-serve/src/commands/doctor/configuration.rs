//! The configuration: the options, the files that they name, and what the product makes of them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Write as _;

use clap::builder::{OsStr, Resettable};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Id};
use mcp_core::tool::Detail;

use super::report::Report;
use crate::config::{self, Problem, SetOption, Setting};
use crate::{Command, Options, Product, Service, log};

/// The options that are set, each with its value, unless that is a secret, and its source.
pub(super) fn values(
    command: &clap::Command,
    matches: &ArgMatches,
    places: &HashMap<Id, String>,
) -> String {
    let mut text = String::new();
    let settings = config::settings(command);
    for SetOption { key, value, source } in config::set_options(&settings, matches, places) {
        let _ = writeln!(text, "{key} = {value} ({source})");
    }
    text
}

/// Finds the variables with values that cannot be used, and leaves them out: clap does not name them.
pub(super) fn without_faulty_variables(
    command: clap::Command,
    args: &[OsString],
    problems: &mut Vec<Problem>,
) -> clap::Command {
    let lenient = command.clone().ignore_errors(true);
    let given = lenient.try_get_matches_from(args).ok();
    command.mut_args(|arg| {
        let Some(variable) = arg.get_env().map(ToOwned::to_owned) else {
            return arg;
        };
        let id = arg.get_id().as_str();
        let source = given.as_ref().and_then(|given| given.value_source(id));
        let value = std::env::var_os(&variable);
        let Some(value) = value.filter(|_| source != Some(ValueSource::CommandLine)) else {
            return arg;
        };
        let key = String::new();
        let fault = match value.to_str() {
            Some(text) => Setting { key, arg: &arg }.fault(&[text.to_owned()]),
            None => Some("is no UTF-8 text".to_owned()),
        };
        let Some(text) = fault else {
            return arg;
        };
        problems.push(Problem {
            place: variable.to_string_lossy().into_owned(),
            ..Problem::new(text)
        });
        arg.env(Resettable::<OsStr>::Reset)
    })
}

/// Checks usable options with the files that they name, and the tools that they leave. Returns these as JSON.
pub(super) fn examine<S: Service, O: Args + 'static>(
    report: &mut Report,
    product: &mut Product<S, O>,
    command: &Command<O>,
) -> Vec<String> {
    let options = &command.common;
    let mut fail = |error: anyhow::Error| report.fail("config", format!("{error:#}"), "");
    let _ = log::filter(&options.log).map_err(&mut fail);
    let _ = product.check_key(command).map_err(&mut fail);
    let functions = product.functions.clone();
    let tools = product.product_tools(&command.product).choose(options);
    product.functions = functions;
    let tools = tools.map(|tools| {
        let tools = tools.definitions().into_iter();
        tools
            .map(|tool| tool.render(Detail::Full).to_string())
            .collect()
    });
    let tools = tools.map_err(&mut fail).unwrap_or_default();
    if let Some(check) = &product.check {
        for problem in (check.problems)(&command.product) {
            report.fail("config", problem.to_string(), "");
        }
    }
    if !options.stdio {
        examine_access(report, options);
    }
    tools
}

/// Checks the tokens and certificates of clients.
fn examine_access(report: &mut Report, options: &Options) {
    match options.tokens() {
        Err(error) => report.fail(
            "token",
            format!("{error:#}"),
            "set MCP_TOKEN or MCP_TOKEN_FILE",
        ),
        Ok(found) if found.oauth.is_some() => {
            report.ok("token", "clients need a token of an issuer".to_owned());
        }
        Ok(found) if !found.tokens.is_empty() => {
            report.ok("token", "clients need a token".to_owned());
        }
        Ok(_) if options.bind.is_loopback() => {
            report.ok("token", "none: only this machine can connect".to_owned());
        }
        Ok(_) => report.warn(
            "token",
            "none, and other machines can connect".to_owned(),
            "set MCP_TOKEN or MCP_TOKEN_FILE",
        ),
    }
    if let Err(error) = options.tls() {
        report.fail(
            "tls",
            format!("{error:#}"),
            "correct --tls-cert and --tls-key",
        );
    }
}
