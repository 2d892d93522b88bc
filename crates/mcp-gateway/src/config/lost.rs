//! Finds the restrictions that a changed file no longer has, as a file that is cut off or half written.
//!
//! Nearly everywhere in the file, what is absent allows more: without roles every client may use everything. So a
//! running gateway takes a restriction away only if the file says so, with an empty value: `deny = []`, or `roles = {}`
//! for a table. Neither can come from cutting a file off.

use std::collections::BTreeMap;

use gateway_access::NO_ROLE;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ConfigError;

/// Tables that must not become empty.
const TABLES: [&str; 3] = ["backends", "roles", "principals"];

/// Tables, and their fields without which more is allowed. `*` stands for any name.
const FIELDS: [(&[&str], &str); 6] = [
    (&[], "pins first_sight"),
    (&["approvals"], "confirm approve"),
    (
        &["roles", "*"],
        "inherits deny confirm approve effects arguments limit views questions",
    ),
    (
        &["backends", "*"],
        "allow deny bare isolation questions pins first_sight disabled",
    ),
    (&["backends", "*", "tools", "*"], "effect"),
    (&["views", "*"], "backends allow deny"),
];

/// More fields are not named in an error.
const MAX_NAMED: usize = 5;

/// Compares a changed file, which is valid, with the one in use. `None` is the file of another host, which cannot be cut
/// off and has no restrictions of the gateway.
///
/// # Errors
/// The restrictions that are gone, and what to write if that is meant.
pub(super) fn check(before: Option<&str>, after: Option<&str>) -> Result<(), ConfigError> {
    let Some(before) = before else {
        return Ok(());
    };
    let (text, is_json) = (after.unwrap_or_default(), after.is_none());
    let (Ok(before), Ok(table)) = (DeTable::parse(before), DeTable::parse(text)) else {
        return Ok(());
    };
    let (before, table) = (before.get_ref(), table.get_ref());
    let after = ChangedFile { text, table };
    let mut lost: Vec<Vec<String>> = Vec::new();
    for name in TABLES {
        let is_gone = is_filled(before, name) && !is_filled(after.table, name);
        let is_said = after.is_said(&[name.to_owned()]) || name == "backends" && is_json;
        // Principals mean nothing without roles.
        let is_named = name == "principals" && !is_filled(after.table, "roles");
        if is_gone && !is_said && !is_named {
            lost.push(vec![name.to_owned()]);
        }
    }
    let restrictions = restrictions(before).into_iter();
    lost.extend(restrictions.filter(|path| after.loses(path)));
    lost.extend(lost_principals(before, after.table));
    let Some(first) = lost.first() else {
        return Ok(());
    };
    let others: Vec<String> = lost.iter().skip(1).map(|path| path.join(".")).collect();
    let named = match others.len() {
        0 => String::new(),
        1..=MAX_NAMED => format!("; likewise {}", others.join(", ")),
        count => {
            let named = others[..MAX_NAMED].join(", ");
            format!("; likewise {named} and {} more", count - MAX_NAMED)
        }
    };
    let text = format!(
        "is in the file before and not in this one, as if it were cut off{named}. If that is meant, write {}",
        instead(first)
    );
    let first: Vec<&str> = first.iter().map(String::as_str).collect();
    Err(ConfigError::new(&first, text))
}

/// A changed file.
struct ChangedFile<'a> {
    text: &'a str,
    table: &'a DeTable<'a>,
}

impl ChangedFile<'_> {
    /// True if this field is absent, while what it restricts is still there.
    fn loses(&self, path: &[String]) -> bool {
        let is_there = path.len() <= 2 || get(self.table, &path[..2]).is_some();
        is_there && !self.is_said(path)
    }

    /// True if the file has this field, or says that a table around it is empty.
    fn is_said(&self, path: &[String]) -> bool {
        let mut table = self.table;
        for (depth, part) in path.iter().enumerate() {
            let Some(value) = table.get(part.as_str()) else {
                return false;
            };
            let Some(inner) = value.get_ref().as_table() else {
                return true;
            };
            // The header of a table can be where a file is cut off, `{}` cannot.
            if inner.is_empty() {
                return self.text[value.span()].starts_with('{');
            }
            if depth + 1 == path.len() {
                return true;
            }
            table = inner;
        }
        true
    }
}

/// The paths of all values that restrict something.
fn restrictions(table: &DeTable<'_>) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (path, fields) in FIELDS {
        for field in fields.split(' ') {
            let field = [path, &[field]].concat();
            collect(table, &field, &mut Vec::new(), &mut found);
        }
    }
    found
}

