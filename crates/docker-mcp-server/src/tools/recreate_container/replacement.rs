//! The replacement of a container, which ends as a whole: with the new container, or with the old one.
//!
//! The old one first gets another name, `NAME.before-ID`, which marks it until the new one is healthy. If this server is killed in
//! between, the next start of one finds the mark and finishes what was begun (`recovery`).

use std::sync::Arc;

use docker_engine::{ContainerSummary, Engine, EngineError, exit_code};
use serde_json::{Value, json};

use super::super::prelude::*;
use super::super::start_container::configuration_error;
use super::super::state_change::last_lines;
use super::request::Request;
use crate::docker::{explain, permit_start, redactor_of};
use crate::policy::{CREATED, KEPT, Policy, REPLACES};
use crate::unix_time;

/// The time for which a container without health check has to run.
const MIN_UPTIME: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The time for the steps of a replacement other than stopping and waiting.
pub(super) const STEPS_TIMEOUT: Duration = Duration::from_secs(10);

type Result<T, E = ToolError> = std::result::Result<T, E>;

/// A replacement that is under way.
pub(super) struct Replacement {
    pub(super) engine: Engine,
    pub(super) policy: Arc<Policy>,
    /// Hide secrets in errors.
    pub(super) redact: bool,
    /// The id of the old container.
    pub(super) old: ContainerName,
    /// Its name, which the new one gets.
    pub(super) name: ContainerName,
    /// For the new one to get healthy; `None` if the old one did not run, so the new one is not started.
    pub(super) timeout: Option<Duration>,
}

/// The reason why the old container is there again, or is not.
pub(super) struct Failure {
    pub(super) cause: ToolError,
    /// The end of the log of the new container.
    log: Option<String>,
    /// The error of the way back.
    pub(super) rollback: Option<ToolError>,
}

impl Failure {
    pub(super) fn explain(self, name: &str) -> ToolError {
        let cause = self.cause.message();
        let mut text = match &self.rollback {
            None => format!("`{name}` was not replaced; the old container is as it was. {cause}"),
            Some(error) => format!(
                "`{name}` was not replaced, and bringing back the old container failed, too: {} It \
                 has the name `{name}{KEPT}…`. The first error: {cause}",
                error.message()
            ),
        };
        if let Some(log) = self.log {
            text = format!("{text} The new container wrote:\n{log}");
        }
        ToolError::new(self.cause.kind(), text)
    }
}

/// After the name of an old container that has to run if it comes back.
const RAN: &str = ".up";

/// The name of the container with this id while its replacement is not known to be healthy.
fn kept_name(name: &str, id: &str, ran: bool) -> String {
    let ran = if ran { RAN } else { "" };
    format!("{name}{KEPT}{}{ran}", short_id(id))
}

/// Whether the old container with this name ran when its replacement began.
pub(super) fn ran(name: &str) -> bool {
    name.ends_with(RAN)
}

/// Whether it is the old container of a replacement.
pub(crate) fn is_kept(container: &ContainerSummary) -> bool {
    let name = container.display_name();
    let kept = name.rsplit_once(KEPT);
    kept.is_some_and(|(replaced, _)| name == kept_name(replaced, &container.id, ran(name)))
}

impl Replacement {
    /// Replaces the container. Returns the new one, and a remark.
    pub(super) async fn run(
        self,
        request: Request,
        grace: u32,
    ) -> Result<(ContainerDetails, Option<String>), Failure> {
        if let Err(cause) = self.start(request, grace).await {
            return Err(self.roll_back(cause).await);
        }
        self.settle().await
    }

    /// Waits for the new container and removes one of the two.
    pub(super) async fn settle(&self) -> Result<(ContainerDetails, Option<String>), Failure> {
        let after = match self.watch().await {
            Ok(after) => after,
            Err(cause) => return Err(self.roll_back(cause).await),
        };
        // A later server must not judge the new one again: it may have been stopped since.
        let over = format!("{}{KEPT}over-{}", self.name, short_id(self.old.as_str()));
        let _ = self.rename(&self.old, &over).await;
        let removed = self.remove(&self.old).await;
        let note = removed.err().map(|error| {
            let error = error.message();
            format!("The old container could not be removed: {error}")
        });
        Ok((after, note))
    }

