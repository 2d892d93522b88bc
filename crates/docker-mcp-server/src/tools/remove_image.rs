//! `remove_image`.

use super::prelude::*;

/// Remove an image, or one of its names if it has several.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveImage {
    /// Name or id.
    image: ImageName,
    /// Also if stopped containers use it, and with all of its names.
    #[serde(default)]
    force: bool,
    /// The image again, if the user cannot be asked.
    confirm: Option<String>,
}

impl Tool for RemoveImage {
    const NAME: &'static str = "remove_image";
    const EFFECT: Effect = Effect::Destructive;
    type Service = Docker;
    type Output = ObjectChange;

    async fn call(self, docker: &Docker, call: &Call) -> Result<ObjectChange, ToolError> {
        let details = docker.mutable_image(&self.image).await?;
        let name = self.image.as_str();
        let is_a_tag = details.repo_tags.len() > 1
            && details.repo_tags.iter().any(|tag| tag.starts_with(name));
        let loss = match is_a_tag && !self.force {
            true => format!("Removes the name `{name}` from an image that also has other names."),
            false => format!(
                "Removes the image `{name}` ({} MB): it would have to be pulled or built again.",
                details.size / 1_000_000
            ),
        };
        docker.confirm(call, &loss, name, &self.confirm).await?;
        let action = Action::new("remove", ObjectKind::Image, name);
        let path = Path::to("/images")
            .id(&self.image)
            .query("force", self.force);
        docker.delete(action, path).await?;
        Ok(ObjectChange::new(name, "removed").with_note(loss))
    }
}
