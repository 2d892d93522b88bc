//! Explains that an object does not exist, and suggests similar names.

use mcp_core::tool::{ToolError, ToolErrorKind};

use super::Engine;
use super::action::{Action, ObjectKind};
use super::error::EngineError;

impl ObjectKind {
    fn word(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Image => "image",
            Self::Network => "network",
            Self::Volume => "volume",
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::Container => "list_containers with all: true shows which ones exist.",
            Self::Image => "list_images shows which ones exist; pull_image gets others.",
            Self::Network => "list_networks shows which ones exist.",
            Self::Volume => "list_volumes shows which ones exist.",
        }
    }

    /// Whether the engine reports that this object is missing. A request may also fail because of
    /// another object: a network is connected to a container.
    pub(crate) fn is_missing(self, failure: &EngineError) -> bool {
        let EngineError::Refused {
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
    /// The tool error of a request that concerns one object. If the object does not exist, it
    /// suggests similar ones of the `known` names.
    pub(crate) fn explain_about(
        &self,
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
                let near = nearest(name, known);
                let suggestion = match near.as_slice() {
                    [] => kind.hint().to_owned(),
                    near => format!("Did you mean {}?", near.join(" or ")),
                };
                let word = kind.word();
                ToolError::not_found(format!("There is no {word} `{name}`. {suggestion}"))
            }
            _ => failure.explain(&self.target, action),
        }
    }
}

/// Up to three of `names` that are most similar to `name`, in backticks, best first.
fn nearest(name: &str, names: &[String]) -> Vec<String> {
    let wanted = name.to_ascii_lowercase();
    let mut scored: Vec<(f64, &String)> = names
        .iter()
        .map(|known| {
            let lower = known.to_ascii_lowercase();
            // People often type only the service's name of `project-service-1`.
            let contained = lower.contains(&wanted) || wanted.contains(&lower);
            let bonus = if contained { 1.0 } else { 0.0 };
            (bonus + strsim::jaro_winkler(&wanted, &lower), known)
        })
        .filter(|(score, _)| *score > 0.75)
        .collect();
    scored.sort_by(|(a, left), (b, right)| b.total_cmp(a).then(left.cmp(right)));
    let near = scored.into_iter().take(3);
    near.map(|(_, known)| format!("`{known}`")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_are_suggested() {
        let names = ["shop-web-1", "shop-db-1", "redis", "a-very-different-one"].map(String::from);
        assert_eq!(nearest("web", &names), ["`shop-web-1`"]);
        assert_eq!(nearest("rediss", &names), ["`redis`"]);
        assert_eq!(nearest("shop-db", &names)[0], "`shop-db-1`");
        assert!(nearest("zzz", &names).is_empty());
    }
}
