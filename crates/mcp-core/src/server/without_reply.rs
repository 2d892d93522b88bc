//! Messages without a reply: notifications, and responses to questions.

use super::source::Source;
use crate::jsonrpc::{Notification, ResponseIn};

/// Handles a notification. `initialized` and `notifications/initialized` are the same (seed 003), and
/// unknown ones are ignored, as JSON-RPC demands.
pub(super) fn notified(notification: &Notification<'_>, source: &Source<'_>) {
    tracing::trace!(method = %notification.method, "notification");
    if let ("notifications/cancelled", Some(connection)) =
        (&*notification.method, source.connection)
    {
        connection.cancel(notification.params);
    }
}

/// Handles a response to a question.
pub(super) fn answered(response: &ResponseIn<'_>, source: &Source<'_>) {
    if let Some(connection) = source.connection {
        connection.answered(response);
    }
}
