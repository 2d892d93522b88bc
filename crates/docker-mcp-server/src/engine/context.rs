//! Docker contexts, which bollard does not support: the address that Docker Desktop, colima or
//! `docker context use` wrote into the configuration.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde_json::Value;

use crate::engine::address_error::AddressError;
use crate::engine::tls::Certificates;

/// The name of the current context in the docker configuration at `config`, if it has one.
pub(super) fn current(config: &Path) -> Result<Option<String>, AddressError> {
    let file = config.join("config.json");
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        // The configuration of another user, for example under sudo.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(None),
        Err(error) => return Err(AddressError::at(file.display())(error)),
    };
    let config: Value = serde_json::from_str(&text).map_err(|error| {
        AddressError::new(format!("{}; or set DOCKER_HOST: {error}", file.display()))
    })?;
    let name = config["currentContext"].as_str().unwrap_or_default();
    Ok((!name.is_empty()).then(|| name.to_owned()))
}

/// The address of the engine of the context `name`, in the form of `DOCKER_HOST`, and its TLS files.
pub(super) fn endpoint(
    config: &Path,
    name: &str,
) -> Result<(String, Option<Certificates>), AddressError> {
    let contexts = config.join("contexts");
    // The directories are named by hashes of the contexts' names. Reading all of the few files needs
    // no hash function.
    for dir in fs::read_dir(contexts.join("meta")).into_iter().flatten() {
        let dir = dir.map_err(AddressError::at("docker contexts"))?;
        let Ok(text) = fs::read_to_string(dir.path().join("meta.json")) else {
            continue;
        };
        let meta: Value = serde_json::from_str(&text).unwrap_or_default();
        if meta["Name"] == name {
            let tls = contexts.join("tls").join(dir.file_name()).join("docker");
            return docker_endpoint(name, &meta["Endpoints"]["docker"], &tls);
        }
    }
    Err(AddressError::new(format!(
        "there is no docker context {name:?}; `docker context ls` shows them, or set DOCKER_HOST"
    )))
}

fn docker_endpoint(
    name: &str,
    endpoint: &Value,
    tls: &Path,
) -> Result<(String, Option<Certificates>), AddressError> {
    let invalid = |text| AddressError::new(format!("the docker context {name:?} {text}"));
    let Some(host) = endpoint["Host"].as_str() else {
        return Err(invalid("has no docker endpoint"));
    };
    if endpoint["SkipTLSVerify"] == true {
        return Err(invalid("skips TLS verification, which is not supported"));
    }
    let certificates = tls.is_dir().then(|| Certificates::in_dir(tls));
    Ok((host.to_owned(), certificates))
}
