//! `tag_image`.

use bollard::query_parameters::TagImageOptionsBuilder;

use super::prelude::*;

/// Give an image another name. If another image has that name, it loses it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TagImage {
    /// Name or id.
    image: ImageName,
    /// `name:tag`.
    new_name: ImageName,
    /// The new name again, if another image has it and the user cannot be asked.
    confirm: Option<String>,
}

impl Tool for TagImage {
    const NAME: &'static str = "tag_image";
    // Only if another image has the name.
    const EFFECT: Effect = Effect::PartlyDestructive;
    type Service = Docker;
    type Output = ObjectChange;

    async fn call(self, docker: &Docker, call: &Call) -> Result<ObjectChange, ToolError> {
        let (name, tag) = self.new_name.split();
        if tag.contains(':') {
            let text = "new_name must have a tag, not a digest.";
            return Err(ToolError::invalid_argument(text));
        }
        let source = docker.image(&self.image).await?;
        let id = Some(source.id.as_str());
        docker
            .confirm_name(call, &self.new_name, id, &self.confirm)
            .await?;
        let image = source.id;
        let options = TagImageOptionsBuilder::new().repo(name).tag(tag).build();
        let action = Action::new("tag", ObjectKind::Image, self.image.as_str());
        docker
            .change(action, |engine| async move {
                engine.tag_image(&image, Some(options)).await
            })
            .await?;
        Ok(ObjectChange::new(&self.new_name, "tagged"))
    }
}
