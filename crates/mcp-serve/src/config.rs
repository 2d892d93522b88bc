//! The configuration file: TOML with a key for every option, named as its flag with `_` for `-`.
//!
//! Its values become the defaults of the options, so a flag goes before a variable, and a variable before the
//! file. The keys are those of clap's own declaration ([`Setting`]): an option needs no second place.

use std::any::TypeId;
use std::collections::HashMap;
use std::error::Error as _;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fmt, io};

use clap::builder::{OsStr, Resettable, ValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Id, ValueHint};
use mcp_core::suggestion::suggestion;
use serde::Serialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::Secret;
use crate::config::expand::expand;

pub mod expand;

/// The option that names the file.
const OPTION: &str = "config";

/// Exit code of an unusable configuration.
pub(crate) const UNUSABLE: u8 = 78;

/// The table of the settings in a file of another form.
pub(crate) const TABLE: &str = "server";

/// The headings in `--help` of the options that all servers share.
const SHARED: [&str; 6] = [
    "Server",
    "Access",
    DETAILS,
    "TLS",
    "Limits",
    "Compatibility",
];

/// The heading of the details that stand in the file only: `--help` hides them, and they have no variable.
const DETAILS: &str = "Issuer";

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
    let Some(given) = given(&applied.command, args) else {
        return applied;
    };
    refuse_outside_of_the_file(&applied.command, &given, &mut applied.problems);
    let Some(path) = named(&given) else {
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

/// A sentence for each variable of the environment whose name differs by one letter from the variable of an option:
/// `MCP_TOKN`. Nothing reads such a variable, and a server whose token has no effect is open.
pub(crate) fn misspelled_variables(command: &clap::Command) -> Vec<String> {
    let variables = command.get_arguments().filter_map(Arg::get_env);
    let known: Vec<&str> = variables.filter_map(|name| name.to_str()).collect();
    let is_set = |name: &str| std::env::var_os(name).is_some();
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let others = names.filter(|name| !known.contains(&&**name));
    let misspelled = others.filter_map(|name| {
        let is_meant = |known: &&&str| strsim::osa_distance(&name, known) == 1 && !is_set(known);
        let meant = known.iter().find(is_meant)?;
        Some(format!(
            "the variable {name} is not read; did you mean {meant}?"
        ))
    });
    misspelled.collect()
}

/// A command line whose help has no values of variables, some of which are secrets.
pub(crate) fn without_values(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| arg.hide_env_values(true));
    command.mut_subcommands(without_values)
}

