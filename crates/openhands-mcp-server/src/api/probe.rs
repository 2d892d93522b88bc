//! The health check of the configured server. Where it is no agent server, it finds out what else it
//! is: OpenHands V0 had another API.

use serde::de::IgnoredAny;
use serde_json::Value;
use upstream::http::Method;

use crate::api::agent_server::AgentServer;
use crate::api::failure::{ApiFailure, ApiResult};

impl AgentServer {
    /// Sends the cheapest request that needs the API key.
    ///
    /// # Errors
    /// The agent server does not answer, or another program does: the failure names it.
    pub(crate) async fn check(&self) -> ApiResult<()> {
        match self.count_all().await {
            Err(failure) if failure.is_other_program() && self.is_v0().await => {
                return Err(ApiFailure::V0(self.address().to_owned()));
            }
            result => result?,
        }
        self.read_version().await.map(drop)
    }

    async fn count_all(&self) -> ApiResult<()> {
        let health = self.open_request(Method::GET, &["health"]);
        health.send::<IgnoredAny>().await?;
        let count = self.get(&["api", "conversations", "count"]);
        count.send::<u64>().await.map(drop)
    }

    /// Returns true if the web app of OpenHands V0 answers.
    async fn is_v0(&self) -> bool {
        let config = self.get(&["api", "options", "config"]).send::<Value>();
        let config = config.await;
        config.is_ok_and(|config| config.get("APP_MODE").is_some())
    }
}
