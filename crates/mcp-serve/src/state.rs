//! Files that a server keeps between its runs.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

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
/// `unsafe` or another crate, and would keep out no other user.
///
/// # Errors
/// Also if the file exists.
pub fn create_private(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.write(true).create_new(true).open(path)
}
