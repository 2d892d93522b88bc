//! `get_container_stats`.

use futures_util::stream;
use upstream::time::Timestamp;

use super::prelude::*;
use crate::engine::stats::{Counters, SAMPLE_INTERVAL, Usage};
use crate::engine::{Engine, Event};

/// Containers that are sampled concurrently.
const MAX_CONCURRENT_SAMPLES: usize = 16;
/// Most samples of a window.
const MAX_SAMPLES: u32 = 10;

/// CPU, memory, network and disk use of one container, or of all that run.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetContainerStats {
    /// Name or id; default: all that run.
    container: Option<ContainerName>,
    /// Measure for so long: minimum, mean and maximum.
    seconds: Option<Bounded<1, 20>>,
    /// Only the first rows.
    top: Option<Bounded<1, 100>>,
    /// The order.
    #[serde(default)]
    by: Order,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
enum Order {
    #[default]
    Cpu,
    Memory,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct Stats {
    containers: Vec<UsageRow>,
    note: Option<String>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct UsageRow {
    container: String,
    #[serde(flatten)]
    usage: Usage,
    window: Option<Window>,
}

/// The use during `seconds`.
#[derive(Serialize, JsonSchema)]
struct Window {
    samples: usize,
    cpu_percent: Spread,
    memory_bytes: Spread,
    throttled_percent: Spread,
    /// Times that the kernel ended one of its processes for lack of memory.
    oom_events: usize,
}

#[derive(Serialize, JsonSchema)]
struct Spread {
    min: f64,
    mean: f64,
    max: f64,
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
        let began = Timestamp::now().as_second();
        let (steps, interval) = match self.seconds.map(Bounded::get) {
            None => (1, SAMPLE_INTERVAL),
            Some(seconds) => {
                let steps = (2 * seconds).min(MAX_SAMPLES);
                (steps, Duration::from_secs(seconds.into()) / steps)
            }
        };
        let mut usages: Vec<Vec<Usage>> = vec![Vec::new(); wanted.len()];
        let mut before = sample(&docker.engine, &wanted).await;
        for _ in 0..steps {
            tokio::time::sleep(interval).await;
            let after = sample(&docker.engine, &wanted).await;
            for (usages, both) in usages.iter_mut().zip(before.iter().zip(&after)) {
                if let (Some(before), Some(after)) = both {
                    usages.push(Usage::between(before, after));
                }
            }
            before = after;
        }
        let redactor = docker.redactor();
        let rows = wanted
            .iter()
            .zip(usages)
            .filter_map(|((id, name), usages)| {
                // One that exited in between has no row.
                let usage = usages.last()?.clone();
                let window = self
                    .seconds
                    .map(|_| Window::new(docker, id, began, &usages));
                let container = redactor.text(name);
                Some(UsageRow {
                    container,
                    usage,
                    window,
                })
            });
        let mut rows: Vec<_> = rows.collect();
        let key = |row: &UsageRow| match (self.by, &row.window) {
            (Order::Cpu, Some(window)) => window.cpu_percent.mean,
            (Order::Cpu, None) => row.usage.cpu_percent,
            (Order::Memory, Some(window)) => window.memory_bytes.mean,
            (Order::Memory, None) => row.usage.memory_bytes as f64,
        };
        rows.sort_by(|a, b| key(b).total_cmp(&key(a)));
        let top = self.top.map_or(rows.len(), |top| top.get() as usize);
        rows.truncate(top);
        let (containers, omitted) = fit(rows);
        let note = match omitted {
            None => containers
                .is_empty()
                .then(|| "No container is running.".to_owned()),
            Some(omitted) => Some(format!(
                "{omitted} containers that use less are left out: pass `container` to see one."
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
            ..Self::default()
        }
    }
}

impl Window {
    /// The window that began at `began` (unix seconds).
    fn new(docker: &Docker, id: &ContainerName, began: i64, usages: &[Usage]) -> Self {
        let is_oom = |event: &Event| {
            event.action == "oom" && event.time >= began && event.id() == id.as_str()
        };
        Self {
            samples: usages.len(),
            cpu_percent: Spread::new(usages.iter().map(|usage| usage.cpu_percent)),
            memory_bytes: Spread::new(usages.iter().map(|usage| usage.memory_bytes as f64)),
            throttled_percent: Spread::new(usages.iter().map(|usage| usage.throttled_percent)),
            oom_events: docker.history.select(is_oom).0.len(),
        }
    }
}

impl Spread {
    fn new(values: impl Iterator<Item = f64> + Clone) -> Self {
        let mean = values.clone().sum::<f64>() / values.clone().count().max(1) as f64;
        Self {
            min: values.clone().reduce(f64::min).unwrap_or_default(),
            mean: (mean * 100.0).round() / 100.0,
            max: values.reduce(f64::max).unwrap_or_default(),
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
        .map(|(id, _)| async move { engine.counters(&id).await.ok() })
        .buffered(MAX_CONCURRENT_SAMPLES)
        .collect()
        .await
}
