//! The file itself.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::events::Failure;

/// What SQLite keeps beside the file.
const COMPANIONS: [&str; 3] = ["", "-wal", "-shm"];

/// Which file a path named.
pub(super) struct FileId {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl FileId {
    pub(super) fn is_in_place(&self) -> bool {
        fs::metadata(&self.path)
            .is_ok_and(|now| (now.dev(), now.ino()) == (self.device, self.inode))
    }
}

pub(super) fn id(path: &Path) -> Result<FileId, Failure> {
    let now = fs::metadata(path).map_err(failure)?;
    Ok(FileId {
        path: path.to_owned(),
        device: now.dev(),
        inode: now.ino(),
    })
}

/// Makes the folder, and a file that only its owner reads: it says who used what.
pub(super) fn prepare(path: &Path) -> Result<(), Failure> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failure)?;
    }
    let created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match created {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failure(error)),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Renames a damaged file, over an earlier one, so that the damage can be looked at and no more than
/// one is ever kept.
pub(in crate::events) fn put_aside(path: &Path) -> Result<(), Failure> {
    for companion in COMPANIONS {
        let (from, to) = (
            with(path, companion),
            with(path, &format!(".corrupt{companion}")),
        );
        match fs::rename(&from, &to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // What lies there belongs to another damaged file.
                let _ = fs::remove_file(&to);
            }
            moved => moved.map_err(failure)?,
        }
    }
    Ok(())
}

fn with(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn failure(error: io::Error) -> Failure {
    Failure::unavailable(error.to_string())
}
