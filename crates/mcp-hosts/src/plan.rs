//! Plans the change of a host's file, and makes it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::Fault;
use crate::file::Target;
use crate::host::Host;
use crate::{Error, Own, diff, edit, listed};

/// A change of a host's file.
pub struct Plan {
    target: Target,
    /// The text that the file will have; `None` if it will be removed.
    after: Option<String>,
    /// The fate of the copy of the file beside it.
    copy: Copy,
    diff: String,
}

/// The fate of a copy.
#[derive(PartialEq)]
enum Copy {
    Stays,
    Written,
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

    /// The copy of the file that [`Plan::apply`] writes.
    pub fn copy(&self) -> Option<PathBuf> {
        let writes = self.copy == Copy::Written && self.changes();
        writes.then(|| self.target.copy())
    }

    /// The entry before and after the change. What only the old one holds is masked, since it may be secret.
    pub fn diff(&self) -> &str {
        match self.changes() {
            true => &self.diff,
            false => "",
        }
    }

    /// Makes the change.
    ///
    /// # Errors
    /// If the file cannot be written, or has changed meanwhile. It is then as it was.
    pub fn apply(self) -> Result<(), Error> {
        if self.changes() {
            self.target.check()?;
            if self.copy().is_some() {
                self.target.write_copy()?;
            }
            self.target.replace(self.after.as_deref())?;
        }
        if self.copy == Copy::Removed {
            let _ = fs::remove_file(self.target.copy());
        }
        Ok(())
    }
}

/// Plans to write an entry into a host's file. The first change of a file leaves a copy of it; `own` tells an earlier
/// entry of this program, with which the file is not what it was.
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
    let is_own = found
        .as_ref()
        .is_some_and(|found| has(own, host, name, found));
    let has_copy = target.text.is_none() || is_own || target.copy().exists();
    let entries = [found.as_ref(), Some(entry)];
    Ok(Plan {
        diff: diff::render((host, &target.path), name, entries, Some(entry)),
        target,
        after,
        copy: if has_copy { Copy::Stays } else { Copy::Written },
    })
}

/// Plans to take back [`connect`]: removes the entry, or puts the one of the user in its place that the copy has. If
/// the copy differs in nothing else, the file becomes it again, to the byte.
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
    let is_own = |entry: &Value| has(own, host, name, entry);
    let copy = match target.copy().exists() {
        true => Target::read(&target.copy())?.text.unwrap_or_default(),
        false => String::new(),
    };
    // A copy that was broken since has no entry, and is no proof.
    let old = edit::entry(host, &copy, name).ok().flatten();
    let old = old.filter(|old| !is_own(old));
    let is_original = target.copy().exists()
        && edit::set(host, &copy, name, Some(&entry)).is_ok_and(|text| text == now)
        && edit::entry(host, &copy, name) == Ok(old.clone());
    let is_url = entry.get("command").is_none() && is_original;
    if !is_url && !is_own(&entry) {
        let reason = format!(
            "the server {name:?} was not written by this program: remove it by hand, or name its URL with --http"
        );
        return Err(fault(Fault::new(reason)));
    }
    let created = edit::set(host, "", name, Some(&entry)).map_err(fault)?;
    let after = match is_original {
        true => Some(copy.clone()),
        // A file that `connect` has created goes.
        false if is_same(&created, now) && !target.copy().exists() => None,
        false => Some(edit::set(host, now, name, old.as_ref()).map_err(fault)?),
    };
    let is_copy = |after: &String| edit::read(host, after) == edit::read(host, &copy);
    let entries = [Some(&entry), old.as_ref()];
    Ok(Plan {
        diff: diff::render((host, &target.path), name, entries, None),
        target,
        copy: match after.as_ref().is_some_and(is_copy) {
            true => Copy::Removed,
            false => Copy::Stays,
        },
        after,
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

#[cfg(test)]
mod tests;
