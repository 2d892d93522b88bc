//! `get_container_stats`.

use futures_util::stream;

use super::prelude::*;
use crate::engine::Engine;
use crate::stats::{self, Counters, Usage};

/// Containers that are sampled concurrently.
const MAX_CONCURRENT_SAMPLES: usize = 16;
/// Bytes of rows in an answer, which contains them twice.
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
    containers: Vec<UsageRow>,
    note: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct UsageRow {
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
                    let text = format!("`{}` is not running.", details.display_name());
                    return Err(conflict(text));
                }
                vec![(details.container_id()?, details.display_name().to_owned())]
            }
            None => running(docker).await?,
        };
        let before = sample(&docker.engine, &wanted).await;
        tokio::time::sleep(stats::SAMPLE_INTERVAL).await;
        let after = sample(&docker.engine, &wanted).await;
        let redactor = docker.redactor();
        let both = wanted.iter().zip(before.into_iter().zip(after));
        let rows = both.filter_map(|((_, name), (before, after))| {
            // One that exited in between has no row.
            Some(UsageRow {
                container: redactor.text(name),
                usage: Usage::between(&before?, &after?),
            })
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by(|a, b| b.usage.cpu_percent.total_cmp(&a.usage.cpu_percent));
        let (containers, omitted) = fit(rows, MAX_BYTES);
        let note = match omitted {
            None => containers
                .is_empty()
                .then(|| "No container is running.".to_owned()),
            Some(omitted) => Some(format!(
                "{omitted} containers that use less CPU are left out: pass `container` to see one."
            )),
        };
        Ok(Stats { containers, note })
    }
}

impl GetContainerStats {
    /// The statistics of one container.
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

/// Samples the counters of all containers, in their order.
async fn sample(engine: &Engine, wanted: &[(ContainerName, String)]) -> Vec<Option<Counters>> {
    stream::iter(wanted.to_vec())
        .map(|(id, _)| async move { stats::counters(engine, &id).await.ok() })
        .buffered(MAX_CONCURRENT_SAMPLES)
        .collect()
        .await
}
