//! The HTTP+SSE transport of 2024-11-05: a GET stream with the messages of the server, whose first event
//! names the address for POSTs.
//!
//! It is used like a child: each event is a line of its output, each message to it a POST.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use http::HeaderMap;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use url::Url;

use crate::http::{Events, HttpClient, message};
use crate::inbound::Inbound;
use crate::stdio::{Connected, Pending, Queued, Reader, Stdio};
use crate::{Endpoint, Error};

/// Timeout of a POST after which the next message is sent as well. Messages are sent in their order, but a
/// server may answer a POST only when its request is done.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(5);

/// Connects to the server whose stream is at this URL.
pub(crate) fn connect(endpoint: Endpoint, inbound: Arc<Inbound>) -> Result<Stdio, Error> {
    let client = HttpClient::new(endpoint)?;
    let peer = client.peer().clone();
    Stdio::start(peer, false, inbound, |it| run(Arc::new(client), it))
}

/// Runs until the stream ends or is closed.
async fn run(client: Arc<HttpClient>, connected: Connected) {
    let Connected {
        reader,
        queue,
        stop,
        ended,
    } = connected;
    let _ended = ended.drop_guard();
    let pending = reader.pending.clone();
    let work = async {
        let (address, events) = match open(&client).await {
            Ok(opened) => opened,
            Err(error) => return error.to_string(),
        };
        tokio::select! {
            reason = receive(events, &reader) => reason,
            reason = send(&client, &address, &pending, queue) => reason,
        }
    };
    let reason = tokio::select! {
        reason = work => reason,
        () = stop.cancelled() => "it was closed".to_owned(),
    };
    pending.close(reason);
}

/// Posts the messages of the queue. Returns the reason why it cannot any more.
async fn send(
    client: &Arc<HttpClient>,
    address: &Url,
    pending: &Arc<Pending>,
    mut queue: mpsc::Receiver<Queued>,
) -> String {
    let mut posts = JoinSet::new();
    while let Some((id, message, headers)) = queue.recv().await {
        let (client, address, pending) = (client.clone(), address.clone(), pending.clone());
        posts.spawn(async move {
            let Err(error) = client.post_to(&address, message, headers).await else {
                return;
            };
            tracing::debug!(peer = %client.peer(), %error, "message not delivered");
            if let Some(id) = id {
                pending.resolve(id, Err(error));
            }
        });
        let _ = tokio::time::timeout(ACCEPT_TIMEOUT, posts.join_next()).await;
    }
    "it was closed".to_owned()
}

/// Opens the stream. Returns it with the URL for POSTs, which its first event names.
async fn open(client: &HttpClient) -> Result<(Url, Events), Error> {
    let response = client.open_stream(None, &HeaderMap::new()).await?;
    let mut events = client.events(response);
    let first = events.next().await.transpose()?;
    let address = first.filter(|event| event.event.as_deref() == Some("endpoint"));
    let address = address.and_then(|event| client.url_of(&event.data?));
    address.map(|address| (address, events)).ok_or_else(|| {
        client.protocol_error("its stream does not start with an address of its own for messages")
    })
}

/// Handles the messages until the stream ends. Returns the reason of its end.
async fn receive(mut events: Events, reader: &Reader) -> String {
    loop {
        match events.next().await {
            Some(Ok(event)) => {
                if let Some(text) = message(event) {
                    // Some servers split a message anywhere, also within a text.
                    let text = text.replace(['\n', '\r'], " ");
                    reader.receive(text.as_bytes());
                }
            }
            Some(Err(error)) => return error.to_string(),
            None => return "it closed its stream".to_owned(),
        }
    }
}
