//! Reads the configuration file.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use clap::Id;
use mcp_core::suggestion::suggestion;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::expand::expand;
use super::{Kind, Problem, Setting, TABLE};
use crate::Secret;

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
        let unreadable = |error: io::Error| failed(format!("cannot be read: {}", error.kind()));
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
