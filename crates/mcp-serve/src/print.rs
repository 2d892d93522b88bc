//! The `--print-…` options: prints tools, toolsets and options as JSON, from the declarations that the
//! server also works by.

use std::io::Write as _;

use clap::{Arg, Command, builder::StyledStr};
use mcp_core::tool::{Detail, ToolDefinition, Toolset};
use serde_json::{Value, json};

/// The tools as `tools/list` shows them.
pub(crate) fn tools(tools: impl Iterator<Item = ToolDefinition>) -> anyhow::Result<()> {
    write(tools.map(|tool| tool.render(Detail::Full)).collect())
}

/// The names of the toolsets.
pub(crate) fn toolsets<S: Send + Sync + 'static>(tools: &Toolset<S>) -> anyhow::Result<()> {
    write(tools.groups().into_iter().map(Value::from).collect())
}

/// The options that `--help` shows, except those that exist only on the command line.
pub(crate) fn options(mut command: Command) -> anyhow::Result<()> {
    // Without it the arguments have neither their headings nor their defaults.
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

/// One option. `value` and `default` may be `null`; `values` is empty unless the option is an enum.
fn option(arg: &Arg) -> Value {
    let takes_value = arg.get_action().takes_values();
    let value = arg.get_value_names().and_then(|names| names.first());
    let default = arg.get_default_values().first();
    let values = arg.get_possible_values();
    json!({
        "flag": arg.get_long().map(|long| format!("--{long}")),
        "value": value.filter(|_| takes_value).map(|name| name.as_str()),
        "values": values.iter().map(|value| value.get_name()).collect::<Vec<_>>(),
        "env": arg.get_env().map(|env| env.to_string_lossy()),
        "default": default.filter(|_| takes_value).map(|value| value.to_string_lossy()),
        "help": arg.get_help().map(StyledStr::to_string),
        "heading": arg.get_help_heading(),
    })
}

fn write(list: Vec<Value>) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut stdout, &list)?;
    writeln!(stdout)?;
    Ok(())
}
