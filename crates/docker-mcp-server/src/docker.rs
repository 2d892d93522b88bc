//! The engine, as far as the policy lets a caller see and change it.
//!
//! Every object is fetched here: by `container`, `image` … to read it, by `mutable_…` to change it. Both apply
//! the rules to the object as it is. What a call adds, such as a new name, the tool checks itself.

mod action;
mod new_container;
mod not_found;
mod objects;
mod past_events;
mod subnet;

pub(crate) use action::Action;
pub(crate) use new_container::permit_start;
pub(crate) use not_found::explain;
pub(crate) use objects::HIDDEN;

use std::sync::Arc;
use std::time::Duration;

use mcp_core::server::ChangeNotifier;
use mcp_core::tool::{Call, ToolError};
use serde_json::Value;
use tokio::sync::Notify;
use upstream::redact::Redactor;

use crate::engine::command::RunningGroups;
use crate::engine::registry::Registries;
use crate::engine::{
    Address, ContainerDetails, ContainerName, ContainerSummary, Engine, EngineError, History,
    ImageName, ObjectKind, Path, self_container,
};
use crate::options::DockerOptions;
use crate::policy::{CREATED, Policy, Subject, forbidden};

type Result<T, E = ToolError> = std::result::Result<T, E>;

/// The service of the tools: an engine, and the policy that says what may be shown and changed.
#[derive(Clone)]
pub(crate) struct Docker {
    pub(crate) engine: Engine,
    pub(crate) policy: Arc<Policy>,
    pub(crate) registries: Registries,
    pub(crate) changes: ChangeNotifier,
    pub(crate) history: Arc<History>,
    pub(crate) programs: RunningGroups,
    /// Told when a replacement of a container may have broken off.
    pub(crate) broken_off: Arc<Notify>,
    /// Hide what looks like a secret.
    pub(crate) redact: bool,
}

impl Docker {
    /// The engine and the policy that the options name.
    /// Errors when an option could never work.
    pub(crate) fn new(options: &DockerOptions) -> anyhow::Result<Self> {
        let address = Address::find(&options.address())?;
        Ok(Self {
            engine: Engine::new(address, options.timeout())?,
            policy: Arc::new(Policy::new(options.policy())?),
            registries: Registries::new(options.config_dir()),
            changes: ChangeNotifier::new(),
            history: Arc::default(),
            programs: RunningGroups::default(),
            broken_off: Arc::default(),
            redact: !options.show_secrets,
        })
    }

    /// Permits a call that gives `name` to another image only if the image that has it now may lose it:
    /// `new_id` is the image that gets it, if it is known.
    pub(crate) async fn confirm_name(
        &self,
        call: &Call,
        name: &ImageName,
        new_id: Option<&str>,
        confirm: &Option<String>,
    ) -> Result<()> {
        let Some(old) = self.try_image(name).await? else {
            return Ok(());
        };
        let labels = &old.config.labels;
        // The next build of what this server has built loses nothing that it would not make again.
        let is_rebuild = new_id.is_none() && labels.contains_key(CREATED);
        if is_rebuild || new_id == Some(&old.id) {
            return Ok(());
        }
        self.policy.permit_change(name.as_str(), labels)?;
        let rest = match old.repo_tags.len() {
            0 | 1 => "which then has none and is removed by the next prune",
            _ => "which keeps its other names",
        };
        let id = old.id.trim_start_matches("sha256:").get(..12);
        let id = id.unwrap_or_default();
        let loss = format!("Takes the name `{name}` from the image {id}, {rest}.");
        self.confirm(call, &loss, name.as_str(), confirm).await
    }

    /// A redactor for the texts of one answer.
    pub(crate) fn redactor(&self) -> Redactor {
        Redactor::new(self.redact)
    }

    /// A redactor for what a container says: also hides the secrets of its environment, wherever they
    /// appear.
    pub(crate) fn redactor_of(&self, container: &ContainerDetails) -> Redactor {
        redactor_of(self.redact, container)
    }

    /// The visible running containers, or `all`, in the engine's order.
    pub(crate) async fn containers(&self, all: bool) -> Result<Vec<ContainerSummary>> {
        Ok(self.visible(self.engine.containers(all).await?))
    }

    /// The visible ones of the newest containers, stopped ones included.
    pub(crate) async fn newest_containers(&self, most: usize) -> Result<Vec<ContainerSummary>> {
        Ok(self.visible(self.engine.newest_containers(most).await?))
    }

    fn visible(&self, mut listed: Vec<ContainerSummary>) -> Vec<ContainerSummary> {
        listed.retain(|container| self.policy.permits(&Subject::from(container)));
        listed
    }

