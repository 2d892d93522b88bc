//! Confirmations: an answer of the user counts for the objects that the question was about. The user may take minutes,
//! and others may get their names meanwhile.

use mcp_core::tool::{Call, ToolError};
use serde_json::Value;

use super::Docker;
use crate::engine::{ContainerName, ImageName, ObjectKind, ObjectName, Path};
use crate::json::text;

/// An object that a call loses: its path, and what no other object at this path has.
#[derive(Clone)]
pub(crate) struct Object {
    pub(crate) kind: ObjectKind,
    /// The path at which the engine removes it.
    pub(crate) path: Path,
    pub(crate) identity: String,
}

impl Object {
    pub(crate) fn container(id: &ContainerName) -> Self {
        Self::new(ObjectKind::Container, Path::container(id, ""), id)
    }

    pub(crate) fn image(name: &ImageName, id: &str) -> Self {
        Self::new(ObjectKind::Image, Path::to("/images").id(name), id)
    }

    pub(crate) fn network(id: &ObjectName) -> Self {
        Self::new(ObjectKind::Network, Path::to("/networks").id(id), id)
    }

    /// A volume, which has no id; the time at which it was created tells it from a later one of its name.
    pub(crate) fn volume(name: &ObjectName, created_at: &str) -> Self {
        Self::new(
            ObjectKind::Volume,
            Path::to("/volumes").id(name),
            created_at,
        )
    }

    fn new(kind: ObjectKind, path: Path, identity: &str) -> Self {
        Self {
            kind,
            path,
            identity: identity.to_owned(),
        }
    }
}

impl Docker {
    /// Permits a call that may lose data only if the policy and the user agree. `loss` is a sentence that says what will
    /// be lost; `confirm` is the tool's argument. The answer counts for this loss of these `objects` only: its value is
    /// the `target` with a checksum of both.
    pub(crate) async fn confirm(
        &self,
        call: &Call,
        loss: &str,
        target: &str,
        objects: &[Object],
        confirm: &Option<String>,
    ) -> Result<(), ToolError> {
        self.confirm_all(call, loss, target, (objects, &[]), confirm)
            .await
    }

    /// As [`Docker::confirm`], for a loss of several objects, which `what` names together, or of what is in one: the
    /// answer counts for these `facts`, too, such as what the call would put in its place.
    pub(crate) async fn confirm_all(
        &self,
        call: &Call,
        loss: &str,
        what: &str,
        (objects, facts): (&[Object], &[&str]),
        confirm: &Option<String>,
    ) -> Result<(), ToolError> {
        self.policy.permit_destructive()?;
        let identities = objects.iter().map(|one| &*one.identity);
        let facts: Vec<&str> = identities.chain(facts.iter().copied()).collect();
        call.confirm_facts(loss, what, &facts, confirm.as_deref())
            .await?;
        self.permit_same(what, objects).await
    }

    /// Permits a call that gives `name` to another image only if the image that has it now may lose it:
    /// `new_id` is the image that gets it, if it is known; otherwise `made_of` tells of which text it will be made.
    pub(crate) async fn confirm_name(
        &self,
        call: &Call,
        name: &ImageName,
        new_id: Option<&str>,
        made_of: &str,
        confirm: &Option<String>,
    ) -> Result<(), ToolError> {
        let Some(old) = self.try_image(name).await? else {
            return Ok(());
        };
        // The next build of what this server has built loses nothing that it would not make again.
        let is_rebuild = new_id.is_none() && old.is_built();
        if is_rebuild || new_id == Some(&old.id) {
            return Ok(());
        }
        let policy = &self.policy;
        policy.permit_change(name.as_str(), old.is_built())?;
        let rest = match old.repo_tags.len() {
            0 | 1 => "which then has none and is removed by the next prune",
            _ => "which keeps its other names",
        };
        let id = old.id.trim_start_matches("sha256:").get(..12);
        let id = id.unwrap_or_default();
        let loss = format!("Takes the name `{name}` from the image {id}, {rest}.");
        let about = (
            &[Object::image(name, &old.id)][..],
            &[new_id.unwrap_or_default(), made_of][..],
        );
        self.confirm_all(call, &loss, name.as_str(), about, confirm)
            .await
    }

    /// Errors when one of the objects is not there any more, or another one is at its path.
    async fn permit_same(&self, target: &str, objects: &[Object]) -> Result<(), ToolError> {
        for object in objects {
            if !self.is_same(object).await? {
                let kind = object.kind.word();
                return Err(ToolError::conflict(format!(
                    "`{target}`: the {kind} was removed or replaced meanwhile. Nothing was done: call again."
                )));
            }
        }
        Ok(())
    }

    /// Whether the object is still at its path.
    pub(crate) async fn is_same(&self, object: &Object) -> Result<bool, ToolError> {
        let (details, identity) = match object.kind {
            ObjectKind::Container | ObjectKind::Image => ("/json", "Id"),
            ObjectKind::Network => ("", "Id"),
            ObjectKind::Volume => ("", "CreatedAt"),
        };
        let now: Option<Value> = self.existing(object.path.clone().then(details)).await?;
        Ok(now.is_some_and(|now| text(&now[identity]) == object.identity))
    }
}
