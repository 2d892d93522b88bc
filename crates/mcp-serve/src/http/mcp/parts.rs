//! Messages of a batch that other replicas have to answer, or to know of.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use http::header::{ACCEPT, HeaderValue};
use http_body_util::BodyExt as _;
use mcp_core::server::{Forwarded, FrameReply, Place, Receivers, ReplicaId};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::batch::Batch;
use super::forward::KeptMessage;
use super::hop::Hops;
use super::{Authenticated, McpEndpoint};

/// A batch whose answer here is completed by those of other replicas.
pub(super) struct BatchForwarding {
    hops: Arc<Hops>,
    client: Authenticated,
    kept: Arc<KeptMessage>,
}

impl BatchForwarding {
    /// For a message that is kept; `None` if it is no batch.
    pub(super) fn new(
        endpoint: &McpEndpoint,
        client: &Authenticated,
        kept: &Arc<KeptMessage>,
    ) -> Option<Box<Self>> {
        let first = kept.body.trim_ascii_start().first();
        let hops = endpoint.hops().filter(|_| first == Some(&b'['))?;
        Some(Box::new(Self {
            hops: Arc::clone(hops),
            client: client.again(&kept.headers),
            kept: Arc::clone(kept),
        }))
    }

    /// Forwards the messages, and returns the answer with the responses of others in the place of their placeholders. A
    /// placeholder stays if its replica does not answer.
    pub(super) async fn complete(&self, mut answer: FrameReply) -> FrameReply {
        let parts = self.kept.forwarding.take().into_iter();
        let (asked, told): (Vec<_>, Vec<_>) = parts.partition(|part| part.reply.is_some());
        let telling = self.kept.tell_parts(&self.hops, &self.client, told);
        let asking = join_all(asked.into_iter().map(|part| self.ask(part)));
        let ((), answers) = tokio::join!(telling, asking);
        if let Some(body) = answer.body.take_if(|_| !answers.is_empty()) {
            answer.body = Some(with_answers(&body, &answers).unwrap_or(body));
        }
        answer
    }

    /// Returns the place and the response of one request. It comes without the messages of its call: those would be on
    /// a stream of their own.
    async fn ask(&self, part: Forwarded) -> Option<(usize, Bytes)> {
        let (Receivers::One(to), Some(frame)) = (part.to, part.frame) else {
            return None;
        };
        let place = || self.kept.forwarding.place(to);
        let place = self.hops.locate(self.client.arrived, place).await;
        let Some(Place::There(to)) = place else {
            return None;
        };
        let mut request = self.kept.request(frame.into(), &self.client);
        let json = HeaderValue::from_static("application/json");
        request.headers.to_mut().insert(ACCEPT, json);
        let response = self.hops.send_traced(to, request, part.trace).await.ok()?;
        let body = response.into_body().collect().await.ok()?;
        Some((part.reply?, body.to_bytes()))
    }
}

/// Returns the array of responses with these in place of others.
fn with_answers(body: &[u8], answers: &[Option<(usize, Bytes)>]) -> Option<Vec<u8>> {
    /// A response, and not the text of an error of HTTP.
    #[derive(Deserialize)]
    struct Response {
        #[serde(rename = "jsonrpc")]
        _version: String,
    }
    let mut responses: Vec<&RawValue> = serde_json::from_slice(body).ok()?;
    for (place, answer) in answers.iter().flatten() {
        if serde_json::from_slice::<Response>(answer).is_ok() {
            *responses.get_mut(*place)? = serde_json::from_slice(answer).ok()?;
        }
    }
    serde_json::to_vec(&responses).ok()
}

impl KeptMessage {
    /// Forwards messages whose responses are not waited for: to each replica all of its messages in one, and to all
    /// replicas at the same time.
    pub(super) async fn tell_parts(
        &self,
        hops: &Hops,
        client: &Authenticated,
        parts: Vec<Forwarded>,
    ) {
        let mut batches = BTreeMap::<ReplicaId, Batch>::new();
        for part in &parts {
            let receivers = match part.to {
                Receivers::All => hops.replicas().others(),
                Receivers::One(to) => {
                    let place = || self.forwarding.place(to);
                    match hops.locate(client.arrived, place).await {
                        Some(Place::There(to)) => vec![to],
                        _ => Vec::new(),
                    }
                }
            };
            for to in receivers {
                let frame = part.frame.as_deref().unwrap_or_default();
                batches.entry(to).or_default().add(frame);
            }
        }
        let sending = batches.into_iter().map(async |(to, batch)| {
            let request = self.request(batch.end(), client);
            hops.tell(to, &request).await;
        });
        join_all(sending).await;
    }
}
