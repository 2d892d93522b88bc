//! HTTP+SSE, the transport of 2024-11-05: `GET /sse` opens a session and its stream, `POST /messages` sends a
//! message. Answers come on the stream, and the session ends with it. The modern era, whose streams are
//! requests without an end, is refused here.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use http::StatusCode;
use mcp_core::error::Error;
use mcp_core::server::{Caller, Connection, FrameReply, IncomingFrame, Peer, Server};
use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::app::App;
use super::events::{InFlightCall, MessageSender};
use super::mcp::Received;
use super::reply;
use super::request::HttpRequest;
use crate::key::random;

/// The time for which an answer waits for a client that does not read its stream.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// The sessions, by id. Each has a stream, whose number is limited.
#[derive(Default)]
pub(super) struct SseSessions(Mutex<HashMap<String, SseSession>>);

#[derive(Clone)]
pub(super) struct SseSession {
    /// Its owner (`HttpRequest::owner`).
    owner: String,
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

/// Opens a session. The first event of its stream names the address for messages.
pub(super) async fn open(State(app): State<Arc<App>>, request: HttpRequest) -> Response {
    let slot = match app.stream_slot(&request) {
        Ok(slot) => slot,
        Err(refused) => return *refused,
    };
    let Some(id) = random() else {
        return reply::busy();
    };
    let (sessions, id) = (Arc::clone(&app.sse), format!("{id:032x}"));
    let (sender, messages) = MessageSender::new();
    let caller = Caller::default().with_principal(request.principal().cloned());
    let session = SseSession {
        owner: request.owner(),
        id: id.as_str().into(),
        connection: Arc::default(),
        sender,
        client_gone: Arc::default(),
    };
    sessions.0.lock().insert(id.clone(), session.clone());
    let first = format!("event: endpoint\ndata: /messages?sessionId={id}\n\n");
    let (server, client_gone) = (Arc::clone(&app.server), Arc::clone(&session.client_gone));
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
    let call = InFlightCall::new(watch, Some(messages), Some(client_gone));
    let events = stream::iter([first.into()]).chain(call.into_events(None));
    app.idle_stream(events, &request, slot)
}

/// Accepts a message of the session that the target names.
pub(super) async fn post(State(app): State<Arc<App>>, mut request: HttpRequest) -> Response {
    let id = request.uri.query().and_then(|query| {
        let mut fields = query.split('&');
        fields.find_map(|field| field.strip_prefix("sessionId="))
    });
    let session = id.and_then(|id| app.sse.0.lock().get(id).cloned());
    let Some(session) = session.filter(|session| session.owner == request.owner()) else {
        return app.refuse_unread(request, Error::SessionNotFound.into());
    };
    match app.receive(&mut request).await {
        Ok(received) => {
            let (server, caller) = (Arc::clone(&app.server), session.caller(&request));
            tokio::spawn(session.answer(server, received, caller));
            reply::empty(StatusCode::ACCEPTED)
        }
        Err(refusal) => app.refuse_unread(request, refusal),
    }
}

impl SseSession {
    /// The sender of a message. Its token may be a newer one than that of the stream.
    fn caller(&self, request: &HttpRequest) -> Caller {
        let peer: Arc<dyn Peer> = Arc::new(self.sender.clone());
        Caller {
            cancelled: Some(Arc::clone(&self.client_gone)),
            disconnected: Some(Arc::clone(&self.client_gone)),
            ..request.identified(Caller::new(Some(Arc::clone(&self.id)), Some(peer)))
        }
    }

    /// Answers a message on the stream.
    pub(super) async fn answer(self, server: Arc<Server>, received: Received, caller: Caller) {
        let answer = server
            .handle(IncomingFrame {
                frame: &received.message,
                headers: None,
                is_old_transport: true,
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
        drop(received.permit);
    }
}
