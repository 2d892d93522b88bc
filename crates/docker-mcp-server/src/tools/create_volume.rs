//! `create_volume`.

use std::collections::BTreeMap;

use http::Method;
use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::done::Done;
use super::volumes;
use crate::Docker;
use crate::engine::{Asked, Body, Failure, Path};
use crate::name::ObjectName;
use crate::policy::{CREATED, Subject};

/// Create an empty volume. One that exists stays as it is.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateVolume {
    /// Its name.
    volume: ObjectName,
    /// Labels of its own.
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

impl Tool for CreateVolume {
    const NAME: &'static str = "create_volume";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = Docker;
    type Output = Done;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Done, ToolError> {
        docker.permit(&Subject::Object {
            name: self.volume.as_str(),
            labels: &self.labels,
        })?;
        // Driver options could mount any path of the host, so there are none.
        let existing = docker
            .engine
            .read_json(Path::to("/volumes").id(&self.volume))
            .await;
        match existing {
            Ok(serde_json::Value::Object(_)) => {
                return Ok(Done::new(&self.volume, "kept").with_note("It existed already."));
            }
            Err(Failure::Answered { status: 404, .. }) | Ok(_) => {}
            Err(failure) => return Err(docker.engine.explain(failure)),
        }
        let mut labels = self.labels.clone();
        labels.insert(CREATED.to_owned(), "true".to_owned());
        let body = json!({"Name": self.volume, "Driver": "local", "Labels": labels});
        let path = Path::to("/volumes/create");
        match docker
            .engine
            .change(Method::POST, path, Body::json(&body))
            .await
        {
            Ok(_) => Ok(Done::new(&self.volume, "created")),
            Err(failure) => {
                let asked = Asked::Change("create", self.volume.as_str());
                Err(volumes::explain(docker, failure, &self.volume, asked).await)
            }
        }
    }
}
