//! What is said about an object that does not exist: what the caller may have meant.

use serde::Deserialize;
use serde_json::Value;

use mcp_core::tool::{ToolError, ToolErrorKind};

use super::{Asked, Engine, Failure, Path, SUGGESTION_TIMEOUT, nearest, within};
use crate::name::ContainerName;

/// The kinds of objects that an engine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Container,
    Image,
    Network,
    Volume,
}

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
            || (self == Self::Volume && message.contains("no such volume"))
    }
}

impl Engine {
    /// `failure` about `container` as a tool's error. Where there is no such container, says which
    /// ones are called nearly so.
    pub(crate) async fn explain_about(
        &self,
        failure: Failure,
        container: &ContainerName,
        asked: Asked<'_>,
    ) -> ToolError {
        self.explain_missing(failure, Kind::Container, container.as_str(), asked)
            .await
    }

    /// `failure` about the object `name` as a tool's error.
    pub(crate) async fn explain_missing(
        &self,
        failure: Failure,
        kind: Kind,
        name: &str,
        asked: Asked<'_>,
    ) -> ToolError {
        if let (
            Failure::Answered {
                status: 409,
                message,
            },
            false,
        ) = (&failure, kind == Kind::Container)
        {
            return ToolError::new(
                ToolErrorKind::Conflict,
                format!("The Docker Engine refuses: {message}."),
            );
        }
        if !kind.is_missing(&failure) {
            return failure.explain(&self.target, asked);
        }
        let known = within(SUGGESTION_TIMEOUT, self.names(kind)).await;
        let suggestion = match nearest::nearest(name, &known.unwrap_or_default()).as_slice() {
            [] => kind.where_to_look().to_owned(),
            near => format!("Did you mean {}?", near.join(" or ")),
        };
        let word = kind.word();
        ToolError::not_found(format!("There is no {word} `{name}`. {suggestion}"))
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
        let listed: Value = self.read_json(path).await?;
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
