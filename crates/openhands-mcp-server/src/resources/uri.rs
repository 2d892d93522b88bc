//! The URIs of the resources, and back. Pure.

use crate::api::TaskId;

/// All tasks; those of one are below it.
const TASKS: &str = "openhands://tasks/";

/// What of a task a resource holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Its state and what it has brought.
    Task,
    /// What happened in it.
    Events,
    /// What it changed in its directory.
    Diff,
}

/// The task that `uri` is about, and what of it; `None` for what is no resource of ours.
pub(crate) fn read(uri: &str) -> Option<(TaskId, Part)> {
    let rest = uri.strip_prefix(TASKS)?;
    let (id, part) = match rest.split_once('/') {
        None => (rest, Part::Task),
        Some((id, "events")) => (id, Part::Events),
        Some((id, "diff")) => (id, Part::Diff),
        Some(_) => return None,
    };
    let id = serde_json::from_value(id.into()).ok()?;
    Some((id, part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_names_a_task_and_a_part() {
        let id = TaskId::from_key("a");
        let uri = format!("{TASKS}{id}");
        assert_eq!(read(&uri), Some((id, Part::Task)));
        assert_eq!(read(&format!("{uri}/events")), Some((id, Part::Events)));
        assert_eq!(read(&format!("{uri}/diff")), Some((id, Part::Diff)));
        for other in ["/", "/log", "/diff/", "/../x"] {
            assert_eq!(read(&format!("{uri}{other}")), None);
        }
        assert_eq!(read("openhands://tasks/1"), None);
        assert_eq!(read("docker://tasks"), None);
    }
}
