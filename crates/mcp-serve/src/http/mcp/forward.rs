//! Requests that another replica has to answer, or to know of.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::header::HeaderMap;
use http::{Method, Response};
use mcp_core::server::{Forwarding, FrameReply, Place, Receivers};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;

use super::super::events::request_digits;
use super::super::reply::{self, Reply};
use super::hop::{HopRequest, Hops, Unreachable};
use super::{Authenticated, McpEndpoint};

/// A message of a client that is kept until it is answered, since another replica may have to get it.
pub(super) struct KeptMessage {
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) forwarding: Arc<Forwarding>,
    /// Its permit, while it is forwarded.
    permit: Mutex<Option<OwnedSemaphorePermit>>,
}

/// The outcome of forwarding a message.
pub(super) enum ForwardOutcome {
    /// The others know of it; the answer is that of this replica.
    Told,
    /// Another replica has answered it.
    Answered(Response<Reply>),
    /// The replica that has to answer it could not be reached.
    Unreachable,
}

impl McpEndpoint {
    /// Forwards requests from now on. A second call has no effect.
    pub(in crate::http) fn serve_replicas(&self, hops: Hops) {
        let _ = self.hops.set(Arc::new(hops));
    }

    /// Sends and accepts hops; `None` without other replicas.
    pub(in crate::http) fn hops(&self) -> Option<&Arc<Hops>> {
        self.hops.get()
    }

    /// Sends hops for this client; `None` if another replica has forwarded its request.
    pub(super) fn hops_of(&self, client: &Authenticated) -> Option<&Arc<Hops>> {
        self.hops().filter(|_| client.forwarded_body.is_none())
    }

    /// Keeps a message, if it may have to be forwarded. Takes its headers.
    pub(super) fn keep_message(
        &self,
        client: &Authenticated,
        headers: &mut HeaderMap,
        body: &Bytes,
    ) -> Option<Arc<KeptMessage>> {
        let hops = self.hops_of(client)?;
        Some(Arc::new(KeptMessage {
            headers: std::mem::take(headers),
            body: body.clone(),
            forwarding: Arc::new(hops.forwarding(client.arrived)),
            permit: Mutex::default(),
        }))
    }

    /// Forwards a message that others have to answer, or to know of. `answer` is that of this replica.
    pub(super) async fn forward(
        &self,
        kept: &KeptMessage,
        client: &Authenticated,
        answer: &FrameReply,
    ) -> ForwardOutcome {
        let Some(hops) = self.hops() else {
            return ForwardOutcome::Told;
        };
        let (parts, whole): (Vec<_>, Vec<_>) = kept
            .forwarding
            .take()
            .into_iter()
            .partition(|message| message.frame.is_some());
        for message in whole {
            let request = kept.request(kept.body.clone(), client);
            let to = match message.to {
                Receivers::One(to) => to,
                Receivers::All => {
                    hops.tell_all(&request).await;
                    continue;
                }
            };
            let place = || kept.forwarding.place(to);
            match hops.locate(client.arrived, place).await {
                None => return ForwardOutcome::Answered(reply::replica_failed()),
                Some(Place::There(to)) if answer.body.is_none() => hops.tell(to, &request).await,
                Some(Place::There(to)) => {
                    return match hops.send_traced(to, request, message.trace).await {
                        Ok(response) => ForwardOutcome::Answered(response),
                        Err(Unreachable) => ForwardOutcome::Unreachable,
                    };
                }
                // What a message without a response refers to is gone, too.
                Some(_) if answer.body.is_none() => {}
                Some(_) => return ForwardOutcome::Unreachable,
            }
        }
        kept.tell_parts(hops, client, parts).await;
        ForwardOutcome::Told
    }

    /// Forwards a request without a body to the replica at the place that `find` returns, until one answers. Returns
    /// the place, if it is not another replica.
    pub(super) async fn forward_head(
        &self,
        method: Method,
        headers: &HeaderMap,
        client: &Authenticated,
        find: impl Fn(&Hops) -> Option<Place>,
    ) -> Result<Response<Reply>, Option<Place>> {
        loop {
            let hops = self.hops_of(client).ok_or(None)?;
            let Some(place) = find(hops) else {
                return Err(None);
            };
            let again = || find(hops).unwrap_or(place);
            let to = match hops.locate(client.arrived, again).await {
                Some(Place::There(to)) => to,
                Some(place) => return Err(Some(place)),
                None => return Ok(reply::replica_failed()),
            };
            let method = method.clone();
            if let Ok(response) = hops.send(to, &bodiless(method, headers, client)).await {
                return Ok(response);
            }
        }
    }

    /// Ends a session at all other replicas.
    pub(super) async fn end_everywhere(
        &self,
        session: u128,
        headers: &HeaderMap,
        client: &Authenticated,
    ) {
        if let Some(hops) = self.hops_of(client) {
            let request = bodiless(Method::DELETE, headers, client);
            tokio::join!(
                hops.replicas().end_session(session),
                hops.tell_all(&request)
            );
        }
    }
}

impl KeptMessage {
    pub(super) fn request<'a>(&'a self, body: Bytes, client: &'a Authenticated) -> HopRequest<'a> {
        HopRequest {
            method: Method::POST,
            headers: Cow::Borrowed(&self.headers),
            body,
            client,
        }
    }

    /// Returns true if others have to get it.
    pub(super) fn is_for_others(&self) -> bool {
        !self.forwarding.is_empty()
    }

    /// Keeps the permit of the message until it was forwarded, if it has to be.
    pub(super) fn keep_permit(&self, permit: Option<OwnedSemaphorePermit>) {
        *self.permit.lock() = permit.filter(|_| self.is_for_others());
    }

    /// Takes the permit, to answer the message here.
    pub(super) fn take_permit(&self) -> Option<OwnedSemaphorePermit> {
        self.permit.lock().take()
    }

    /// Returns the id of its request in the form for the ids of events.
    pub(super) fn request_digits(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Envelope<'a> {
            #[serde(borrow)]
            id: &'a RawValue,
        }
        let envelope: Envelope<'_> = serde_json::from_slice(&self.body).ok()?;
        request_digits(envelope.id.get())
    }
}

fn bodiless<'a>(
    method: Method,
    headers: &'a HeaderMap,
    client: &'a Authenticated,
) -> HopRequest<'a> {
    HopRequest {
        method,
        headers: Cow::Borrowed(headers),
        body: Bytes::new(),
        client,
    }
}
