//! Every problem of a configuration, for the command `doctor`.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::line_at;
use super::expand::Environment;
use super::{Config, ConfigError, file};

/// More are not shown.
const MAX_PROBLEMS: usize = 100;

/// Tables that name each other: the first problem in them may cause the others.
const LINKED: [&str; 2] = ["roles", "principals"];

/// Finds every problem of a TOML file: a field with a problem is left out, and the rest is read again.
pub(super) fn find(
    text: &str,
    name: &str,
    environment: &Environment<'_>,
    base: &Config,
) -> Vec<ConfigError> {
    let (mut table, faults) = DeTable::parse_recoverable(text);
    if !faults.is_empty() {
        let errors = faults.iter().map(|fault| ConfigError {
            origin: name.to_owned(),
            line: fault.span().map(|span| line_at(text, span.start)),
            field: String::new(),
            problem: fault.message().to_owned(),
        });
        return errors.collect();
    }
    let mut found: Vec<ConfigError> = Vec::new();
    for _ in 0..MAX_PROBLEMS {
        let base = base.clone();
        let read = file::parse_table(table.clone(), text, name, environment, base);
        let Err(error) = read else { break };
        let is_linked = LINKED.iter().any(|table| starts_with(&error.field, table));
        let is_removed = match is_linked {
            true => LINKED
                .map(|part| remove(table.get_mut(), part))
                .contains(&true),
            false => remove(table.get_mut(), &error.field),
        };
        // A backend lacks a field that was left out, such as one whose name is wrong.
        let mut fields = found.iter().map(|found| &found.field);
        if !fields.any(|field| field != &error.field && starts_with(field, &error.field)) {
            found.push(error);
        }
        if !is_removed {
            break;
        }
    }
    found
}

/// Removes the innermost key on the way to a field that exists.
fn remove(table: &mut DeTable<'_>, field: &str) -> bool {
    let keys = table.keys().map(|key| key.get_ref().to_string());
    // The longest: a key may have a dot.
    let key = keys
        .filter(|key| starts_with(field, key))
        .max_by_key(String::len);
    let Some(key) = key else { return false };
    let rest = field[key.len()..].trim_start_matches('.');
    let inner = table.get_mut(key.as_str()).map(Spanned::get_mut);
    if let Some(DeValue::Table(inner)) = inner
        && remove(inner, rest)
    {
        return true;
    }
    table.remove(key.as_str()).is_some()
}

/// True if the first part of the field is this key.
fn starts_with(field: &str, key: &str) -> bool {
    let rest = field.strip_prefix(key);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
