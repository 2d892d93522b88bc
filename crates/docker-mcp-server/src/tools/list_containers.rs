//! `list_containers`.

use super::prelude::*;
use crate::compose;
use crate::engine::{ContainerSummary, ports};

/// Rows without `limit`.
const DEFAULT_ROWS: usize = 50;
/// Longest text, in characters.
const MAX_TEXT: usize = 200;

/// List containers, newest first. Default: running ones.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListContainers {
    /// Also stopped ones.
    #[serde(default)]
    all: bool,
    /// Only names that contain this.
    name: Option<String>,
    /// Only in this state, also stopped ones.
    state: Option<StateFilter>,
    /// Only with this label: `key` or `key=value`.
    label: Option<String>,
    /// Only of images whose name contains this.
    image: Option<String>,
    /// Only of this compose project.
    project: Option<String>,
    /// Row limit (default 50; fewer if they are long).
    limit: Option<Bounded<1, 500>>,
    /// Rows to skip.
    offset: Option<u32>,
}

/// States of the engine, and two of health.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum StateFilter {
    Created,
    Running,
    Paused,
    Restarting,
    Exited,
    Dead,
    Healthy,
    Unhealthy,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct Containers {
    containers: Vec<ContainerRow>,
    /// All that match, if not all are listed.
    total: Option<usize>,
    omitted: Option<usize>,
    note: Option<String>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct ContainerRow {
    id: String,
    name: String,
    image: String,
    state: String,
    status: String,
    health: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ports: Vec<String>,
    compose_project: Option<String>,
    compose_service: Option<String>,
    created: String,
}

impl Tool for ListContainers {
    const NAME: &'static str = "list_containers";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = Containers;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Containers, ToolError> {
        let all = self.all || self.state.is_some();
        let listed = docker.containers(all).await?;
        Ok(self.select(listed, &docker.redactor()))
    }
}

impl ListContainers {
    /// All containers, stopped ones too.
    pub(crate) fn all() -> Self {
        Self {
            all: true,
            ..Self::default()
        }
    }

    fn select(&self, mut listed: Vec<ContainerSummary>, redactor: &Redactor) -> Containers {
        if let Some(part) = &self.name {
            let part = part.trim_start_matches('/').to_lowercase();
            listed.retain(|at| at.display_name().to_lowercase().contains(&part));
        }
        listed.retain(|container| self.wants(container));
        // The engine's order is nearly the same, but not stable for equal times.
        listed.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| a.id.cmp(&b.id)));
        let rows = listed.iter().map(|at| ContainerRow::new(at, redactor));
        let limit = self
            .limit
            .map_or(DEFAULT_ROWS, |limit| limit.get() as usize);
        let (containers, omitted, next) = page(rows, self.offset, limit);
        let is_empty = listed.is_empty() && !self.all && self.state.is_none();
        let empty = is_empty.then(|| "None is running; all: true lists stopped ones too.".into());
        let note = next
            .map(|next| format!("{next} `name` narrows it down."))
            .or(empty);
        Containers {
            total: omitted.map(|_| listed.len()),
            omitted,
            note,
            containers,
        }
    }

    /// Whether it passes all filters except the name.
    fn wants(&self, container: &ContainerSummary) -> bool {
        let health = health(&container.status);
        let state = self.state.is_none_or(|state| match state {
            StateFilter::Healthy => health == Some("healthy"),
            StateFilter::Unhealthy => health == Some("unhealthy"),
            state => format!("{state:?}").to_lowercase() == container.state,
        });
        let labels = &container.labels;
        let has_label = |label: &String| match label.split_once('=') {
            Some((key, value)) => labels.get(key).is_some_and(|known| known == value),
            None => labels.contains_key(label),
        };
        let (image, project) = (self.image.as_ref(), self.project.as_ref());
        state
            && self.label.as_ref().is_none_or(has_label)
            && image.is_none_or(|part| container.image.contains(part))
            && project.is_none_or(|wanted| compose::project_of(labels) == Some(wanted))
    }
}

