//! Errors of the engine about one object. They suggest no name that the rules hide.

use std::time::Duration;

use mcp_core::suggestion::nearest;
use mcp_core::tool::{ToolError, ToolErrorKind};
use serde::de::DeserializeOwned;

use super::{Action, Docker};
use crate::engine::{Engine, EngineError, ObjectKind, Path};

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
        explain(&self.engine, failure, object, action, &known)
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

/// The tool error of a request that concerns one object. If the object does not exist, it suggests
/// similar ones of the `known` names.
pub(crate) fn explain(
    engine: &Engine,
    failure: EngineError,
    (kind, name): (ObjectKind, &str),
    action: Option<&Action<'_>>,
    known: &[String],
) -> ToolError {
    match &failure {
        EngineError::Refused {
            status: 409,
            message,
        } if kind != ObjectKind::Container => ToolError::new(
            ToolErrorKind::Conflict,
            format!("The Docker Engine refuses: {message}."),
        ),
        missing if kind.is_missing(missing) => {
            let near = nearest(name, known.iter().map(String::as_str));
            let near: Vec<_> = near
                .iter()
                .take(3)
                .map(|name| format!("`{name}`"))
                .collect();
            let suggestion = match near.as_slice() {
                [] => hint(kind).to_owned(),
                near => format!("Did you mean {}?", near.join(" or ")),
            };
            let word = kind.word();
            ToolError::not_found(format!("There is no {word} `{name}`. {suggestion}"))
        }
        _ => match action {
            Some(action) => action.explain(engine, failure),
            None => engine.explain(failure),
        },
    }
}

/// The tools that show and get objects of one kind.
fn hint(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Container => "list_containers with all: true shows which ones exist.",
        ObjectKind::Image => "list_images shows which ones exist; pull_image gets others.",
        ObjectKind::Network => "list_networks shows which ones exist.",
        ObjectKind::Volume => "list_volumes shows which ones exist.",
    }
}
