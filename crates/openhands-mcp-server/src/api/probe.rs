//! Asking whether the configured server would serve a call, and, where something else answers, what
//! that is: OpenHands had another server before, with another API.

use serde::de::IgnoredAny;
use serde_json::Value;
use upstream::http::Method;

use super::agent_server::AgentServer;
use super::failure::Failure;

impl AgentServer {
    /// Asks for the smallest thing that needs the key.
    ///
    /// # Errors
    /// Where something else answers, the failure says what it is.
    pub(super) async fn check(&self) -> Result<(), Failure> {
        match self.count_all().await {
            Err(failure) if failure.is_other_program() && self.is_v0().await => {
                Err(Failure::V0(self.address().to_owned()))
            }
            answer => answer,
        }
    }

    async fn count_all(&self) -> Result<(), Failure> {
        let health = self.open_request(Method::GET, &["health"], &[]);
        health.send::<IgnoredAny>().await?;
        let count = self.get(&["api", "conversations", "count"], &[]);
        count.send::<u64>().await.map(drop)
    }

    /// The web app before V1 answers.
    async fn is_v0(&self) -> bool {
        let config = self.get(&["api", "options", "config"], &[]).send::<Value>();
        config
            .await
            .is_ok_and(|config| config.get("APP_MODE").is_some())
    }
}
