//! The replacement of a container, which ends as a whole: with the new container, or with the old one.
//!
//! The old one first gets another name, `NAME.before-ID`, which marks it. If this server is killed in
//! between, the next start of one finds the mark and finishes what was begun, after the time in which the
//! first server would have: it may be another one, which is still at work.

use bollard::models::{ContainerCreateBody, NetworkConnectRequest};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, RemoveContainerOptionsBuilder, RenameContainerOptionsBuilder,
    StopContainerOptionsBuilder,
};

use super::super::prelude::*;
use super::super::start_container::configuration_error;
use super::request::Request;
use crate::engine::{ContainerSummary, Engine, EngineError, LogQuery, Path};
use crate::policy::CREATED;
use crate::{exit_code, log};
use upstream::time::Timestamp;

/// The label of the new container: the id of the old one, the timeout in seconds, if that ran, and the Unix
/// time when the replacement is over.
const REPLACES: &str = "docker-mcp-server.replaces";
/// Before the id in the name of the old container.
const MARK: &str = ".before-";
/// The time for which a container without health check has to run.
const MIN_UPTIME: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The time for the steps of a replacement other than stopping and waiting.
const STEPS_TIMEOUT: Duration = Duration::from_secs(10);
/// The delay between two attempts to reach an engine that is down.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Lines and bytes of the log of a new container that failed, and the timeout for reading them.
const MAX_LOG_LINES: u32 = 10;
const MAX_LOG_BYTES: usize = 2_000;
const LOG_TIMEOUT: Duration = Duration::from_secs(2);

/// A replacement that is under way.
pub(super) struct Replacement {
    pub(super) engine: Engine,
    /// The id of the old container.
    pub(super) old: ContainerName,
    /// Its name, which the new one gets.
    pub(super) name: ContainerName,
    /// For the new one to get healthy; `None` if the old one did not run, so the new one is not started.
    pub(super) timeout: Option<Duration>,
}

/// The reason why the old container is there again, or is not.
pub(super) struct Failure {
    cause: ToolError,
    /// The end of the log of the new container.
    log: String,
    /// The error of the way back.
    rollback: Option<ToolError>,
}

impl Failure {
    pub(super) fn explain(self, name: &str, redactor: &Redactor) -> ToolError {
        let cause = redactor.text(self.cause.message());
        let mut text = match &self.rollback {
            None => format!("`{name}` was not replaced; the old container is as it was. {cause}"),
            Some(error) => format!(
                "`{name}` was not replaced, and bringing back the old container failed, too: {} It \
                 has the name `{name}{MARK}…`. The first error: {cause}",
                error.message()
            ),
        };
        if !self.log.is_empty() {
            text = format!(
                "{text} The new container wrote:\n{}",
                redactor.text(&self.log)
            );
        }
        ToolError::new(self.cause.kind(), text)
    }
}

impl Replacement {
    /// Replaces the container. Returns the new one, and a remark.
    pub(super) async fn run(
        self,
        request: Request,
        grace: u32,
    ) -> Result<(ContainerDetails, Option<String>), Failure> {
        let parked = format!("{}{MARK}{}", self.name, short_id(self.old.as_str()));
        if let Err(cause) = self.rename(&self.old, &parked).await {
            return Err(self.roll_back(cause).await);
        }
        if let Err(cause) = self.start(request, grace).await {
            return Err(self.roll_back(cause).await);
        }
        self.settle().await
    }

    /// Waits for the new container and removes one of the two.
    async fn settle(&self) -> Result<(ContainerDetails, Option<String>), Failure> {
        let after = match self.watch().await {
            Ok(after) => after,
            Err(cause) => return Err(self.roll_back(cause).await),
        };
        let removed = self.remove(&self.old).await;
        let note = removed.err().map(|error| {
            let error = error.message();
            format!("The old container could not be removed: {error}")
        });
        Ok((after, note))
    }

