//! What a server sends on its own: reports, notifications and requests.

use mcp_core::jsonrpc::{self, Id, Json, Notification, Request};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::Progress;

/// A message that the server sent without being asked.
#[derive(Clone, Debug)]
pub enum FromServer {
    /// For example `notifications/tools/list_changed`.
    Notification {
        /// The method.
        method: String,
        /// The parameters, byte for byte.
        params: Option<Box<RawValue>>,
    },
    /// For example `sampling/createMessage`: answer with [`Client::respond`](crate::Client::respond).
    Request {
        /// The server's id, to answer with.
        id: Box<RawValue>,
        /// The method.
        method: String,
        /// The parameters, byte for byte.
        params: Option<Box<RawValue>>,
        /// Our request on whose stream it came, where the transport tells (HTTP).
        during: Option<u64>,
    },
}

/// Where the server's own messages go. Without a receiver notifications are dropped and requests
/// refused.
#[derive(Clone, Default)]
pub(crate) struct Inbox(Option<mpsc::Sender<FromServer>>);

impl Inbox {
    pub(crate) fn to(receiver: mpsc::Sender<FromServer>) -> Self {
        Self(Some(receiver))
    }

    pub(crate) fn notification(&self, notification: &Notification<'_>) {
        let message = FromServer::Notification {
            method: notification.method.clone().into_owned(),
            params: notification.params.map(RawValue::to_owned),
        };
        let taken = self
            .0
            .as_ref()
            .is_some_and(|inbox| inbox.try_send(message).is_ok());
        if !taken {
            tracing::debug!(method = %notification.method, "notification of the server dropped");
        }
    }

    /// Hands a request over, or returns the answer that it gets at once.
    pub(crate) fn request(&self, request: &Request<'_>, during: Option<u64>) -> Option<String> {
        if request.method == "ping" {
            return Some(reply(jsonrpc::response(
                request.id,
                Json::Owned("{}".to_owned()),
            )));
        }
        let Some(inbox) = &self.0 else {
            return Some(reply(jsonrpc::method_not_found(
                request.id,
                &request.method,
            )));
        };
        let message = FromServer::Request {
            id: own(request.id)?,
            method: request.method.clone().into_owned(),
            params: request.params.map(RawValue::to_owned),
            during,
        };
        match inbox.try_send(message) {
            Ok(()) => None,
            Err(_) => Some(reply(jsonrpc::internal_error(
                request.id,
                "the client is busy",
            ))),
        }
    }
}

/// A response as text, without a newline.
#[expect(
    clippy::needless_pass_by_value,
    reason = "wraps the constructors above"
)]
pub(crate) fn reply(response: jsonrpc::Response<'_>) -> String {
    let mut line = Vec::new();
    response.write(&mut line);
    // It was put together from strings.
    String::from_utf8(line).unwrap_or_default()
}

fn own(id: Id<'_>) -> Option<Box<RawValue>> {
    RawValue::from_string(id.as_json().to_owned()).ok()
}

/// The progress report in `params` and the request it is about.
pub(crate) fn progress(params: Option<&RawValue>) -> Option<(u64, Progress)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct About {
        progress_token: u64,
    }
    let raw = params?;
    let about: About = serde_json::from_str(raw.get()).ok()?;
    let progress: Progress = serde_json::from_str(raw.get()).ok()?;
    Some((
        about.progress_token,
        Progress {
            raw: raw.to_owned(),
            ..progress
        },
    ))
}
