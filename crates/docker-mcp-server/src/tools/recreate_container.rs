//! `recreate_container`. A replacement ends as a whole: with the new container, or with the old one.
//!
//! The old one first gets another name, `NAME.before-ID`, which marks it until the new one is healthy. If this server
//! is killed in between, or the engine, then [`recover`] finds the mark and brings back the old one, unless the new
//! one has proved itself meanwhile: it may hold work of others. A new one that a call has given up cannot: the file of
//! [`Lock`] tells.

mod options;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::TryStreamExt as _;

use self::options::{Asked, Described, Request, differences, mac_note, merge};
use super::lifecycle::{self, grace, last_lines};
use super::prelude::*;
use crate::docker::HIDDEN;
use crate::engine::exit_meaning;
use crate::json;
use crate::policy::{KEPT, REPLACES, is_created};
use crate::unix_time;

const DEFAULT_TIMEOUT: u32 = 60;

/// Replace a container by one with the same options and some changes, such as a newer image. The old
/// one comes back if the new one does not get healthy, or, without health check, does not stay up.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RecreateContainer {
    /// Name or id.
    container: ContainerName,
    /// Takes arguments of create_container: env and labels are merged (null removes one), others replaced. Without
    /// `image`, its tag is looked up again.
    #[serde(default)]
    changes: Map<String, Value>,
    /// Waits so long for the new one's health; default 60.
    timeout_seconds: Option<Bounded<1, 600>>,
    /// Pass the refusal's value once the user agrees.
    confirm: Option<String>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct Recreated {
    container: String,
    id: String,
    state: String,
    image: String,
    /// `healthy`, if it has a health check.
    health: Option<String>,
    note: Option<String>,
}

impl Tool for RecreateContainer {
    const NAME: &'static str = "recreate_container";
    const EFFECT: Effect = Effect::Destructive;
    const TASK: TaskSupport = TaskSupport::Optional;
    type Service = Docker;
    type Output = Recreated;

