//! `subscriptions/listen`: a request that stays open and tells of changes (2026-07-28,
//! "Subscriptions").

use serde_json::json;

use super::super::{Outcome, Server};
use crate::error::Error;
use crate::jsonrpc::{Json, Request};
use crate::tool::Call;

impl Server {
    /// Acknowledges, waits, and answers when the server stops. A client that leaves ends the wait
    /// through its call.
    pub(super) async fn listen(
        &self,
        request: &Request<'_>,
        call: &Call,
    ) -> Result<Outcome, Error> {
        let id = request.id.as_json();
        // Nothing here changes while the server runs, so no kind of notification is agreed to.
        let acknowledged = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}},"notifications":{}}}}}"#,
            json!({})
        );
        if !call.notify(acknowledged) {
            let detail = "subscriptions/listen needs Accept: text/event-stream".to_owned();
            return Err(Error::InvalidRequest {
                detail,
                field: None,
            });
        }
        tokio::select! {
            () = call.cancelled() => {}
            () = self.closing.cancelled() => {}
        }
        Ok(Json::Owned(format!(
            r#"{{"resultType":"complete","_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}"#
        ))
        .into())
    }
}
