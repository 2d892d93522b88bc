//! Plans the change of a host's file, and makes it.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail, ensure};
use serde_json::Value;

use crate::host::Host;
use crate::{Own, edit, listed};

/// A larger file is no list of servers. That of Claude Code also holds its history.
const MAX_BYTES: u64 = 64 << 20;

/// A file on the disk, behind all symbolic links.
struct Target {
    path: PathBuf,
    /// `None` if there is no file.
    text: Option<String>,
}

/// The text of a file; `None` if there is none.
pub(crate) fn read(path: &Path) -> anyhow::Result<Option<String>> {
    Ok(Target::read(path)?.text)
}

impl Target {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let (shown, unreadable) = (path.display(), || failed(path, "read"));
        let found = match fs::canonicalize(path) {
            Err(cause) if cause.kind() == ErrorKind::NotFound => {
                ensure!(
                    fs::symlink_metadata(path).is_err(),
                    "{shown}: is a symbolic link to a file that is not there"
                );
                return Ok(Self {
                    path: path.to_owned(),
                    text: None,
                });
            }
            found => found.with_context(unreadable)?,
        };
        let facts = fs::metadata(&found).with_context(unreadable)?;
        ensure!(facts.is_file(), "{shown}: is not a file");
        ensure!(facts.len() <= MAX_BYTES, "{shown}: is larger than 64 MiB");
        let bytes = fs::read(&found).with_context(unreadable)?;
        let text = String::from_utf8(bytes).ok();
        let text = text.with_context(|| format!("{shown}: is not UTF-8"))?;
        Ok(Self {
            path: found,
            text: Some(text),
        })
    }

    /// Returns the facts about the file, which can be replaced: it can be written, and is as it was read.
    fn check(&self) -> anyhow::Result<Option<fs::Metadata>> {
        let path = self.path.display();
        let facts = self.text.is_some().then(|| fs::metadata(&self.path));
        let unreadable = || failed(&self.path, "read");
        let facts = facts.transpose().with_context(unreadable)?;
        ensure!(
            facts.as_ref().is_none_or(|it| !it.permissions().readonly()),
            "{path}: is read-only: make it writable, or add the entry where the file is made"
        );
        ensure!(
            read(&self.path)? == self.text,
            "{path}: has changed meanwhile: try again"
        );
        Ok(facts)
    }

    /// The file beside it with the text that it had before the first change.
    fn copy(&self) -> PathBuf {
        let mut path = OsString::from(&self.path);
        path.push(".bak");
        path.into()
    }
}

fn failed(path: &Path, what: &str) -> String {
    format!("{}: cannot be {what}", path.display())
}

/// Replaces a file at once by this text, with the owner and the rights of a file; without one, only this user can read it.
fn write(path: &Path, text: &str, like: Option<&fs::Metadata>) -> anyhow::Result<()> {
    let write = || {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        if let Some(like) = like {
            #[cfg(unix)]
            {
                use std::os::unix::fs::{MetadataExt as _, fchown};
                // Only an administrator can give a file to another user, and has to.
                let _ = fchown(file.as_file(), Some(like.uid()), Some(like.gid()));
            }
            file.as_file().set_permissions(like.permissions())?;
        }
        file.as_file().sync_all()?;
        Ok(file.persist(path).map(drop)?)
    };
    write().map_err(|cause: std::io::Error| anyhow!(cause).context(failed(path, "written")))
}

/// A change of a host's file.
pub struct Plan {
    target: Target,
    /// The text that the file will have; `None` if it will be removed.
    after: Option<String>,
    /// True if a copy of the file will be written beside it.
    writes_copy: bool,
    /// True if that copy will be removed.
    removes_copy: bool,
    /// The entry before and after the change, empty if the file stays as it is. What only the old one holds is masked, since
    /// it may be secret.
    pub diff: String,
}

impl Plan {
    /// The file behind all symbolic links.
    pub fn path(&self) -> &Path {
        &self.target.path
    }

    /// Makes the change, and returns lines about what was written.
    ///
    /// # Errors
    /// If the file cannot be written, or has changed meanwhile. It is then as it was.
    pub fn apply(self) -> anyhow::Result<String> {
        let (path, copy) = (self.path(), self.target.copy());
        let mut done = String::new();
        if self.target.text != self.after {
            let facts = self.target.check()?;
            let text = self.target.text.as_ref().filter(|_| self.writes_copy);
            if let Some(text) = text {
                write(&copy, text, facts.as_ref())?;
            }
            match &self.after {
                Some(after) => {
                    write(path, after, facts.as_ref())?;
                    let _ = writeln!(done, "written: {}", path.display());
                }
                None => {
                    fs::remove_file(path).with_context(|| failed(path, "removed"))?;
                    let _ = writeln!(done, "removed: {}", path.display());
                }
            }
            if text.is_some() {
                let _ = writeln!(done, "the file as it was: {}", copy.display());
            }
        }
        if self.removes_copy {
            let _ = fs::remove_file(copy);
        }
        Ok(done)
    }
}