/// Names the variable in an error about its value, of which clap names the option only.
pub(crate) fn with_variable(
    mut error: clap::Error,
    command: &clap::Command,
    args: &[OsString],
) -> clap::Error {
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let option = shown.split(' ').next().unwrap_or_default();
    let is_given = args
        .iter()
        .any(|arg| arg.to_string_lossy().starts_with(option));
    let arg = command
        .get_arguments()
        .find(|arg| arg.get_long() == option.strip_prefix("--"));
    let variable = arg.and_then(Arg::get_env).filter(|_| !is_given);
    if let Some(variable) = variable.filter(|name| std::env::var_os(name).is_some()) {
        let shown = format!("{} ({shown})", variable.display());
        error.insert(ContextKind::InvalidArg, ContextValue::String(shown));
    }
    error
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

/// Makes an error one of the configuration, which decides the exit code. A fault of the system that may pass, such as too
/// many open files, stays another error: a service manager starts the server again.
pub(crate) fn unusable(error: anyhow::Error) -> anyhow::Error {
    use std::io::ErrorKind::*;
    let passes = |cause: &(dyn std::error::Error + 'static)| {
        let kind = cause.downcast_ref().map(std::io::Error::kind);
        kind.is_some_and(|kind| {
            !matches!(
                kind,
                NotFound
                    | PermissionDenied
                    | InvalidInput
                    | InvalidData
                    | InvalidFilename
                    | IsADirectory
                    | NotADirectory
                    | AlreadyExists
                    | ReadOnlyFilesystem
                    | Unsupported
                    | Other
            )
        })
    };
    match error.chain().any(passes) {
        true => error,
        false => Problem::new(format!("{error:#}")).into(),
    }
}

/// Prints the error with which a server has ended. Returns its exit code.
pub(crate) fn fail(server: &str, error: &anyhow::Error) -> ExitCode {
    if let Some(problem) = error.downcast_ref() {
        return refuse(server, std::slice::from_ref(problem));
    }
    // The log may not have been started.
    let _ = writeln!(std::io::stderr(), "{server}: {error:#}");
    ExitCode::FAILURE
}

/// Reads the options without the file; `None` for `--help`.
fn given(command: &clap::Command, args: &[OsString]) -> Option<ArgMatches> {
    // The file may have what is missing.
    let lenient = command
        .clone()
        .ignore_errors(true)
        .mut_args(|arg| arg.required(false));
    lenient.try_get_matches_from(args).ok()
}

/// The name of the file, if there is one.
fn named(given: &ArgMatches) -> Option<PathBuf> {
    let path = given.try_get_one::<PathBuf>(OPTION).ok()??.clone();
    (!path.as_os_str().is_empty()).then_some(path)
}

fn is_detail(arg: &Arg) -> bool {
    arg.get_help_heading() == Some(DETAILS)
}

/// Finds the flags and the variables of details that stand in the file only.
fn refuse_outside_of_the_file(
    command: &clap::Command,
    given: &ArgMatches,
    problems: &mut Vec<Problem>,
) {
    let details = command.get_arguments().filter(|arg| is_detail(arg));
    for setting in details.map(Setting::new) {
        let id = setting.arg.get_id().as_str();
        let flag = setting.arg.get_long().map(|name| format!("--{name}"));
        let flag = flag.filter(|_| given.value_source(id) == Some(ValueSource::CommandLine));
        let variable = format!("MCP_{}", setting.key.to_uppercase());
        let is_set = std::env::var(&variable).is_ok_and(|value| !value.trim().is_empty());
        if let Some(place) = flag.or_else(|| is_set.then_some(variable)) {
            let text = format!(
                "is set in the configuration file only, by the key {}",
                setting.key
            );
            problems.push(Problem {
                place,
                ..Problem::new(text)
            });
        }
    }
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

fn has_blank_variable(arg: &Arg) -> bool {
    let value = arg.get_env().and_then(std::env::var_os);
    value.is_some_and(|value| value.to_str().is_some_and(|text| text.trim().is_empty()))
}

/// Larger than any configuration; a larger file was named by mistake.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// A configuration file. Has no `Debug`, since it may hold secrets.
pub(crate) struct ConfigFile {
    /// Its path as the user wrote it.
    name: String,
    folder: PathBuf,
    text: String,
    /// The settings are in a table of it.
    is_table: bool,
    /// Other users of the machine can read it.
    is_public: bool,
}

/// The values of the options and their places, by their ids.
type Values = HashMap<Id, (Vec<String>, String)>;

impl ConfigFile {
    pub(crate) fn read(path: &Path, is_table: bool) -> Result<Self, Problem> {
        let name = path.display().to_string();
        let failed = |text: String| Problem {
            place: name.clone(),
            ..Problem::new(text)
        };
        let unreadable = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => failed("cannot be read: there is no such file".to_owned()),
            kind => failed(format!("cannot be read: {kind}")),
        };
        let metadata = std::fs::metadata(path).map_err(unreadable)?;
        if metadata.len() > MAX_FILE_BYTES {
            return Err(failed("is larger than 4 MiB".to_owned()));
        }
        let mut text = std::fs::read_to_string(path).map_err(unreadable)?;
        // Editors of Windows begin files with a byte order mark.
        if text.starts_with('\u{feff}') {
            text.drain(..'\u{feff}'.len_utf8());
        }
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Ok(Self {
            folder: absolute.parent().unwrap_or(Path::new("")).to_owned(),
            name,
            text,
            is_table,
            is_public: is_public(&metadata),
        })
    }

    /// The values of all settings in the file, and its problems.
    pub(crate) fn values(&self, settings: &[Setting<'_>], problems: &mut Vec<Problem>) -> Values {
        // The file of another host, which has no settings. TOML cannot start with a brace.
        if self.is_table
            && (self.text.trim_start().starts_with('{') || self.name.ends_with(".json"))
        {
            return Values::new();
        }
        let (table, faults) = DeTable::parse_recoverable(&self.text);
        if !faults.is_empty() {
            // The server that has another form reads the whole file, and finds them too.
            if !self.is_table {
                problems.extend(faults.iter().map(|fault| {
                    let at = fault.span().map(|span| span.start);
                    self.problem(at, "", fault.message().to_owned())
                }));
            }
            return Values::new();
        }
        let mut values = Values::new();
        if !self.is_table {
            self.read_table(table.get_ref(), settings, &mut values, problems);
        } else if let Some(part) = table.get_ref().get(TABLE) {
            match part.get_ref().as_table() {
                Some(part) => self.read_table(part, settings, &mut values, problems),
                None => {
                    let text = "must be a table".to_owned();
                    problems.push(self.problem(Some(part.span().start), "", text));
                }
            }
        }
        values
    }

    fn read_table(
        &self,
        table: &DeTable<'_>,
        settings: &[Setting<'_>],
        values: &mut Values,
        problems: &mut Vec<Problem>,
    ) {
        for (key, value) in table {
            let (name, at) = (key.get_ref().as_ref(), Some(key.span().start));
            let Some(setting) = settings.iter().find(|setting| setting.key == name) else {
                problems.push(self.problem(at, name, unknown(name, settings)));
                continue;
            };
            let twin = twin(setting, settings);
            match self.value(setting, twin, value) {
                Ok((setting, found)) => {
                    let found = (found, self.place(at));
                    if values.insert(setting.arg.get_id().clone(), found).is_some() {
                        let text = format!("gives {} a second time", setting.key);
                        problems.push(self.problem(at, name, text));
                    }
                }
                Err(text) => problems.push(self.problem(at, name, text)),
            }
        }
    }

    /// The value of a setting; that of `twin`, which names a file with the secret, if it is `file:PATH`.
    fn value<'a>(
        &self,
        setting: &'a Setting<'a>,
        twin: Option<&'a Setting<'a>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(&'a Setting<'a>, Vec<String>), String> {
        let texts = raw_values(setting, value.get_ref())?;
        if let ([text], Some(twin)) = (texts.as_slice(), twin)
            && let Some(path) = self.expanded(text)?.strip_prefix("file:")
        {
            return Ok((twin, vec![twin.in_folder(path.to_owned(), &self.folder)]));
        }
        let values: Result<Vec<_>, _> = texts
            .iter()
            .map(|text| self.expanded_value(setting, text))
            .collect();
        let values = values?;
        match setting.fault(&values) {
            None => Ok((setting, values)),
            Some(fault) => Err(fault),
        }
    }

    fn expanded(&self, text: &str) -> Result<String, String> {
        let variable = |name: &str| std::env::var(name).ok();
        expand(text, &variable).map_err(|error| error.to_string())
    }

    fn expanded_value(&self, setting: &Setting<'_>, text: &str) -> Result<String, String> {
        let expanded = self.expanded(text)?;
        if !setting.is_secret() {
            return Ok(setting.in_folder(expanded, &self.folder));
        }
        // NAME=SECRET in a list.
        let (name, secret) = match expanded.split_once('=') {
            Some((name, secret)) if setting.is_list() => (format!("{name}="), secret),
            _ => (String::new(), expanded.as_str()),
        };
        if let Some(path) = secret.strip_prefix("file:") {
            let secret = Secret::new(None, Some(self.folder.join(path))).get();
            return match secret {
                Ok(Some(secret)) => Ok(name + &secret),
                Ok(None) => Err(format!("the file {path} is empty")),
                Err(error) => Err(format!("the file {path} cannot be read: {}", error.kind())),
            };
        }
        if self.is_public && expanded == text && !secret.trim().is_empty() {
            return Err(format!(
                "is a secret in plain text, and other users can read this file: write \"file:PATH\" or \
                 \"${{VARIABLE}}\", or run: chmod o= {}",
                self.name
            ));
        }
        Ok(expanded)
    }

    /// The file, and the line of a byte.
    fn place(&self, at: Option<usize>) -> String {
        let Some(at) = at else {
            return self.name.clone();
        };
        let before = self.text.bytes().take(at);
        let line = 1 + before.filter(|&byte| byte == b'\n').count();
        format!("{}:{line}", self.name)
    }

    fn problem(&self, at: Option<usize>, key: &str, text: String) -> Problem {
        let table = if self.is_table { TABLE } else { "" };
        let field = [table, key].into_iter().filter(|part| !part.is_empty());
        Problem {
            place: self.place(at),
            field: field.collect::<Vec<_>>().join("."),
            text,
        }
    }
}

/// The setting that names a file with this secret.
fn twin<'a>(setting: &Setting<'_>, settings: &'a [Setting<'a>]) -> Option<&'a Setting<'a>> {
    let key = format!("{}_file", setting.key);
    settings.iter().find(|other| other.key == key)
}

fn unknown(name: &str, settings: &[Setting<'_>]) -> String {
    // The name of the flag or of the variable.
    let snake = name.trim_start_matches('-').replace('-', "_");
    let is_meant = |setting: &&Setting<'_>| {
        let variable = setting.arg.get_env().and_then(|name| name.to_str());
        setting.key == snake || variable == Some(name)
    };
    let names = settings.iter().map(|setting| setting.key.as_str());
    let hint = match settings.iter().find(is_meant) {
        Some(setting) => format!("; did you mean {:?}?", setting.key),
        None => suggestion(name, names),
    };
    format!("unknown key{hint}")
}

/// The values as text, before variables are expanded.
fn raw_values(setting: &Setting<'_>, value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let expected = match (setting.kind(), setting.is_list()) {
        (Kind::Flag, _) => "must be true or false",
        (Kind::Integer, _) => "must be a whole number",
        (Kind::Number, _) => "must be a number",
        (Kind::Text, false) => "must be a text in quotes",
        (Kind::Text, true) => "must be a list of texts in quotes",
    };
    let one = |value: &DeValue<'_>| {
        let text = match (setting.kind(), value) {
            (Kind::Flag, DeValue::Boolean(value)) => Some(value.to_string()),
            (Kind::Integer | Kind::Number, DeValue::Integer(number)) => {
                let number = i128::from_str_radix(number.as_str(), number.radix());
                number.ok().map(|number| number.to_string())
            }
            (Kind::Number, DeValue::Float(number)) => Some(number.as_str().to_owned()),
            (Kind::Text, DeValue::String(text)) => Some(text.as_ref().to_owned()),
            _ => None,
        };
        text.ok_or_else(|| expected.to_owned())
    };
    let delimiter = setting.arg.get_value_delimiter();
    let DeValue::Array(array) = value else {
        let text = one(value)?;
        return Ok(match delimiter {
            Some(delimiter) => text.split(delimiter).map(str::to_owned).collect(),
            None => vec![text],
        });
    };
    if !setting.is_list() {
        return Err(expected.to_owned());
    }
    if array.is_empty() {
        return Err("must not be empty; leave it out for its default".to_owned());
    }
    let texts: Result<Vec<_>, _> = array.iter().map(|value| one(value.get_ref())).collect();
    let texts = texts?;
    match delimiter {
        Some(delimiter) if texts.iter().any(|text| text.contains(delimiter)) => {
            Err(format!("a text of the list must not contain {delimiter:?}"))
        }
        _ => Ok(texts),
    }
}

