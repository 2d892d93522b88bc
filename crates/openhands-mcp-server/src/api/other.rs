//! What answers where an agent server should be: OpenHands has other servers, with other APIs.

use serde_json::Value;

use super::failure::{Failure, Fault};
use super::http::AgentServer;

/// A server of OpenHands that is not the agent server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Other {
    /// The app server of V1: it starts an agent server for each conversation, in a sandbox.
    AppServer,
    /// The web app before that.
    V0,
}

impl AgentServer {
    /// The same failure, told as what it is that answers, where that can be found out.
    pub(super) async fn identify(&self, failure: Failure) -> Failure {
        if !failure.is_other_program() {
            return failure;
        }
        match self.other().await {
            Some(other) => self.failure(Fault::Other(other)),
            None => failure,
        }
    }

    async fn other(&self) -> Option<Other> {
        let count = ["api", "v1", "app-conversations", "count"];
        match self.get(&count, &[]).send::<u64>().await {
            Ok(_) => return Some(Other::AppServer),
            // It may want another key, or more to go by.
            Err(failure) if failure.is_explained() && !failure.is_missing() => {
                return Some(Other::AppServer);
            }
            Err(_) => {}
        }
        let config = self.get(&["api", "options", "config"], &[]);
        let config: Value = config.send().await.ok()?;
        config.get("APP_MODE").map(|_| Other::V0)
    }
}