impl ContainerRow {
    fn new(container: &ContainerSummary, redactor: &Redactor) -> Self {
        let text = |text: &str| truncate(&redactor.text(text), MAX_TEXT);
        Self {
            id: short_id(&container.id).to_owned(),
            name: text(container.display_name()),
            image: text(&container.image),
            state: text(&container.state),
            status: text(&container.status),
            health: health(&container.status),
            ports: ports::from_summary(&container.ports),
            compose_project: compose::project_of(&container.labels).map(|name| text(name)),
            compose_service: compose::service_name(&container.labels).map(|name| text(name)),
            created: rfc3339(container.created),
        }
    }
}

/// The health from the status text; the engine's list has no other member for it.
pub(super) fn health(status: &str) -> Option<&'static str> {
    let known = ["unhealthy", "healthy", "starting"];
    let shown = status.split_once('(')?.1.trim_end_matches(')');
    known.into_iter().find(|word| shown.ends_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn containers(count: i64) -> Vec<ContainerSummary> {
        let one = |number| ContainerSummary {
            id: format!("{number:064x}"),
            names: vec![format!("/shop-service-{number}")],
            image: "registry.example.com/team/service:1.2.3".into(),
            created: 1_700_000_000 + number / 2,
            state: "running".into(),
            status: "Up 5 minutes (healthy)".into(),
            ..ContainerSummary::default()
        };
        (0..count).map(one).collect()
    }

    fn list(arguments: &str, listed: Vec<ContainerSummary>) -> Containers {
        let tool: ListContainers = serde_json::from_str(arguments).unwrap();
        tool.select(listed, &Redactor::new(true))
    }

    #[test]
    fn pages_are_small_and_together_all() {
        for limit in ["", r#""limit":500,"#] {
            let (mut names, mut offset) = (Vec::new(), 0);
            loop {
                let arguments = format!(r#"{{{limit}"offset":{offset}}}"#);
                let listed = list(&arguments, containers(200));
                let json = serde_json::to_string(&listed).unwrap();
                let bytes = json.len() + serde_json::to_string(&json).unwrap().len();
                assert!(bytes < 16_000, "{bytes}");
                assert!(listed.containers.len() > 20 || listed.omitted.is_none());
                names.extend(listed.containers.into_iter().map(|row| row.name));
                offset = names.len();
                match listed.omitted {
                    None => break,
                    Some(omitted) => assert_eq!((listed.total, omitted), (Some(200), 200 - offset)),
                }
                let next = format!("offset: {offset} ");
                assert!(listed.note.unwrap().contains(&next));
            }
            names.sort();
            names.dedup();
            assert_eq!(names.len(), 200);
        }
        assert!(list("{}", Vec::new()).note.unwrap().contains("all: true"));
    }

    #[test]
    fn filters_select() {
        for (arguments, expected) in [
            (r#"{"name":"/SERVICE-19"}"#, 11),
            (r#"{"state":"running","image":"team/","limit":9}"#, 9),
            (r#"{"state":"healthy","limit":20}"#, 20),
            (r#"{"state":"exited"}"#, 0),
            (r#"{"label":"a"}"#, 0),
            (r#"{"label":"a=b"}"#, 0),
            (r#"{"image":"nginx"}"#, 0),
            (r#"{"project":"shop"}"#, 0),
        ] {
            let count = list(arguments, containers(200)).containers.len();
            assert_eq!(count, expected, "{arguments}");
        }
    }

    #[test]
    fn the_order_is_stable_and_newest_first() {
        let reversed = containers(10).into_iter().rev().collect();
        let ids = |listed: Containers| -> Vec<String> {
            listed.containers.into_iter().map(|row| row.id).collect()
        };
        assert_eq!(ids(list("{}", reversed)), ids(list("{}", containers(10))));
    }

    #[test]
    fn health_is_read_from_the_status() {
        for (status, expected) in [
            ("Up 2 hours (healthy)", Some("healthy")),
            ("Up 2 hours (unhealthy)", Some("unhealthy")),
            ("Up 1 second (health: starting)", Some("starting")),
            ("Exited (3) 2 hours ago", None),
            ("Up 2 hours (Paused)", None),
        ] {
            assert_eq!(health(status), expected, "{status}");
        }
    }
}
