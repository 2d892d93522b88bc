//! The way from a name to an object that may be looked at, or changed.

use std::collections::BTreeMap;

use mcp_core::tool::{Call, ToolError};

use super::{CREATED, Subject, forbidden};
use crate::Docker;
use crate::engine::{Details, Summary, own};
use crate::name::ContainerName;

impl<'a> Subject<'a> {
    /// An inspected container.
    pub(crate) fn of(details: &'a Details) -> Self {
        Self::Container {
            name: details.display_name(),
            image: &details.config.image,
            labels: &details.config.labels,
        }
    }

    /// A listed container.
    pub(crate) fn of_summary(summary: &'a Summary) -> Self {
        let name = summary.names.first().map_or("", String::as_str);
        Self::Container {
            name: name.trim_start_matches('/'),
            image: &summary.image,
            labels: &summary.labels,
        }
    }

    fn name(&self) -> &'a str {
        match self {
            Self::Container { name, .. } | Self::Object { name, .. } | Self::Image(name) => name,
        }
    }
}

impl Docker {
    /// The details of a container that may be looked at.
    ///
    /// # Errors
    /// When there is none, or the policy hides it.
    pub(crate) async fn look_at(&self, container: &ContainerName) -> Result<Details, ToolError> {
        let details = self.engine.inspect(container).await?;
        self.permit(&Subject::of(&details))?;
        Ok(details)
    }

    /// The running containers that may be looked at, or `all`.
    pub(crate) async fn list(&self, all: bool) -> Result<Vec<Summary>, ToolError> {
        let mut listed = self.engine.list(all).await?;
        listed.retain(|container| self.policy.permits(&Subject::of_summary(container)));
        Ok(listed)
    }

    /// The details of a container that may be changed.
    ///
    /// # Errors
    /// When there is none, the policy protects it, or this server runs in it.
    pub(crate) async fn take(&self, container: &ContainerName) -> Result<Details, ToolError> {
        let details = self.look_at(container).await?;
        if own::is_own(&details.id) {
            return Err(forbidden(format!(
                "`{}` is the container that this server runs in; change it from outside.",
                details.display_name()
            )));
        }
        self.created_here(details.display_name(), &details.config.labels)?;
        Ok(details)
    }

    /// Refuses what the rules put out of bounds.
    pub(crate) fn permit(&self, subject: &Subject<'_>) -> Result<(), ToolError> {
        if self.policy.permits(subject) {
            return Ok(());
        }
        Err(forbidden(format!(
            "`{}` is out of bounds for this server: its rules (--allow, --deny) exclude it.",
            subject.name()
        )))
    }

    /// Refuses to change what somebody else created, where the policy says so.
    pub(crate) fn created_here(
        &self,
        name: &str,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), ToolError> {
        if !self.policy.only_created || labels.contains_key(CREATED) {
            return Ok(());
        }
        Err(forbidden(format!(
            "`{name}` was not created by this server, which was told to change only what it \
             created (--only-created)."
        )))
    }

    /// Lets what may lose data go on only if the policy and the user agree. `loss` is a sentence
    /// that says what will be lost; `confirm` is the tool's argument, which has to be `target`.
    pub(crate) async fn confirm(
        &self,
        call: &Call,
        loss: &str,
        target: &str,
        confirm: Option<&str>,
    ) -> Result<(), ToolError> {
        self.policy.destructive()?;
        call.confirm(loss, target, confirm).await
    }
}
