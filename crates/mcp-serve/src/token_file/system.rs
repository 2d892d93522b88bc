//! Differences between the systems.

use std::fs::File;
use std::io;
use std::path::Path;

/// Gives a new file the owner of the old one, and the rights that its owner and its group had: the server
/// that reads it may have another user than this command, such as root. All others get none. On Windows both
/// inherit the access rights of their folder.
#[cfg(unix)]
pub(super) fn keep_owner(new: &File, old: &Path) -> io::Result<()> {
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
pub(super) fn keep_owner(_: &File, _: &Path) -> io::Result<()> {
    Ok(())
}
