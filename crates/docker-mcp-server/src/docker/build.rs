//! Builds, as far as the policy lets them use images.

use std::collections::BTreeMap;

use futures_util::StreamExt as _;
use mcp_core::tool::ToolError;

use super::Docker;
use crate::engine::ImageName;
use crate::engine::build::{bases, frontend, images, reaches_host};
use crate::policy::forbidden;

impl Docker {
    /// Refuses a build that uses an image which the policy hides, or the network of the engine's host, also
    /// by an `ONBUILD` of a base image. Gets base images that are not here if the call `may_pull`.
    /// Errors also when the images depend on what only the builder knows; one that `pulls` gets base images
    /// which are not known yet.
    pub(crate) async fn permit_build(
        &self,
        dockerfile: &str,
        build_args: &BTreeMap<String, String>,
        pulls: bool,
        may_pull: bool,
    ) -> Result<(), ToolError> {
        if self.policy.has_image_rules() {
            self.permit_build_images(dockerfile, build_args, pulls)
                .await?;
        }
        match self.policy.may_use_host_network() {
            true => Ok(()),
            false => self.permit_fetches(dockerfile, build_args, may_pull).await,
        }
    }

    /// Refuses a build in which the builder itself reaches the network: it is the host's, with its loopback,
    /// its neighbours and the metadata of a cloud. Gets base images that are not here if it `may_pull`.
    async fn permit_fetches(
        &self,
        dockerfile: &str,
        build_args: &BTreeMap<String, String>,
        may_pull: bool,
    ) -> Result<(), ToolError> {
        let refused = |what: &str| {
            forbidden(format!(
                "This server does not build with {what}: that gives access to the network of the \
                 engine's host. Put the file beside the Dockerfile, with `./` before its name, or get \
                 it in a RUN; or ask the operator of this server to allow `host_namespaces` in the \
                 policy file (--policy)."
            ))
        };
        if build_args.contains_key("BUILDKIT_SYNTAX") {
            return Err(refused("the build argument BUILDKIT_SYNTAX"));
        }
        if let Some(what) = reaches_host(dockerfile) {
            return Err(refused(what));
        }
        // One that is here may have been built here, under the name of a known one.
        if let Some(Ok(image)) = frontend(dockerfile).map(ImageName::new)
            && self.try_image(&image).await?.is_some()
        {
            return Err(refused("a `# syntax=` of an image that is stored here"));
        }
        for base in bases(dockerfile, build_args) {
            let Ok(image) = ImageName::new(&base.name) else {
                return Err(refused("a FROM whose image is not written out"));
            };
            let mut found = self.try_image(&image).await?;
            if found.is_none() && may_pull && !base.is_stage {
                let login = self.registries.login(&image).await?;
                let mut lines = self.engine.pull(&image, None, &login);
                while let Some(line) = lines.next().await {
                    line.map_err(|error| self.engine.explain(error))?;
                }
                found = self.try_image(&image).await?;
            }
            let triggers = found.iter().flat_map(|image| &image.config.on_build);
            if let Some(what) = triggers.filter_map(|line| reaches_host(line)).next() {
                let what = format!("`{}`, whose ONBUILD has {what}", base.name);
                return Err(refused(&what));
            }
        }
        Ok(())
    }

    async fn permit_build_images(
        &self,
        dockerfile: &str,
        build_args: &BTreeMap<String, String>,
        pulls: bool,
    ) -> Result<(), ToolError> {
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
