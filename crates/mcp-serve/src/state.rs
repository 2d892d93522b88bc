//! Files that a server keeps between its runs.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Once;

use tempfile::NamedTempFile;

/// Returns the folder of this user for the state of programs: `$XDG_STATE_HOME` if it is set, else
/// `~/.local/state`, on macOS `~/Library/Application Support`, and on Windows `%LOCALAPPDATA%`. `None`
/// if none of these variables is set.
pub fn state_folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let folder = |name| variable(name).map(PathBuf::from);
    folder("XDG_STATE_HOME").or_else(|| {
        if cfg!(windows) {
            folder("LOCALAPPDATA")
        } else if cfg!(target_os = "macos") {
            Some(folder("HOME")?.join("Library/Application Support"))
        } else {
            Some(folder("HOME")?.join(".local/state"))
        }
    })
}

/// Creates a file that only this user can read, and its folder.
///
/// The mode is 0600. On Windows the file inherits the access rights of its folder: in
/// [`state_folder`] those are this user, administrators and the system. Rights of its own would need
/// `unsafe` or another crate, and would keep out no other user. Outside the folder of the user, others may
/// be able to read it, so the log warns of that.
///
/// # Errors
/// Also if the file exists.
pub fn create_private(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    if cfg!(windows) {
        warn_if_shared(path);
    }
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.write(true).create_new(true).open(path)
}

/// Writes a file in place of what is there, with the owner and the rights of that; a new one can be read by its owner
/// only. It has the whole content at once, also if this process ends meanwhile or the disk is full.
pub(crate) fn replace_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    if cfg!(windows) {
        warn_if_shared(path);
    }
    // The file is readable by this user alone, and goes with its handle.
    let mut file = NamedTempFile::new_in(folder)?;
    keep_owner(file.as_file(), path)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    Ok(file.persist(path).map(drop)?)
}

/// Gives a new file the owner of the old one, and the rights that its owner and its group had: the server
/// that reads it may have another user than this command, such as root. All others get none. On Windows both
/// inherit the access rights of their folder.
#[cfg(unix)]
fn keep_owner(new: &File, old: &Path) -> io::Result<()> {
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};

    let Ok(old) = old.metadata() else {
        return Ok(());
    };
    let own = new.metadata()?;
    match (old.uid(), old.gid()) {
        ids if ids == (own.uid(), own.gid()) => {}
        (user, group) => fchown(new, Some(user), Some(group))?,
    }
    // After the owner: another group must not get the rights of this one.
    new.set_permissions(Permissions::from_mode(old.mode() & 0o660))
}

#[cfg(not(unix))]
fn keep_owner(_: &File, _: &Path) -> io::Result<()> {
    Ok(())
}

/// Opens what processes lock while they change a file in this folder: the folder itself, on Windows, where
/// folders cannot be locked, a file in it that stays.
pub(crate) fn open_for_lock(folder: &Path) -> io::Result<File> {
    match cfg!(windows) {
        true => File::create(folder.join(".lock")),
        false => File::open(folder),
    }
}

/// Warns once if a private file is not in the folder of the user, whose rights it would inherit. Commands such as
/// `token` have no log, so they write to stderr.
fn warn_if_shared(path: &Path) {
    static WARNING: Once = Once::new();
    let profile = std::env::var_os("USERPROFILE").map(PathBuf::from);
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if !profile.is_some_and(|profile| is_below(&path, &profile)) {
        WARNING.call_once(|| {
            let text = "this file has the access rights of its folder, which is not in %USERPROFILE%: check that other \
                users cannot read it";
            if tracing::dispatcher::has_been_set() {
                tracing::warn!(path = %path.display(), "{text}");
            } else {
                let _ = writeln!(io::stderr(), "{}: {text}", path.display());
            }
        });
    }
}

/// True if `path` is below `folder` on Windows, which does not tell upper from lower case.
fn is_below(path: &Path, folder: &Path) -> bool {
    let lower = |path: &Path| PathBuf::from(path.to_string_lossy().to_lowercase());
    !folder.as_os_str().is_empty() && lower(path).starts_with(lower(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_the_folder_of_the_user_are_told_from_others() {
        let profile = Path::new("/Users/Ada");
        for (path, expected) in [
            ("/users/ada/state/events.db", true),
            ("/Users/Adam/events.db", false),
            ("/data/events.db", false),
        ] {
            assert_eq!(is_below(Path::new(path), profile), expected, "{path}");
        }
        assert!(!is_below(Path::new("/data"), Path::new("")));
    }
}
