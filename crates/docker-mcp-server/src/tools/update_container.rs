//! `update_container`.

use serde_json::{Map, Value, json};

use super::limits::{Megabytes, RestartPolicy, memory_bytes, nano_cpus};
use super::prelude::*;
use crate::policy::{Subject, permit_marks};

/// Rename a container, or change its limits and restart policy, while it runs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateContainer {
    /// Name or id.
    container: ContainerName,
    /// Its name from now on.
    new_name: Option<ContainerName>,
    /// Memory limit in MiB.
    memory_mb: Option<Megabytes>,
    /// CPU limit, as 0.5.
    cpus: Option<f64>,
    /// Process limit.
    pids: Option<Bounded<1, 4_000_000>>,
    restart: Option<RestartPolicy>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Updated {
    container: String,
    /// Changed settings.
    changed: Vec<&'static str>,
    /// The engine's remarks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

impl Tool for UpdateContainer {
    const NAME: &'static str = "update_container";
    // A lower limit may end it.
    const EFFECT: Effect = Effect::PartlyDestructive;
    type Service = Docker;
    type Output = Updated;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Updated, ToolError> {
        let before = docker.mutable_container(&self.container).await?;
        let id = before.container_id()?;
        let (limits, mut changed) = self.limits()?;
        if changed.is_empty() && self.new_name.is_none() {
            return Err(ToolError::invalid_argument(
                "Nothing to change: give new_name, memory_mb, cpus, pids or restart.",
            ));
        }
        if self.is_lower(&before) {
            docker.policy.permit_destructive()?;
        }
        if let Some(name) = &self.new_name {
            permit_marks(name.as_str(), [])?;
            // Renaming must not bypass a rule about names.
            let config = &before.config;
            let renamed = Subject::new(name.as_str(), &config.labels);
            docker.policy.permit(&renamed)?;
        }
        let asked = self.container.as_str();
        let mut warnings = Vec::new();
        if !changed.is_empty() {
            let action = Action::on_container("update", asked);
            let path = Path::container(&id, "/update");
            let receipt = docker.post_json(action, path, &limits.into()).await?;
            let redactor = docker.redactor();
            let lines = receipt["Warnings"].as_array().into_iter().flatten();
            warnings.extend(lines.filter_map(|line| Some(redactor.text(line.as_str()?))));
        }
        if let Some(name) = &self.new_name {
            let path = Path::container(&id, "/rename").query("name", name);
            docker
                .post(Action::on_container("rename", asked), path)
                .await?;
            changed.push("name");
        }
        let name = self.new_name.as_ref();
        let name = name.map_or(before.display_name(), ContainerName::as_str);
        Ok(Updated {
            container: name.to_owned(),
            changed,
            warnings,
        })
    }
}

impl UpdateContainer {
    /// Whether a limit is set below the present one.
    fn is_lower(&self, before: &ContainerDetails) -> bool {
        let host = &before.host_config;
        let cpus = self.cpus.map(|cpus| (cpus * 1e9) as i64);
        let limits = [
            (self.memory_mb.map(memory_bytes), host.memory),
            (cpus, host.nano_cpus),
            (self.pids.map(|pids| pids.get().into()), host.pids_limit),
        ];
        limits
            .iter()
            .any(|(asked, present)| asked.is_some_and(|asked| *present <= 0 || asked < *present))
    }

    /// The engine's request, and what it changes.
    fn limits(&self) -> Result<(Map<String, Value>, Vec<&'static str>), ToolError> {
        let (memory, cpus) = (self.memory_mb.map(memory_bytes), self.cpus.map(nano_cpus));
        let settings = [
            ("memory", "Memory", memory.map(Value::from)),
            // The engine refuses a limit above that of memory and swap together.
            ("", "MemorySwap", memory.map(|bytes| (2 * bytes).into())),
            ("cpus", "NanoCpus", cpus.transpose()?.map(Value::from)),
            ("pids", "PidsLimit", self.pids.map(|pids| pids.get().into())),
            (
                "restart",
                "RestartPolicy",
                self.restart.map(|name| json!({"Name": name})),
            ),
        ];
        let (mut limits, mut changed) = (Map::new(), Vec::new());
        for (name, member, value) in settings {
            if let Some(value) = value {
                limits.insert(member.to_owned(), value);
                changed.extend(Some(name).filter(|name| !name.is_empty()));
            }
        }
        Ok((limits, changed))
    }
}
