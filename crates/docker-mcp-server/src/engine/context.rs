//! Docker contexts, which bollard does not support: the address that Docker Desktop, colima or
//! `docker context use` wrote into the configuration.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::Value;

use super::tls::Certificates;

/// The name of the current context in the docker configuration at `config`, if it has one.
pub(super) fn current(config: &Path) -> anyhow::Result<Option<String>> {
    let file = config.join("config.json");
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        // The configuration of another user, for example under sudo.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(None),
        Err(error) => return Err(error).with_context(|| file.display().to_string()),
    };
    let config: Value = serde_json::from_str(&text)
        .with_context(|| format!("{}; or set DOCKER_HOST", file.display()))?;
    let name = config["currentContext"].as_str().unwrap_or_default();
    Ok((!name.is_empty()).then(|| name.to_owned()))
}

/// The address of the engine of the context `name`, in the form of `DOCKER_HOST`, and its TLS files.
pub(super) fn endpoint(
    config: &Path,
    name: &str,
) -> anyhow::Result<(String, Option<Certificates>)> {
    let contexts = config.join("contexts");
    // The directories are named by hashes of the contexts' names. Reading all of the few files needs
    // no hash function.
    for dir in fs::read_dir(contexts.join("meta")).into_iter().flatten() {
        let dir = dir.context("docker contexts")?;
        let Ok(text) = fs::read_to_string(dir.path().join("meta.json")) else {
            continue;
        };
        let meta: Value = serde_json::from_str(&text).unwrap_or_default();
        if meta["Name"] == name {
            let tls = contexts.join("tls").join(dir.file_name()).join("docker");
            return docker_endpoint(name, &meta["Endpoints"]["docker"], &tls);
        }
    }
    bail!("there is no docker context {name:?}; `docker context ls` shows them, or set DOCKER_HOST")
}

fn docker_endpoint(
    name: &str,
    endpoint: &Value,
    tls: &Path,
) -> anyhow::Result<(String, Option<Certificates>)> {
    let Some(host) = endpoint["Host"].as_str() else {
        bail!("the docker context {name:?} has no docker endpoint");
    };
    if endpoint["SkipTLSVerify"] == true {
        bail!("the docker context {name:?} skips TLS verification, which is not supported");
    }
    let certificates = tls.is_dir().then(|| Certificates::in_dir(tls));
    Ok((host.to_owned(), certificates))
}
