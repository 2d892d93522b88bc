//! `diagnose_container`.

use super::prelude::*;
use crate::diagnose::{self, Diagnosis};

/// Why a container is not running or healthy: cause, evidence, next steps.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DiagnoseContainer {
    /// Name or id.
    container: ContainerName,
    /// The error of a failed creation or start.
    error: Option<String>,
}

impl Tool for DiagnoseContainer {
    const NAME: &'static str = "diagnose_container";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = Diagnosis;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Diagnosis, ToolError> {
        let error = self.error.as_deref();
        let error = error.filter(|error| !error.trim().is_empty());
        diagnose::diagnose(docker, &self.container, error).await
    }
}
