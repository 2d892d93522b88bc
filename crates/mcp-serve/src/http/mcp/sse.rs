//! HTTP+SSE, the transport of 2024-11-05: `GET /sse` opens a session and its stream, `POST /messages` sends a
//! message. Answers come on the stream, and the session ends with it. The modern era, whose streams are
//! requests without an end, is refused here.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderMap;
use http::{Response, Uri};
use hyper::body::Body;
use mcp_core::era::Hints;
use mcp_core::error::Error;
use mcp_core::server::{Caller, Connection, FrameReply, IncomingFrame, Peer, Server};
use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::super::events::{EventStream, InFlightCall, MessageSender};
use super::super::reply::{self, Reply};
use super::post::Post;
use super::{Authenticated, McpEndpoint, RequestPermit};
use crate::key::random;

/// The time for which an answer waits for a client that does not read its stream.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// The sessions, by id. Each has a stream, whose number is limited.
#[derive(Default)]
pub(super) struct SseSessions(Mutex<HashMap<String, SseSession>>);

#[derive(Clone)]
pub(super) struct SseSession {
    /// The name of its principal; empty where no token is required.
    principal: String,
    id: Arc<str>,
    connection: Arc<Connection>,
    sender: MessageSender,
    /// Cancelled when the stream has ended.
    client_gone: Arc<CancellationToken>,
}

impl SseSessions {
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

impl McpEndpoint {
    /// Serves `/sse` and `/messages` from now on.
    pub(in crate::http) fn serve_sse(&self) {
        // Set before: nothing to do.
        let _ = self.sse.set(Arc::default());
    }

    pub(in crate::http) fn serves_sse(&self) -> bool {
        self.sse.get().is_some()
    }

    /// Opens a session. The first event of its stream names the address for messages.
    pub(in crate::http) fn open_sse(&self, client: &Authenticated) -> Response<Reply> {
        let Some(slot) = self.slots.acquire(client.share()) else {
            return reply::too_many_streams(self.limits.max_streams_per_client);
        };
        let (Some(sessions), Some(id)) = (self.sse.get(), random()) else {
            return reply::busy();
        };
        let (sessions, id) = (Arc::clone(sessions), format!("{id:032x}"));
        let (sender, messages) = MessageSender::new();
        let caller = Caller::default().with_principal(client.principal().cloned());
        let session = SseSession {
            principal: client.owner().to_owned(),
            id: id.as_str().into(),
            connection: Arc::default(),
            sender,
            client_gone: Arc::default(),
        };
        sessions.0.lock().insert(id.clone(), session.clone());
        let first = format!("event: endpoint\ndata: /messages?sessionId={id}\n\n");
        let (server, client_gone) = (Arc::clone(&self.server), Arc::clone(&session.client_gone));
        let watch = async move {
            tokio::select! {
                () = server.watch(&session.connection, &caller, &session.sender) => {}
                () = session.client_gone.cancelled() => {}
            }
            sessions.0.lock().remove(&id);
            session.client_gone.cancel();
            session.connection.end();
            server.forget(&id);
            FrameReply::nothing()
        };
        let call = InFlightCall::new(watch, Some(client_gone));
        let (keep_alive, revocation) = (self.limits.keep_alive_interval, client.revocation());
        let events = EventStream::new(None, messages, call, keep_alive, revocation);
        reply::idle_stream(events.starting_with(first).in_slot(slot))
    }

    /// Accepts a message of the session that the target names.
    pub(in crate::http) async fn post_sse<B: Body<Data = Bytes> + Unpin>(
        &self,
        target: &Uri,
        headers: HeaderMap,
        body: &mut B,
        client: Authenticated,
    ) -> Response<Reply> {
        let id = target.query().and_then(|query| {
            let mut fields = query.split('&');
            fields.find_map(|field| field.strip_prefix("sessionId="))
        });
        let sessions = self.sse.get();
        let session = id.and_then(|id| sessions?.0.lock().get(id).cloned());
        let Some(session) = session.filter(|session| session.principal == client.owner()) else {
            let response = self.refuse(&headers, &Error::SessionNotFound, None);
            return reply::before_body(response, &headers, body);
        };
        let server = Arc::clone(&self.server);
        let caller = session.caller(&client);
        let answer = |message, permit| session.answer(server, message, caller, permit);
        let start = |message, permit| drop(tokio::spawn(answer(message, permit)));
        Post::new(self, client, headers).accept(body, start).await
    }
}

impl SseSession {
    /// The sender of a message. Its token may be a newer one than that of the stream.
    fn caller(&self, client: &Authenticated) -> Caller {
        let peer: Arc<dyn Peer> = Arc::new(self.sender.clone());
        Caller::new(Some(Arc::clone(&self.id)), Some(peer))
            .with_principal(client.principal().cloned())
            .with_address(client.address)
            .with_cancellation(Some(Arc::clone(&self.client_gone)))
            .with_disconnect(Some(Arc::clone(&self.client_gone)))
            .with_revocation(client.revoked().cloned())
    }

    /// Answers a message on the stream.
    pub(super) async fn answer(
        self,
        server: Arc<Server>,
        message: Bytes,
        caller: Caller,
        permit: RequestPermit,
    ) {
        let answer = server
            .handle(IncomingFrame {
                frame: &message,
                hints: Hints {
                    is_old_transport: true,
                    ..Hints::default()
                },
                connection: Some(self.connection),
                caller,
            })
            .await;
        // The permit is held until then: a client that does not read must not pile up answers.
        if let Some(line) = answer.into_line()
            && timeout(SEND_TIMEOUT, self.sender.send(line)).await.is_err()
        {
            self.client_gone.cancel();
        }
        drop(permit);
    }
}