    async fn start(&self, request: Request, grace: u32) -> Result<(), ToolError> {
        let Request { mut body, networks } = request;
        let seconds = self.timeout.map_or(0, |timeout| timeout.as_secs());
        let longest = Duration::from_secs(seconds + 2 * u64::from(grace)) + STEPS_TIMEOUT;
        let until = unix_now() + longest.as_secs();
        let marks = [
            (CREATED, "true".to_owned()),
            (REPLACES, format!("{} {seconds} {until}", self.old)),
        ];
        let labels = body.labels.get_or_insert_default();
        labels.extend(marks.map(|(name, value)| (name.to_owned(), value)));
        self.create(body).await?;
        for (network, endpoint) in networks {
            let request = NetworkConnectRequest {
                container: self.name.to_string(),
                endpoint_config: Some(endpoint),
            };
            let connect = |engine: bollard::Docker| async move {
                engine.connect_network(&network, request).await
            };
            self.step("connect", Duration::ZERO, connect).await?;
        }
        if self.timeout.is_none() {
            return Ok(());
        }
        let old = self.old.clone();
        let options = StopContainerOptionsBuilder::new().t(grace.cast_signed());
        let duration = Duration::from_secs(grace.into());
        let stop = |engine: bollard::Docker| async move {
            engine
                .stop_container(old.as_str(), Some(options.build()))
                .await
        };
        self.step("stop", duration, stop).await?;
        self.start_again(&self.name).await
    }

    async fn create(&self, body: ContainerCreateBody) -> Result<(), ToolError> {
        let options = CreateContainerOptionsBuilder::new().name(self.name.as_str());
        let create = |engine: bollard::Docker| async move {
            engine.create_container(Some(options.build()), body).await
        };
        self.step("create", Duration::ZERO, create).await.map(drop)
    }

