//! The engine, as far as the policy lets a caller see and change it.
//!
//! Every object is fetched here: by `container`, `image` … to read it, by `mutable_…` to change it. Both apply
//! the rules to the object as it is. What a call adds, such as a new name, the tool checks itself.

mod new_container;
mod objects;
mod past_events;

use mcp_core::server::ChangeNotifier;
use mcp_core::tool::{Call, ToolError};
use upstream::redact::Redactor;

use crate::engine::{Action, ContainerDetails, ContainerSummary, Engine, Target, self_container};
use crate::history::History;
use crate::name::ContainerName;
use crate::options::DockerOptions;
use crate::policy::{Policy, Subject, forbidden};

type Result<T, E = ToolError> = std::result::Result<T, E>;

/// The service of the tools: an engine, and the policy that says what may be shown and changed.
pub struct Docker {
    pub(crate) engine: Engine,
    pub(crate) policy: Policy,
    pub(crate) changes: ChangeNotifier,
    pub(crate) history: History,
    redact: bool,
}

impl Docker {
    /// The engine and the policy that the options name.
    /// Errors when an option could never work.
    pub(crate) fn new(options: &DockerOptions) -> anyhow::Result<Self> {
        let target = Target::from_options(options)?;
        Ok(Self {
            engine: Engine::new(target, options.timeout())?,
            policy: Policy::new(options.policy())?,
            changes: ChangeNotifier::new(),
            history: History::default(),
            redact: !options.show_secrets,
        })
    }

    /// A redactor for the texts of one answer.
    pub(crate) fn redactor(&self) -> Redactor {
        Redactor::new(self.redact)
    }

    /// The visible running containers, or `all`, in the engine's order.
    pub(crate) async fn containers(&self, all: bool) -> Result<Vec<ContainerSummary>> {
        self.visible(self.engine.containers(all).await?).await
    }

    /// The visible ones of the newest containers, stopped ones included.
    pub(crate) async fn newest_containers(&self, most: usize) -> Result<Vec<ContainerSummary>> {
        self.visible(self.engine.newest_containers(most).await?)
            .await
    }

    async fn visible(&self, mut listed: Vec<ContainerSummary>) -> Result<Vec<ContainerSummary>> {
        let images = self.image_names().await?;
        listed.retain(|container| {
            let names = images.get(&container.image_id).into_iter().flatten();
            let subject = Subject::from(container).with_images(names.map(String::as_str));
            self.policy.permits(&subject)
        });
        Ok(listed)
    }

    /// The details of a visible container.
    /// Errors when it does not exist, or the policy hides it.
    pub(crate) async fn container(&self, name: &ContainerName) -> Result<ContainerDetails> {
        let details = self.engine.inspect(name).await?;
        let images = self.image_names().await?;
        let names = images.get(&details.image).into_iter().flatten();
        let subject = Subject::from(&details).with_images(names.map(String::as_str));
        self.policy.permit(&subject)?;
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

    /// Makes a change by a typed call, and completes it even if the caller cancels.
    /// Errors describe `action`.
    pub(crate) async fn change<T, C>(
        &self,
        action: Action<'_>,
        call: impl FnOnce(bollard::Docker) -> C,
    ) -> Result<T>
    where
        T: Send + 'static,
        C: Future<Output = Result<T, bollard::errors::Error>> + Send + 'static,
    {
        match self.engine.try_change(action.duration, call).await {
            Ok(done) => Ok(done),
            Err(failure) => Err(self.engine.explain_action(failure, action).await),
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

impl<'a> From<&'a ContainerDetails> for Subject<'a> {
    fn from(details: &'a ContainerDetails) -> Self {
        let config = &details.config;
        Self::container(details.display_name(), &config.image, &config.labels)
    }
}

impl<'a> From<&'a ContainerSummary> for Subject<'a> {
    fn from(summary: &'a ContainerSummary) -> Self {
        Self::container(summary.display_name(), &summary.image, &summary.labels)
    }
}
