//! `create_volume`.

use std::collections::HashMap;

use bollard::models::VolumeCreateRequest;

use super::prelude::*;
use crate::engine::{EngineError, Path};
use crate::policy::CREATED;

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
        docker.permit_object(self.volume.as_str(), &self.labels)?;
        let path = Path::to("/volumes").id(&self.volume);
        match docker.engine.try_get(path).await {
            Ok(serde_json::Value::Object(_)) => {
                return Ok(ObjectChange::new(&self.volume, "kept").with_note("It existed already."));
            }
            Err(EngineError::Refused { status: 404, .. }) | Ok(_) => {}
            Err(failure) => return Err(docker.engine.explain(failure)),
        }
        let mut labels: HashMap<String, String> = self.labels.into_iter().collect();
        labels.insert(CREATED.to_owned(), "true".to_owned());
        let request = VolumeCreateRequest {
            name: Some(self.volume.to_string()),
            driver: Some("local".to_owned()),
            labels: Some(labels),
            // No driver options: they could mount any path of the host.
            ..VolumeCreateRequest::default()
        };
        let action = Action::new("create", ObjectKind::Volume, self.volume.as_str());
        docker
            .change(action, |engine| async move {
                engine.create_volume(request).await
            })
            .await?;
        Ok(ObjectChange::new(&self.volume, "created"))
    }
}
