//! Docker contexts, which bollard does not support: the address that Docker Desktop, colima or
//! `docker context use` wrote into the configuration.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserialize;

use super::tls::Certificates;

/// The engine of a context.
pub(super) struct ContextEndpoint {
    /// In the form of `DOCKER_HOST`.
    pub(super) host: String,
    /// Present if the context has TLS files.
    pub(super) certificates: Option<Certificates>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Meta {
    name: String,
    endpoints: HashMap<String, MetaEndpoint>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MetaEndpoint {
    #[serde(rename = "Host")]
    host: String,
    #[serde(rename = "SkipTLSVerify")]
    skip_tls_verify: bool,
}

/// The name of the current context in the docker configuration at `config`, if it has one.
pub(super) fn current(config: &Path) -> anyhow::Result<Option<String>> {
    #[derive(Deserialize)]
    struct Config {
        #[serde(default, rename = "currentContext")]
        current_context: String,
    }
    let file = config.join("config.json");
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        // The configuration of another user, for example under sudo.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(None),
        Err(error) => return Err(error).with_context(|| file.display().to_string()),
    };
    let config: Config = serde_json::from_str(&text)
        .with_context(|| format!("{}; or set DOCKER_HOST", file.display()))?;
    Ok(Some(config.current_context).filter(|name| !name.is_empty()))
}

/// The endpoint of the context `name`.
pub(super) fn endpoint(config: &Path, name: &str) -> anyhow::Result<ContextEndpoint> {
    let contexts = config.join("contexts");
    // The directories are named by hashes of the contexts' names. Reading all of the few files needs
    // no hash function.
    for dir in fs::read_dir(contexts.join("meta")).into_iter().flatten() {
        let dir = dir.context("docker contexts")?;
        let Ok(text) = fs::read_to_string(dir.path().join("meta.json")) else {
            continue;
        };
        match serde_json::from_str::<Meta>(&text) {
            Ok(meta) if meta.name == name => {
                let tls = contexts.join("tls").join(dir.file_name()).join("docker");
                return docker_endpoint(meta, &tls);
            }
            _ => {}
        }
    }
    bail!("there is no docker context {name:?}; `docker context ls` shows them, or set DOCKER_HOST")
}

fn docker_endpoint(mut meta: Meta, tls: &Path) -> anyhow::Result<ContextEndpoint> {
    let name = meta.name;
    let Some(endpoint) = meta.endpoints.remove("docker") else {
        bail!("the docker context {name:?} has no docker endpoint");
    };
    if endpoint.skip_tls_verify {
        bail!("the docker context {name:?} skips TLS verification, which is not supported");
    }
    let certificates = tls.is_dir().then(|| Certificates::in_dir(tls));
    Ok(ContextEndpoint {
        host: endpoint.host,
        certificates,
    })
}