    /// The details of a visible container.
    /// Errors when it does not exist, or the policy hides it.
    pub(crate) async fn container(&self, name: &ContainerName) -> Result<ContainerDetails> {
        let details = match self.engine.try_inspect(name).await {
            Ok(details) => details,
            Err(failure) => {
                let object = (ObjectKind::Container, name.as_str());
                return Err(self.explain_about(failure, object, None).await);
            }
        };
        let subject = Subject::from(&details);
        self.policy.permit_as(name.as_str(), &subject)?;
        Ok(details)
    }

    /// The details of a container that was visible a moment ago; `None` if it is gone.
    pub(crate) async fn container_now(
        &self,
        id: &ContainerName,
    ) -> Result<Option<ContainerDetails>> {
        match self.engine.try_inspect(id).await {
            Ok(details) => Ok(Some(details)),
            Err(failure) if failure.is_no_such_container() => Ok(None),
            Err(failure) => Err(self.engine.explain(failure)),
        }
    }

    /// The details of a container that may be changed.
    /// Errors when it does not exist, the policy protects it, or this server runs in it.
    pub(crate) async fn mutable_container(&self, name: &ContainerName) -> Result<ContainerDetails> {
        let details = self.container(name).await?;
        let name = details.display_name();
        if self_container::is_self(&details.id) {
            return Err(forbidden(format!(
                "`{name}` is the container that this server runs in; change it from outside."
            )));
        }
        self.policy.permit_change(name, &details.config.labels)?;
        self.permit_volumes_of(&details, self.policy.is_only_created())
            .await?;
        Ok(details)
    }

    /// Whether a listed container may be changed.
    pub(crate) fn may_change(&self, container: &ContainerSummary) -> bool {
        self.policy.may_change(&container.labels) && !self_container::is_self(&container.id)
    }

    /// Makes a change by a request without content.
    /// Errors describe `action`.
    pub(crate) async fn post(&self, action: Action<'_>, path: Path) -> Result<Value> {
        self.post_slow(action, path, 0).await
    }

    /// As [`Docker::post`], for a change that itself takes up to some `seconds`.
    pub(crate) async fn post_slow(
        &self,
        action: Action<'_>,
        path: Path,
        seconds: u32,
    ) -> Result<Value> {
        let duration = Duration::from_secs(seconds.into());
        let done = self.engine.try_post(path, None, duration).await;
        self.explained(done, action).await
    }

    /// As [`Docker::post`], with content.
    pub(crate) async fn post_json(
        &self,
        action: Action<'_>,
        path: Path,
        body: &Value,
    ) -> Result<Value> {
        let done = self.engine.try_post(path, Some(body), Duration::ZERO);
        self.explained(done.await, action).await
    }

    /// Removes what is at `path`.
    /// Errors describe `action`.
    pub(crate) async fn delete(&self, action: Action<'_>, path: Path) -> Result<()> {
        let done = self.engine.try_delete(path).await;
        self.explained(done, action).await
    }

    async fn explained<T>(&self, done: Result<T, EngineError>, action: Action<'_>) -> Result<T> {
        match done {
            Ok(done) => Ok(done),
            Err(failure) => Err(self.explain_action(failure, action).await),
        }
    }

    /// Permits a call that may lose data only if the policy and the user agree. `loss` is a sentence
    /// that says what will be lost; `confirm` is the tool's argument, which must equal `target`.
    pub(crate) async fn confirm(
        &self,
        call: &Call,
        loss: &str,
        target: &str,
        confirm: &Option<String>,
    ) -> Result<()> {
        self.policy.permit_destructive()?;
        call.confirm(loss, target, confirm.as_deref()).await
    }
}

/// As [`Docker::redactor_of`].
pub(crate) fn redactor_of(redact: bool, container: &ContainerDetails) -> Redactor {
    let env = container.config.env.iter();
    let env = env.filter_map(|assignment| assignment.split_once('='));
    // A simple word, such as `postgres`, also has other meanings.
    let is_word = |value: &str| value.bytes().all(|byte| byte.is_ascii_lowercase());
    let env = env.filter(|(_, value)| value.len() >= if is_word(value) { 12 } else { 6 });
    Redactor::new(redact).with_secrets(env)
}

impl<'a> From<&'a ContainerDetails> for Subject<'a> {
    fn from(details: &'a ContainerDetails) -> Self {
        Self::new(details.display_name(), &details.config.labels)
    }
}

impl<'a> From<&'a ContainerSummary> for Subject<'a> {
    fn from(summary: &'a ContainerSummary) -> Self {
        Self::new(summary.display_name(), &summary.labels)
    }
}
