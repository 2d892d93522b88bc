//! Builds, as far as the policy lets them use images.

use std::collections::BTreeMap;

use docker_engine::ImageName;
use docker_engine::build::images;
use mcp_core::tool::ToolError;

use super::Docker;
use crate::policy::forbidden;

impl Docker {
    /// Refuses a build that uses an image which the policy hides, also by an `ONBUILD` of a base image.
    /// Errors also when the images depend on what only the builder knows; one that `pulls` gets base images
    /// which are not known yet.
    pub(crate) async fn permit_build(
        &self,
        dockerfile: &str,
        build_args: &BTreeMap<String, String>,
        pulls: bool,
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
        let mut found = images(dockerfile, build_args);
        if let Some(what) = found.unclear {
            return Err(refused(what));
        }
        let pulls = pulls || found.has_platform;
        if !found.bases.is_empty() && self.engine.is_podman().await? {
            return Err(forbidden(
                "The rules about images (--allow, --deny) cannot judge a build from an image on Podman,                  which does not tell its ONBUILD instructions: begin with `FROM scratch`.",
            ));
        }
        for (base, stage) in std::mem::take(&mut found.bases) {
            let Ok(image) = ImageName::new(&base) else {
                continue;
            };
            let local = self.try_image(&image).await?.filter(|_| !pulls);
            let local = local.ok_or_else(|| {
                forbidden(format!(
                    "The rules about images (--allow, --deny) cannot judge a build from `{base}` as \
                     it may be pulled: it may have ONBUILD instructions. Call pull_image first, and \
                     build without pulling and without a platform."
                ))
            })?;
            let triggers = local.config.on_build.iter();
            triggers.for_each(|line| found.trigger(line, stage));
        }
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
