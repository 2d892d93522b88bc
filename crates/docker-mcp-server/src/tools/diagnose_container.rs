//! `diagnose_container`.

use super::prelude::*;
use crate::diagnose::{self, Diagnosis};

/// Why a container does not run or is not well: cause, evidence, next steps.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DiagnoseContainer {
    /// Name or id.
    container: ContainerName,
    /// What creating or starting it said, where that failed.
    error: Option<String>,
}

impl Tool for DiagnoseContainer {
    const NAME: &'static str = "diagnose_container";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = Diagnosis;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Diagnosis, ToolError> {
        let said = self.error.as_deref().filter(|said| !said.trim().is_empty());
        diagnose::diagnose(docker, &self.container, said).await
    }
}
