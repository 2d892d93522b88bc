//! What answers where an agent server should be: OpenHands had another server before, with another
//! API.

use serde_json::Value;

use super::failure::{Failure, Fault};
use super::http::AgentServer;

impl AgentServer {
    /// The same failure, told as what it is that answers, where that can be found out.
    pub(super) async fn identify(&self, failure: Failure) -> Failure {
        if failure.is_other_program() && self.is_v0().await {
            return self.failure(Fault::V0);
        }
        failure
    }

    /// The web app before V1 answers.
    async fn is_v0(&self) -> bool {
        let config = self.get(&["api", "options", "config"], &[]).send::<Value>();
        config
            .await
            .is_ok_and(|config| config.get("APP_MODE").is_some())
    }
}
