//! Builds with BuildKit, which fetches nothing but images unless the policy lets it use the network of the
//! engine's host.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use mcp_core::tool::ToolError;
use serde_json::Value;
use tempfile::TempDir;

use crate::docker::Docker;
use crate::engine::Path as EnginePath;
use crate::policy::forbidden;

/// BuildKit's own policy about the sources of a build: images and the files of its directory, but no addresses
/// and no repositories. It judges each one, whatever instruction, base image or frontend names it.
const SOURCE_POLICY: &str = r#"{"rules": [
    {"action": "DENY", "selector": {"identifier": "*"}},
    {"action": "ALLOW", "selector": {"identifier": "docker-image://*"}},
    {"action": "ALLOW", "selector": {"identifier": "local://*"}}
]}"#;
/// The first version of the API of an engine whose BuildKit (0.11) knows such a policy: Docker 24.
const FIRST_WITH_POLICY: (usize, usize) = (1, 43);
/// In errors of builds that use the network of the engine's host.
pub(super) const REFUSED: &str = " A build may not fetch an address or a repository, nor use `--network=host`: that gives \
     access to the network of the engine's host. Put the file beside the Dockerfile, or get it in a RUN; or ask the \
     operator of this server to allow `host_namespaces` in the policy file (--policy).";

/// A directory that is removed with this: the files of a build from texts, and the settings of the program.
pub(crate) struct BuildDirectory(TempDir);

impl BuildDirectory {
    /// Creates one with these files, of which the names are relative paths.
    /// Errors when one leads out of it.
    pub(crate) fn new<'a>(
        files: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Result<Self, ToolError> {
        let unwritable = |error: io::Error| {
            ToolError::unavailable("The files of a build cannot be written.").caused_by(error)
        };
        let directory = tempfile::Builder::new()
            .prefix("docker-mcp-build-")
            .tempdir();
        let this = Self(directory.map_err(unwritable)?);
        fs::create_dir(this.context()).map_err(unwritable)?;
        fs::write(this.policy(), SOURCE_POLICY).map_err(unwritable)?;
        for (name, text) in files {
            let mut parts = Path::new(name).components();
            if name.is_empty() || !parts.all(|part| matches!(part, Component::Normal(_))) {
                let text = format!("files: `{name}` is not a relative path without `..`.");
                return Err(ToolError::invalid_argument(text));
            }
            let file = this.context().join(name);
            let parent = file.parent().map_or(Ok(()), fs::create_dir_all);
            let written = parent.and_then(|()| fs::write(&file, text));
            written.map_err(unwritable)?;
        }
        Ok(this)
    }

    /// The directory with the files.
    pub(crate) fn context(&self) -> PathBuf {
        self.0.path().join("context")
    }

    fn policy(&self) -> PathBuf {
        self.0.path().join("policy.json")
    }

    /// The variables of a program that builds: the engine's own BuildKit, with the policy.
    pub(crate) fn variables(&self, docker: &Docker) -> Vec<(&'static str, OsString)> {
        let mut variables = vec![
            ("DOCKER_BUILDKIT", "1".into()),
            ("BUILDX_BUILDER", "default".into()),
            ("BUILDX_CONFIG", self.0.path().join("buildx").into()),
        ];
        if !docker.policy.may_use_host_network() {
            let policy = self.policy().into();
            variables.push(("EXPERIMENTAL_BUILDKIT_SOURCE_POLICY", policy));
        }
        variables
    }
}

impl Docker {
    /// Errors when builds could reach the network of the engine's host: its BuildKit knows no policy.
    pub(crate) async fn permit_build(&self) -> Result<(), ToolError> {
        if self.policy.may_use_host_network() {
            return Ok(());
        }
        let reply: Value = self.engine.get(EnginePath::to("/version")).await?;
        let version = reply["ApiVersion"].as_str().unwrap_or_default();
        let parts = version.split_once('.');
        let parts =
            parts.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        match parts.is_some_and(|parts: (usize, usize)| parts >= FIRST_WITH_POLICY) {
            true => Ok(()),
            false => Err(forbidden(
                "This engine is older than Docker 24 (or is Podman): it cannot keep a build from the network of its \
                 host. Update it, or ask the operator of this server to allow `host_namespaces` in the policy file \
                 (--policy).",
            )),
        }
    }
}
