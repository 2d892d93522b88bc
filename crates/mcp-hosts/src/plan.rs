//! Plans the change of a host's file, and makes it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::Fault;
use crate::file::Target;
use crate::host::Host;
use crate::text::Change;
use crate::{Error, diff, edit};

/// A change of a host's file.
pub struct Plan {
    target: Target,
    name: String,
    /// The text that the file will have; `None` if it will be removed.
    after: Option<String>,
    backup: Backup,
}

/// The fate of the backup.
#[derive(PartialEq)]
enum Backup {
    Written,
    Kept,
    Removed,
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
        let writes = self.backup == Backup::Written && self.target.text.is_some() && self.changes();
        writes.then(|| self.target.backup(&self.name))
    }

    /// The changed lines. What other entries hold is left out, since it may be secret.
    pub fn diff(&self) -> String {
        let [before, after] = [&self.target.text, &self.after];
        let [before, after] = [before, after].map(|text| text.as_deref().unwrap_or_default());
        diff::render(&self.target.path, before, after)
    }

    /// Makes the change.
    ///
    /// # Errors
    /// If the file cannot be written, or has changed meanwhile. It is then as it was.
    pub fn apply(self) -> Result<(), Error> {
        if self.changes() {
            if self.backup == Backup::Written {
                self.target.write_backup(&self.name)?;
            }
            self.target.replace(self.after.as_deref())?;
        }
        if self.backup == Backup::Removed {
            let _ = fs::remove_file(self.target.backup(&self.name));
        }
        Ok(())
    }
}

/// Plans to write an entry into a host's file.
///
/// # Errors
/// If the file cannot be read, or is broken.
pub fn connect(host: &Host, path: &Path, name: &str, entry: &Value) -> Result<Plan, Error> {
    let target = Target::read(path)?;
    let before = target.text.as_deref().unwrap_or_default();
    let fault = Fault::at;
    let found = edit::entry(host, before, name).map_err(fault(path.to_owned()))?;
    let after = match &found {
        Some(found) if found == entry => target.text.clone(),
        _ => {
            let after = edit::set(host, before, name, Some(entry));
            Some(after.map_err(fault(path.to_owned()))?)
        }
    };
    // The backup is the text without an entry of this program.
    let is_ours = found.is_some() && target.backup(name).exists();
    Ok(Plan {
        backup: if is_ours {
            Backup::Kept
        } else {
            Backup::Written
        },
        name: name.to_owned(),
        target,
        after,
    })
}

/// Plans to write several entries. The backup is named by `label`.
///
/// # Errors
/// If the file cannot be read, or is broken.
pub fn add(
    host: &Host,
    path: &Path,
    label: &str,
    entries: &[(String, Value)],
) -> Result<Plan, Error> {
    let target = Target::read(path)?;
    let mut after = target.text.clone().unwrap_or_default();
    for (name, entry) in entries {
        let set = edit::set(host, &after, name, Some(entry));
        after = set.map_err(Fault::at(path.to_owned()))?;
    }
    Ok(Plan {
        target,
        name: label.to_owned(),
        after: Some(after),
        backup: Backup::Written,
    })
}

/// Plans to make a host's file what it was before [`connect`]. Other changes that were made since are kept.
///
/// # Errors
/// If the file cannot be read, is broken, or has no such entry.
pub fn disconnect(host: &Host, path: &Path, name: &str) -> Result<Plan, Error> {
    let target = Target::read(path)?;
    let fault = |fault| Fault::at(path.to_owned())(fault);
    let now = target.text.as_deref().unwrap_or_default();
    let Some(entry) = edit::entry(host, now, name).map_err(fault)? else {
        let reason = format!("has no server {name:?}");
        return Err(fault(Fault::new(reason)));
    };
    let backup = target.backup(name);
    let after = match backup.exists() {
        true => {
            let before = Target::read(&backup)?.text.unwrap_or_default();
            // A backup that someone has broken is as good as none.
            let restored = restore(host, now, &before, name, &entry).ok().flatten();
            Some(match restored {
                Some(text) => text,
                None => edit::set(host, now, name, None).map_err(fault)?,
            })
        }
        false => {
            // A file that `connect` has created.
            let created = edit::set(host, "", name, Some(&entry)).map_err(fault)?;
            match created == now {
                true => None,
                false => Some(edit::set(host, now, name, None).map_err(fault)?),
            }
        }
    };
    Ok(Plan {
        target,
        name: name.to_owned(),
        after,
        backup: Backup::Removed,
    })
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