    /// Polls the new container until it is healthy, or without health check has run for a while.
    async fn watch(&self) -> Result<ContainerDetails, ToolError> {
        let began = tokio::time::Instant::now();
        let mut first_start: Option<String> = None;
        loop {
            let now = self.engine.inspect(&self.name).await?;
            let Some(timeout) = self.timeout else {
                return Ok(now);
            };
            let state = &now.state;
            // Another server may be about to start it. Podman has an empty health without a check.
            let is_new = state.status == "created";
            let started = first_start.get_or_insert_with(|| state.started_at.clone());
            if !is_new && (!state.runs() || *started != state.started_at) {
                let meaning = exit_code::meaning(state.exit_code, state.oom_killed);
                return Err(conflict(format!(
                    "The new one ended with exit code {} ({meaning}).",
                    state.exit_code
                )));
            }
            if is_new {
                first_start = None;
            }
            let health = state.health.as_ref().map(|health| &*health.status);
            match health.filter(|health| !matches!(*health, "" | "none")) {
                Some("healthy") => return Ok(now),
                Some("unhealthy") => {
                    let probe = state
                        .health
                        .iter()
                        .flat_map(|health| &health.log)
                        .next_back();
                    let output = probe.map_or("", |probe| probe.output.trim());
                    let output = truncate(output, 300);
                    let text = format!("The health check of the new one failed: {output}");
                    return Err(conflict(text.trim_end_matches([' ', ':'])));
                }
                Some(_) => {}
                None if !is_new && began.elapsed() >= MIN_UPTIME.min(timeout) => return Ok(now),
                None => {}
            }
            if began.elapsed() >= timeout {
                let seconds = timeout.as_secs();
                return Err(conflict(format!(
                    "The new one was not healthy after {seconds} s."
                )));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Brings back the old container. Every step may have been done already.
    async fn roll_back(&self, cause: ToolError) -> Failure {
        let mut failure = Failure {
            cause,
            log: String::new(),
            rollback: None,
        };
        let undo = async {
            // First: without the old one, the new one is all that is left.
            let old = self.engine.inspect(&self.old).await?;
            if let Ok(new) = self.engine.try_inspect(&self.name).await
                && new.id != self.old.as_str()
                && self.is_new(&new)
            {
                failure.log = self.last_lines(&new).await;
                self.remove(&new.container_id()?).await?;
            }
            if old.display_name() != self.name.as_str() {
                self.rename(&self.old, self.name.as_str()).await?;
            }
            if self.timeout.is_some() && !old.state.is_alive() {
                self.start_again(&self.old).await?;
            }
            Ok(())
        };
        failure.rollback = undo.await.err();
        failure
    }

    fn is_new(&self, container: &ContainerDetails) -> bool {
        let label = container.config.labels.get(REPLACES);
        label.is_some_and(|label| label.starts_with(self.old.as_str()))
    }

    async fn last_lines(&self, container: &ContainerDetails) -> String {
        let Ok(id) = container.container_id() else {
            return String::new();
        };
        let (query, tty) = (LogQuery::newest(MAX_LOG_LINES), container.config.tty);
        let bytes = MAX_LOG_BYTES;
        let read = log::read(&self.engine, &id, query, tty, bytes, LOG_TIMEOUT, None);
        read.await.map(|log| log.text).unwrap_or_default()
    }

    async fn rename(&self, id: &ContainerName, name: &str) -> Result<(), ToolError> {
        let (id, options) = (id.clone(), RenameContainerOptionsBuilder::new().name(name));
        let rename = |engine: bollard::Docker| async move {
            engine.rename_container(id.as_str(), options.build()).await
        };
        self.step("rename", Duration::ZERO, rename).await
    }

    async fn start_again(&self, id: &ContainerName) -> Result<(), ToolError> {
        let own = id.clone();
        let start = |engine: bollard::Docker| async move {
            engine.start_container(own.as_str(), None).await
        };
        let Err(failure) = self.engine.try_change(Duration::ZERO, start).await else {
            return Ok(());
        };
        if let Some(error) = configuration_error(&self.name, &failure) {
            return Err(error);
        }
        Err(self.explain("start", failure).await)
    }

    async fn remove(&self, id: &ContainerName) -> Result<(), ToolError> {
        let id = id.clone();
        let options = RemoveContainerOptionsBuilder::new().force(true);
        let remove = |engine: bollard::Docker| async move {
            engine
                .remove_container(id.as_str(), Some(options.build()))
                .await
        };
        match self.engine.try_change(Duration::ZERO, remove).await {
            Err(failure) if !failure.is_no_such_container() => {
                Err(self.explain("remove", failure).await)
            }
            _ => Ok(()),
        }
    }

    async fn step<T, C>(
        &self,
        verb: &'static str,
        duration: Duration,
        call: impl FnOnce(bollard::Docker) -> C,
    ) -> Result<T, ToolError>
    where
        T: Send + 'static,
        C: Future<Output = Result<T, bollard::errors::Error>> + Send + 'static,
    {
        match self.engine.try_change(duration, call).await {
            Ok(done) => Ok(done),
            Err(failure) => Err(self.explain(verb, failure).await),
        }
    }

    async fn explain(&self, verb: &'static str, failure: EngineError) -> ToolError {
        let action = Action::new(verb, ObjectKind::Container, self.name.as_str());
        self.engine.explain_action(failure, action).await
    }
}

/// Finishes replacements that a server which was killed has begun, once the engine is up.
pub(crate) async fn recover(engine: Engine) {
    let containers = loop {
        let path = Path::to("/containers/json").query("filters", r#"{"name":[".before-"]}"#);
        match engine
            .get::<Vec<ContainerSummary>>(path.query("all", true))
            .await
        {
            Ok(containers) => break containers,
            Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
        }
    };
    for container in containers {
        let Some((name, mark)) = container.display_name().rsplit_once(MARK) else {
            continue;
        };
        let names = (ContainerName::new(name), ContainerName::new(&container.id));
        let (Ok(name), Ok(old)) = names else { continue };
        if mark != short_id(old.as_str()) {
            continue;
        }
        let Some((_, until)) = progress(&engine, &name, &old).await else {
            continue;
        };
        tokio::time::sleep(Duration::from_secs(until.saturating_sub(unix_now()))).await;
        let is_left = engine.try_inspect(&old).await;
        let is_left = is_left.is_ok_and(|old| old.display_name() == container.display_name());
        let Some((seconds, _)) = progress(&engine, &name, &old).await.filter(|_| is_left) else {
            continue;
        };
        let replacement = Replacement {
            engine: engine.clone(),
            timeout: (seconds > 0).then(|| Duration::from_secs(seconds)),
            name,
            old,
        };
        let name = replacement.name.clone();
        match replacement.settle().await {
            Ok(_) => tracing::info!("a replacement of {name} that had broken off is complete"),
            Err(Failure {
                cause, rollback, ..
            }) => {
                let rollback = rollback.map(|error| error.message().to_owned());
                let cause = Redactor::new(true).text(cause.message());
                tracing::warn!("{name} was not replaced: {cause}; {rollback:?}");
            }
        }
    }
}

/// The timeout of a replacement in seconds, and the Unix time when it is over; `None` if another container
/// has the name.
async fn progress(
    engine: &Engine,
    name: &ContainerName,
    old: &ContainerName,
) -> Option<(u64, u64)> {
    let Ok(new) = engine.try_inspect(name).await else {
        // It was not created yet, so the old one was not stopped yet.
        return Some((0, unix_now() + STEPS_TIMEOUT.as_secs()));
    };
    let mut words = new.config.labels.get(REPLACES)?.split(' ');
    let is_ours = words.next() == Some(old.as_str());
    let mut number = || words.next()?.parse().ok();
    is_ours.then_some((number().unwrap_or(0), number().unwrap_or(0)))
}

fn unix_now() -> u64 {
    u64::try_from(Timestamp::now().as_second()).unwrap_or(0)
}