/// The text of a host's file that has this entry alone.
///
/// # Errors
/// If the entry has no form in the syntax of the file.
pub fn file_with(host: &Host, name: &str, entry: &Value) -> anyhow::Result<String> {
    edit::set(host, "", name, Some(entry))
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
) -> anyhow::Result<Plan> {
    let target = Target::read(path)?;
    let at = |fault| anyhow!("{}{fault}", path.display());
    let before = target.text.as_deref().unwrap_or_default();
    let found = edit::entry(host, before, name).map_err(at)?;
    let after = match &found {
        Some(found) if found == entry => target.text.clone(),
        _ => Some(edit::set(host, before, name, Some(entry)).map_err(at)?),
    };
    let is_own = found.as_ref().is_some_and(|found| has(own, host, found));
    let entries = [found.as_ref(), Some(entry)];
    let diff = match target.text == after {
        true => String::new(),
        false => diff(host, &target.path, name, entries, Some(entry)),
    };
    Ok(Plan {
        writes_copy: target.text.is_some() && !is_own && !target.copy().exists(),
        removes_copy: false,
        target,
        after,
        diff,
    })
}

/// Plans to take back [`connect`]: removes the entry, or puts the one of the user in its place that the copy has. If
/// the copy differs in nothing else, the file becomes it again, to the byte.
///
/// # Errors
/// If the file cannot be read, is broken, has no such entry, or one that is not of this program.
pub fn disconnect(host: &Host, path: &Path, name: &str, own: &Own) -> anyhow::Result<Plan> {
    let target = Target::read(path)?;
    let (shown, at) = (path.display(), |fault| anyhow!("{}{fault}", path.display()));
    let now = target.text.as_deref().unwrap_or_default();
    let Some(entry) = edit::entry(host, now, name).map_err(at)? else {
        bail!("{shown}: has no server {name:?}");
    };
    let copy = read(&target.copy())?;
    // A copy that was broken since, or has an entry of this program, is no proof.
    let proof = copy.as_deref().and_then(|text| {
        let old = edit::entry(host, text, name).ok()?;
        (!old.as_ref().is_some_and(|old| has(own, host, old))).then_some((text, old))
    });
    let (original, old) = proof.unzip();
    let old = old.flatten();
    let is_it = |text: &&str| {
        edit::set(host, text, name, Some(&entry)).is_ok_and(|connected| connected == now)
    };
    let original = original.filter(is_it);
    let is_url = entry.get("command").is_none() && original.is_some();
    if !is_url && !has(own, host, &entry) {
        bail!(
            "{shown}: the server {name:?} was not written by this program: remove it by hand, or name its URL with --http"
        );
    }
    let created = edit::set(host, "", name, Some(&entry)).map_err(at)?;
    let after = match original {
        Some(text) => Some(text.to_owned()),
        // A file that `connect` has created goes.
        None if is_same(&created, now) && copy.is_none() => None,
        None => Some(edit::set(host, now, name, old.as_ref()).map_err(at)?),
    };
    let is_copy = |after: &String| {
        let copy = copy.as_deref().unwrap_or_default();
        edit::read(host, after).ok() == edit::read(host, copy).ok()
    };
    let entries = [Some(&entry), old.as_ref()];
    let diff = diff(host, &target.path, name, entries, None);
    Ok(Plan {
        writes_copy: false,
        removes_copy: after.as_ref().is_some_and(is_copy),
        target,
        after,
        diff,
    })
}

fn has(own: &Own, host: &Host, entry: &Value) -> bool {
    let entry = entry.as_object();
    entry.is_some_and(|entry| own.has(&listed::read(host, "", entry)))
}

/// True if two texts differ in blanks and line ends only.
fn is_same(one: &str, other: &str) -> bool {
    one.split_whitespace()
        .flat_map(str::chars)
        .eq(other.split_whitespace().flat_map(str::chars))
}

/// Renders an entry before and after a change of a file, in the syntax of that. `shown` has the texts and numbers that
/// are not masked: others may be secrets.
fn diff(
    host: &Host,
    path: &Path,
    name: &str,
    entries: [Option<&Value>; 2],
    shown: Option<&Value>,
) -> String {
    let file = |entry: Option<&Value>| {
        let masked = entry.map(|entry| masked(entry, shown));
        let text = masked.map(|entry| edit::set(host, "", name, Some(&entry)));
        text.and_then(Result::ok).unwrap_or_default()
    };
    let [before, after] = entries.map(file);
    let mut text = format!("--- {0}\n+++ {0}\n", path.display());
    let is_in = |line: &str, others: &str| others.lines().any(|other| other == line);
    for line in before.lines().filter(|line| !is_in(line, &after)) {
        let _ = writeln!(text, "-{line}");
    }
    for line in after.lines() {
        let mark = if is_in(line, &before) { ' ' } else { '+' };
        let _ = writeln!(text, "{mark}{line}");
    }
    text
}

/// An entry with its texts and numbers hidden that are not in `shown`.
fn masked(value: &Value, shown: Option<&Value>) -> Value {
    match value {
        Value::Array(values) => values.iter().map(|value| masked(value, shown)).collect(),
        Value::Object(members) => {
            let members = members.iter();
            let masked = members.map(|(key, value)| (key.clone(), masked(value, shown)));
            Value::Object(masked.collect())
        }
        Value::String(_) | Value::Number(_) => {
            match shown.is_some_and(|it| it.to_string().contains(&value.to_string())) {
                true => value.clone(),
                false => "…".into(),
            }
        }
        value => value.clone(),
    }
}

#[cfg(test)]
mod tests;
