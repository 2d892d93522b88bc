//! Messages without a reply: notifications, and responses to questions.

use serde_json::value::RawValue;

use super::source::Source;
use super::{Place, Receivers};
use crate::jsonrpc::{Id, Notification, ResponseIn};

/// Handles a notification. `initialized` and `notifications/initialized` are the same (seed 003), and
/// unknown ones are ignored, as JSON-RPC demands.
pub(super) fn notified(notification: &Notification<'_>, source: &Source<'_>, in_batch: bool) {
    tracing::trace!(method = %notification.method, "notification");
    if let ("notifications/cancelled", Some(connection)) =
        (&*notification.method, source.connection)
    {
        let is_known = connection.cancel(notification.params);
        // The request may be in flight at any other replica.
        if let Some(forwarding) = source.caller.forwarding().filter(|_| !is_known) {
            let params = notification.params.map_or("null", RawValue::get);
            let alone = || {
                format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#
                )
            };
            forwarding.add(Receivers::All, in_batch.then(|| alone().into_bytes()));
        }
    }
}

/// Handles a response to a question, which may be one of another replica.
pub(super) fn answered(response: &ResponseIn<'_>, source: &Source<'_>, in_batch: bool) {
    let other = source
        .connection
        .and_then(|connection| connection.answered(response));
    let Some((process, forwarding)) = other.zip(source.caller.forwarding()) else {
        return;
    };
    let place = forwarding.place(process);
    if matches!(place, Place::There(_) | Place::Unknown(_)) {
        let alone = || {
            let id = response.id.as_ref().map_or("null", Id::as_json);
            let (member, value) = match response.outcome {
                Ok(result) => ("result", result.get()),
                Err(error) => ("error", error.get()),
            };
            format!(r#"{{"jsonrpc":"2.0","id":{id},"{member}":{value}}}"#)
        };
        let frame = in_batch.then(|| alone().into_bytes());
        forwarding.add(Receivers::One(process), frame);
    }
}
