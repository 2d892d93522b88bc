//! `compose_config`.

use serde_json::{Map, Value};

use super::compose_project::{ComposeProject, ProjectRequest};
use super::prelude::*;
use crate::compose::UpOptions;

/// Bytes of the configuration in an answer, which contains it twice.
const MAX_BYTES: usize = 6_500;

/// Check a compose project and show it with variables, files and defaults resolved. Needs the compose
/// program.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ComposeConfig {
    /// As in compose_up.
    directory: String,
    /// Default: the directory's name.
    project: Option<ObjectName>,
    /// Text to check in place of its compose file.
    yaml: Option<String>,
    /// Default: all.
    #[serde(default)]
    services: Vec<ObjectName>,
    /// Profiles to enable.
    #[serde(default)]
    profiles: Vec<ObjectName>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct ShownConfig {
    project: String,
    /// Without secrets.
    config: Map<String, Value>,
    /// Services that were left out; pass `services`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    omitted: Vec<String>,
    /// Why compose_up would not bring it up.
    refused: Option<String>,
    /// Values hidden as `***`.
    redacted: Option<u32>,
}

impl Tool for ComposeConfig {
    const NAME: &'static str = "compose_config";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = ShownConfig;

    async fn call(self, docker: &Docker, call: &Call) -> Result<ShownConfig, ToolError> {
        let request = ProjectRequest {
            directory: &self.directory,
            project: self.project.as_ref(),
            yaml: self.yaml.as_deref(),
            services: &self.services,
            profiles: &self.profiles,
        };
        let project = ComposeProject::resolve(docker, call, &request).await?;
        let redactor = docker.redactor();
        let mut config = match project.model.shown(&redactor) {
            Value::Object(config) => config,
            _ => Map::new(),
        };
        let refused = project.permit(docker, &UpOptions::default()).await.err();
        let mut omitted = Vec::new();
        while Value::from(config.clone()).to_string().len() > MAX_BYTES
            && let Some(services) = config.get_mut("services").and_then(Value::as_object_mut)
            && let Some(name) = services.keys().next_back().cloned()
        {
            services.remove(&name);
            omitted.push(name);
        }
        Ok(ShownConfig {
            project: project.name,
            config,
            omitted,
            refused: refused.map(|error| error.message().to_owned()),
            redacted: redactor.hidden(),
        })
    }
}
