//! The name of the old container of a replacement that has not ended, and the lock of the server that is at work.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::PathBuf;

use super::super::prelude::*;
use crate::engine::{ContainerSummary, Engine};
use crate::policy::{KEPT, REPLACES};

/// After the name of an old container that has to run if it comes back.
const RAN: &str = ".up";

/// The name of the container with this id while its replacement is not known to be healthy.
pub(super) fn kept_name(name: &str, id: &str, ran: bool) -> String {
    let ran = if ran { RAN } else { "" };
    format!("{name}{KEPT}{}{ran}", short_id(id))
}

/// Whether the old container with this name ran when its replacement began.
pub(super) fn ran(name: &str) -> bool {
    name.ends_with(RAN)
}

/// Whether it is the old container of a replacement.
pub(crate) fn is_kept(container: &ContainerSummary) -> bool {
    is_kept_name(container.display_name(), &container.id)
}

/// Whether this is the name that the container with this id has while it is replaced.
pub(super) fn is_kept_name(name: &str, id: &str) -> bool {
    let kept = name.rsplit_once(KEPT);
    kept.is_some_and(|(replaced, _)| name == kept_name(replaced, id, ran(name)))
}

/// Refuses a container that another call replaces: the old one, and the new one until the old one is gone.
pub(super) async fn permit_begin(
    engine: &Engine,
    container: &ContainerDetails,
) -> Result<(), ToolError> {
    let name = container.display_name();
    if is_kept_name(name, &container.id) {
        return Err(under_way(name, name));
    }
    let label = container.config.labels.get(REPLACES);
    let old = label.and_then(|label| ContainerName::new(label).ok());
    let Some(old) = old else { return Ok(()) };
    match engine.try_inspect(&old).await {
        Ok(old) if is_kept_name(old.display_name(), &old.id) => {
            Err(under_way(name, old.display_name()))
        }
        _ => Ok(()),
    }
}

/// A file that is locked while a process of this machine replaces a container. The system unlocks it if that is killed.
pub(super) struct Lock {
    path: PathBuf,
    _file: Option<File>,
}

/// Another process is at work.
pub(super) struct Locked;

impl Lock {
    pub(super) fn take(id: &str) -> Result<Self, Locked> {
        let path = std::env::temp_dir().join(format!("docker-mcp-server-{id}.lock"));
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = match file {
            // Of another user.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(Locked),
            // No place for files: the name of the old container alone tells.
            Err(_) => None,
            Ok(file) => match file.try_lock() {
                Err(TryLockError::WouldBlock) => return Err(Locked),
                _ => Some(file),
            },
        };
        Ok(Self { path, _file: file })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

pub(super) fn under_way(name: &str, kept: &str) -> ToolError {
    conflict(format!(
        "`{name}` is being replaced by another call: until that ends, its old container has the name \
         `{kept}`. Nothing was done; look at it again with get_container."
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_call_replaces_a_container_at_a_time() {
        let id = format!("test-{}", std::process::id());
        let lock = Lock::take(&id);
        assert!(lock.is_ok() && Lock::take(&id).is_err());
        drop(lock);
        assert!(Lock::take(&id).is_ok());
    }

    #[test]
    fn old_container_of_a_replacement_is_known_by_its_name() {
        let id = "0123456789abcdef";
        for (name, expected) in [
            ("/web.before-0123456789ab", true),
            ("/web.before-0123456789ab.up", true),
            ("/web.before-0123456789ab.down", false),
            ("/web.before-x.before-0123456789ab", true),
            ("/web.before-ba9876543210", false),
            ("/web.before-over-0123456789ab", false),
            ("/web", false),
        ] {
            let summary = json!({"Id": id, "Names": [name]});
            let summary = serde_json::from_value(summary).unwrap();
            assert_eq!(is_kept(&summary), expected, "{name}");
        }
    }
}
