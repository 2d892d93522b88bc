//! Tools that start, stop and remove a container, and wait for it.

use tokio::time::Instant;

use super::list_containers::has_ended;
use super::prelude::*;
use crate::diagnose;
use crate::engine::exit_meaning;
use crate::engine::log::{LogQuery, shorten};
use crate::unix_time;

/// The delays between the inspections of a started container: one that has nothing to run, or a
/// command that fails, has mostly exited by then.
const INSPECTION_DELAYS: [Duration; 3] = [
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_millis(700),
];
/// Lines and bytes of the log that explain an early exit, and the timeout for reading them.
const MAX_LOG_LINES: u32 = 10;
const MAX_LOG_BYTES: usize = 2_000;
const LOG_TIMEOUT: Duration = Duration::from_secs(10);

/// A container before and after a change.
#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct StateChange {
    pub(super) container: String,
    /// State before.
    pub(super) before: String,
    /// State now.
    pub(super) after: String,
    pub(super) changed: bool,
    pub(super) exit_code: Option<i64>,
    pub(super) note: Option<String>,
    /// Its last lines, if it ended at once.
    pub(super) log: Option<String>,
}

impl StateChange {
    /// No change.
    pub(super) fn none(container: &ContainerDetails) -> Self {
        Self::between(container, container)
    }

    /// The change from `before` to `after`, without a note.
    pub(super) fn between(before: &ContainerDetails, after: &ContainerDetails) -> Self {
        let (was, is) = (&before.state, &after.state);
        Self {
            container: after.display_name().to_owned(),
            before: was.status.clone(),
            after: is.status.clone(),
            changed: was.status != is.status || was.started_at != is.started_at,
            exit_code: None,
            note: None,
            log: None,
        }
    }

    pub(super) fn removed(container: &ContainerDetails) -> Self {
        Self {
            after: "removed".to_owned(),
            changed: true,
            ..Self::none(container)
        }
    }

    pub(super) fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }
}

/// Returns the change of a container since `before`.
pub(super) async fn since(
    docker: &Docker,
    before: &ContainerDetails,
) -> Result<StateChange, ToolError> {
    let now = docker.container_now(&before.id).await?;
    Ok(match now {
        Some(after) => StateChange::between(before, &after),
        None => StateChange::removed(before),
    })
}

/// Inspects a container until a run has ended, or for a second: the run that began at this time, or the first that it
/// sees. Returns the container, and whether the run has ended; `None` if it is gone.
async fn watch(
    docker: &Docker,
    id: &ContainerName,
    mut began: Option<String>,
) -> Result<Option<(ContainerDetails, bool)>, ToolError> {
    let mut seen = None;
    for delay in INSPECTION_DELAYS {
        tokio::time::sleep(delay).await;
        let Some(now) = docker.container_now(id).await? else {
            return Ok(None);
        };
        // In a crash loop it may run at every inspection, but not in the same run.
        let began = began.get_or_insert_with(|| now.state.started_at.clone());
        let has_ended = !now.state.runs() || *began != now.state.started_at;
        seen = Some((now, has_ended));
        if has_ended {
            break;
        }
    }
    Ok(seen)
}

/// Inspects a started container until it has exited or has run for a second, and reports an early
/// exit.
pub(super) async fn watch_early_exit(
    docker: &Docker,
    before: &ContainerDetails,
) -> Result<StateChange, ToolError> {
    Ok(match watch(docker, &before.id, None).await? {
        Some((now, true)) => early_exit(docker, before, &now).await,
        Some((now, false)) => StateChange::between(before, &now),
        None => {
            let note = "It ended at once and was removed, because it was created with --rm.";
            StateChange::removed(before).with_note(note)
        }
    })
}

