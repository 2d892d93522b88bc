//! The compose program: the one on the search path, or Debian's, unpacked beside the engines.

use std::path::PathBuf;

use super::debian;
use crate::layout::{Layout, on_path};

/// Compose 2.26.
const SUITE: &str = "trixie";

/// Fetches it where it is missing; the folder that holds `docker-compose`.
pub(crate) fn install(layout: &Layout) -> anyhow::Result<PathBuf> {
    let installed = on_path("docker-compose").and_then(|file| Some(file.parent()?.to_owned()));
    if let Some(folder) = installed {
        return Ok(folder);
    }
    let dir = layout.backends().join("compose");
    debian::unpack(layout, "compose", &dir, SUITE, &["docker-compose"])?;
    // A plugin of the docker command that also runs by itself.
    Ok(dir.join("engine/usr/libexec/docker/cli-plugins"))
}
