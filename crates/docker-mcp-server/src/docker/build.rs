//! Builds, as far as the policy lets them use images.

use std::collections::BTreeMap;

use docker_engine::ImageName;
use docker_engine::build::images;
use mcp_core::tool::ToolError;

use super::Docker;
use crate::policy::forbidden;

impl Docker {
    /// Refuses a build that uses an image which the policy hides.
    /// Errors also when the images depend on what only the builder knows.
    pub(crate) async fn permit_build(
        &self,
        dockerfile: &str,
        build_args: &BTreeMap<String, String>,
    ) -> Result<(), ToolError> {
        if !self.policy.has_image_rules() {
            return Ok(());
        }
        let refused = |what: &str| {
            forbidden(format!(
                "The rules about images (--allow, --deny) cannot judge this Dockerfile: it has \
                 {what}. Write every image out, one instruction after the other; only ARGs before \
                 the first FROM may be in a name."
            ))
        };
        let found = images(dockerfile, build_args);
        if let Some(what) = found.unclear {
            return Err(refused(what));
        }
        for name in &found.names {
            let image =
                ImageName::new(name).map_err(|_| refused("an image without a plain name"))?;
            self.try_image(&image).await?;
        }
        Ok(())
    }
}
