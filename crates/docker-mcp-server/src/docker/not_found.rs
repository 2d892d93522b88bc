//! Errors of the engine about one object. They suggest no name that the rules hide.

use std::time::Duration;

use mcp_core::tool::ToolError;
use serde::de::DeserializeOwned;

use super::Docker;
use crate::engine::{Action, EngineError, ObjectKind, Path};

/// The timeout of the names of existing objects, which are read to suggest one in an error.
const SUGGESTION_TIMEOUT: Duration = Duration::from_secs(2);

impl Docker {
    /// The JSON at `path`, which describes one object, as `T`.
    pub(super) async fn get_object<T: DeserializeOwned>(
        &self,
        object: (ObjectKind, &str),
        path: Path,
    ) -> Result<T, ToolError> {
        match self.engine.try_get(path).await {
            Ok(read) => Ok(read),
            Err(failure) => Err(self.explain_about(failure, object, None).await),
        }
    }

    /// The tool error of a change.
    pub(crate) async fn explain_action(
        &self,
        failure: EngineError,
        action: Action<'_>,
    ) -> ToolError {
        let needs = action.needs;
        self.explain_about(failure, needs, Some(&action)).await
    }

    /// The tool error of a request that concerns one object. If the object does not exist, it
    /// suggests similar visible ones.
    pub(crate) async fn explain_about(
        &self,
        failure: EngineError,
        object: (ObjectKind, &str),
        action: Option<&Action<'_>>,
    ) -> ToolError {
        let mut known = Vec::new();
        if object.0.is_missing(&failure) {
            let names = tokio::time::timeout(SUGGESTION_TIMEOUT, self.names(object.0)).await;
            known = names.unwrap_or(Ok(known)).unwrap_or_default();
        }
        self.engine.explain_about(failure, object, action, &known)
    }

    /// The names of all visible objects of one kind.
    async fn names(&self, kind: ObjectKind) -> Result<Vec<String>, ToolError> {
        Ok(match kind {
            ObjectKind::Container => {
                let all = self.containers(true).await?;
                let names = all
                    .iter()
                    .map(|container| container.display_name().to_owned());
                names.collect()
            }
            ObjectKind::Image => {
                let all = self.images().await?;
                all.iter()
                    .flat_map(|image| image.tags())
                    .map(str::to_owned)
                    .collect()
            }
            ObjectKind::Network => self
                .networks()
                .await?
                .into_iter()
                .map(|at| at.name)
                .collect(),
            ObjectKind::Volume => self
                .volumes()
                .await?
                .into_iter()
                .map(|at| at.name)
                .collect(),
        })
    }
}