    async fn call(mut self, docker: &Docker, call: &Call) -> Result<Recreated, ToolError> {
        docker.policy.permit_destructive()?;
        let before = match docker.mutable_container(&self.container).await {
            Err(missing) if missing.kind() == ToolErrorKind::NotFound => {
                return Err(between_names(docker, &self.container)
                    .await
                    .unwrap_or(missing));
            }
            before => before?,
        };
        let (id, name) = (&before.id, before.display_name());
        let own_name = ContainerName::new(name).map_err(|_| {
            ToolError::conflict(
                "Its name has more than 255 characters: update_container gives it another one.",
            )
        })?;
        if before.host_config.auto_remove {
            return Err(ToolError::conflict(format!(
                "`{name}` was created with --rm: the engine removes it when it stops, so it could \
                 not come back. Use create_container."
            )));
        }
        permit_begin(&docker.engine, &before).await?;
        permit_none(docker, &before).await?;
        let inspect = async || {
            let described = describe(&docker.engine, id).await;
            described.map_err(|failure| docker.engine.explain(failure))
        };
        let old = inspect().await?;
        let changes = std::mem::take(&mut self.changes);
        let given = changes.iter().flat_map(|(name, value)| {
            let texts = texts(value).into_iter();
            texts.map(|text| (&**name, text))
        });
        refuse_hidden(docker, given)?;
        let names: Vec<&str> = changes.keys().map(String::as_str).collect();
        let with = match &*names.join(", ") {
            "" => String::new(),
            names => format!(", with changes of {names}"),
        };
        let asked = json!(changes).to_string();
        let request = merge(&old.container, &old.defaults, changes)?;
        let new_image = text(&request.body["Image"]).to_owned();
        let image_name = ImageName::new(&new_image)?;
        let new_id = docker.image(&image_name).await?.id;
        docker.permit_container(name, &request.body).await?;
        for (network, _) in &request.networks {
            docker.permit_network(network.as_str()).await?;
        }
        let is_moved = new_image == before.config.image && new_id != before.image;
        let by_now = match is_moved {
            true => ", which is another image by now",
            false => "",
        };
        let loss = format!(
            "Replaces `{name}` by a new container of `{new_image}`{by_now}{with}: it is down for a moment, and loses \
             its log and the files that it wrote outside of volumes."
        );
        let objects = [Object::container(id), Object::image(&image_name, &new_id)];
        docker
            .confirm_all(call, &loss, name, (&objects, &[&asked]), &self.confirm)
            .await?;
        // The user may have taken minutes.
        let now = inspect().await?;
        let changed = differences(&old, &now, &Asked::default()).join(", ");
        if !changed.is_empty() {
            return Err(ToolError::conflict(format!(
                "`{name}` was changed meanwhile ({changed}). Nothing was done: call again."
            )));
        }
        permit_none(docker, &before).await?;
        let missing = docker.permit_container(name, &request.body).await?;
        for volume in missing {
            docker.create_volume(&volume, BTreeMap::new()).await?;
        }
        let seconds = self.timeout_seconds.map_or(DEFAULT_TIMEOUT, Bounded::get);
        let was_running = before.state.is_alive();
        let replacement = Replacement {
            docker: docker.clone(),
            old: id.clone(),
            name: own_name,
            timeout: was_running.then(|| Duration::from_secs(seconds.into())),
            stop_was_sent: AtomicBool::new(false),
        };
        let grace = grace(None, &before);
        // The way there, and the way back.
        call.extend_timeout(Duration::from_secs((seconds + 2 * grace + 30).into()));
        let new_macs = mac_note(&now.container, &request.networks);
        let not_started = "It did not run before: start_container starts it.";
        let not_started = (!was_running).then(|| not_started.to_owned());
        let (after, note) = whole(replacement.run(now, request, grace)).await?;
        let notes: Vec<String> = [note, not_started, new_macs]
            .into_iter()
            .flatten()
            .collect();
        Ok(Recreated {
            container: after.display_name().to_owned(),
            id: short_id(&after.id).to_owned(),
            state: after.state.status.clone(),
            image: new_image,
            health: after.state.health.map(|health| health.status),
            note: (!notes.is_empty()).then(|| notes.join(" ")),
        })
    }
}

/// All texts in a value.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(values) => values.iter().flat_map(texts).collect(),
        Value::Object(members) => members.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

const MAX_CONCURRENT_READS: usize = 8;
/// The options that may name another container, and what they share.
const SHARED: [(&str, &str); 3] = [
    ("NetworkMode", "network"),
    ("PidMode", "processes"),
    ("IpcMode", "IPC"),
];

/// Errors when others use the network or another namespace of the container, or links to it: they would be cut off,
/// and could not be started again.
async fn permit_none(docker: &Docker, container: &ContainerDetails) -> Result<(), ToolError> {
    let listed = docker.engine.containers(true).await?;
    let mut reads = Vec::new();
    for other in listed.iter().filter(|other| other.id != container.id) {
        reads.push(dependant(docker, other, container));
    }
    let dependants = stream::iter(reads).buffered(MAX_CONCURRENT_READS);
    let dependants: Vec<Option<String>> = dependants.try_collect().await?;
    let dependants: Vec<String> = dependants.into_iter().flatten().collect();
    if dependants.is_empty() {
        return Ok(());
    }
    let name = container.display_name();
    Err(ToolError::conflict(format!(
        "`{name}` cannot be replaced while other containers share what is its own: {}. They would be cut off \
         and could not start again. Remove these first, and create them again afterwards.",
        dependants.join(", ")
    )))
}

