//! The options that are set, with the place where each is.

use std::collections::HashMap;

use clap::parser::ValueSource;
use clap::{ArgMatches, Id};
use serde::Serialize;

use super::{Kind, Setting};

/// An option that is set.
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
