//! The configuration file: TOML with a key for every option, named as its flag with `_` for `-`.
//!
//! Its values become the defaults of the options, so a flag goes before a variable, and a variable before the
//! file. The keys are those of clap's own declaration ([`Setting`]): an option needs no second place.

pub mod expand;
mod file;
mod problem;
mod set_option;
mod setting;

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{OsStr, Resettable};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Id};

use file::ConfigFile;
pub use problem::Problem;
pub(crate) use set_option::{SetOption, set_options};
pub(crate) use setting::{Kind, Setting, settings};

/// The option that names the file.
const OPTION: &str = "config";

/// Exit code of an unusable configuration.
pub(crate) const UNUSABLE: u8 = 78;

/// The table of the settings in a file of another form.
pub(crate) const TABLE: &str = "server";

/// The headings in `--help` of the options that all servers share.
const SHARED: [&str; 5] = ["Server", "Access", "TLS", "Limits", "Compatibility"];

/// Returns true for an option that all servers share.
pub(crate) fn is_shared(arg: &clap::Arg) -> bool {
    arg.get_help_heading()
        .is_some_and(|heading| SHARED.contains(&heading))
}

/// Adds the option that names the file, unless the server has one of its own: then the settings are a table in
/// that file.
pub(crate) fn with_option(command: clap::Command) -> clap::Command {
    if has_own_form(&command) {
        return command;
    }
    let option = Arg::new(OPTION)
        .long(OPTION)
        .env("MCP_CONFIG")
        .value_name("FILE")
        .value_parser(clap::value_parser!(PathBuf))
        .help_heading("Configuration")
        .help("File with any of these options, in TOML")
        .long_help(
            "File with any of these options, in TOML: the names of the flags with _ for -. Flags and \
             variables override it",
        );
    command.arg(option)
}

/// True if the file of this server has a form of its own, in which the settings are a table.
pub(crate) fn has_own_form(command: &clap::Command) -> bool {
    let option = command.get_arguments().find(|arg| arg.get_id() == OPTION);
    option.is_some_and(|arg| arg.get_help_heading() != Some("Configuration"))
}

/// A command line with the values of the file that it names.
pub(crate) struct Applied {
    /// The values are the defaults of its options.
    pub(crate) command: clap::Command,
    /// The line of each value, such as `server.toml:3`.
    pub(crate) places: HashMap<Id, String>,
    pub(crate) problems: Vec<Problem>,
}

/// Makes the values of the file that these arguments name the defaults of the options. Blank variables count as
/// unset.
pub(crate) fn apply(command: clap::Command, args: &[OsString]) -> Applied {
    let mut applied = Applied {
        command: without_blank_variables(command),
        places: HashMap::new(),
        problems: Vec::new(),
    };
    let Some((given, path)) = named(&applied.command, args) else {
        return applied;
    };
    let file = match ConfigFile::read(&path, has_own_form(&applied.command)) {
        Ok(file) => file,
        Err(problem) => {
            applied.problems.push(problem);
            return applied;
        }
    };
    let values = file.values(&settings(&applied.command), &mut applied.problems);
    let places = &mut applied.places;
    applied.command = applied.command.mut_args(|arg| {
        let found = values.get(arg.get_id());
        let Some((values, place)) = found.filter(|_| !is_replaced(&arg, &given)) else {
            return arg;
        };
        places.insert(arg.get_id().clone(), place.clone());
        arg.default_values(values)
    });
    applied
}

/// A command line without its variables that are blank: compose files pass unset variables as empty ones.
pub(crate) fn without_blank_variables(command: clap::Command) -> clap::Command {
    command.mut_args(|arg| match has_blank_variable(&arg) {
        true => arg.env(Resettable::<OsStr>::Reset),
        false => arg,
    })
}

/// A command line whose help has no values of variables, some of which are secrets.
pub(crate) fn without_values(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| arg.hide_env_values(true));
    command.mut_subcommands(without_values)
}

/// Prints the problems. Returns the exit code of an unusable configuration (`EX_CONFIG` of sysexits.h).
pub(crate) fn refuse(server: &str, problems: &[Problem]) -> ExitCode {
    let mut stderr = std::io::stderr();
    for problem in problems {
        // The log has not been started.
        let _ = writeln!(stderr, "{server}: {problem}");
    }
    ExitCode::from(UNUSABLE)
}

/// Reads only the name of the file; `None` if there is none, or for `--help`.
fn named(command: &clap::Command, args: &[OsString]) -> Option<(ArgMatches, PathBuf)> {
    // The file may have what is missing.
    let lenient = command
        .clone()
        .ignore_errors(true)
        .mut_args(|arg| arg.required(false));
    let given = lenient.try_get_matches_from(args).ok()?;
    let path = given.try_get_one::<PathBuf>(OPTION).ok()??.clone();
    (!path.as_os_str().is_empty()).then_some((given, path))
}

/// True if a flag or a variable gives the same secret in its other form: `--token-file` replaces `token`.
fn is_replaced(arg: &Arg, given: &ArgMatches) -> bool {
    let id = arg.get_id().as_str();
    let other = match id.strip_suffix("_file") {
        Some(value) => value.to_owned(),
        None => format!("{id}_file"),
    };
    if !matches!(given.try_contains_id(&other), Ok(true)) {
        return false;
    }
    let source = given.value_source(&other);
    matches!(
        source,
        Some(ValueSource::CommandLine | ValueSource::EnvVariable)
    )
}

/// True if its variable is set, and blank.
fn has_blank_variable(arg: &Arg) -> bool {
    let value = arg.get_env().and_then(std::env::var_os);
    value.is_some_and(|value| value.to_str().is_some_and(|text| text.trim().is_empty()))
}

#[cfg(test)]
mod tests;
