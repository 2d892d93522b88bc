//! The HTTP+SSE transport of 2024-11-05: a GET stream with the messages of the server, whose first event
//! names the address for POSTs.
//!
//! It is used like a child: each event is a line of its output, each line of its input a POST.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use mcp_core::jsonrpc::{Message, decode};
use tokio::io::{AsyncWriteExt as _, SimplexStream, WriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::http::{Body, Event, HttpClient, Parser};
use crate::inbound::Inbound;
use crate::stdio::{Connected, Pending, Stdio};
use crate::{Endpoint, Error};

/// Bytes of events that wait for the reader.
const MAX_UNREAD_BYTES: usize = 64 << 10;
/// Timeout of a POST after which the next message is sent as well. Messages are sent in their order, but a
/// server may answer a POST only when its request is done.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(5);

/// Connects to the server whose stream is at this URL.
pub(crate) fn connect(endpoint: Endpoint, inbound: Arc<Inbound>) -> Result<Stdio, Error> {
    let client = HttpClient::new(endpoint)?;
    let (peer, max_message) = (client.peer().clone(), client.max_message());
    Stdio::start(peer, None, inbound, max_message, |connected| {
        run(Arc::new(client), connected)
    })
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
        let (address, events) = match EventStream::open(&client).await {
            Ok(opened) => opened,
            Err(error) => return error.to_string(),
        };
        let (output, lines) = tokio::io::simplex(MAX_UNREAD_BYTES);
        let receiving = async {
            let (reason, fault) = tokio::join!(events.copy_to(lines), reader.read(output));
            fault.unwrap_or(reason)
        };
        tokio::select! {
            reason = receiving => reason,
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
    address: &Uri,
    pending: &Arc<Pending>,
    mut queue: mpsc::Receiver<String>,
) -> String {
    let mut posts = JoinSet::new();
    while let Some(message) = queue.recv().await {
        let (client, address, pending) = (client.clone(), address.clone(), pending.clone());
        posts.spawn(async move {
            let id = request_id(&message);
            let Err(error) = client.post_to(&address, message).await else {
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

/// The id of a request of ours.
fn request_id(message: &str) -> Option<u64> {
    match decode(message.as_bytes()) {
        Ok(Message::Request(request)) => request.id.as_json().parse().ok(),
        _ => None,
    }
}

/// The stream of the server's messages.
struct EventStream {
    client: Arc<HttpClient>,
    body: Body,
    parser: Parser,
    received: VecDeque<Event>,
}

impl EventStream {
    /// Opens the stream. Returns it with the path for POSTs, which its first event names.
    async fn open(client: &Arc<HttpClient>) -> Result<(Uri, Self), Error> {
        let body = client.open_event_stream().await?;
        let mut events = Self {
            client: client.clone(),
            body,
            parser: Parser::new(client.max_message()),
            received: VecDeque::new(),
        };
        let first = events.next().await?;
        let address = first.filter(|event| event.kind == b"endpoint");
        let address = address.and_then(|event| {
            let address = String::from_utf8(event.data).ok()?;
            client.path_of(&address)
        });
        match address {
            Some(address) => Ok((address, events)),
            None => {
                let fault = "its stream does not start with an address of its own for messages";
                Err(client.protocol_error(fault))
            }
        }
    }

    /// The next event; `None` at the end of the stream.
    async fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            if let Some(event) = self.received.pop_front() {
                return Ok(Some(event));
            }
            let Some(frame) = self.body.frame().await else {
                return Ok(None);
            };
            let frame = frame.map_err(|error| self.client.cut_off(&error))?;
            if let Ok(data) = frame.into_data() {
                let events = self.parser.feed(&data).map_err(|_| {
                    let limit = self.client.max_message();
                    let fault = format!("an event is longer than {limit} bytes");
                    self.client.protocol_error(fault)
                })?;
                self.received.extend(events);
            }
        }
    }

    /// Writes the messages as lines until the stream ends. Returns the reason of its end.
    async fn copy_to(mut self, mut lines: WriteHalf<SimplexStream>) -> String {
        let reason = self.copy_messages(&mut lines).await;
        // Dropping it does not end the lines.
        let _ = lines.shutdown().await;
        reason
    }

    async fn copy_messages(&mut self, lines: &mut WriteHalf<SimplexStream>) -> String {
        loop {
            let mut line = match self.next().await {
                Ok(Some(event)) if matches!(event.kind.as_slice(), b"" | b"message") => event.data,
                Ok(Some(_)) => continue,
                Ok(None) => return "it closed its stream".to_owned(),
                Err(error) => return error.to_string(),
            };
            // Line breaks outside of JSON strings are white space, and within them they are escaped.
            let breaks = line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r'));
            breaks.for_each(|byte| *byte = b' ');
            line.push(b'\n');
            if lines.write_all(&line).await.is_err() {
                return "its messages cannot be read".to_owned();
            }
        }
    }
}
