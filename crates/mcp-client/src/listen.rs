//! Opens the stream of notifications that a server sends outside of requests.

use std::pin::Pin;

use mcp_core::era::Era;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::meta::Params;
use crate::response_routes::ResponseRoutes;
use crate::transport::Transport;
use crate::{Client, Error, Options};

/// An open stream of notifications. They reach the client's [handler](crate::Builder::handler) while
/// [`NotificationStream::closed`] is awaited. It keeps the connection open; dropping it closes the
/// stream.
#[must_use]
pub struct NotificationStream {
    accepted: Option<Box<RawValue>>,
    closed: Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>,
}

impl NotificationStream {
    fn new(closed: impl Future<Output = Result<(), Error>> + Send + 'static) -> Self {
        Self {
            accepted: None,
            closed: Box::pin(closed),
        }
    }

    /// The parameters of the server's acknowledgement: the notifications that it will send. Only in
    /// the modern era.
    pub fn accepted(&self) -> Option<&RawValue> {
        self.accepted.as_deref()
    }

    /// Reads the stream until the server ends it.
    ///
    /// # Errors
    /// When it breaks and cannot be resumed. Reopening it is left to the caller.
    pub async fn closed(self) -> Result<(), Error> {
        self.closed.await
    }
}

impl Client {
    /// Opens the stream of notifications and waits until it is open: later changes are reported.
    ///
    /// In the modern era this is `subscriptions/listen` with `notifications` as its filter (an
    /// object such as `{"toolsListChanged": true}`). In the legacy era it is a GET stream without a
    /// filter, which servers may refuse with HTTP 405. On stdio before the modern era there is
    /// nothing to open, and the stream closes with the child.
    ///
    /// # Errors
    /// The errors of [`Client::request`]; [`Error::Invalid`] over HTTP in the unversioned era, which has
    /// no such stream.
    pub async fn listen(
        &self,
        notifications: &(impl Serialize + Sync + ?Sized),
    ) -> Result<NotificationStream, Error> {
        match (self.era(), &self.0.transport) {
            (Era::Modern, _) => {
                self.subscribe(&json!({"notifications": notifications}))
                    .await
            }
            (Era::Legacy(_), Transport::Http(http)) => {
                let negotiated = self.negotiated();
                let open = || self.with_timeout(self.timeout(), http.open_server_stream());
                let opened = match open().await {
                    Err(Error::SessionLost { .. }) => {
                        self.renew_session(&negotiated).await?;
                        open().await?
                    }
                    opened => opened?,
                };
                Ok(NotificationStream::new(opened))
            }
            (Era::Unversioned, Transport::Http(_)) => {
                let why = "a server without a handshake has no notifications to listen to";
                Err(Error::Invalid(why.to_owned()))
            }
            (Era::Legacy(_) | Era::Unversioned, Transport::Stdio(_)) => {
                let client = self.clone();
                Ok(NotificationStream::new(async move {
                    client.closed().await;
                    Ok(())
                }))
            }
        }
    }

    async fn subscribe(&self, params: &serde_json::Value) -> Result<NotificationStream, Error> {
        let (params, options) = (params.to_string(), Options::default());
        let params = Params::Text(Some(&params));
        let negotiated = self.negotiated();
        let (request, _) =
            self.compose(&negotiated, "subscriptions/listen", params, &options, None)?;
        let (sender, mut acknowledged) = mpsc::channel(1);
        let client = self.clone();
        let mut stream = NotificationStream::new(async move {
            let routes = ResponseRoutes::subscription(sender);
            client.exchange(request, routes).await.map(drop)
        });
        let opening = async {
            tokio::select! {
                biased;
                accepted = acknowledged.recv() => Ok(accepted.flatten()),
                ended = &mut stream.closed => {
                    ended?;
                    Err(self.protocol_error("it ended a subscription before it began"))
                }
            }
        };
        stream.accepted = self.with_timeout(self.timeout(), opening).await?;
        Ok(stream)
    }
}