/// True if all users of the machine can read it. Windows has no such bit.
#[cfg(unix)]
fn is_public(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    metadata.is_file() && metadata.mode() & 0o004 != 0
}

#[cfg(not(unix))]
fn is_public(_: &std::fs::Metadata) -> bool {
    false
}

/// A problem of the configuration. Contains no value of it, which may be secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file with its line, the variable or the flag; empty if it is not known.
    pub place: String,
    /// The key in the file; empty if it is not known.
    pub field: String,
    /// The problem, and what to do.
    pub text: String,
}

impl Problem {
    /// A problem of which only the text is known, which names the option.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            place: String::new(),
            field: String::new(),
            text: text.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [&self.place, &self.field] {
            if !part.is_empty() {
                write!(f, "{part}: ")?;
            }
        }
        f.write_str(&self.text)
    }
}

impl std::error::Error for Problem {}

#[derive(Debug, Serialize)]
pub(crate) struct SetOption {
    pub(crate) key: String,
    /// Its value, unless that is a secret.
    pub(crate) value: String,
    /// The flag, the variable or the place in the file.
    pub(crate) source: String,
}

/// The settings that have a value which is not the default.
pub(crate) fn set_options(
    settings: &[Setting<'_>],
    matches: &ArgMatches,
    places: &HashMap<Id, String>,
) -> Vec<SetOption> {
    let set = settings.iter().filter_map(|setting| {
        let id = setting.arg.get_id();
        let source = match matches.value_source(id.as_str()) {
            Some(ValueSource::CommandLine) => {
                setting.arg.get_long().map(|flag| format!("--{flag}"))
            }
            Some(ValueSource::EnvVariable) => {
                setting.arg.get_env().map(|name| name.display().to_string())
            }
            _ => places.get(id).cloned(),
        };
        let value = match setting.kind() {
            _ if setting.is_secret() => "(hidden)".to_owned(),
            Kind::Flag => matches.get_flag(id.as_str()).to_string(),
            _ => {
                let values = matches.get_raw(id.as_str()).into_iter().flatten();
                let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
                values.join(",")
            }
        };
        Some(SetOption {
            key: setting.key.clone(),
            value,
            source: source?,
        })
    });
    set.collect()
}

/// An option that may stand in the configuration file.
pub(crate) struct Setting<'a> {
    pub(crate) arg: &'a Arg,
    /// The name of the flag with `_` for `-`.
    pub(crate) key: String,
}

