//! The URIs of resources. Pure.

use crate::api::TaskId;

/// The prefix of all resources.
const TASKS: &str = "openhands://tasks/";

/// The part of a task that a resource shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskPart {
    /// Its state and results.
    Task,
    /// Its events.
    Events,
    /// The changes in its directory.
    Diff,
}

/// Parses the URI of a resource; `None` for any other URI.
pub(crate) fn parse(uri: &str) -> Option<(TaskId, TaskPart)> {
    let rest = uri.strip_prefix(TASKS)?;
    let (id, part) = match rest.split_once('/') {
        None => (rest, TaskPart::Task),
        Some((id, "events")) => (id, TaskPart::Events),
        Some((id, "diff")) => (id, TaskPart::Diff),
        Some(_) => return None,
    };
    let id = serde_json::from_value(id.into()).ok()?;
    Some((id, part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uri_names_a_task_and_a_part() {
        let id = TaskId::from_key("a");
        let uri = format!("{TASKS}{id}");
        assert_eq!(parse(&uri), Some((id, TaskPart::Task)));
        assert_eq!(
            parse(&format!("{uri}/events")),
            Some((id, TaskPart::Events))
        );
        assert_eq!(parse(&format!("{uri}/diff")), Some((id, TaskPart::Diff)));
        for other in ["/", "/log", "/diff/", "/../x"] {
            assert_eq!(parse(&format!("{uri}{other}")), None);
        }
        assert_eq!(parse("openhands://tasks/1"), None);
        assert_eq!(parse("docker://tasks"), None);
    }
}
