//! The file of the event store.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::events::StoreError;

/// Suffixes of the file, its write-ahead log and its shared memory.
const SUFFIXES: [&str; 3] = ["", "-wal", "-shm"];

/// The identity of an open file and of its write-ahead log.
pub(super) struct FileId {
    path: PathBuf,
    file: Inode,
    /// `None` until the log was created.
    log: Option<Inode>,
}

/// The device and the inode of a file. The same for all files on Windows, where a file that is open
/// cannot be replaced.
type Inode = (u64, u64);

impl FileId {
    pub(super) fn is_in_place(&mut self) -> bool {
        let log = inode(&with_suffix(&self.path, "-wal")).ok();
        self.log = self.log.or(log);
        self.log == log && inode(&self.path).is_ok_and(|file| file == self.file)
    }
}

pub(super) fn id(path: &Path) -> Result<FileId, StoreError> {
    Ok(FileId {
        path: path.to_owned(),
        file: inode(path).map_err(failure)?,
        log: None,
    })
}

fn inode(path: &Path) -> io::Result<Inode> {
    let file = fs::metadata(path)?;
    #[cfg(unix)]
    return Ok((
        std::os::unix::fs::MetadataExt::dev(&file),
        std::os::unix::fs::MetadataExt::ino(&file),
    ));
    #[cfg(not(unix))]
    Ok((0, u64::from(file.is_file())))
}

/// Creates the folder and the file, which only this user can read: events are private.
pub(super) fn prepare(path: &Path) -> Result<(), StoreError> {
    match mcp_serve::create_private(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failure(error)),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Renames a damaged file, so that it can be examined. Replaces an earlier one, to keep at most one.
pub(in crate::events) fn quarantine(path: &Path) -> Result<(), StoreError> {
    for suffix in SUFFIXES {
        let to = with_suffix(path, &format!(".corrupt{suffix}"));
        match fs::rename(with_suffix(path, suffix), &to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Belongs to an earlier damaged file.
                let _ = fs::remove_file(&to);
            }
            moved => moved.map_err(failure)?,
        }
    }
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn failure(error: io::Error) -> StoreError {
    StoreError::unavailable(error.to_string())
}
