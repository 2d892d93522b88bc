//! What the server says while nobody asks: how to hear it.

use std::pin::Pin;

use mcp_core::era::Era;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::meta::{self, Params, Say};
use crate::sink::Sink;
use crate::transport::Transport;
use crate::{Client, Error, Options};

type Ended = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// An open stream of notifications. They reach the client's [handler](crate::Builder::handler) while
/// [`NotificationStream::closed`] is awaited. It keeps the connection; dropping it closes the stream.
#[must_use]
pub struct NotificationStream {
    accepted: Option<Box<RawValue>>,
    stream: Ended,
}

impl NotificationStream {
    /// What the server agreed to send: the parameters of its acknowledgement. Only in the modern
    /// era.
    pub fn accepted(&self) -> Option<&RawValue> {
        self.accepted.as_deref()
    }

    /// Follows the stream until the server ends it.
    ///
    /// # Errors
    /// When it breaks, and cannot be resumed. Listening again is up to the caller.
    pub async fn closed(self) -> Result<(), Error> {
        self.stream.await
    }
}

impl Client {
    /// Opens the stream on which the server tells of changes, and waits until it is open: what
    /// changes from then on is heard.
    ///
    /// In the modern era this is `subscriptions/listen` with `notifications` as its filter (an
    /// object such as `{"toolsListChanged": true}`). In the legacy era it is a GET stream, which
    /// servers may refuse with HTTP 405; on stdio there is nothing to open, and the future ends with
    /// the child. Filters mean nothing there.
    ///
    /// # Errors
    /// Those of [`Client::request`]; [`Error::Invalid`] over HTTP in the unversioned era, which has no
    /// such thing.
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
                let agreed = self.agreed();
                let opened = match self.in_time(self.timeout(), http.notices()).await {
                    Err(Error::SessionLost { .. }) => {
                        self.renew(&agreed).await?;
                        self.in_time(self.timeout(), http.notices()).await?
                    }
                    opened => opened?,
                };
                Ok(NotificationStream {
                    accepted: None,
                    stream: Box::pin(opened.follow()),
                })
            }
            (Era::Unversioned, Transport::Http(_)) => {
                let why = "a server without a handshake has no notifications to listen to";
                Err(Error::Invalid(why.to_owned()))
            }
            (Era::Legacy(_) | Era::Unversioned, Transport::Stdio(_)) => {
                let client = self.clone();
                Ok(NotificationStream {
                    accepted: None,
                    stream: Box::pin(async move {
                        client.closed().await;
                        Ok(())
                    }),
                })
            }
        }
    }

    async fn subscribe(&self, params: &serde_json::Value) -> Result<NotificationStream, Error> {
        let agreed = self.agreed();
        let say = Say {
            envelope: agreed.envelope.as_ref(),
            ..Say::default()
        };
        let (id, params) = (self.next_id(), params.to_string());
        let composed = meta::compose(Params::Text(Some(&params)), id, &say)?;
        let options = Options::default();
        let request = self.outgoing(&agreed, id, "subscriptions/listen", &composed, &options);
        let (opened, mut opening) = mpsc::channel(1);
        let client = self.clone();
        let mut stream: Ended = Box::pin(async move {
            let listening = client.exchange(request, Sink::listening(opened));
            listening.await.map(drop)
        });
        let opening = async {
            tokio::select! {
                biased;
                accepted = opening.recv() => Ok(accepted.flatten()),
                ended = &mut stream => {
                    ended?;
                    Err(self.broken("it ended a subscription before it began"))
                }
            }
        };
        let accepted = self.in_time(self.timeout(), opening).await?;
        Ok(NotificationStream { accepted, stream })
    }
}
