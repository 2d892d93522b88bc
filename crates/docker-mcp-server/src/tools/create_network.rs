//! `create_network`.

use serde_json::json;

use super::prelude::*;
use crate::engine::EngineError;
use crate::policy::{CREATED, permit_marks};

/// Create a bridge network, in which containers find each other by name.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateNetwork {
    /// Its name.
    network: ObjectName,
    /// `172.30.0.0/16`; default: a free one.
    subnet: Option<String>,
    /// No outside access.
    #[serde(default)]
    internal: bool,
    /// Labels.
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

impl Tool for CreateNetwork {
    const NAME: &'static str = "create_network";
    const EFFECT: Effect = Effect::Additive;
    type Service = Docker;
    type Output = ObjectChange;

    async fn call(self, docker: &Docker, _: &Call) -> Result<ObjectChange, ToolError> {
        permit_marks("", self.labels.keys())?;
        docker.permit_object(self.network.as_str(), &self.labels)?;
        let mut labels = self.labels.clone();
        labels.insert(CREATED.to_owned(), "true".to_owned());
        let mut body = json!({
            "Name": self.network,
            "CheckDuplicate": true,
            "Driver": "bridge",
            "Internal": self.internal,
            "Labels": labels,
        });
        if let Some(subnet) = &self.subnet {
            docker.permit_subnet(subnet)?;
            body["IPAM"] = json!({"Config": [{"Subnet": subnet}]});
        }
        let path = Path::to("/networks/create");
        match docker
            .engine
            .try_post(path, Some(&body), Duration::ZERO)
            .await
        {
            Ok(_) => Ok(ObjectChange::new(&self.network, "created")),
            Err(EngineError::Refused {
                status: 403 | 409,
                message,
            }) => Err(conflict(format!(
                "`{}` cannot be created: {message}.",
                self.network
            ))),
            Err(failure) => {
                let action = Action::new("create", ObjectKind::Network, self.network.as_str());
                Err(docker.explain_action(failure, action).await)
            }
        }
    }
}
