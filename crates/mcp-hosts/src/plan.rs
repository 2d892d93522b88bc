//! Plans the change of a host's file, and makes it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::Fault;
use crate::file::Target;
use crate::host::Host;
use crate::text::Change;
use crate::{Error, Own, diff, edit, listed};

/// A change of a host's file.
pub struct Plan {
    target: Target,
    /// The text that the file will have; `None` if it will be removed.
    after: Option<String>,
    /// The backup to write.
    backup: Option<PathBuf>,
    /// The backup to remove.
    used: Option<PathBuf>,
    /// The texts that the difference may show.
    shown: Vec<String>,
}

impl Plan {
    /// The file behind all symbolic links.
    pub fn path(&self) -> &Path {
        &self.target.path
    }

    /// True if the file will be another one.
    pub fn changes(&self) -> bool {
        self.target.text != self.after
    }

    /// True if the file will be removed.
    pub fn removes(&self) -> bool {
        self.changes() && self.after.is_none()
    }

    /// The backup that [`Plan::apply`] writes.
    pub fn backup(&self) -> Option<PathBuf> {
        let writes = self.target.text.is_some() && self.changes();
        self.backup.clone().filter(|_| writes)
    }

    /// The text that the file will have.
    pub fn text(&self) -> &str {
        self.after.as_deref().unwrap_or_default()
    }

    /// The changed lines. What other entries hold is left out, since it may be secret.
    pub fn diff(&self) -> String {
        let before = self.target.text.as_deref().unwrap_or_default();
        diff::render(&self.target.path, before, self.text(), &self.shown)
    }

    /// Makes the change.
    ///
    /// # Errors
    /// If the file cannot be written, or has changed meanwhile. It is then as it was.
    pub fn apply(self) -> Result<(), Error> {
        if self.changes() {
            self.target.check()?;
            let backup = self.backup();
            if let Some(backup) = &backup {
                self.target.write_backup(backup)?;
            }
            self.target.replace(self.after.as_deref())?;
        }
        if let Some(used) = self.used {
            let _ = fs::remove_file(used);
        }
        Ok(())
    }
}

/// Plans to write an entry into a host's file. `own` tells an earlier entry of this program.
///
/// # Errors
/// If the file cannot be read, or is broken.
pub fn connect(
    host: &Host,
    path: &Path,
    name: &str,
    entry: &Value,
    own: &Own,
) -> Result<Plan, Error> {
    let target = Target::read(path)?;
    let before = target.text.as_deref().unwrap_or_default();
    let fault = |fault| Fault::at(path.to_owned())(fault);
    let found = edit::entry(host, before, name).map_err(fault)?;
    let after = match &found {
        Some(found) if found == entry => target.text.clone(),
        _ => Some(edit::set(host, before, name, Some(entry)).map_err(fault)?),
    };
    // The backup is the text without an entry of this program: that of the first change stays, and a file that
    // `connect` has created has none.
    let backup = target.backup(name);
    let keeps = match &found {
        Some(found) if has(own, host, name, found) => {
            let created = edit::set(host, "", name, Some(found)).map_err(fault)?;
            backup.exists() || is_same(&created, before)
        }
        _ => false,
    };
    let mut shown = vec![name.to_owned(), host.key.to_owned()];
    texts(entry, true, &mut shown);
    Ok(Plan {
        backup: (!keeps).then_some(backup),
        used: None,
        target,
        after,
        shown,
    })
}

/// Plans to make a host's file what it was before [`connect`]. Other changes that were made since are kept.
/// Where there is no backup to show what was there, what is removed is in a backup itself.
///
/// # Errors
/// If the file cannot be read, is broken, has no such entry, or one that is not of this program.
pub fn disconnect(host: &Host, path: &Path, name: &str, own: &Own) -> Result<Plan, Error> {
    let target = Target::read(path)?;
    let fault = |fault| Fault::at(path.to_owned())(fault);
    let now = target.text.as_deref().unwrap_or_default();
    let Some(entry) = edit::entry(host, now, name).map_err(fault)? else {
        let reason = format!("has no server {name:?}");
        return Err(fault(Fault::new(reason)));
    };
    let backup = target.backup(name);
    let before = match backup.exists() {
        true => Target::read(&backup)?.text,
        false => None,
    };
    // A backup that was broken since is as good as none.
    let restored =
        before.and_then(|before| restore(host, now, &before, name, &entry).ok().flatten());
    let is_url = entry.get("command").is_none() && restored.is_some();
    if !is_url && !has(own, host, name, &entry) {
        let reason = format!(
            "the server {name:?} was not written by this program: remove it by hand, or name its URL with --http"
        );
        return Err(fault(Fault::new(reason)));
    }
    let mut shown = vec![name.to_owned(), host.key.to_owned()];
    texts(&entry, false, &mut shown);
    let (after, backup, used) = match restored {
        Some(text) => (Some(text), None, Some(backup)),
        None => {
            // A file that `connect` has created goes.
            let created = edit::set(host, "", name, Some(&entry)).map_err(fault)?;
            let after = match is_same(&created, now) {
                true => None,
                false => Some(edit::set(host, now, name, None).map_err(fault)?),
            };
            (
                after,
                Some(target.free_backup(&format!("undo-{name}"))),
                None,
            )
        }
    };
    Ok(Plan {
        target,
        after,
        backup,
        used,
        shown,
    })
}

fn has(own: &Own, host: &Host, name: &str, entry: &Value) -> bool {
    let entry = entry.as_object();
    entry.is_some_and(|entry| own.has(&listed::read(host, name, entry)))
}

/// True if two texts differ in blanks and line ends only.
fn is_same(one: &str, other: &str) -> bool {
    one.split_whitespace()
        .flat_map(str::chars)
        .eq(other.split_whitespace().flat_map(str::chars))
}

/// Adds the keys of an entry, and its texts if `all`.
fn texts(value: &Value, all: bool, found: &mut Vec<String>) {
    match value {
        Value::String(text) if all => found.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| texts(value, all, found)),
        Value::Object(members) => {
            for (key, value) in members {
                found.push(key.clone());
                texts(value, all, found);
            }
        }
        _ => {}
    }
}

/// Takes back the change that led from the text `before`. `None` if its place is not found.
fn restore(
    host: &Host,
    now: &str,
    before: &str,
    name: &str,
    entry: &Value,
) -> Result<Option<String>, Fault> {
    let written = edit::set(host, before, name, Some(entry))?;
    if written == now {
        return Ok(Some(before.to_owned()));
    }
    let old = edit::entry(host, before, name)?;
    let change = Change::between(before, &written);
    if !change.new.is_empty() && now.matches(change.new).count() == 1 {
        let text = now.replacen(change.new, &before[change.start..change.end], 1);
        if edit::is_change_of(host, now, &text, name, old.as_ref()) == Ok(true) {
            return Ok(Some(text));
        }
    }
    match old {
        Some(old) => edit::set(host, now, name, Some(&old)).map(Some),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests;
