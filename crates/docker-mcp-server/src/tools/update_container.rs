//! `update_container`.

use http::Method;
use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::change;
use super::create_container::RestartPolicy;
use crate::Docker;
use crate::engine::{Asked, Body, Path};
use crate::name::ContainerName;
use crate::policy::Subject;

/// Rename a container, or change its limits and restart policy, while it runs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateContainer {
    /// Name or id.
    container: ContainerName,
    /// Its name from now on.
    new_name: Option<ContainerName>,
    /// Memory limit in MiB.
    memory_mb: Option<Bounded<6, 4_000_000>>,
    /// CPU limit, as 0.5.
    cpus: Option<f64>,
    /// Most processes.
    pids: Option<Bounded<1, 4_000_000>>,
    restart: Option<RestartPolicy>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Updated {
    container: String,
    /// What was changed.
    changed: Vec<&'static str>,
    /// The engine's remarks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

impl Tool for UpdateContainer {
    const NAME: &'static str = "update_container";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = Docker;
    type Output = Updated;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Updated, ToolError> {
        let before = docker.take(&self.container).await?;
        let id = change::id(&before)?;
        let (limits, mut changed) = self.limits()?;
        if changed.is_empty() && self.new_name.is_none() {
            return Err(ToolError::invalid_argument(
                "Nothing to change: give new_name, memory_mb, cpus, pids or restart.",
            ));
        }
        if let Some(name) = &self.new_name {
            // A name must not be the way around a rule about names.
            docker.permit(&Subject::Container {
                name: name.as_str(),
                image: &before.config.image,
                labels: &before.config.labels,
            })?;
        }
        let mut warnings = Vec::new();
        if !changed.is_empty() {
            let path = Path::to("/containers").id(&id).then("/update");
            let body = Body::json(&limits.into());
            let receipt = match docker.engine.change(Method::POST, path, body).await {
                Ok(receipt) => receipt,
                Err(failure) => {
                    let asked = Asked::Change("update", self.container.as_str());
                    return Err(docker
                        .engine
                        .explain_about(failure, &self.container, asked)
                        .await);
                }
            };
            let mut redactor = docker.redactor();
            let said = receipt["Warnings"].as_array().into_iter().flatten();
            warnings.extend(said.filter_map(|line| Some(redactor.text(line.as_str()?))));
        }
        if let Some(name) = &self.new_name {
            let path = Path::to("/containers")
                .id(&id)
                .then("/rename")
                .query("name", name);
            change::make(docker, "rename", &self.container, Method::POST, path).await?;
            changed.push("name");
        }
        let name = self
            .new_name
            .as_ref()
            .map_or(before.display_name(), ContainerName::as_str);
        Ok(Updated {
            container: name.to_owned(),
            changed,
            warnings,
        })
    }
}

impl UpdateContainer {
    fn limits(&self) -> Result<(Map<String, Value>, Vec<&'static str>), ToolError> {
        let mut body = Map::new();
        let mut changed = Vec::new();
        if let Some(memory) = self.memory_mb {
            let bytes = u64::from(memory.get()) << 20;
            body.insert("Memory".into(), bytes.into());
            // The engine refuses a limit above that of memory and swap together.
            body.insert("MemorySwap".into(), (2 * bytes).into());
            changed.push("memory");
        }
        if let Some(cpus) = self.cpus {
            body.insert("NanoCpus".into(), nano_cpus(cpus)?.into());
            changed.push("cpus");
        }
        if let Some(pids) = self.pids {
            body.insert("PidsLimit".into(), pids.get().into());
            changed.push("pids");
        }
        if let Some(policy) = self.restart {
            body.insert("RestartPolicy".into(), json!({"Name": policy.as_str()}));
            changed.push("restart");
        }
        Ok((body, changed))
    }
}

/// CPUs as the engine counts them.
pub(super) fn nano_cpus(cpus: f64) -> Result<i64, ToolError> {
    if !(0.01..=1024.0).contains(&cpus) {
        return Err(ToolError::invalid_argument("cpus is from 0.01 to 1024."));
    }
    // In range, so nothing is cut off.
    Ok((cpus * 1e9) as i64)
}
