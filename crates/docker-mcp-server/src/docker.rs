//! The engine, as far as the policy lets it be seen and changed.
//!
//! Every object is fetched here: by `container`, `image` … to look at it, by `mutable_…` to change it. The
//! rules are asked nowhere else.

mod objects;

use mcp_core::server::ChangeNotifier;
use mcp_core::tool::{Call, ToolError};
use upstream::redact::Redactor;

use crate::engine::{Action, Details, Engine, Summary, Target, self_container};
use crate::name::ContainerName;
use crate::options::DockerOptions;
use crate::policy::{Policy, Subject, forbidden};

/// The service of the tools: an engine, and the policy that says what of it may be shown and changed.
pub struct Docker {
    pub(crate) engine: Engine,
    pub(crate) policy: Policy,
    pub(crate) changes: ChangeNotifier,
    redact: bool,
}

impl Docker {
    /// The engine and the policy that the options name.
    /// Errors when an option is none that could ever work.
    pub(crate) fn new(options: &DockerOptions) -> anyhow::Result<Self> {
        let target = Target::from_options(options)?;
        Ok(Self {
            engine: Engine::new(target, options.timeout())?,
            policy: Policy::new(options.policy())?,
            changes: ChangeNotifier::new(),
            redact: !options.show_secrets,
        })
    }

    /// For the texts of one answer.
    pub(crate) fn redactor(&self) -> Redactor {
        Redactor::new(self.redact)
    }

    /// The running containers that may be looked at, or `all`, in the engine's order.
    pub(crate) async fn containers(&self, all: bool) -> Result<Vec<Summary>, ToolError> {
        let mut listed = self.engine.containers(all).await?;
        listed.retain(|container| self.policy.permits(&Subject::from(container)));
        Ok(listed)
    }

    /// Returns the visible ones of the newest containers, stopped ones included.
    pub(crate) async fn newest_containers(&self, most: usize) -> Result<Vec<Summary>, ToolError> {
        let mut listed = self.engine.newest_containers(most).await?;
        listed.retain(|container| self.policy.permits(&Subject::from(container)));
        Ok(listed)
    }

    /// The details of a container that may be looked at.
    /// Errors when there is none, or the policy hides it.
    pub(crate) async fn container(&self, name: &ContainerName) -> Result<Details, ToolError> {
        let details = self.engine.inspect(name).await?;
        self.policy.permit(&Subject::from(&details))?;
        Ok(details)
    }

    /// The details of a container that could be looked at a moment ago; `None` where it is gone.
    pub(crate) async fn container_now(
        &self,
        id: &ContainerName,
    ) -> Result<Option<Details>, ToolError> {
        match self.engine.try_inspect(id).await {
            Ok(details) => Ok(Some(details)),
            Err(failure) if failure.is_no_such_container() => Ok(None),
            Err(failure) => Err(self.engine.explain(failure)),
        }
    }

    /// The details of a container that may be changed.
    /// Errors when there is none, the policy protects it, or this server runs in it.
    pub(crate) async fn mutable_container(
        &self,
        name: &ContainerName,
    ) -> Result<Details, ToolError> {
        let details = self.container(name).await?;
        let name = details.display_name();
        if self_container::is_self(&details.id) {
            return Err(forbidden(format!(
                "`{name}` is the container that this server runs in; change it from outside."
            )));
        }
        self.policy.permit_change(name, &details.config.labels)?;
        Ok(details)
    }

    /// Whether a listed container may be changed.
    pub(crate) fn may_change(&self, container: &Summary) -> bool {
        self.policy.may_change(&container.labels) && !self_container::is_self(&container.id)
    }

    /// Makes a change by a typed call, and brings it to its end also when the caller gives up.
    /// Errors in words about `action`.
    pub(crate) async fn change<T, C>(
        &self,
        action: Action<'_>,
        call: impl FnOnce(bollard::Docker) -> C,
    ) -> Result<T, ToolError>
    where
        T: Send + 'static,
        C: Future<Output = Result<T, bollard::errors::Error>> + Send + 'static,
    {
        match self.engine.try_change(action.duration, call).await {
            Ok(done) => Ok(done),
            Err(failure) => Err(self.engine.explain_action(failure, action).await),
        }
    }

    /// Lets what may lose data go on only if the policy and the user agree. `loss` is a sentence
    /// that says what will be lost; `confirm` is the tool's argument, which has to be `target`.
    pub(crate) async fn confirm(
        &self,
        call: &Call,
        loss: &str,
        target: &str,
        confirm: &Option<String>,
    ) -> Result<(), ToolError> {
        self.policy.destructive()?;
        call.confirm(loss, target, confirm.as_deref()).await
    }
}

impl<'a> From<&'a Details> for Subject<'a> {
    fn from(details: &'a Details) -> Self {
        Self::Container {
            name: details.display_name(),
            image: &details.config.image,
            labels: &details.config.labels,
        }
    }
}

impl<'a> From<&'a Summary> for Subject<'a> {
    fn from(summary: &'a Summary) -> Self {
        Self::Container {
            name: summary.display_name(),
            image: &summary.image,
            labels: &summary.labels,
        }
    }
}