/// The type of one value, as `--print-options` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Flag,
    Integer,
    Number,
    Text,
}

/// The options that may stand in the file of this server.
pub(crate) fn settings(command: &clap::Command) -> Vec<Setting<'_>> {
    let is_table = has_own_form(command);
    let is_setting = |arg: &&Arg| {
        let is_configurable = !arg.is_hide_set() && arg.get_env().is_some() || is_detail(arg);
        let has_place = !is_table || is_shared(arg);
        is_configurable && has_place && arg.get_id() != OPTION
    };
    let options = command.get_arguments().filter(is_setting);
    let named = options.filter(|arg| arg.get_long().is_some());
    named.map(Setting::new).collect()
}

impl<'a> Setting<'a> {
    pub(crate) fn new(arg: &'a Arg) -> Self {
        let key = arg.get_long().unwrap_or_default().replace('-', "_");
        Self { arg, key }
    }

    pub(crate) fn kind(&self) -> Kind {
        if !self.arg.get_action().takes_values() {
            return Kind::Flag;
        }
        let parser: &ValueParser = self.arg.get_value_parser();
        let integers = [
            TypeId::of::<u16>(),
            TypeId::of::<u32>(),
            TypeId::of::<u64>(),
            TypeId::of::<usize>(),
        ];
        if integers.iter().any(|id| parser.type_id() == *id) {
            Kind::Integer
        } else if parser.type_id() == TypeId::of::<f64>() {
            Kind::Number
        } else {
            Kind::Text
        }
    }