async fn early_exit(
    docker: &Docker,
    before: &ContainerDetails,
    after: &ContainerDetails,
) -> StateChange {
    let state = &after.state;
    let meaning = exit_meaning(state.exit_code, state.oom_killed);
    let code = state.exit_code;
    let next = match (code, &*state.status) {
        (_, "restarting" | "running") => {
            "Its restart policy starts it again and again: stop it, or fix the cause."
        }
        (0, _) => "It may be a job that is done.",
        _ => "get_container_logs shows more.",
    };
    let note = format!("It ended at once with exit code {code} ({meaning}). {next}");
    StateChange {
        exit_code: Some(code),
        note: Some(note),
        log: last_lines(docker, after).await,
        ..StateChange::between(before, after)
    }
}

/// The end of the log, if there is one. Best effort: errors are ignored.
pub(super) async fn last_lines(docker: &Docker, container: &ContainerDetails) -> Option<String> {
    let query = LogQuery {
        // Only of this run.
        since: (
            unix_time::from_timestamp(&container.state.started_at).unwrap_or(0),
            0,
        ),
        ..LogQuery::newest(MAX_LOG_LINES)
    };
    let redactor = docker.redactor_of(container);
    let (bytes, limit) = (MAX_LOG_BYTES, LOG_TIMEOUT);
    let engine = &docker.engine;
    let read = engine.read_log(container, query, bytes, limit, redactor.clone(), None);
    let text = redactor.text(&read.await.ok()?.text());
    (!text.trim().is_empty()).then(|| shorten(&text, None))
}

/// Start a container and check that it stays up.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StartContainer {
    /// Name or id.
    container: ContainerName,
}

impl Tool for StartContainer {
    const NAME: &'static str = "start_container";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = Docker;
    type Output = StateChange;

    async fn call(self, docker: &Docker, _: &Call) -> Result<StateChange, ToolError> {
        let before = docker.mutable_container(&self.container).await?;
        if before.state.status == "running" {
            return Ok(StateChange::none(&before).with_note("It was already running."));
        }
        start(docker, &self.container, &before.id).await?;
        watch_early_exit(docker, &before).await
    }
}

/// Starts the container that the caller calls `name`, if what it mounts is still allowed.
/// Errors with advice if its configuration is the cause.
pub(super) async fn start(
    docker: &Docker,
    name: &ContainerName,
    id: &ContainerName,
) -> Result<(), ToolError> {
    docker.permit_start(id).await?;
    let path = Path::container(id, "/start");
    let Err(failure) = docker.engine.try_post(path, None, Duration::ZERO).await else {
        return Ok(());
    };
    // The status does not help: engines use those of a bad request and of an internal error.
    if let EngineError::Refused { message, .. } = &failure
        && !failure.is_no_such_container()
        && let Some(cause) = diagnose::explain_start(docker, message)
    {
        return Err(ToolError::conflict(format!(
            "`{name}` cannot be started. {cause} The engine said: {message}."
        )));
    }
    let action = Action::on_container("start", name.as_str());
    Err(docker.explain(failure, action).await)
}

/// The engine's own default, in seconds.
const DEFAULT_GRACE: u32 = 10;

/// Stop a container: SIGTERM, then SIGKILL. Its unsaved data is lost.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StopContainer {
    /// Name or id.
    container: ContainerName,
    /// Time before SIGKILL; default: its own, mostly 10.
    timeout_seconds: Option<Bounded<0, 600>>,
    /// With `--rm`: pass the refusal's value once the user agrees.
    confirm: Option<String>,
}

impl Tool for StopContainer {
    const NAME: &'static str = "stop_container";
    // It loses work in progress and data in memory, and interrupts the users of the service.
    const EFFECT: Effect = Effect::Destructive;
    type Service = Docker;
    type Output = StateChange;

