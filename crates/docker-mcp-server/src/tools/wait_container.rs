//! `wait_container`.

use tokio::time::Instant;

use super::prelude::*;
use crate::engine::exit_code;

/// Seconds without `timeout_seconds`.
const DEFAULT_SECONDS: u32 = 25;
const POLL_INTERVAL: Duration = Duration::from_millis(300);

/// Wait until a container has ended, or is healthy.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitContainer {
    /// Name or id.
    container: ContainerName,
    /// Target state.
    #[serde(default)]
    until: AwaitedState,
    /// Default 25; the call waits as long.
    timeout_seconds: Option<Bounded<1, 86_400>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum AwaitedState {
    #[default]
    Ended,
    Healthy,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct Waited {
    container: String,
    /// Whether that state was reached.
    reached: bool,
    state: String,
    health: Option<String>,
    exit_code: Option<i64>,
    exit_meaning: Option<String>,
    waited_seconds: u64,
    note: Option<&'static str>,
}

impl Tool for WaitContainer {
    const NAME: &'static str = "wait_container";
    const EFFECT: Effect = Effect::ReadOnly;
    const TASK: TaskSupport = TaskSupport::Optional;
    type Service = Docker;
    type Output = Waited;

    async fn call(self, docker: &Docker, call: &Call) -> Result<Waited, ToolError> {
        let first = docker.container(&self.container).await?;
        if self.until == AwaitedState::Healthy && first.state.health.is_none() {
            let name = first.display_name();
            return Err(conflict(format!("`{name}` has no health check.")));
        }
        let id = first.container_id()?;
        let seconds = self.timeout_seconds.map_or(DEFAULT_SECONDS, Bounded::get);
        call.extend_timeout(Duration::from_secs(seconds.into()));
        let (begin, mut seen) = (Instant::now(), first);
        loop {
            let waited = begin.elapsed();
            let is_over = !seen.state.is_alive();
            let reached = match self.until {
                AwaitedState::Ended => is_over,
                AwaitedState::Healthy => health(&seen) == Some("healthy"),
            };
            if reached || is_over || waited.as_secs() >= seconds.into() {
                return Ok(report(&seen, reached, waited));
            }
            let message = format!("{} is {}", seen.display_name(), seen.state.status);
            call.progress(waited.as_secs_f64(), Some(seconds.into()), &message);
            tokio::select! {
                () = call.cancelled() => return Err(cancelled()),
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
            let Some(now) = docker.container_now(&id).await? else {
                return Ok(Waited {
                    state: "removed".to_owned(),
                    ..report(&seen, self.until == AwaitedState::Ended, waited)
                });
            };
            seen = now;
        }
    }
}

fn report(seen: &ContainerDetails, reached: bool, waited: Duration) -> Waited {
    let ended = !seen.state.is_alive();
    let (code, oom) = (seen.state.exit_code, seen.state.oom_killed);
    Waited {
        container: seen.display_name().to_owned(),
        reached,
        state: seen.state.status.clone(),
        health: health(seen).map(str::to_owned),
        exit_code: ended.then_some(code),
        exit_meaning: ended.then(|| exit_code::meaning(code, oom).into_owned()),
        waited_seconds: waited.as_secs(),
        note: match (reached, ended) {
            (true, _) => None,
            (false, true) => Some("It has ended: get_container_logs shows its last lines."),
            (false, false) => Some("The time is up and it still runs: call again to continue."),
        },
    }
}

fn health(container: &ContainerDetails) -> Option<&str> {
    Some(&*container.state.health.as_ref()?.status)
}
