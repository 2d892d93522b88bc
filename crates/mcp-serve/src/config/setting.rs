//! A key of the configuration file, as clap declares its option.

use std::any::TypeId;
use std::path::Path;

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ValueHint};

use super::{OPTION, has_own_form, is_shared};

/// An option that may stand in the configuration file.
pub(crate) struct Setting<'a> {
    pub(crate) arg: &'a Arg,
    /// The name of the flag with `_` for `-`.
    pub(crate) key: String,
}

/// The type of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        let is_configurable = !arg.is_hide_set() && arg.get_env().is_some();
        let has_place = !is_table || is_shared(arg);
        is_configurable && has_place && arg.get_id() != OPTION
    };
    let options = command.get_arguments().filter(is_setting);
    let named = options.filter(|arg| arg.get_long().is_some());
    named.map(Setting::new).collect()
}

impl Kind {
    /// The name in `--print-options`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Text => "text",
        }
    }
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
        let is_one_of = |types: &[TypeId]| types.iter().any(|id| parser.type_id() == *id);
        if is_one_of(&[
            TypeId::of::<u16>(),
            TypeId::of::<u32>(),
            TypeId::of::<u64>(),
            TypeId::of::<usize>(),
        ]) {
            Kind::Integer
        } else if is_one_of(&[TypeId::of::<f64>()]) {
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
        use std::error::Error as _;

        let values: Vec<_> = values.to_vec();
        let arg = self.arg.clone().default_values(values);
        let arg = arg.env(clap::builder::Resettable::<clap::builder::OsStr>::Reset);
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