    async fn call(self, docker: &Docker, call: &Call) -> Result<StateChange, ToolError> {
        let before = docker.mutable_container(&self.container).await?;
        docker.policy.permit_destructive()?;
        if !before.state.is_alive() {
            return Ok(StateChange::none(&before).with_note("It was not running."));
        }
        // Any other container can be started again as it was.
        if before.host_config.auto_remove {
            let name = before.display_name();
            let loss = format!(
                "Stops `{name}`, which the engine then removes, because it was created with --rm, \
                 with its log and every file it wrote."
            );
            let object = Object::container(&before.id);
            docker
                .confirm(call, &loss, name, &[object], &self.confirm)
                .await?;
        }
        let grace = grace(self.timeout_seconds, &before);
        call.extend_timeout(Duration::from_secs(grace.into()));
        let id = &before.id;
        let began = Instant::now();
        stop(docker, self.container.as_str(), id, grace).await?;
        let was_long = began.elapsed() >= Duration::from_secs(grace.into());
        Ok(match docker.container_now(id).await? {
            Some(after) => stopped(&before, &after, grace, was_long),
            None => StateChange::removed(&before),
        })
    }
}

/// Seconds between SIGTERM and SIGKILL: as requested, or as configured in the container.
pub(super) fn grace(asked: Option<Bounded<0, 600>>, container: &ContainerDetails) -> u32 {
    let own = container.config.stop_timeout.unwrap_or(DEFAULT_GRACE);
    asked.map_or(own, Bounded::get)
}

/// Stops the container that the caller calls `name`: SIGTERM, and after `grace` seconds SIGKILL.
pub(super) async fn stop(
    docker: &Docker,
    name: &str,
    id: &ContainerName,
    grace: u32,
) -> Result<(), ToolError> {
    let path = Path::container(id, "/stop").query("t", grace);
    let action = Action::on_container("stop", name);
    docker.post(action, path, None, grace).await.map(drop)
}

/// `was_long` if the stop took as long as the engine waits before it kills.
fn stopped(
    before: &ContainerDetails,
    after: &ContainerDetails,
    grace: u32,
    was_long: bool,
) -> StateChange {
    let code = after.state.exit_code;
    let note = if after.state.is_alive() {
        Some("It was stopped and runs again: something restarted it.".to_owned())
    } else if code == 137 && !after.state.oom_killed && !was_long {
        Some("Something else killed it before the engine did.".to_owned())
    } else if code == 137 && !after.state.oom_killed {
        Some(format!(
            "It did not end within {grace} s and was killed; a longer timeout_seconds may let it \
             end by itself."
        ))
    } else {
        None
    };
    StateChange {
        exit_code: Some(code),
        note,
        ..StateChange::between(before, after)
    }
}

/// Stop and start a container, and check that it stays up.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RestartContainer {
    /// Name or id.
    container: ContainerName,
    /// Time before SIGKILL.
    timeout_seconds: Option<Bounded<0, 600>>,
}

impl Tool for RestartContainer {
    const NAME: &'static str = "restart_container";
    // As stop_container; not idempotent, since repeating it interrupts again.
    const EFFECT: Effect = Effect::Destructive;
    type Service = Docker;
    type Output = StateChange;

    async fn call(self, docker: &Docker, call: &Call) -> Result<StateChange, ToolError> {
        let before = docker.mutable_container(&self.container).await?;
        docker.policy.permit_destructive()?;
        let id = &before.id;
        let grace = grace(self.timeout_seconds, &before);
        call.extend_timeout(Duration::from_secs(grace.into()));
        let name = &self.container;
        let binds = docker.permit_start(id).await?;
        let restarted = if binds.is_empty() || !before.state.is_alive() {
            let path = Path::container(id, "/restart").query("t", grace);
            let action = Action::on_container("restart", name.as_str());
            docker.post(action, path, None, grace).await.map(drop)
        } else if before.host_config.auto_remove {
            return Err(ToolError::conflict(
                "It mounts paths of the host, which have to be checked after it was stopped; that removes \
                 it (`--rm`). Stop it, and create it again.",
            ));
        } else {
            let (docker, name, id) = (docker.clone(), name.clone(), id.clone());
            // It would stay stopped.
            whole(async move {
                let stopped = stop(&docker, name.as_str(), &id, grace).await;
                // What it mounts may change until it has ended.
                let started = start(&docker, &name, &id).await;
                stopped.and(started)
            })
            .await
        };
        if let Err(error) = restarted {
            let now = docker.container_now(id).await;
            let is_over = matches!(now, Ok(Some(now)) if !now.state.is_alive());
            return Err(match before.state.is_alive() && is_over {
                true => left_stopped(before.display_name(), error),
                false => error,
            });
        }
        watch_early_exit(docker, &before).await
    }
}

