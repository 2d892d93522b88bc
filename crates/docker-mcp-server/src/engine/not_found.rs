//! What is said about an object that does not exist: what the caller may have meant.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use mcp_core::tool::{ToolError, ToolErrorKind};

use super::action::{Action, Kind};
use super::failure::Failure;
use super::path::Path;
use super::{Engine, suggest, within};

/// How long the names of existing objects are waited for, to suggest one in an error.
const SUGGESTION_TIMEOUT: Duration = Duration::from_secs(2);

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Image => "image",
            Self::Network => "network",
            Self::Volume => "volume",
        }
    }

    fn where_to_look(self) -> &'static str {
        match self {
            Self::Container => "list_containers with all: true shows which ones exist.",
            Self::Image => "list_images shows which ones exist; pull_image gets others.",
            Self::Network => "list_networks shows which ones exist.",
            Self::Volume => "list_volumes shows which ones exist.",
        }
    }

    /// Whether the engine says that there is no such object. Other objects may be missing too: a
    /// network is connected to a container.
    fn is_missing(self, failure: &Failure) -> bool {
        let Failure::Answered {
            status: 404,
            message,
        } = failure
        else {
            return false;
        };
        let message = message.to_ascii_lowercase();
        let word = self.word();
        message.contains(&format!("no such {word}"))
            || (message.contains(word) && message.contains("not found"))
    }
}

impl Engine {
    /// `failure` about an object as a tool's error. Where there is no such object, says which ones
    /// are called nearly so.
    pub(crate) async fn explain_about(
        &self,
        failure: Failure,
        (kind, name): (Kind, &str),
        action: Option<&Action<'_>>,
    ) -> ToolError {
        match &failure {
            Failure::Answered {
                status: 409,
                message,
            } if kind != Kind::Container => ToolError::new(
                ToolErrorKind::Conflict,
                format!("The Docker Engine refuses: {message}."),
            ),
            missing if kind.is_missing(missing) => {
                let known = within(SUGGESTION_TIMEOUT, self.names(kind)).await;
                let near = suggest::nearest(name, &known.unwrap_or_default());
                let suggestion = match near.as_slice() {
                    [] => kind.where_to_look().to_owned(),
                    near => format!("Did you mean {}?", near.join(" or ")),
                };
                let word = kind.word();
                ToolError::not_found(format!("There is no {word} `{name}`. {suggestion}"))
            }
            _ => failure.explain(&self.target, action),
        }
    }

    async fn names(&self, kind: Kind) -> Result<Vec<String>, Failure> {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "PascalCase")]
        struct Named {
            name: String,
            names: Vec<String>,
            repo_tags: Vec<String>,
        }
        let path = match kind {
            Kind::Container => Path::to("/containers/json").query("all", true),
            Kind::Image => Path::to("/images/json"),
            Kind::Network => Path::to("/networks"),
            Kind::Volume => Path::to("/volumes"),
        };
        let listed: Value = self.try_get(path).await?;
        let listed = match listed {
            Value::Object(mut volumes) => volumes.remove("Volumes").unwrap_or_default(),
            list => list,
        };
        let Value::Array(listed) = listed else {
            return Ok(Vec::new());
        };
        let names = listed.into_iter().flat_map(|object| {
            let Named {
                name,
                names,
                repo_tags,
            } = serde_json::from_value(object).unwrap_or_default();
            let first = names.into_iter().next();
            let first = first.map(|name| name.trim_start_matches('/').to_owned());
            let name = (!name.is_empty()).then_some(name);
            name.into_iter().chain(first).chain(repo_tags)
        });
        Ok(names.collect())
    }
}
