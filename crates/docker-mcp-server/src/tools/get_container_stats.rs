//! `get_container_stats`.

use futures_util::{StreamExt as _, stream};

use super::prelude::*;
use crate::engine::Engine;
use crate::stats::{self, Counters, Usage};

/// Containers that are asked about at the same time.
const AT_ONCE: usize = 16;
/// Bytes of rows in an answer, which has them twice.
const MAX_BYTES: usize = 6_500;

/// CPU, memory, network and disk use of one container, or of all that run, by CPU.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetContainerStats {
    /// Name or id; default: all that run.
    container: Option<ContainerName>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct Stats {
    containers: Vec<Row>,
    note: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Row {
    container: String,
    #[serde(flatten)]
    usage: Usage,
}

impl Tool for GetContainerStats {
    const NAME: &'static str = "get_container_stats";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = Stats;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Stats, ToolError> {
        let wanted = match &self.container {
            Some(container) => {
                let details = docker.container(container).await?;
                if !details.state.is_alive() {
                    let text = format!("`{}` does not run.", details.display_name());
                    return Err(conflict(text));
                }
                vec![(details.container_id()?, details.display_name().to_owned())]
            }
            None => running(docker).await?,
        };
        let before = look(&docker.engine, &wanted).await;
        tokio::time::sleep(stats::BETWEEN).await;
        let after = look(&docker.engine, &wanted).await;
        let redactor = docker.redactor();
        let both = wanted.iter().zip(before.into_iter().zip(after));
        let mut rows: Vec<Row> = both
            .filter_map(|((_, name), looks)| {
                // One that ended in between has no row.
                Some(Row {
                    container: redactor.text(name),
                    usage: Usage::between(&looks.0?, &looks.1?),
                })
            })
            .collect();
        rows.sort_by(|a, b| b.usage.cpu_percent.total_cmp(&a.usage.cpu_percent));
        let (containers, omitted) = fit(rows, MAX_BYTES);
        let note = match (omitted, containers.is_empty()) {
            (0, true) => Some("No container runs.".to_owned()),
            (0, false) => None,
            _ => Some(format!(
                "{omitted} containers that use less CPU are left out: ask for one by name."
            )),
        };
        Ok(Stats { containers, note })
    }
}

impl GetContainerStats {
    /// Those of one container.
    pub(crate) fn new(container: ContainerName) -> Self {
        Self {
            container: Some(container),
        }
    }
}

async fn running(docker: &Docker) -> Result<Vec<(ContainerName, String)>, ToolError> {
    let listed = docker.containers(false).await?;
    let named = listed.iter().filter_map(|container| {
        let id = ContainerName::new(&container.id).ok()?;
        Some((id, container.display_name().to_owned()))
    });
    Ok(named.collect())
}

/// The counters of all, in their order.
async fn look(engine: &Engine, wanted: &[(ContainerName, String)]) -> Vec<Option<Counters>> {
    stream::iter(wanted.to_vec())
        .map(|(id, _)| async move { stats::counters(engine, &id).await.ok() })
        .buffered(AT_ONCE)
        .collect()
        .await
}
