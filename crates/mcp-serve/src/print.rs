//! The `--print-…` options: prints tools, toolsets and options as JSON, from the declarations that the
//! server also works by.

use std::io::Write as _;

use clap::{Arg, Command};
use mcp_core::tool::{Detail, ToolDefinition};
use serde_json::{Value, json};

use crate::config::{Setting, is_shared};

/// Prints the tools as in `tools/list`.
pub(crate) fn tools(tools: &[ToolDefinition]) -> anyhow::Result<()> {
    let tools = tools.iter().map(|tool| tool.render(Detail::Full));
    write(tools.collect())
}

pub(crate) fn toolsets(names: &[&str]) -> anyhow::Result<()> {
    write(names.iter().copied().map(Value::from).collect())
}

/// Prints the options of `--help` that have an environment variable.
pub(crate) fn options(mut command: Command) -> anyhow::Result<()> {
    // Sets the headings and defaults of the arguments.
    command.build();
    let configurable = |arg: &&Arg| !arg.is_hide_set() && arg.get_env().is_some();
    write(
        command
            .get_arguments()
            .filter(configurable)
            .map(option)
            .collect(),
    )
}

/// Returns one option. `value` and `default` may be `null`; `values` is empty unless the option is an enum.
/// Packages are made from these too: what is `secret` is kept out of files that others may read.
fn option(arg: &Arg) -> Value {
    let takes_value = arg.get_action().takes_values();
    let value = arg.get_value_names().and_then(|names| names.first());
    let default = arg.get_default_values().first();
    let values = arg.get_possible_values();
    let setting = Setting::new(arg);
    json!({
        "flag": arg.get_long().map(|long| format!("--{long}")),
        "value": value.filter(|_| takes_value).map(|name| name.as_str()),
        "values": values.iter().map(|value| value.get_name()).collect::<Vec<_>>(),
        "env": arg.get_env().map(|env| env.to_string_lossy()),
        "default": default.filter(|_| takes_value).map(|value| value.to_string_lossy()),
        "type": setting.kind(),
        "repeatable": setting.is_list(),
        "required": arg.is_required_set(),
        "secret": setting.is_secret(),
        "help": setting.help(),
        "is_shared": is_shared(arg),
        "heading": arg.get_help_heading(),
    })
}

fn write(list: Vec<Value>) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut stdout, &list)?;
    writeln!(stdout)?;
    Ok(())
}
