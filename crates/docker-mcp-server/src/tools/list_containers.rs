//! `list_containers`.

use upstream::redact::Redactor;
use upstream::text::{fitting, truncate};
use upstream::time::rfc3339;

use super::prelude::*;
use super::{ports, short_id};
use crate::compose;
use crate::engine::ContainerSummary;

/// Rows without `limit`, and the bytes that they may have: an answer has them twice, as structure
/// and as text, and stays below 16 KB.
const DEFAULT_ROWS: usize = 50;
const DEFAULT_BYTES: usize = 6_500;
/// The bytes that rows may have with `limit`.
const MAX_BYTES: usize = 128 << 10;
/// Longest name of an image that is shown, in characters.
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
    /// Only in this state; looks at stopped ones too.
    state: Option<StateFilter>,
    /// Only with this label: `key` or `key=value`.
    label: Option<String>,
    /// Only of images whose name contains this.
    image: Option<String>,
    /// Only of this compose project.
    project: Option<String>,
    /// Most rows (default 50).
    limit: Option<Bounded<1, 500>>,
}

/// States of the engine, and two healths.
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
    containers: Vec<Row>,
    /// How many match, where not all are listed.
    total: Option<usize>,
    omitted: Option<usize>,
    note: Option<String>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct Row {
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
            listed.retain(|container| name(container).to_lowercase().contains(&part));
        }
        listed.retain(|container| self.wants(container));
        // The engine's order is nearly this one; equal times must not change places between calls.
        listed.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| a.id.cmp(&b.id)));
        let (rows, bytes) = match self.limit {
            Some(limit) => (limit.get() as usize, MAX_BYTES),
            None => (DEFAULT_ROWS, DEFAULT_BYTES),
        };
        let rows = listed.iter().take(rows).map(|at| Row::new(at, redactor));
        let containers = fitting(rows.collect(), bytes).rows;
        let omitted = listed.len() - containers.len();
        Containers {
            total: (omitted > 0).then_some(listed.len()),
            omitted: (omitted > 0).then_some(omitted),
            note: self.note(omitted, containers.is_empty()),
            containers,
        }
    }

    /// Whether it passes the filters other than that by name.
    fn wants(&self, container: &ContainerSummary) -> bool {
        let health = health(&container.status);
        let state = self.state.is_none_or(|state| match state {
            StateFilter::Healthy => health == Some("healthy"),
            StateFilter::Unhealthy => health == Some("unhealthy"),
            state => format!("{state:?}").to_lowercase() == container.state,
        });
        let label = self
            .label
            .as_deref()
            .is_none_or(|label| match label.split_once('=') {
                Some((key, value)) => container
                    .labels
                    .get(key)
                    .is_some_and(|known| known == value),
                None => container.labels.contains_key(label),
            });
        let image = self.image.as_deref();
        let project = container.labels.get(compose::PROJECT);
        state
            && label
            && image.is_none_or(|part| container.image.contains(part))
            && self
                .project
                .as_ref()
                .is_none_or(|wanted| project == Some(wanted))
    }

    fn note(&self, omitted: usize, empty: bool) -> Option<String> {
        if omitted > 0 {
            let text =
                "Not all are listed: give `limit` for more rows, or `name` to narrow it down.";
            return Some(text.to_owned());
        }
        (empty && !self.all && self.state.is_none())
            .then(|| "None is running; all: true lists stopped ones too.".to_owned())
    }
}

impl Row {
    fn new(container: &ContainerSummary, redactor: &Redactor) -> Self {
        let text = |text: &str| truncate(&redactor.text(text), MAX_TEXT);
        let label = |key: &str| container.labels.get(key);
        Self {
            id: short_id(&container.id).to_owned(),
            name: text(name(container)),
            image: text(&container.image),
            state: text(&container.state),
            status: text(&container.status),
            health: health(&container.status),
            ports: ports::of_summary(&container.ports),
            compose_project: label(compose::PROJECT).map(|name| text(name)),
            compose_service: label(compose::SERVICE).map(|name| text(name)),
            created: rfc3339(container.created),
        }
    }
}

/// Its first name; containers that others link to have more.
fn name(container: &ContainerSummary) -> &str {
    let own = container
        .names
        .iter()
        .find(|name| name.matches('/').count() <= 1);
    own.or(container.names.first())
        .map_or("", |name| name.trim_start_matches('/'))
}

/// The list tells health only within its text for people.
pub(super) fn health(status: &str) -> Option<&'static str> {
    let known = ["unhealthy", "healthy", "starting"];
    let shown = status.split_once('(')?.1;
    known
        .into_iter()
        .find(|word| shown.trim_end_matches(')').ends_with(word))
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
    fn a_default_answer_is_small_and_says_how_to_get_the_rest() {
        let listed = list("{}", containers(200));
        let json = serde_json::to_string(&listed).unwrap();
        let twin = serde_json::to_string(&json).unwrap();
        assert!(
            json.len() + twin.len() < 16_000,
            "{}",
            json.len() + twin.len()
        );
        assert_eq!(listed.total, Some(200));
        assert_eq!(listed.omitted, Some(200 - listed.containers.len()));
        assert!(listed.containers.len() > 20 && listed.note.unwrap().contains("limit"));
    }

    #[test]
    fn limit_and_name_select() {
        assert_eq!(
            list(r#"{"limit":500}"#, containers(200)).containers.len(),
            200
        );
        let found = list(r#"{"name":"/SERVICE-19"}"#, containers(200));
        assert_eq!(found.containers.len(), 11);
        assert!(found.total.is_none() && found.note.is_none());
        assert!(list("{}", Vec::new()).note.unwrap().contains("all: true"));
    }

    #[test]
    fn the_order_is_stable_and_newest_first() {
        let mut turned = containers(10);
        turned.reverse();
        let ids = |listed: Containers| {
            listed
                .containers
                .into_iter()
                .map(|row| row.id)
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(list("{}", turned)), ids(list("{}", containers(10))));
    }

    #[test]
    fn filters_select() {
        let count = |arguments| list(arguments, containers(3)).containers.len();
        assert_eq!(count(r#"{"state":"running","image":"team/","limit":9}"#), 3);
        assert_eq!(count(r#"{"state":"healthy"}"#), 3);
        for none in [
            r#"{"state":"exited"}"#,
            r#"{"label":"a"}"#,
            r#"{"label":"a=b"}"#,
            r#"{"image":"nginx"}"#,
            r#"{"project":"shop"}"#,
        ] {
            assert_eq!(count(none), 0, "{none}");
        }
    }

    #[test]
    fn health_is_read_from_the_status() {
        assert_eq!(health("Up 2 hours (healthy)"), Some("healthy"));
        assert_eq!(health("Up 2 hours (unhealthy)"), Some("unhealthy"));
        assert_eq!(health("Up 1 second (health: starting)"), Some("starting"));
        assert_eq!(health("Exited (3) 2 hours ago"), None);
        assert_eq!(health("Up 2 hours (Paused)"), None);
    }
}
