//! `tag_image`.

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
        // By its id: the name may move meanwhile.
        let image = ImageName::new(&source.id).unwrap_or(self.image.clone());
        let path = Path::to("/images").id(&image).then("/tag");
        let path = path.query("repo", name).query("tag", tag);
        let action = Action::new("tag", ObjectKind::Image, self.image.as_str());
        docker.post(action, path).await?;
        Ok(ObjectChange::new(&self.new_name, "tagged"))
    }
}
