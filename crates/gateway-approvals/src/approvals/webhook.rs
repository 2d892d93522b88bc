//! Tells a program, such as a workflow that sends a mail, of a call that waits for an operator.

use std::time::Duration;

use hmac_sha256::Hash;
use mcp_client::Endpoint;
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;
use upstream::text::hexadecimal;
use upstream::time::rfc3339;
use uuid::Uuid;

use super::record::Approval;

/// The path of the answer, before the id.
pub(super) const ANSWER_PATH: &str = "/approvals/";

/// Timeout of one attempt.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// The delays before further attempts.
const RETRY_DELAYS: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(25),
];

/// The URL for one call, and the token that answers it.
pub(super) struct Webhook {
    url: String,
    token: String,
}

impl Webhook {
    pub(super) fn new(url: String) -> Self {
        let (one, two) = (Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let token = format!("{one}{two}");
        Self { url, token }
    }

    pub(super) fn token_hash(&self) -> String {
        token_hash(&self.token)
    }

    /// Sends the call in the background, until the handle is dropped.
    pub(super) fn send(self, approval: &Approval) -> AbortOnDropHandle<()> {
        let message = json!({
            "id": approval.id,
            "tool": approval.tool,
            "backend": approval.backend,
            "who": approval.principal,
            "arguments": approval.arguments,
            "hash": approval.hash,
            "expires": rfc3339(approval.expires),
            "answer": {"path": format!("{ANSWER_PATH}{}", approval.id), "token": self.token},
        });
        let (id, url) = (approval.id.clone(), self.url);
        let send = async move {
            let mut delays = RETRY_DELAYS.into_iter();
            loop {
                let Ok(endpoint) = Endpoint::new(&url) else {
                    return;
                };
                let sent = Box::pin(endpoint.post_json(message.to_string()));
                let problem = match tokio::time::timeout(SEND_TIMEOUT, sent).await {
                    Ok(Ok(())) => return,
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "no response in time".to_owned(),
                };
                tracing::warn!(
                    approval = id,
                    problem,
                    "the webhook did not take a call that waits"
                );
                let Some(delay) = delays.next() else { return };
                tokio::time::sleep(delay).await;
            }
        };
        AbortOnDropHandle::new(tokio::spawn(send))
    }
}

/// Returns the SHA-256 hash of a token, in hexadecimal digits.
pub(super) fn token_hash(token: &str) -> String {
    hexadecimal(&Hash::hash(token.as_bytes()))
}
