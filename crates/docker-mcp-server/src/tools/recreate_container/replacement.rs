//! The replacement of a container, which ends as a whole: with the new container, or with the old one.
//!
//! The old one first gets another name, `NAME.before-ID`, which marks it until the new one is healthy. If this server is killed in
//! between, the next start of one finds the mark and finishes what was begun (`recovery`).

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::prelude::*;
use super::super::start_container::configuration_error;
use super::super::state_change::last_lines;
use super::comparison::{Described, differences};
use super::engine_clock::EngineClock;
use super::kept_name::{is_kept_name, kept_name, under_way};
use super::request::Request;
use crate::docker::{explain, permit_start, redactor_of};
use crate::engine::{Engine, EngineError, exit_code};
use crate::policy::{CREATED, KEPT, Policy, REPLACES};

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

/// A container and the `Config` of its image; without the image everything counts as set by the user.
pub(super) async fn describe(
    engine: &Engine,
    id: &ContainerName,
) -> Result<Described, EngineError> {
    let container: Value = engine.try_get(Path::container(id, "/json")).await?;
    let image = ImageName::new(container["Image"].as_str().unwrap_or_default());
    let mut image: Value = match image.map(|image| Path::to("/images").id(&image).then("/json")) {
        Ok(path) => engine.try_get(path).await.unwrap_or_default(),
        Err(_) => Value::Null,
    };
    Ok(Described {
        container,
        defaults: image["Config"].take(),
    })
}

impl Replacement {
    /// Replaces the container, which is as `old` describes it. Returns the new one, and a remark.
    /// Errors when another call replaces it, and when the old one is there again.
    pub(super) async fn run(
        self,
        old: Described,
        request: Request,
        grace: u32,
    ) -> Result<(ContainerDetails, Option<String>)> {
        self.begin().await?;
        let done = match self.start(&old, &request, grace).await {
            Ok(()) => self.settle(Some((&old, &request))).await,
            Err(cause) => Err(self.roll_back(cause).await),
        };
        done.map_err(|failure| failure.explain(self.name.as_str()))
    }

    /// Gives the old one its other name, which only one call can do.
    async fn begin(&self) -> Result<()> {
        let ran = self.timeout.is_some();
        let kept = kept_name(self.name.as_str(), self.old.as_str(), ran);
        let path = Path::container(&self.old, "/rename").query("name", &kept);
        let renamed = self.engine.try_post(path, None, Duration::ZERO).await;
        let Err(failure) = renamed else { return Ok(()) };
        let is_refused = matches!(failure, EngineError::Refused { .. });
        let cause = self.explain("rename", failure);
        if !is_refused {
            // It may take effect yet.
            return Err(self.roll_back(cause).await.explain(self.name.as_str()));
        }
        match self.engine.try_inspect(&self.old).await {
            Ok(old) if is_kept_name(old.display_name(), &old.id) => {
                Err(under_way(self.name.as_str(), old.display_name()))
            }
            _ => Err(cause),
        }
    }

    /// Errors when the new container differs from the old one in more than was asked for.
    async fn compare(&self, old: &Described, request: &Request) -> Result<()> {
        let new = self.engine.try_inspect(&self.name).await;
        let new = match new {
            Ok(new) => describe(&self.engine, &new.container_id()?).await,
            Err(failure) => Err(failure),
        };
        let new = new.map_err(|failure| self.explain("inspect", failure))?;
        let found = differences(old, &new, &request.asked);
        if found.is_empty() {
            return Ok(());
        }
        let found = found.join(", ");
        Err(conflict(format!(
            "The new one would differ in more than was asked for: {found}. Name these in `changes` if \
             there is an argument for them, or replace it with the docker command."
        )))
    }

    /// Waits for the new container and removes one of the two.
    pub(super) async fn settle(
        &self,
        expected: Option<(&Described, &Request)>,
    ) -> Result<(ContainerDetails, Option<String>), Failure> {
        let watched = async {
            let after = self.watch().await?;
            if let Some((old, request)) = expected {
                self.compare(old, request).await?;
            }
            Ok(after)
        };
        let after = match watched.await {
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

    async fn start(&self, old: &Described, request: &Request, grace: u32) -> Result<()> {
        let seconds = self.timeout.map_or(0, |timeout| timeout.as_secs());
        let longest = seconds + 2 * u64::from(grace) + STEPS_TIMEOUT.as_secs();
        let mut body = json!(request.body);
        body["Labels"][CREATED] = "true".into();
        body["Labels"][REPLACES] = format!("{} {seconds} {longest}", self.old).into();
        let mut binds = request.kept_volumes.clone();
        let host = request.body.host_config.as_ref();
        let own = host.and_then(|host| host.binds.as_ref());
        binds.extend(own.into_iter().flatten().cloned());
        body["HostConfig"]["Binds"] = json!(binds);
        if let Some(address) = &request.mac_address {
            body["MacAddress"] = address.clone();
        }
        let path = Path::to("/containers/create").query("name", &self.name);
        self.post("create", path, Some(&body), 0).await?;
        for (network, endpoint) in &request.networks {
            let body = json!({"Container": self.name, "EndpointConfig": endpoint});
            let path = Path::to("/networks").id(network).then("/connect");
            self.post("connect", path, Some(&body), 0).await?;
        }
        // Before the old one is stopped.
        self.compare(old, request).await?;
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
