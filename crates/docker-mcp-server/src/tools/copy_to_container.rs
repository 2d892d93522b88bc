//! `copy_to_container`.

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::copy_from_container::{archive, check_path, explain};
use super::prelude::*;
use crate::engine::EngineError;

/// Write a file into a container; its directory must exist.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CopyToContainer {
    /// Name or id.
    container: ContainerName,
    /// Absolute, with the file's name.
    path: String,
    /// Content; or `base64`.
    text: Option<String>,
    /// Content that is no text.
    base64: Option<String>,
    /// Permissions in octal, as 644 (default).
    mode: Option<Bounded<0, 7777>>,
    /// The path again, to overwrite a file if the user cannot be asked.
    confirm: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Written {
    container: String,
    path: String,
    bytes: usize,
    /// There was a file before.
    overwritten: bool,
}

impl Tool for CopyToContainer {
    const NAME: &'static str = "copy_to_container";
    // A new file overwrites nothing.
    const EFFECT: Effect = Effect::PartlyDestructive;
    type Service = Docker;
    type Output = Written;

    async fn call(self, docker: &Docker, call: &Call) -> Result<Written, ToolError> {
        check_path(&self.path)?;
        let (directory, name) = self.split()?;
        let content = self.content()?;
        let details = docker.mutable_container(&self.container).await?;
        let id = details.container_id()?;
        let overwritten = match archive(docker, &id, &self.path, 512).await {
            Ok(_) => true,
            Err(EngineError::Refused { status: 404, .. }) => false,
            Err(failure) => return Err(explain(docker, failure, &self.container, &self.path).await),
        };
        if overwritten {
            let (path, container) = (self.path.as_str(), details.display_name());
            let loss =
                format!("Overwrites {path:?} in `{container}`: its present content is lost.");
            docker.confirm(call, &loss, path, &self.confirm).await?;
        }
        let archive = self.tar(name, &content)?;
        // A file must not replace a directory.
        let upload = Path::container(&id, "/archive").query("path", directory);
        let upload = upload.query("noOverwriteDirNonDir", true);
        match docker.engine.try_put(upload, archive).await {
            Ok(()) => Ok(Written {
                container: details.display_name().to_owned(),
                path: self.path,
                bytes: content.len(),
                overwritten,
            }),
            Err(failure) => Err(explain(docker, failure, &self.container, directory).await),
        }
    }
}

impl CopyToContainer {
    fn split(&self) -> Result<(&str, &str), ToolError> {
        match self.path.rsplit_once('/') {
            Some((directory, name)) if !matches!(name, "" | "." | "..") => {
                Ok((if directory.is_empty() { "/" } else { directory }, name))
            }
            _ => Err(ToolError::invalid_argument(
                "path must end with the name of the file, such as `/tmp/notes.txt`.",
            )),
        }
    }

    fn content(&self) -> Result<Vec<u8>, ToolError> {
        match (&self.text, &self.base64) {
            (Some(text), None) => Ok(text.clone().into_bytes()),
            (None, Some(base64)) => STANDARD
                .decode(base64)
                .map_err(|_| ToolError::invalid_argument("base64 is not valid base64.")),
            _ => Err(ToolError::invalid_argument("Give either text or base64.")),
        }
    }

    fn tar(&self, name: &str, content: &[u8]) -> Result<Vec<u8>, ToolError> {
        let digits = self.mode.map_or(644, Bounded::get).to_string();
        let mode = u32::from_str_radix(&digits, 8);
        let mode =
            mode.map_err(|_| ToolError::invalid_argument("mode must be octal, such as 644."))?;
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(mode);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        header.set_mtime(now.unwrap_or_default().as_secs());
        let mut archive = tar::Builder::new(Vec::new());
        let written = archive.append_data(&mut header, name, content);
        let written = written.and_then(|()| archive.into_inner());
        written.map_err(|error| {
            ToolError::invalid_argument("This path cannot be written.").caused_by(error)
        })
    }
}