/// The error of a restart that has stopped what has this name, and did not start it again.
pub(super) fn left_stopped(name: &str, error: ToolError) -> ToolError {
    let text = format!(
        "`{name}` was stopped, and does not run now. {}",
        error.message()
    );
    ToolError::new(error.kind(), text).caused_by(error)
}

/// Send a signal to a container's main process, at once and without a grace period.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct KillContainer {
    /// Name or id.
    container: ContainerName,
    /// Sends this signal.
    #[serde(default)]
    signal: Signal,
    /// Pass the refusal's value once the user agrees; HUP, USR1 and USR2 need it only with `--rm`.
    confirm: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
enum Signal {
    #[default]
    Kill,
    Term,
    Int,
    Quit,
    Hup,
    Usr1,
    Usr2,
}

impl Tool for KillContainer {
    const NAME: &'static str = "kill_container";
    const EFFECT: Effect = Effect::Destructive;
    type Service = Docker;
    type Output = StateChange;

    async fn call(self, docker: &Docker, call: &Call) -> Result<StateChange, ToolError> {
        let before = docker.mutable_container(&self.container).await?;
        let name = before.display_name();
        if !before.state.is_alive() {
            return Err(ToolError::conflict(format!("`{name}` is not running.")));
        }
        let signal = format!("{:?}", self.signal).to_uppercase();
        let is_once = before.host_config.auto_remove;
        if self.signal.is_fatal() || is_once {
            let end = if self.signal.is_fatal() {
                ": its unsaved data is lost."
            } else {
                "."
            };
            let removal = if is_once {
                " If it ends, the engine removes it, because it was created with --rm, with its log and \
                 every file it wrote."
            } else {
                ""
            };
            let loss = format!("Sends SIG{signal} to `{name}`{end}{removal}");
            let object = Object::container(&before.id);
            docker
                .confirm(call, &loss, name, &[object], &self.confirm)
                .await?;
        } else {
            docker.policy.permit_destructive()?;
        }
        let path = Path::container(&before.id, "/kill").query("signal", signal);
        docker
            .post(Action::on_container("kill", name), path, None, 0)
            .await?;
        let began = Some(before.state.started_at.clone());
        Ok(match watch(docker, &before.id, began).await? {
            Some((now, _)) => StateChange {
                exit_code: (!now.state.is_alive()).then_some(now.state.exit_code),
                ..StateChange::between(&before, &now)
            },
            None => StateChange::removed(&before),
        })
    }
}

impl Signal {
    /// Whether it is to end a program. Programs mostly use the others as messages; one that does not handle them ends, too.
    fn is_fatal(self) -> bool {
        matches!(self, Self::Kill | Self::Term | Self::Int | Self::Quit)
    }
}

/// Remove a container, with its log and the files it wrote.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveContainer {
    /// Name or id.
    container: ContainerName,
    /// Kills it if it runs.
    #[serde(default)]
    force: bool,
    /// Removes its anonymous volumes, too.
    #[serde(default)]
    volumes: bool,
    /// Pass the refusal's value once the user agrees.
    confirm: Option<String>,
}

impl Tool for RemoveContainer {
    const NAME: &'static str = "remove_container";
    const EFFECT: Effect = Effect::Destructive;
    type Service = Docker;
    type Output = StateChange;

