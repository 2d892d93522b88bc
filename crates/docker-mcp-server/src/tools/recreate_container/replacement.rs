//! The replacement of a container, which ends as a whole: with the new container, or with the old one.
//!
//! The old one first gets another name, `NAME.before-ID`, which marks it until the new one is healthy. If this server
//! is killed in between, or the engine, then [`recover`] finds the mark and brings back the old one.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::prelude::*;
use super::super::start_container::configuration_error;
use super::super::state_change::last_lines;
use super::comparison::{Described, differences};
use super::kept_name::{Lock, is_kept, is_kept_name, kept_name, ran, under_way};
use super::request::Request;
use crate::docker::{explain, permit_start};
use crate::engine::{ContainerSummary, Engine, EngineError, exit_code};
use crate::policy::{CREATED, KEPT, REPLACES};

/// The time for which a container without health check has to run.
const MIN_UPTIME: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The time for a removal that was begun already.
const REMOVAL_TIME: Duration = Duration::from_secs(10);
/// The attempts to bring back old containers, and the delay between them.
const MAX_ATTEMPTS: u32 = 12;
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

type Result<T, E = ToolError> = std::result::Result<T, E>;

/// A replacement that is under way.
pub(super) struct Replacement {
    pub(super) docker: Docker,
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
    fn explain(self, name: &str, kept: &str) -> ToolError {
        let cause = self.cause.message();
        let mut text = match &self.rollback {
            None => format!("`{name}` was not replaced; the old container is as it was. {cause}"),
            Some(error) => format!(
                "`{name}` was not replaced, and bringing back the old container failed, too: {} It has the name \
                 `{kept}`, and comes back once the engine allows it, or by renaming it. The first error: {cause}",
                error.message()
            ),
        };
        if let Some(log) = self.log {
            text = format!("{text} The new container wrote:\n{log}");
        }
        ToolError::new(self.cause.kind(), text)
    }
}

