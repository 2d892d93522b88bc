//! Logins of registries, from the docker configuration: what `docker login` has stored, itself or through a credential
//! helper. Each is read when it is used, so that a new login needs no restart.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bollard::auth::DockerCredentials;
use mcp_core::tool::ToolError;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

use crate::engine::command::command;
use crate::engine::name::ImageName;
use crate::json::text;

/// The key of Docker Hub in the configuration.
const DOCKER_HUB: &str = "https://index.docker.io/v1/";
/// The timeout of a credential helper, which may have to ask its service.
const HELPER_TIMEOUT: Duration = Duration::from_secs(20);

/// The logins of one docker configuration.
#[derive(Clone)]
pub(crate) struct Registries {
    config: Option<PathBuf>,
}

/// The part of `config.json` that is about logins.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Config {
    auths: BTreeMap<String, DockerCredentials>,
    creds_store: String,
    cred_helpers: BTreeMap<String, String>,
}

/// The login of a registry in the docker configuration.
pub(crate) enum RegistryLogin {
    /// There is one.
    Found(Box<DockerCredentials>),
    /// There is none.
    Missing,
    /// Its credential helper failed, for this reason.
    Unreadable(String),
}

impl RegistryLogin {
    pub(crate) fn credentials(&self) -> Option<DockerCredentials> {
        match self {
            Self::Found(login) => Some((**login).clone()),
            _ => None,
        }
    }
}

impl Registries {
    /// The logins of the configuration in this directory.
    pub(crate) fn new(config: Option<PathBuf>) -> Self {
        Self { config }
    }

    /// The login of the image's registry. Public images need none, so a failing credential helper is
    /// no error.
    /// Errors when the configuration cannot be read.
    pub(crate) async fn login(&self, image: &ImageName) -> Result<RegistryLogin, ToolError> {
        let server = server(image);
        let Some(config) = self.read()? else {
            return Ok(RegistryLogin::Missing);
        };
        let of_server = |key: &&String| hostname(key) == hostname(server);
        let helper = config.cred_helpers.iter().find(|(key, _)| of_server(key));
        let helper = helper.map_or(&config.creds_store, |(_, helper)| helper);
        let stored = match &**helper {
            "" => Ok(None),
            helper => from_helper(helper, server).await,
        };
        let mut logins = config.auths.iter();
        let written = logins.find(|(key, _)| of_server(key));
        let written = written.map(|(_, login)| login.clone());
        let login = stored.as_ref().ok().cloned().flatten().or(written);
        let login = login.and_then(|login| usable(login, server));
        Ok(match (login, stored) {
            (Some(login), _) => RegistryLogin::Found(Box::new(login)),
            (None, Ok(_)) => RegistryLogin::Missing,
            (None, Err(error)) => {
                tracing::warn!("no login for {server}: {error}");
                RegistryLogin::Unreadable(error.message().to_owned())
            }
        })
    }

    fn read(&self) -> Result<Option<Config>, ToolError> {
        let Some(dir) = &self.config else {
            return Ok(None);
        };
        let unreadable = |error: std::io::Error| {
            let text = "The docker configuration (config.json) of this server cannot be read.";
            ToolError::unavailable(text).caused_by(error)
        };
        match std::fs::read(dir.join("config.json")) {
            Ok(text) => {
                let config = serde_json::from_slice(&text);
                config.map(Some).map_err(|error| unreadable(error.into()))
            }
            // Absent, or that of another user, for example under sudo.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(None),
            Err(error) => Err(unreadable(error)),
        }
    }
}

/// A login as the engine takes it; `None` if it is empty.
fn usable(mut login: DockerCredentials, server: &str) -> Option<DockerCredentials> {
    // `user:password` in Base64.
    let auth = login.auth.take().unwrap_or_default();
    let decoded = STANDARD.decode(auth.trim_end_matches('\0')).ok();
    let decoded = decoded.and_then(|text| String::from_utf8(text).ok());
    if let Some((user, password)) = decoded.as_deref().and_then(|text| text.split_once(':')) {
        login.username = Some(user.to_owned());
        login.password = Some(password.trim_end_matches('\0').to_owned());
    }
    login.serveraddress = Some(server.to_owned());
    let mut is_login = false;
    for secret in [
        &mut login.password,
        &mut login.identitytoken,
        &mut login.registrytoken,
    ] {
        secret.take_if(|secret| secret.is_empty());
        is_login |= secret.is_some();
    }
    is_login.then_some(login)
}

/// Asks `docker-credential-HELPER get`; `None` if it has no login for this server.
async fn from_helper(helper: &str, server: &str) -> Result<Option<DockerCredentials>, ToolError> {
    let program = format!("docker-credential-{helper}");
    let failed = |error: std::io::Error| {
        let text = format!("The credential helper `{program}` of the docker configuration failed.");
        ToolError::unavailable(text).caused_by(error)
    };
    if helper.contains(['/', '\\']) {
        return Err(failed(std::io::ErrorKind::InvalidInput.into()));
    }
    let run = async {
        let mut command = command(&program);
        command.arg("get").stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // A helper that does not read fails by itself.
            let _ = stdin.write_all(server.as_bytes()).await;
        }
        child.wait_with_output().await
    };
    let done = tokio::time::timeout(HELPER_TIMEOUT, run).await;
    let done = done.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
    let done = done.map_err(failed)?;
    if !done.status.success() {
        // The protocol has this text for an unknown server, on stdout.
        let output = String::from_utf8_lossy(&done.stdout);
        return match output.contains("credentials not found") {
            true => Ok(None),
            false => Err(failed(std::io::Error::other("it ended with an error"))),
        };
    }
    let reply: Value = serde_json::from_slice(&done.stdout).map_err(|e| failed(e.into()))?;
    let [user, secret] = ["Username", "Secret"].map(|name| Some(text(&reply[name]).to_owned()));
    let mut login = DockerCredentials::default();
    match user.as_deref() {
        Some("<token>") => login.identitytoken = secret,
        _ => (login.username, login.password) = (user, secret),
    }
    Ok(Some(login))
}

/// The registry of an image, as the configuration calls it.
pub(crate) fn server(image: &ImageName) -> &str {
    match image.as_str().split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => match host {
            "docker.io" | "index.docker.io" => DOCKER_HUB,
            host => host,
        },
        _ => DOCKER_HUB,
    }
}

/// The host of a key, which some programs write as a URL.
fn hostname(key: &str) -> &str {
    let key = key.split_once("://").map_or(key, |(_, rest)| rest);
    key.split('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_as_in_the_configuration() {
        for (image, expected) in [
            ("busybox", DOCKER_HUB),
            ("library/busybox:1", DOCKER_HUB),
            ("docker.io/library/busybox", DOCKER_HUB),
            ("localhost/a", "localhost"),
            ("ghcr.io/a/b:1", "ghcr.io"),
            ("127.0.0.1:5000/a", "127.0.0.1:5000"),
        ] {
            assert_eq!(server(&ImageName::new(image).unwrap()), expected, "{image}");
        }
        assert_eq!(hostname("https://ghcr.io/v2/"), hostname("ghcr.io"));
    }
}