    async fn call(self, docker: &Docker, call: &Call) -> Result<StateChange, ToolError> {
        let before = docker.mutable_container(&self.container).await?;
        let name = before.display_name();
        if before.state.is_alive() && !self.force {
            return Err(ToolError::conflict(format!(
                "`{name}` is running: stop it first, or give force: true to kill it."
            )));
        }
        let loss = self.loss(&before);
        let object = Object::container(&before.id);
        docker
            .confirm(call, &loss, name, &[object], &self.confirm)
            .await?;
        let path = Path::container(&before.id, "")
            .query("force", self.force)
            .query("v", self.volumes);
        let action = Action::on_container("remove", self.container.as_str());
        docker.delete(action, path).await?;
        // The engine leaves those that a replacement has mounted by name.
        let volumes = before.mounts.iter().filter(|mount| mount.is_anonymous());
        for volume in volumes.filter(|_| self.volumes) {
            if let Ok(name) = ObjectName::new(&volume.name) {
                let removed = docker.engine.try_delete(Path::to("/volumes").id(&name));
                // It is gone, or another container uses it.
                let _ = removed.await;
            }
        }
        Ok(StateChange::removed(&before).with_note(loss))
    }
}

impl RemoveContainer {
    fn loss(&self, container: &ContainerDetails) -> String {
        let name = container.display_name();
        let running = container.state.is_alive();
        let kill = if running { " while it runs" } else { "" };
        let volumes = container.mounts.iter().filter(|mount| mount.is_anonymous());
        let volumes: Vec<&str> = volumes.map(|mount| &*mount.destination).collect();
        let data = match (volumes.is_empty(), self.volumes) {
            (true, _) => String::new(),
            (false, true) => format!(", and with the data in {}", volumes.join(", ")),
            (false, false) => format!("; the volumes of {} stay", volumes.join(", ")),
        };
        format!("Removes `{name}`{kill}, with its log and every file it wrote{data}.")
    }
}

const DEFAULT_SECONDS: u32 = 25;
const POLL_INTERVAL: Duration = Duration::from_millis(300);

/// Wait until a container has ended, or is healthy.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitContainer {
    /// Name or id.
    container: ContainerName,
    /// Waits for this state.
    #[serde(default)]
    until: AwaitedState,
    /// Waits at most so long; default 25.
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
            return Err(ToolError::conflict(format!(
                "`{name}` has no health check."
            )));
        }
        let id = first.id.clone();
        let seconds = self.timeout_seconds.map_or(DEFAULT_SECONDS, Bounded::get);
        call.extend_timeout(Duration::from_secs(seconds.into()));
        let (begin, mut seen) = (Instant::now(), first);
        loop {
            let waited = begin.elapsed();
            let is_over = !seen.state.is_alive();
            let reached = match self.until {
                AwaitedState::Ended => is_over && has_ended(&seen.state),
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
    let is_alive = seen.state.is_alive();
    let ended = !is_alive && has_ended(&seen.state);
    let (code, oom) = (seen.state.exit_code, seen.state.oom_killed);
    Waited {
        container: seen.display_name().to_owned(),
        reached,
        state: seen.state.status.clone(),
        health: health(seen).map(str::to_owned),
        exit_code: ended.then_some(code),
        exit_meaning: ended.then(|| exit_meaning(code, oom).into_owned()),
        waited_seconds: waited.as_secs(),
        note: match (reached, is_alive) {
            (true, _) => None,
            (false, false) if ended => {
                Some("It has ended: get_container_logs shows its last lines.")
            }
            (false, false) => Some("It was never started: start_container starts it."),
            (false, true) => Some("The time is up and it still runs: call again to continue."),
        },
    }
}

fn health(container: &ContainerDetails) -> Option<&str> {
    Some(&*container.state.health.as_ref()?.status)
}