    async fn start(&self, request: Request, grace: u32) -> Result<()> {
        let ran = self.timeout.is_some();
        let kept = kept_name(self.name.as_str(), self.old.as_str(), ran);
        self.rename(&self.old, &kept).await?;
        let seconds = self.timeout.map_or(0, |timeout| timeout.as_secs());
        let longest = seconds + 2 * u64::from(grace) + STEPS_TIMEOUT.as_secs();
        let mut body = json!(request.body);
        body["Labels"][CREATED] = "true".into();
        body["Labels"][REPLACES] = format!("{} {seconds} {longest}", self.old).into();
        let mut binds = request.kept_volumes;
        let host = request.body.host_config;
        binds.extend(host.and_then(|host| host.binds).unwrap_or_default());
        body["HostConfig"]["Binds"] = json!(binds);
        let path = Path::to("/containers/create").query("name", &self.name);
        self.post("create", path, Some(&body), 0).await?;
        for (network, endpoint) in request.networks {
            let body = json!({"Container": self.name, "EndpointConfig": endpoint});
            let path = Path::to("/networks").id(&network).then("/connect");
            self.post("connect", path, Some(&body), 0).await?;
        }
        if self.timeout.is_none() {
            return Ok(());
        }
        let path = Path::container(&self.old, "/stop").query("t", grace);
        self.post("stop", path, None, grace).await?;
        self.start_again(&self.name).await
    }

