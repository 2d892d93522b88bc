//! `create_volume`.

use super::prelude::*;
use crate::policy::permit_marks;

/// Create an empty volume. One that exists stays as it is.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateVolume {
    /// Its name.
    volume: ObjectName,
    /// Labels.
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

impl Tool for CreateVolume {
    const NAME: &'static str = "create_volume";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = Docker;
    type Output = ObjectChange;

    async fn call(self, docker: &Docker, _: &Call) -> Result<ObjectChange, ToolError> {
        permit_marks("", self.labels.keys())?;
        docker.permit_object(self.volume.as_str(), &self.labels)?;
        if docker.try_volume(&self.volume).await?.is_some() {
            return Ok(ObjectChange::new(&self.volume, "kept").with_note("It existed already."));
        }
        docker.create_volume(&self.volume, self.labels).await?;
        Ok(ObjectChange::new(&self.volume, "created"))
    }
}