/// The name of the other container, and what it shares of `owner`; `None` if it shares nothing, or was removed
/// meanwhile.
/// Errors when the engine does not describe it.
async fn dependant(
    docker: &Docker,
    other: &ContainerSummary,
    owner: &ContainerDetails,
) -> Result<Option<String>, ToolError> {
    let path = Path::container(&other.id, "/json");
    let details: Value = match docker.engine.try_get(path).await {
        Err(failure) if failure.is_no_such_container() => return Ok(None),
        details => details.map_err(|failure| docker.engine.explain(failure))?,
    };
    let Some(shared) = shared(&details["HostConfig"], owner) else {
        return Ok(None);
    };
    let name = match docker.policy.permits(other.display_name(), &other.labels) {
        true => other.display_name(),
        false => HIDDEN,
    };
    Ok(Some(format!("`{name}` ({shared})")))
}

/// The namespace of `owner` that a container with this `HostConfig` shares.
fn shared(host: &Value, owner: &ContainerDetails) -> Option<&'static str> {
    let name = owner.display_name();
    let is_owner =
        |other: &str| other == name || (!other.is_empty() && owner.id.starts_with(other));
    let option = SHARED.iter().find(|(option, _)| {
        let mode = text(&host[option]);
        mode.strip_prefix("container:").is_some_and(is_owner)
    });
    let is_linked = json::texts(&host["Links"]).any(|link| {
        let link = link.trim_start_matches('/');
        link.split(':').next().is_some_and(is_owner)
    });
    let link = is_linked.then_some("a link");
    option.map(|(_, shared)| *shared).or(link)
}

/// The time for which a container without health check has to run.
const MIN_UPTIME: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The time in which a container that was killed at the end of a stop is gone, also on a busy engine.
const STOP_MARGIN_SECONDS: u32 = 10;
/// The time for a removal that was begun already.
const REMOVAL_TIME: Duration = Duration::from_secs(60);
/// The delay between the attempts to bring back old containers.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

struct Replacement {
    docker: Docker,
    /// The id of the old container.
    old: ContainerName,
    /// Its name, which the new one gets.
    name: ContainerName,
    /// For the new one to get healthy; `None` if the old one did not run, so the new one is not started.
    timeout: Option<Duration>,
    /// The engine may end the old one yet.
    stop_was_sent: AtomicBool,
}

/// The reason why the old container is there again, or is not.
struct Failure {
    cause: ToolError,
    /// The end of the log of the new container.
    log: Option<String>,
    /// The error of the way back.
    rollback: Option<ToolError>,
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
        while !roll_back_all(&docker).await {
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }
}