    /// True if it may have several values.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self.arg.get_action(), ArgAction::Append)
    }

    /// True if other users must not read its value. `--help` hides it then.
    pub(crate) fn is_secret(&self) -> bool {
        self.arg.is_hide_env_values_set()
    }

    /// Its whole help in one line.
    pub(crate) fn help(&self) -> Option<String> {
        let text = self.arg.get_long_help().or_else(|| self.arg.get_help())?;
        let text = text.to_string().replace("\n\n", " ");
        Some(text.trim_end_matches('.').to_owned())
    }

    /// Reads a relative path in a value from the folder of the file.
    pub(crate) fn in_folder(&self, text: String, folder: &Path) -> String {
        let joined = |path: &str| folder.join(path).to_string_lossy().into_owned();
        let is_path = matches!(
            self.arg.get_value_hint(),
            ValueHint::AnyPath | ValueHint::FilePath | ValueHint::DirPath
        );
        let names = self.arg.get_value_names().unwrap_or_default();
        match text.split_once('=') {
            _ if text.trim().is_empty() || text.contains("://") => text,
            _ if is_path => joined(&text),
            Some((name, path)) if names.iter().any(|name| name == "NAME=FILE") => {
                format!("{name}={}", joined(path))
            }
            _ => text,
        }
    }

    /// The reason why the option cannot have these values.
    pub(crate) fn fault(&self, values: &[String]) -> Option<String> {
        let arg = self.arg.clone().default_values(values.to_vec());
        let arg = arg.env(Resettable::<OsStr>::Reset);
        let command = clap::Command::new("setting").no_binary_name(true).arg(arg);
        let error = command.try_get_matches_from([""; 0]).err()?;
        let possible = self.arg.get_possible_values();
        if !possible.is_empty() && self.kind() == Kind::Text {
            let names: Vec<_> = possible.iter().map(|value| value.get_name()).collect();
            return Some(format!("must be one of {}", names.join(", ")));
        }
        let text = error.source().map(|source| source.to_string());
        Some(text.unwrap_or_else(|| "must not be empty".to_owned()))
    }
}

#[cfg(test)]
mod tests;
