//! `tag_image`.

use http::Method;
use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::done::Done;
use super::get_image;
use crate::Docker;
use crate::engine::{Body, Path};
use crate::name::ImageName;
use crate::policy::Subject;

/// Give an image another name. A name that another image has moves to this one.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TagImage {
    /// Name or id.
    image: ImageName,
    /// `name:tag`.
    new_name: ImageName,
}

impl Tool for TagImage {
    const NAME: &'static str = "tag_image";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = Docker;
    type Output = Done;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Done, ToolError> {
        docker.permit(&Subject::Image(self.new_name.as_str()))?;
        get_image::inspect(docker, &self.image).await?;
        let (name, tag) = self.new_name.split();
        if tag.contains(':') {
            return Err(ToolError::invalid_argument(
                "new_name has a tag, not a digest.",
            ));
        }
        let path = Path::to("/images").id(&self.image).then("/tag");
        let path = path.query("repo", name).query("tag", tag);
        let tagged = docker.engine.change(Method::POST, path, Body::None).await;
        tagged.map_err(|failure| docker.engine.explain(failure))?;
        Ok(Done::new(&self.new_name, "tagged"))
    }
}