/// Brings back the old containers of replacements that have broken off: at the start of this server, when the engine
/// comes back, and after a call that could not.
pub(crate) async fn recover(docker: Arc<Docker>) {
    loop {
        docker.broken_off.notified().await;
        for _ in 0..MAX_ATTEMPTS {
            if roll_back_all(&docker).await {
                break;
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }
}

/// Returns false if the engine did not answer.
async fn roll_back_all(docker: &Docker) -> bool {
    let filter = format!(r#"{{"name":["{KEPT}"]}}"#);
    let path = Path::to("/containers/json").query("filters", &filter);
    let listed = docker.engine.try_get(path.query("all", true)).await;
    let listed: Vec<ContainerSummary> = match listed {
        Ok(listed) => listed,
        Err(_) => return false,
    };
    let mut answers = true;
    for container in listed.iter().filter(|container| is_kept(container)) {
        let kept = container.display_name();
        let name = kept.rsplit_once(KEPT).map_or("", |(name, _)| name);
        let names = (ContainerName::new(name), ContainerName::new(&container.id));
        // A call that is under way ends by itself.
        let (Ok(name), Ok(old), Ok(_lock)) = (names.0, names.1, Lock::take(&container.id)) else {
            continue;
        };
        let replacement = Replacement {
            docker: docker.clone(),
            timeout: ran(kept).then_some(Duration::ZERO),
            name: name.clone(),
            old,
        };
        let failure = replacement.roll_back(conflict("The replacement broke off."));
        let failure = failure.await;
        let rollback = failure.rollback.as_ref().map(ToolError::kind);
        answers &= !matches!(
            rollback,
            Some(ToolErrorKind::Unavailable | ToolErrorKind::Timeout)
        );
        let error = failure.explain(name.as_str(), kept);
        let error = Redactor::new(true).text(error.message());
        tracing::warn!("{error}");
    }
    answers
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
        let lock = Lock::take(self.old.as_str())
            .map_err(|_| under_way(self.name.as_str(), &self.kept_name()))?;
        self.begin().await?;
        let done = match self.start(&old, &request, grace).await {
            Ok(()) => self.settle(&old, &request).await,
            Err(cause) => Err(self.roll_back(cause).await),
        };
        drop(lock);
        done.map_err(|failure| self.fail(failure))
    }

    fn kept_name(&self) -> String {
        let ran = self.timeout.is_some();
        kept_name(self.name.as_str(), self.old.as_str(), ran)
    }

    fn fail(&self, failure: Failure) -> ToolError {
        if failure.rollback.is_some() {
            self.docker.broken_off.notify_one();
        }
        failure.explain(self.name.as_str(), &self.kept_name())
    }

    /// Gives the old one its other name, which only one call can do.
    async fn begin(&self) -> Result<()> {
        let path = Path::container(&self.old, "/rename").query("name", self.kept_name());
        let renamed = self.engine().try_post(path, None, Duration::ZERO).await;
        let Err(failure) = renamed else { return Ok(()) };
        let is_refused = matches!(failure, EngineError::Refused { .. });
        let cause = self.explain("rename", failure);
        if !is_refused {
            // It may take effect yet.
            return Err(self.fail(self.roll_back(cause).await));
        }
        match self.engine().try_inspect(&self.old).await {
            Ok(old) if is_kept_name(old.display_name(), &old.id) => {
                Err(under_way(self.name.as_str(), old.display_name()))
            }
            _ => Err(cause),
        }
    }

    /// Errors when the new container differs from the old one in more than was asked for.
    async fn compare(&self, old: &Described, request: &Request) -> Result<()> {
        let new = self.engine().try_inspect(&self.name).await;
        let new = match new {
            Ok(new) => describe(self.engine(), &new.container_id()?).await,
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
    async fn settle(
        &self,
        old: &Described,
        request: &Request,
    ) -> Result<(ContainerDetails, Option<String>), Failure> {
        let watched = async {
            let after = self.watch().await?;
            self.compare(old, request).await?;
            Ok(after)
        };
        let after = match watched.await {
            Ok(after) => after,
            Err(cause) => return Err(self.roll_back(cause).await),
        };
        // If it cannot be removed it does not come back either.
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
        let mut body = json!(request.body);
        body["Labels"][CREATED] = "true".into();
        body["Labels"][REPLACES] = self.old.as_str().into();
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
        loop {
            let now = self.inspect(&self.name).await?;
            // A server elsewhere, which does not know of this one, may have brought back the old one.
            if !self.is_new(&now) {
                return Err(conflict("The new one is not there any more."));
            }
            let Some(timeout) = self.timeout else {
                return Ok(now);
            };
            let has_lasted = began.elapsed() >= MIN_UPTIME.min(timeout);
            match progress(&now, has_lasted, &self.docker.redactor_of(&now))? {
                true => return Ok(now),
                false if began.elapsed() >= timeout => {
                    let seconds = timeout.as_secs();
                    let text = format!("The new one was not healthy after {seconds} s.");
                    return Err(conflict(text));
                }
                false => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    /// Brings back the old container. Every step may have been done already.
    async fn roll_back(&self, cause: ToolError) -> Failure {
        let mut log = None;
        let undo = async {
            // First: without the old one, the new one is all that is left.
            let old = self.inspect(&self.old).await?;
            match self.engine().try_inspect(&self.name).await {
                Ok(new) if self.is_new(&new) => {
                    log = last_lines(self.engine(), self.docker.redact, &new).await;
                    self.remove(&new.container_id()?).await?;
                }
                Ok(other) if other.id != self.old.as_str() => {
                    return Err(conflict("Another container has its name now."));
                }
                _ => {}
            }
            // Its name last: by that it is known what is left to do.
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
        label.is_some_and(|label| label == self.old.as_str())
    }

    fn engine(&self) -> &Engine {
        &self.docker.engine
    }

    async fn inspect(&self, id: &ContainerName) -> Result<ContainerDetails> {
        let details = self.engine().try_inspect(id).await;
        details.map_err(|failure| self.explain("inspect", failure))
    }

    async fn rename(&self, id: &ContainerName, name: &str) -> Result<()> {
        let path = Path::container(id, "/rename").query("name", name);
        self.post("rename", path, None, 0).await
    }

    async fn start_again(&self, id: &ContainerName) -> Result<()> {
        permit_start(self.engine(), &self.docker.policy, id).await?;
        let path = Path::container(id, "/start");
        let started = self.engine().try_post(path, None, Duration::ZERO).await;
        started.map(drop).map_err(|failure| {
            configuration_error(&self.name, &failure)
                .unwrap_or_else(|| self.explain("start", failure))
        })
    }

    /// Removes a container. A removal that was begun is waited for.
    async fn remove(&self, id: &ContainerName) -> Result<()> {
        let began = tokio::time::Instant::now();
        loop {
            let path = Path::container(id, "").query("force", true);
            match self.engine().try_delete(path).await {
                Err(failure)
                    if failure.is_removal_under_way() && began.elapsed() < REMOVAL_TIME =>
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
        let done = self.engine().try_post(path, body, duration).await;
        done.map(drop)
            .map_err(|failure| self.explain(verb, failure))
    }

    fn explain(&self, verb: &'static str, failure: EngineError) -> ToolError {
        let action = Action::on_container(verb, self.name.as_str());
        let needs = action.needs;
        explain(self.engine(), failure, needs, Some(&action), &[])
    }
}

/// Whether the new container is as it should be; `has_lasted` if it has run for a while.
/// Errors when it never will be.
fn progress(now: &ContainerDetails, has_lasted: bool, redactor: &Redactor) -> Result<bool> {
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
            let output = redactor.text(output);
            let output = truncate(&output, 300);
            let text = format!("The health check of the new one failed: {output}");
            Err(conflict(text.trim_end_matches([' ', ':'])))
        }
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_of_the_new_container_decides() {
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
            let found = progress(&details, has_lasted, &Redactor::new(true)).ok();
            assert_eq!(found, expected, "{state} {restarts}");
        }
    }
}
