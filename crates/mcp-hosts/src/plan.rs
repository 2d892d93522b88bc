//! Plans the change of a host's file, and makes it.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, anyhow, bail, ensure};
use serde_json::Value;

use crate::host::Host;
use crate::{Listed, edit, listed};

/// A larger file is no list of servers. That of Claude Code also holds its history.
const MAX_BYTES: u64 = 64 << 20;

/// Returns the file behind all symbolic links, and its text; `None` if there is no file.
fn find(path: &Path) -> anyhow::Result<(PathBuf, Option<String>)> {
    let (shown, unreadable) = (path.display(), || failed(path, "read"));
    let found = match fs::canonicalize(path) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => {
            ensure!(
                fs::symlink_metadata(path).is_err(),
                "{shown}: is a symbolic link to a file that is not there"
            );
            return Ok((path.to_owned(), None));
        }
        found => found.with_context(unreadable)?,
    };
    let facts = fs::metadata(&found).with_context(unreadable)?;
    ensure!(facts.is_file(), "{shown}: is not a file");
    ensure!(facts.len() <= MAX_BYTES, "{shown}: is larger than 64 MiB");
    let bytes = fs::read(&found).with_context(unreadable)?;
    let text = String::from_utf8(bytes).ok();
    let text = text.with_context(|| format!("{shown}: is not UTF-8"))?;
    Ok((found, Some(text)))
}

/// Locks the folder of a file, behind all symbolic links, until the returned handle is dropped: another `connect` waits, and
/// then finds what this one has written. If there is no such folder, it locks the nearest one above. Windows locks no
/// folders; the check of the text before a change stays there.
fn lock(path: &Path) -> Option<fs::File> {
    let found = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let nearest = || {
        let mut folders = found.ancestors().skip(1);
        folders.find_map(|folder| Some((folder, fs::File::open(folder).ok()?)))
    };
    let (mut at, mut folder) = nearest()?;
    loop {
        folder.lock().ok()?;
        // Another `connect` may have made the folder of the file meanwhile.
        let (now, other) = nearest()?;
        if now == at {
            return Some(folder);
        }
        (at, folder) = (now, other);
    }
}

/// The text of a file; `None` if there is none.
pub(crate) fn read(path: &Path) -> anyhow::Result<Option<String>> {
    Ok(find(path)?.1)
}

fn failed(path: &Path, what: &str) -> String {
    format!("{}: cannot be {what}", path.display())
}

/// The file beside another one with the text that this had before the first change.
fn copy_of(path: &Path) -> PathBuf {
    let mut copy = OsString::from(path);
    copy.push(".bak");
    copy.into()
}