    /// Polls the new container until it is healthy, or without health check has run for a while.
    async fn watch(&self) -> Result<ContainerDetails> {
        let began = tokio::time::Instant::now();
        let clock = EngineClock::read(&self.engine).await;
        loop {
            let now = self.inspect(&self.name).await?;
            // Another server that finishes the same replacement may have brought back the old one.
            if !self.is_new(&now) {
                return Err(conflict("The new one is not there any more."));
            }
            let Some(timeout) = self.timeout else {
                return Ok(now);
            };
            // By the engine's clock: it may have been started by another server.
            let age = match &*now.state.status {
                "created" => began.elapsed(),
                _ => clock.age(&now.state.started_at),
            };
            match self.progress(&now, age >= MIN_UPTIME.min(timeout))? {
                true => return Ok(now),
                false if age >= timeout => {
                    let seconds = timeout.as_secs();
                    let text = format!("The new one was not healthy after {seconds} s.");
                    return Err(conflict(text));
                }
                false => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    /// Whether the new container is as it should be; `has_lasted` if it has run for a while.
    /// Errors when it never will be.
    fn progress(&self, now: &ContainerDetails, has_lasted: bool) -> Result<bool> {
        let state = &now.state;
        let is_new = state.status == "created";
        if !is_new && (!state.runs() || now.restart_count > 0) {
            let meaning = exit_code::meaning(state.exit_code, state.oom_killed);
            let code = state.exit_code;
            let text = format!("The new one ended with exit code {code} ({meaning}).");
            return Err(conflict(text));
        }
        let health = state.health.as_ref();
        // Podman has an empty health without a check.
        match health.map_or("", |health| &*health.status) {
            "" | "none" => Ok(!is_new && has_lasted),
            "healthy" => Ok(true),
            "unhealthy" => {
                let probe = health.and_then(|health| health.log.last());
                let output = probe.map_or("", |probe| probe.output.trim());
                let output = redactor_of(self.redact, now).text(output);
                let output = truncate(&output, 300);
                let text = format!("The health check of the new one failed: {output}");
                Err(conflict(text.trim_end_matches([' ', ':'])))
            }
            _ => Ok(false),
        }
    }

    /// Brings back the old container. Every step may have been done already.
    async fn roll_back(&self, cause: ToolError) -> Failure {
        let mut log = None;
        let undo = async {
            // First: without the old one, the new one is all that is left.
            let old = self.inspect(&self.old).await?;
            if let Ok(new) = self.engine.try_inspect(&self.name).await
                && new.id != self.old.as_str()
                && self.is_new(&new)
            {
                log = last_lines(&self.engine, self.redact, &new).await;
                self.remove(&new.container_id()?).await?;
            }
            // Its name last: by that the next server knows what is left to do.
            if self.timeout.is_some() && !old.state.is_alive() {
                self.start_again(&self.old).await?;
            }
            if old.display_name() != self.name.as_str() {
                self.rename(&self.old, self.name.as_str()).await?;
            }
            Ok(())
        };
        let rollback = undo.await.err();
        Failure {
            cause,
            log,
            rollback,
        }
    }

    fn is_new(&self, container: &ContainerDetails) -> bool {
        let label = container.config.labels.get(REPLACES);
        label.is_some_and(|label| label.starts_with(self.old.as_str()))
    }

    async fn inspect(&self, id: &ContainerName) -> Result<ContainerDetails> {
        let details = self.engine.try_inspect(id).await;
        details.map_err(|failure| self.explain("inspect", failure))
    }

    async fn rename(&self, id: &ContainerName, name: &str) -> Result<()> {
        let path = Path::container(id, "/rename").query("name", name);
        self.post("rename", path, None, 0).await
    }

    async fn start_again(&self, id: &ContainerName) -> Result<()> {
        permit_start(&self.engine, &self.policy, id).await?;
        let path = Path::container(id, "/start");
        let started = self.engine.try_post(path, None, Duration::ZERO).await;
        started.map(drop).map_err(|failure| {
            configuration_error(&self.name, &failure)
                .unwrap_or_else(|| self.explain("start", failure))
        })
    }

    /// Removes a container. A removal that another server has begun is waited for.
    async fn remove(&self, id: &ContainerName) -> Result<()> {
        let began = tokio::time::Instant::now();
        loop {
            let path = Path::container(id, "").query("force", true);
            match self.engine.try_delete(path).await {
                Err(failure)
                    if failure.is_removal_under_way() && began.elapsed() < STEPS_TIMEOUT =>
                {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                Err(failure) if !failure.is_no_such_container() => {
                    return Err(self.explain("remove", failure));
                }
                _ => return Ok(()),
            }
        }
    }

    async fn post(
        &self,
        verb: &'static str,
        path: Path,
        body: Option<&Value>,
        seconds: u32,
    ) -> Result<()> {
        let duration = Duration::from_secs(seconds.into());
        let done = self.engine.try_post(path, body, duration).await;
        done.map(drop)
            .map_err(|failure| self.explain(verb, failure))
    }

    fn explain(&self, verb: &'static str, failure: EngineError) -> ToolError {
        let action = Action::on_container(verb, self.name.as_str());
        let needs = action.needs;
        explain(&self.engine, failure, needs, Some(&action), &[])
    }
}

/// The engine's clock: containers are dated by it, and it may differ from ours.
pub(super) struct EngineClock {
    /// Seconds by which it is ahead.
    ahead: i64,
}

impl EngineClock {
    pub(super) async fn read(engine: &Engine) -> Self {
        let info: Value = engine.try_get(Path::to("/info")).await.unwrap_or_default();
        let now = info["SystemTime"]
            .as_str()
            .and_then(unix_time::from_timestamp);
        Self {
            ahead: now.map_or(0, |now| now - unix_time::now()),
        }
    }

    /// The time since this one.
    pub(super) fn age(&self, timestamp: &str) -> Duration {
        let then = unix_time::from_timestamp(timestamp).unwrap_or(0);
        let seconds = unix_time::now() + self.ahead - then;
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_is_counted_by_the_engines_clock() {
        let now = unix_time::now();
        for (ahead, started, expected) in [(3600, 3593, 7), (-3600, -3607, 7), (0, 60, 0)] {
            let age = EngineClock { ahead }.age(&rfc3339(now + started)).as_secs();
            assert!(
                (expected..=expected + 1).contains(&age),
                "{ahead} {started}: {age}"
            );
        }
    }

    #[test]
    fn state_of_the_new_container_decides() {
        let replacement = Replacement {
            engine: Engine::new("tcp://127.0.0.1:1".parse().unwrap(), Duration::ZERO).unwrap(),
            policy: Arc::default(),
            redact: true,
            old: ContainerName::new("old").unwrap(),
            name: ContainerName::new("web").unwrap(),
            timeout: None,
        };
        for (state, restarts, has_lasted, expected) in [
            (json!({"Status": "created"}), 0, true, Some(false)),
            (json!({"Status": "running"}), 0, false, Some(false)),
            (json!({"Status": "running"}), 0, true, Some(true)),
            // It ended meanwhile, and runs again.
            (json!({"Status": "running"}), 1, true, None),
            (json!({"Status": "exited"}), 0, true, None),
            (
                json!({"Status": "running", "Health": {"Status": "starting"}}),
                0,
                true,
                Some(false),
            ),
            (
                json!({"Status": "running", "Health": {"Status": "healthy"}}),
                0,
                false,
                Some(true),
            ),
            (
                json!({"Status": "running", "Health": {"Status": "unhealthy"}}),
                0,
                true,
                None,
            ),
        ] {
            let details = json!({"State": state, "RestartCount": restarts});
            let details = serde_json::from_value(details).unwrap();
            let found = replacement.progress(&details, has_lasted).ok();
            assert_eq!(found, expected, "{state} {restarts}");
        }
    }

    #[test]
    fn old_container_of_a_replacement_is_known_by_its_name() {
        let id = "0123456789abcdef";
        for (name, expected) in [
            ("/web.before-0123456789ab", true),
            ("/web.before-0123456789ab.up", true),
            ("/web.before-0123456789ab.down", false),
            ("/web.before-x.before-0123456789ab", true),
            ("/web.before-ba9876543210", false),
            ("/web.before-over-0123456789ab", false),
            ("/web", false),
        ] {
            let summary = json!({"Id": id, "Names": [name]});
            let summary = serde_json::from_value(summary).unwrap();
            assert_eq!(is_kept(&summary), expected, "{name}");
        }
    }
}
