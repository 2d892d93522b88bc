//! Reads and replaces a file.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::Error;

/// A larger file is no list of servers. That of Claude Code also holds its history.
const MAX_BYTES: u64 = 64 << 20;

/// A file on the disk, behind all symbolic links.
pub(crate) struct Target {
    pub(crate) path: PathBuf,
    /// `None` if there is no file.
    pub(crate) text: Option<String>,
}

fn error(path: &Path, reason: impl Into<String>) -> Error {
    Error {
        path: path.to_owned(),
        line: None,
        reason: reason.into(),
    }
}

fn failed(path: &Path, what: &str) -> impl FnOnce(io::Error) -> Error {
    move |cause| error(path, format!("{what}: {cause}"))
}

impl Target {
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let found = match fs::canonicalize(path) {
            Ok(found) => found,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                if fs::symlink_metadata(path).is_ok() {
                    return Err(error(
                        path,
                        "is a symbolic link to a file that is not there",
                    ));
                }
                return Ok(Self {
                    path: path.to_owned(),
                    text: None,
                });
            }
            Err(cause) => return Err(failed(path, "cannot be read")(cause)),
        };
        let facts = fs::metadata(&found).map_err(failed(path, "cannot be read"))?;
        if !facts.is_file() {
            return Err(error(path, "is not a file"));
        }
        if facts.len() > MAX_BYTES {
            return Err(error(path, "is larger than 64 MiB"));
        }
        let bytes = fs::read(&found).map_err(failed(path, "cannot be read"))?;
        let text = String::from_utf8(bytes).map_err(|_| error(path, "is not UTF-8"))?;
        Ok(Self {
            path: found,
            text: Some(text),
        })
    }

    /// Tells whether the file can be replaced: it can be written, and is as it was read.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Self { path, text } = self;
        if text.is_some() {
            let facts = fs::metadata(path).map_err(failed(path, "cannot be read"))?;
            if facts.permissions().readonly() {
                let text =
                    "is read-only: make it writable, or add the entry where the file is made";
                return Err(error(path, text));
            }
        }
        match Self::read(path)?.text == *text {
            true => Ok(()),
            false => Err(error(path, "has changed meanwhile: try again")),
        }
    }

    /// Replaces the file at once by this text; `None` removes it.
    pub(crate) fn replace(&self, text: Option<&str>) -> Result<(), Error> {
        let path = &self.path;
        let Some(text) = text else {
            self.check()?;
            return fs::remove_file(path).map_err(failed(path, "cannot be removed"));
        };
        let facts = self.text.is_some().then(|| fs::metadata(path)).transpose();
        let facts = facts.map_err(failed(path, "cannot be read"))?;
        let check = || self.check().map_err(|error| io::Error::other(error.reason));
        // Last of all, so that an edit made meanwhile is not lost.
        write(path, text, facts.as_ref(), check).map_err(failed(path, "cannot be written"))
    }

    /// The file beside it with the text that it had before the first change.
    pub(crate) fn copy(&self) -> PathBuf {
        let mut path = OsString::from(&self.path);
        path.push(".bak");
        path.into()
    }

    /// Writes the text that it has now to the copy.
    pub(crate) fn write_copy(&self) -> Result<(), Error> {
        let Some(text) = &self.text else {
            return Ok(());
        };
        let (facts, copy) = (fs::metadata(&self.path), self.copy());
        let facts = facts.map_err(failed(&self.path, "cannot be read"))?;
        write(&copy, text, Some(&facts), || Ok(())).map_err(failed(&copy, "cannot be written"))
    }
}

/// Writes a file beside it and moves it into its place. It gets the rights of `like`; without, only this user
/// can read it. `check` is asked last of all.
fn write(
    path: &Path,
    text: &str,
    like: Option<&fs::Metadata>,
    check: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut temporary = OsString::from(path);
    temporary.push(format!(".{}.new", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let written = fill(&temporary, text, like);
    let written = written.and_then(|()| check());
    let written = written.and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn fill(path: &Path, text: &str, like: Option<&fs::Metadata>) -> io::Result<()> {
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())?;
    if let Some(like) = like {
        #[cfg(unix)]
        let rights = given(&file, like);
        #[cfg(not(unix))]
        let rights = like.permissions();
        file.set_permissions(rights)?;
    }
    file.sync_all()
}

/// Gives a file to the user and group of another one. Returns the rights for it.
#[cfg(unix)]
fn given(file: &File, like: &fs::Metadata) -> fs::Permissions {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let mut rights = like.permissions();
    // Only an administrator can give a file to another user, and has to. The rights of the group are for that group
    // alone.
    let owned = std::os::unix::fs::fchown(file, Some(like.uid()), Some(like.gid()));
    if owned.is_err() {
        rights.set_mode(rights.mode() & !0o6070);
    }
    rights
}