/// Replaces a file at once by this text, with the owner and the rights of a file; without one, only this user can read it.
fn write(path: &Path, text: &str, like: Option<&fs::Metadata>) -> anyhow::Result<()> {
    let write = |path: &Path| {
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
    let missing = path.ancestors().skip(1).take_while(|it| !it.exists());
    // The file of a path with `..` is not below the first missing folder.
    let is_plain = !path.components().any(|it| it == Component::ParentDir);
    let first = missing.last().filter(|_| is_plain);
    let written = match first.and_then(|it| Some((it, it.parent()?))) {
        // New folders appear with the file in them: until then another `connect` waits for the lock of the one above.
        Some((first, above)) => tempfile::tempdir_in(above).and_then(|made| {
            let new = made.path().join("new");
            let rest = path.strip_prefix(first).unwrap_or(path);
            write(&new.join(rest))?;
            fs::rename(new, first)
        }),
        None => write(path),
    };
    written.map_err(|cause: std::io::Error| anyhow!(cause).context(failed(path, "written")))
}

/// A change of a host's file.
pub struct Plan {
    /// The file behind all symbolic links.
    pub path: PathBuf,
    /// The text of the file; `None` if there is no file.
    before: Option<String>,
    /// The text that the file will have; `None` if it will be removed.
    after: Option<String>,
    /// True if a copy of the file will be written beside it.
    writes_copy: bool,
    /// True if that copy will be removed.
    removes_copy: bool,
    /// The entry before and after the change, empty if the file stays as it is. What only the old one holds is masked, since
    /// it may be secret.
    pub diff: String,
    /// Held from the reading of the file until the end of the change.
    _lock: Option<fs::File>,
}

impl Plan {
    /// Makes the change, and returns lines about what was written.
    ///
    /// # Errors
    /// If the file cannot be written, or has changed meanwhile. It is then as it was.
    pub fn apply(self) -> anyhow::Result<String> {
        let (path, copy, shown) = (&self.path, copy_of(&self.path), self.path.display());
        let facts = self.before.is_some().then(|| fs::metadata(path));
        let facts = facts.transpose().with_context(|| failed(path, "read"))?;
        ensure!(
            facts.as_ref().is_none_or(|it| !it.permissions().readonly()),
            "{shown}: is read-only: make it writable, or add the entry where the file is made"
        );
        ensure!(
            read(path)? == self.before,
            "{shown}: has changed meanwhile: try again"
        );
        let kept = self.before.filter(|_| self.writes_copy);
        if let Some(text) = &kept {
            write(&copy, text, facts.as_ref())?;
        }
        let mut done = match &self.after {
            Some(after) => {
                write(path, after, facts.as_ref())?;
                format!("written: {shown}\n")
            }
            None => {
                fs::remove_file(path).with_context(|| failed(path, "removed"))?;
                format!("removed: {shown}\n")
            }
        };
        if kept.is_some() {
            let _ = writeln!(done, "the file as it was: {}", copy.display());
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

/// Tells whether an entry is one of this program.
pub type IsOwn<'a> = &'a dyn Fn(&Listed) -> bool;

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
    own: IsOwn<'_>,
) -> anyhow::Result<Plan> {
    let lock = lock(path);
    let (target, before) = find(path)?;
    let at = |fault| anyhow!("{}{fault}", path.display());
    let text = before.as_deref().unwrap_or_default();
    let found = edit::entry(host, text, name).map_err(at)?;
    let (after, diff) = match &found {
        Some(found) if found == entry => (before.clone(), String::new()),
        _ => {
            let after = edit::set(host, text, name, Some(entry)).map_err(at)?;
            let entries = [found.as_ref(), Some(entry)];
            (Some(after), diff(host, &target, name, entries, Some(entry)))
        }
    };
    let is_own = found.is_some_and(|found| has(own, host, &found));
    Ok(Plan {
        writes_copy: before.is_some() && !is_own && !copy_of(&target).exists(),
        removes_copy: false,
        path: target,
        before,
        after,
        diff,
        _lock: lock,
    })
}

/// Plans to take back [`connect`]: removes the entry, or puts the one of the user in its place that the copy has. If
/// the copy differs in nothing else, the file becomes it again, to the byte.
///
/// # Errors
/// If the file cannot be read, is broken, has no such entry, or one that is not of this program.
pub fn disconnect(host: &Host, path: &Path, name: &str, own: IsOwn<'_>) -> anyhow::Result<Plan> {
    let lock = lock(path);
    let (target, before) = find(path)?;
    let (shown, at) = (path.display(), |fault| anyhow!("{}{fault}", path.display()));
    let now = before.as_deref().unwrap_or_default();
    let Some(entry) = edit::entry(host, now, name).map_err(at)? else {
        bail!("{shown}: has no server {name:?}");
    };
    let with_entry = |text: &str| edit::set(host, text, name, Some(&entry));
    let copy = read(&copy_of(&target))?;
    // A copy that was broken since, or has an entry of this program, is no proof.
    let proof = copy.as_deref().and_then(|text| {
        let old = edit::entry(host, text, name).ok()?;
        let is_own = old.as_ref().is_some_and(|old| has(own, host, old));
        (!is_own).then_some((text, old))
    });
    let (original, old) = proof.unzip();
    let old = old.flatten();
    let original = original.filter(|text| with_entry(text).is_ok_and(|it| it == now));
    let is_url = entry.get("command").is_none() && original.is_some();
    if !is_url && !has(own, host, &entry) {
        bail!(
            "{shown}: the server {name:?} was not written by this program: remove it by hand, or name its URL with --http"
        );
    }
    let after = match original {
        Some(text) => Some(text.to_owned()),
        // A file that `connect` has created goes.
        None if old.is_none() && is_same(&with_entry("").map_err(at)?, now) => None,
        None if old.is_none() => Some(edit::unset(host, now, name, &entry).map_err(at)?),
        None => Some(edit::set(host, now, name, old.as_ref()).map_err(at)?),
    };
    let content = |text: &str| edit::read(host, text).ok();
    let is_copy = |after: &String| content(after) == content(copy.as_deref().unwrap_or_default());
    Ok(Plan {
        writes_copy: false,
        removes_copy: after.as_ref().is_some_and(is_copy),
        diff: diff(host, &target, name, [Some(&entry), old.as_ref()], None),
        path: target,
        before,
        after,
        _lock: lock,
    })
}

fn has(own: IsOwn<'_>, host: &Host, entry: &Value) -> bool {
    let entry = entry.as_object();
    entry.is_some_and(|entry| own(&listed::read(host, "", entry)))
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