/// Collects the paths of the values that `field` names and that restrict something.
fn collect(
    table: &DeTable<'_>,
    field: &[&str],
    path: &mut Vec<String>,
    found: &mut Vec<Vec<String>>,
) {
    let Some((part, rest)) = field.split_first() else {
        return;
    };
    for (key, value) in table.iter() {
        let key = key.get_ref().as_ref();
        if *part != "*" && *part != key {
            continue;
        }
        path.push(key.to_owned());
        match value.get_ref() {
            // Such as the patterns of a role.
            DeValue::Table(inner) if rest.is_empty() && !inner.is_empty() => {
                found.push(path.clone());
            }
            DeValue::Table(inner) => collect(inner, rest, path, found),
            value if rest.is_empty() && restricts(path, value) => found.push(path.clone()),
            _ => {}
        }
        path.pop();
    }
}

/// False for a value that allows as much as its absence.
fn restricts(path: &[String], value: &DeValue<'_>) -> bool {
    let open = match path.last().map(String::as_str) {
        Some("pins") if path.len() == 1 => &["off", "warn"][..],
        Some("pins") => &["off"],
        Some("first_sight") => &["trust"],
        Some("isolation") => &["shared"],
        Some("effect") => &["reads"],
        _ => &[],
    };
    match value {
        DeValue::Array(list) => !list.is_empty(),
        DeValue::Boolean(is_set) if path.ends_with(&["questions".to_owned()]) => !is_set,
        DeValue::Boolean(is_set) => *is_set,
        DeValue::String(text) => !open.contains(&text.as_ref()),
        _ => true,
    }
}

/// The lines of `[principals]` that are gone while another one, or `default`, may give more to their principals.
fn lost_principals(before: &DeTable<'_>, after: &DeTable<'_>) -> Vec<Vec<String>> {
    let (old, new) = (roles_of(before), roles_of(after));
    if !is_filled(after, "roles") || new.is_empty() {
        return Vec::new();
    }
    let is_claim = |name: &str| name.contains(':');
    let gives_more = |name: &str, role: &str| {
        new.iter().any(|(other, given)| {
            let applies = other == "default" || is_claim(name) || is_claim(other);
            applies && given != NO_ROLE && given != role
        })
    };
    let gone = old.iter().filter(|(name, role)| {
        *name != "default" && !new.contains_key(*name) && gives_more(name, role)
    });
    gone.map(|(name, _)| vec!["principals".to_owned(), name.clone()])
        .collect()
}

/// The role of each line of `[principals]`.
fn roles_of(table: &DeTable<'_>) -> BTreeMap<String, String> {
    let lines = table.get("principals").map(Spanned::get_ref);
    let lines = lines.and_then(DeValue::as_table);
    let lines = lines.into_iter().flat_map(|lines| lines.iter());
    let lines = lines.filter_map(|(name, role)| {
        let role = role.get_ref().as_str()?;
        Some((name.get_ref().to_string(), role.to_owned()))
    });
    lines.collect()
}

/// True if the file has this table, with at least one entry.
fn is_filled(table: &DeTable<'_>, name: &str) -> bool {
    let value = table.get(name).map(Spanned::get_ref);
    let inner = value.and_then(DeValue::as_table);
    inner.is_some_and(|inner| !inner.is_empty())
}

fn get<'t, 'i>(table: &'t DeTable<'i>, path: &[String]) -> Option<&'t Spanned<DeValue<'i>>> {
    let (part, rest) = path.split_first()?;
    let value = table.get(part.as_str())?;
    match rest.is_empty() {
        true => Some(value),
        false => get(value.get_ref().as_table()?, rest),
    }
}

/// The text that the operator writes to take this away.
fn instead(path: &[String]) -> String {
    let field = path.last().map(String::as_str).unwrap_or_default();
    if path.len() == 1 && TABLES.contains(&field) {
        return format!("`{field} = {{}}` above the first table");
    }
    if path.first().is_some_and(|table| table == "principals") {
        return format!("`{field:?} = {NO_ROLE:?}`, or the role");
    }
    match field {
        "inherits" | "deny" | "confirm" | "approve" => format!("`{field} = []`"),
        "pins" => "`pins = \"off\"` or `pins = \"warn\"`".to_owned(),
        "first_sight" => "`first_sight = \"trust\"`".to_owned(),
        "isolation" => "`isolation = \"shared\"`".to_owned(),
        "bare" | "disabled" => format!("`{field} = false`"),
        "questions" => "`questions = true`".to_owned(),
        "arguments" => "`arguments = {}`".to_owned(),
        "allow" | "views" => format!("`{field} = [\"*\"]`"),
        _ => format!("the new value of `{field}`, or restart the gateway"),
    }
}

#[cfg(test)]
mod tests;