/// Returns false if something is left to do: the engine did not answer, or another process is at work.
async fn roll_back_all(docker: &Docker) -> bool {
    let filter = format!(r#"{{"name":["{KEPT}"]}}"#);
    let path = Path::to("/containers/json").query("filters", &filter);
    let listed = docker.engine.try_get(path.query("all", true)).await;
    let Ok(listed): Result<Vec<ContainerSummary>, _> = listed else {
        return false;
    };
    let mut is_done = true;
    for container in listed.iter().filter(|container| is_kept(container)) {
        is_done &= finish(docker, container).await;
    }
    is_done
}

/// Brings back an old container, or removes it if the new one has proved itself. Leaves one alone that this server may
/// not change. Returns false if that is left to do.
async fn finish(docker: &Docker, container: &ContainerSummary) -> bool {
    let kept = container.display_name();
    let name = kept.rsplit_once(KEPT).map_or("", |(name, _)| name);
    let Ok(name) = ContainerName::new(name) else {
        return true;
    };
    let (policy, labels) = (&docker.policy, &container.labels);
    if !policy.permits(&name, labels) || !policy.may_change(is_created(labels)) {
        return true;
    }
    // A call that is under way ends by itself, unless its process is killed.
    let Some(lock) = Lock::take(&container.id) else {
        return false;
    };
    // It may have ended since the list was made, which can be long ago: the ways back of the others take time.
    match docker.engine.try_inspect(&container.id).await {
        Ok(now) if now.display_name() == kept => {}
        Err(failure) if !failure.is_no_such_container() => {
            lock.leave();
            return false;
        }
        _ => return true,
    }
    let replacement = Replacement {
        docker: docker.clone(),
        timeout: ran(kept).then_some(Duration::ZERO),
        name: name.clone(),
        old: container.id.clone(),
        stop_was_sent: AtomicBool::new(true),
    };
    if !lock.is_failed() {
        match replacement.has_proved_itself().await {
            Ok(false) => {}
            Ok(true) => {
                let note = replacement.remove_old().await.unwrap_or_default();
                tracing::warn!("`{name}` was replaced by a call that broke off at its end. {note}");
                return true;
            }
            // It may hold work.
            Err(_) => return false,
        }
    }
    let cause = ToolError::conflict("The replacement broke off.");
    let failure = replacement.roll_back(lock, cause).await;
    let rollback = failure.rollback.as_ref().map(ToolError::kind);
    let error = failure.explain(name.as_str(), kept);
    let error = Redactor::new(true).text(error.message());
    tracing::warn!("{error}");
    !matches!(
        rollback,
        Some(ToolErrorKind::Unavailable | ToolErrorKind::Timeout)
    )
}

/// A container and the `Config` of its image; without the image everything counts as set by the user.
async fn describe(engine: &Engine, id: &ContainerName) -> Result<Described, EngineError> {
    let container: Value = engine.try_get(Path::container(id, "/json")).await?;
    let image = ImageName::new(text(&container["Image"]));
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
    async fn run(
        self,
        old: Described,
        request: Request,
        grace: u32,
    ) -> Result<(ContainerDetails, Option<String>), ToolError> {
        let under_way = || under_way(self.name.as_str(), &self.kept_name());
        let lock = Lock::take(self.old.as_str()).ok_or_else(under_way)?;
        let lock = self.begin(lock).await?;
        let replaced = async {
            self.start(&old, &request, grace).await?;
            let after = self.watch().await?;
            self.compare(&old, &request).await?;
            Ok(after)
        };
        match replaced.await {
            Ok(after) => Ok((after, self.remove_old().await)),
            Err(cause) => Err(self.fail(self.roll_back(lock, cause).await)),
        }
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
    async fn begin(&self, lock: Lock) -> Result<Lock, ToolError> {
        let path = Path::container(&self.old, "/rename").query("name", self.kept_name());
        let renamed = self.engine().try_post(path, None, Duration::ZERO).await;
        let Err(failure) = renamed else {
            return Ok(lock);
        };
        let is_refused = matches!(failure, EngineError::Refused { .. });
        let cause = self.explain("rename", failure).await;
        if !is_refused {
            // It may take effect yet.
            return Err(self.fail(self.roll_back(lock, cause).await));
        }
        match self.engine().try_inspect(&self.old).await {
            Ok(old) if is_kept_name(old.display_name(), &old.id) => {
                Err(under_way(self.name.as_str(), old.display_name()))
            }
            _ => Err(cause),
        }
    }

    /// Errors when the new container differs from the old one in more than was asked for.
    async fn compare(&self, old: &Described, request: &Request) -> Result<(), ToolError> {
        let new = self.inspect(&self.name).await?;
        let new = describe(self.engine(), &new.id).await;
        let new = self.docker.explained(new, self.action("inspect")).await?;
        let found = differences(old, &new, &request.asked);
        if found.is_empty() {
            return Ok(());
        }
        let found = found.join(", ");
        Err(ToolError::conflict(format!(
            "The new one would differ in more than was asked for: {found}. Name these in `changes` if \
             there is an argument for them, or replace it with the docker command."
        )))
    }

    /// Removes the old container. Returns a remark if that fails; it does not come back either.
    async fn remove_old(&self) -> Option<String> {
        let over = format!("{}{KEPT}over-{}", self.name, short_id(self.old.as_str()));
        let _ = self.rename(&self.old, &over).await;
        let error = self.remove(&self.old).await.err()?;
        let error = error.message();
        Some(format!("The old container could not be removed: {error}"))
    }

    /// Whether the new container is as it should be, and has been for as long as its call would have watched it.
    /// Errors when the engine does not answer.
    async fn has_proved_itself(&self) -> Result<bool, EngineError> {
        let now = match self.engine().try_inspect(&self.name).await {
            Err(failure) if failure.is_no_such_container() => return Ok(false),
            now => now?,
        };
        let began = unix_time::from_timestamp(&now.state.started_at).unwrap_or(i64::MAX);
        let uptime = unix_time::now().saturating_sub(began);
        let has_lasted = uptime >= MIN_UPTIME.as_secs() as i64;
        let is_up = self.is_new(&now) && now.state.runs() && now.restart_count == 0;
        let is_good = || matches!(progress(&now, has_lasted, &Redactor::new(true)), Ok(true));
        Ok(is_up && is_good())
    }

    async fn start(&self, old: &Described, request: &Request, grace: u32) -> Result<(), ToolError> {
        let mut body = request.body.clone();
        body["Labels"][REPLACES] = self.old.as_str().into();
        let own = items(&body["HostConfig"]["Binds"]);
        let binds = request.kept_volumes.iter().map(|bind| json!(bind));
        body["HostConfig"]["Binds"] = binds.chain(own.cloned()).collect();
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
        self.stop_was_sent.store(true, Ordering::Relaxed);
        lifecycle::stop(&self.docker, self.name.as_str(), &self.old, grace).await?;
        lifecycle::start(&self.docker, &self.name, &self.name).await
    }

    /// Polls the new container until it is healthy, or without health check has run for a while.
    async fn watch(&self) -> Result<ContainerDetails, ToolError> {
        let began = tokio::time::Instant::now();
        loop {
            let now = self.inspect(&self.name).await?;
            // A server elsewhere, which does not know of this one, may have brought back the old one.
            if !self.is_new(&now) {
                return Err(ToolError::conflict("The new one is not there any more."));
            }
            let Some(timeout) = self.timeout else {
                return Ok(now);
            };
            if now.state.status != "created" && (!now.state.runs() || now.restart_count > 0) {
                return Err(self.end_of_run(&now).await);
            }
            let has_lasted = began.elapsed() >= MIN_UPTIME.min(timeout);
            match progress(&now, has_lasted, &self.docker.redactor_of(&now))? {
                true => return Ok(now),
                false if began.elapsed() >= timeout => {
                    let seconds = timeout.as_secs();
                    let text = format!("The new one was not healthy after {seconds} s.");
                    return Err(ToolError::conflict(text));
                }
                false => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    /// How the new container ended. A container that its restart policy has started again has lost its exit
    /// code; the event of the end still has it.
    async fn end_of_run(&self, now: &ContainerDetails) -> ToolError {
        let mut code = Some(now.state.exit_code);
        if now.state.runs() {
            let period = (
                unix_time::from_timestamp(&now.created).unwrap_or_default(),
                None,
            );
            let (kind, own, limit) = (Some("container"), Some(&*now.id), self.engine().timeout());
            let past = self.docker.past_events(period, kind, own, limit).await;
            let exit = past.events.iter().rfind(|event| event.is_exit());
            code = exit.and_then(|event| event.attribute("exitCode")?.parse().ok());
        }
        ToolError::conflict(match code {
            Some(code) => {
                let meaning = exit_meaning(code, now.state.oom_killed);
                format!("The new one ended with exit code {code} ({meaning}).")
            }
            None => "The new one ended and was started again by its restart policy.".to_owned(),
        })
    }

    /// Brings back the old container. Every step may have been done already.
    async fn roll_back(&self, lock: Lock, cause: ToolError) -> Failure {
        let mut log = None;
        let undo = async {
            // First: without the old one, the new one is all that is left.
            let old = self.inspect(&self.old).await?;
            match self.engine().try_inspect(&self.name).await {
                Ok(new) if self.is_new(&new) => {
                    log = last_lines(&self.docker, &new).await;
                    self.remove(&new.id).await?;
                }
                Ok(other) if other.id != self.old => {
                    return Err(ToolError::conflict("Another container has its name now."));
                }
                _ => {}
            }
            // Its name last: by that it is known what is left to do.
            if self.timeout.is_some() && !self.outlasts_a_stop(&old).await? {
                lifecycle::start(&self.docker, &self.name, &self.old).await?;
            }
            if old.display_name() != self.name.as_str() {
                self.rename(&self.old, self.name.as_str()).await?;
            }
            Ok(())
        };
        let rollback = undo.await.err();
        if rollback.is_some() {
            lock.set_failed();
        }
        Failure {
            cause,
            log,
            rollback,
        }
    }

    /// Whether the old container runs, and goes on after the time in which a stop that was sent would end it.
    async fn outlasts_a_stop(&self, old: &ContainerDetails) -> Result<bool, ToolError> {
        let seconds = match self.stop_was_sent.load(Ordering::Relaxed) {
            true => grace(None, old) + STOP_MARGIN_SECONDS,
            false => 0,
        };
        let until = tokio::time::Instant::now() + Duration::from_secs(seconds.into());
        let mut is_alive = old.state.is_alive();
        while is_alive && tokio::time::Instant::now() < until {
            tokio::time::sleep(POLL_INTERVAL).await;
            is_alive = self.inspect(&self.old).await?.state.is_alive();
        }
        Ok(is_alive)
    }

    fn is_new(&self, container: &ContainerDetails) -> bool {
        let label = container.config.labels.get(REPLACES);
        label.is_some_and(|label| label == self.old.as_str())
    }

    fn engine(&self) -> &Engine {
        &self.docker.engine
    }

    async fn inspect(&self, id: &ContainerName) -> Result<ContainerDetails, ToolError> {
        let details = self.engine().try_inspect(id).await;
        let action = self.action("inspect");
        self.docker.explained(details, action).await
    }

    async fn rename(&self, id: &ContainerName, name: &str) -> Result<(), ToolError> {
        let path = Path::container(id, "/rename").query("name", name);
        self.post("rename", path, None, 0).await
    }

    /// Removes a container. A removal that was begun is waited for.
    async fn remove(&self, id: &ContainerName) -> Result<(), ToolError> {
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
                    return Err(self.explain("remove", failure).await);
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
    ) -> Result<(), ToolError> {
        let done = self.docker.post(self.action(verb), path, body, seconds);
        done.await.map(drop)
    }

    async fn explain(&self, verb: &'static str, failure: EngineError) -> ToolError {
        self.docker.explain(failure, self.action(verb)).await
    }

    fn action(&self, verb: &'static str) -> Action<'_> {
        Action::on_container(verb, self.name.as_str())
    }
}

/// Whether the new container is as it should be; `has_lasted` if it has run for a while.
/// Errors when it never will be.
fn progress(
    now: &ContainerDetails,
    has_lasted: bool,
    redactor: &Redactor,
) -> Result<bool, ToolError> {
    let state = &now.state;
    let is_new = state.status == "created";
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
            Err(ToolError::conflict(text.trim_end_matches([' ', ':'])))
        }
        _ => Ok(false),
    }
}

/// After the name of an old container that has to run if it comes back.
const RAN: &str = ".up";

/// The name of the container with this id while its replacement is not known to be healthy.
fn kept_name(name: &str, id: &str, ran: bool) -> String {
    let ran = if ran { RAN } else { "" };
    format!("{name}{KEPT}{}{ran}", short_id(id))
}

/// The refusal of a container whose old one has its other name already, and whose new one is not there yet.
async fn between_names(docker: &Docker, name: &ContainerName) -> Option<ToolError> {
    let listed = docker.engine.containers(true).await.ok()?;
    let mut kept = listed.iter().filter(|other| is_kept(other));
    let old = kept.find(|other| {
        let replaced = other.display_name().rsplit_once(KEPT);
        let is_it = replaced.is_some_and(|(replaced, _)| replaced == name.as_str());
        is_it && docker.policy.permits(name, &other.labels)
    })?;
    Some(under_way(name.as_str(), old.display_name()))
}

/// Whether the old container with this name ran when its replacement began.
fn ran(name: &str) -> bool {
    name.ends_with(RAN)
}

/// Whether it is the old container of a replacement.
pub(crate) fn is_kept(container: &ContainerSummary) -> bool {
    is_kept_name(container.display_name(), &container.id)
}

/// Whether this is the name that the container with this id has while it is replaced.
fn is_kept_name(name: &str, id: &str) -> bool {
    let kept = name.rsplit_once(KEPT);
    kept.is_some_and(|(replaced, _)| name == kept_name(replaced, id, ran(name)))
}

/// Refuses a container that another call replaces: the old one, and the new one until the old one is gone.
async fn permit_begin(engine: &Engine, container: &ContainerDetails) -> Result<(), ToolError> {
    let name = container.display_name();
    if is_kept_name(name, &container.id) {
        return Err(under_way(name, name));
    }
    let label = container.config.labels.get(REPLACES);
    let old = label.and_then(|label| ContainerName::new(label).ok());
    let Some(old) = old else { return Ok(()) };
    match engine.try_inspect(&old).await {
        Ok(old) if is_kept_name(old.display_name(), &old.id) => {
            Err(under_way(name, old.display_name()))
        }
        _ => Ok(()),
    }
}

/// A file that is locked while a process of this machine replaces a container. The system unlocks it if that is killed.
/// It has a text once a call has said that the old container comes back: another process does not keep the new one then.
struct Lock {
    path: PathBuf,
    file: Option<File>,
}

impl Lock {
    /// Takes the lock of the container with this id; `None` if another process is at work.
    fn take(id: &str) -> Option<Self> {
        let path = std::env::temp_dir().join(format!("docker-mcp-server-{id}.lock"));
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = match file {
            // Of another user.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return None,
            // No place for files: the name of the old container alone tells.
            Err(_) => None,
            Ok(file) => match file.try_lock() {
                Err(TryLockError::WouldBlock) => return None,
                _ => Some(file),
            },
        };
        Some(Self { path, file })
    }

    /// Whether a call has said that the old container comes back.
    fn is_failed(&self) -> bool {
        let written = self.file.as_ref().map(File::metadata);
        matches!(written, Some(Ok(written)) if written.len() > 0)
    }

    /// Ends the lock of a replacement whose old container comes back later.
    fn set_failed(mut self) {
        let written = self.file.as_mut().map(|file| file.write_all(b"failed"));
        match written {
            Some(Ok(())) => self.leave(),
            Some(Err(error)) => tracing::warn!(%error, "cannot write {}", self.path.display()),
            None => {}
        }
    }

    /// Ends the lock, and leaves the file as it is.
    fn leave(mut self) {
        self.path.clear();
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn under_way(name: &str, kept: &str) -> ToolError {
    ToolError::conflict(format!(
        "`{name}` is being replaced by another call: until that ends, its old container has the name \
         `{kept}`. Nothing was done; look at it again with get_container."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_that_share_something_are_found() {
        let owner = ContainerDetails {
            id: ContainerName::new(&"ab12".repeat(16)).unwrap(),
            name: "/vpn".to_owned(),
            ..ContainerDetails::default()
        };
        for (host, expected) in [
            (json!({"NetworkMode": "container:vpn"}), Some("network")),
            (
                json!({"NetworkMode": format!("container:{}", owner.id)}),
                Some("network"),
            ),
            (json!({"NetworkMode": "container:vpn2"}), None),
            (json!({"NetworkMode": "vpn"}), None),
            (json!({"PidMode": "container:vpn"}), Some("processes")),
            (json!({"IpcMode": "container:ab12"}), Some("IPC")),
            (json!({"IpcMode": "container:"}), None),
            (json!({"Links": ["/vpn:/app/gate"]}), Some("a link")),
            (json!({"Links": ["/db:/app/vpn"]}), None),
        ] {
            assert_eq!(shared(&host, &owner), expected, "{host}");
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
